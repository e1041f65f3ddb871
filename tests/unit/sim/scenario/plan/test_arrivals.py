"""The order of arrivals, as a scenario gives it."""

from __future__ import annotations

from pathlib import Path

import pytest

from sim.errors import InputError
from sim.kernel.draws.arrivals import Arrivals
from sim.scenario.compile import load
from sim.units import MS

ARRANGED = """\
apiVersion: orrery.dev/v1
kind: Scenario
metadata: {name: arranged}
spec:
  duration: 5m
  cluster:
    nodes: [{count: 2}]
    arrivals: ARRIVALS
"""


def test_scenario_without_an_order_has_that_of_the_seed(tmp_path: Path) -> None:
    file = tmp_path / "s.yaml"
    file.write_text(ARRANGED.replace("    arrivals: ARRIVALS\n", ""))
    assert load(file).cluster.arrivals is None


def test_order_spread_and_names_are_planned(tmp_path: Path) -> None:
    file = tmp_path / "s.yaml"
    file.write_text(
        ARRANGED.replace("ARRIVALS", "{order: 5, spread: 2ms, among: [pods, node-1, scheduler-0]}")
    )
    assert load(file).cluster.arrivals == Arrivals(5, 2 * MS, ("pods", "node-1", "scheduler-0"))


@pytest.mark.parametrize(
    ("arrivals", "message"),
    [
        ("{among: [pods, schedular-0]}", r"8:\d+: 'schedular-0' sends no messages .*there is scheduler-0"),
        ("{among: [pods, pods]}", "pods is there twice"),
        ("{order: 2, among: [pods, nodes]}", "2 names have 2 orders .*numbered from 0 to 1"),
        ("{spread: 2m}", "no message is later than by a minute"),
        ("{spread: soon}", "'soon' is not a duration"),
        ("{order: -1}", "order"),
        ("{oder: 1}", "unknown field 'oder'"),
    ],
)
def test_wrong_order_is_an_error_with_place_and_remedy(arrivals: str, message: str, tmp_path: Path) -> None:
    file = tmp_path / "s.yaml"
    file.write_text(ARRANGED.replace("ARRIVALS", arrivals))
    with pytest.raises(InputError, match=message):
        load(file)
