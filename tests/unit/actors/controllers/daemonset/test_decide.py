"""How many daemon pods roll at once, and when the status needs a write."""

from __future__ import annotations

from typing import Any

import pytest

from actors.controllers.daemonset.decide import (
    is_status_stale,
    rolling_limits,
    template_generation,
    with_counts,
)
from sim.api.types import Obj
from sim.ident import NAMES

N = NAMES["orch"]


def rolling(**limits: Any) -> Obj:
    return {"spec": {"updateStrategy": {"type": "RollingUpdate", "rollingUpdate": limits}}}


@pytest.mark.parametrize(
    ("limits", "desired", "wanted"),
    [
        ({"maxUnavailable": "10%"}, 3, (0, 1)),
        ({"maxUnavailable": 0, "maxSurge": "50%"}, 3, (2, 0)),
        ({"maxUnavailable": 0, "maxSurge": 0}, 3, (0, 1)),
        ({"maxUnavailable": "50%"}, 0, (0, 0)),  # no node needs a pod: no pod of other nodes rolls
    ],
)
def test_rolling_limits_round_up_and_are_not_both_zero(
    limits: Obj, desired: int, wanted: tuple[int, int]
) -> None:
    assert rolling_limits(rolling(**limits), desired) == wanted


@pytest.mark.parametrize(("text", "number"), [("3", "3"), ("-1", "-1"), ("three", None), ("", None)])
def test_invalid_template_generation_labels_no_pod(text: str, number: str | None) -> None:
    owner: Obj = {"metadata": {"annotations": {N.annotation_template_generation: text}}}
    assert template_generation(owner, N) == number


def test_status_is_written_for_changed_counts_or_unobserved_generation() -> None:
    counts = {"currentNumberScheduled": 0, "numberReady": 1, "numberAvailable": 0}
    owner: Obj = {"metadata": {"generation": 2}, "status": {"numberReady": 1, "observedGeneration": 2}}
    assert not is_status_stale(owner, counts)
    assert is_status_stale(owner, {**counts, "numberAvailable": 1})
    assert is_status_stale({**owner, "metadata": {"generation": 3}}, counts)


def test_counts_keep_other_fields_of_the_status() -> None:
    stored: Obj = {"collisionCount": 2, "numberAvailable": 3, "observedGeneration": 1}
    told = with_counts(stored, {"numberReady": 0, "numberAvailable": 0})
    assert told == {"collisionCount": 2, "observedGeneration": 1, "numberReady": 0}
