"""A hunt from a lab: its runs repeat what was done by hand, then come the drawn steps."""

from __future__ import annotations

import pytest

from orrery import InputError, Lab
from tests.cluster.hunt.test_hunting import OUTAGES
from tests.cluster.hunt.test_judging import document

pytestmark = pytest.mark.slow
STAY = {"name": "nodes stay", "never": "nodes have Ready=Unknown", "after": "30s"}


def test_hunt_of_a_lab_begins_where_the_lab_is() -> None:
    with Lab(nodes=2) as lab:
        lab.apply(document()["spec"]["objects"][0])
        lab.run("40s")
        lab.scale(resource="deployments", name="web", replicas=2)
        with lab.fork() as twin:
            result = twin.hunt(
                "20 runs", expect=[STAY], duration="2m", palette=[OUTAGES], failures=1, jobs=1, shrink=False
            )
    timeline = result.stories[0].document["spec"]["timeline"]
    assert [next(key for key in step if key in ("apply", "scale", "fail")) for step in timeline[:3]] == [
        "apply",
        "scale",
        "fail",
    ]
    assert [step["at"] for step in timeline[:2]] == ["15s", "40s"]
    assert result.stories[0].finding.failed == ("nodes stay",)


def test_hunt_of_a_lab_with_a_program_of_a_cell_is_refused() -> None:
    async def main(_: object) -> None:
        return

    with Lab(nodes=1) as lab:
        lab.add_program("mine", main)
        with pytest.raises(InputError, match="is a function that other processes cannot find"):
            lab.hunt("1 runs")
