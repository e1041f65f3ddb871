"""Schedules of drawn steps for the tests of a program: the cluster, and not a scenario, is given.

Turns the parameters of a cluster and the section `hunt` into one candidate, of which
`Steps.perform_timeline` lets a cluster carry out the steps.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from random import Random
from typing import Any

import msgspec

from sim.app.hunt.drawing import Drawing
from sim.app.hunt.ground import ground_of

DURATION = "10m"


def drawn_document(number: int, hunt: Mapping[str, Any], cluster: Mapping[str, Any]) -> dict[str, Any]:
    """A candidate, as a scenario with its steps.  Raises InputError for what the section could not
    say either.

    hunt: the section; besides `duration`, that of the test, and `seed`, that of the draws
    cluster: the section `cluster`
    """
    section = {key: value for key, value in hunt.items() if key not in ("duration", "seed")}
    spec = {
        "duration": hunt.get("duration", DURATION),
        "cluster": cluster,
        "hunt": {"invariants": [], **section},
    }
    return _drawing(msgspec.json.encode(spec)).fresh(Random(f"{hunt.get('seed', 0)}/{number}"))


@lru_cache(maxsize=8)
def _drawing(spec: bytes) -> Drawing:
    head = {"apiVersion": "orrery.dev/v1", "kind": "Scenario", "metadata": {"name": "hunt"}}
    return Drawing(ground_of({**head, "spec": msgspec.json.decode(spec)}))
