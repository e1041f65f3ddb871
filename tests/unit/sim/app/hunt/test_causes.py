"""What failures are grouped by."""

from __future__ import annotations

from typing import Any

import pytest

from sim.app.hunt.causes import cause_of, cause_of_error, causes_of
from sim.check import Verdict
from sim.report.story import Book
from tests.unit.sim.report.test_story import FAIL, NODE, OUTAGE, POD, book, change, decision, write


def verdict(ok: bool = False, kind: str = "never", **more: Any) -> Verdict:
    return Verdict("no pod goes", ok, "once", "never", kind=kind, **more)


def lost(name: str, at: int) -> Book:
    """A run in which a pod is deleted after a fault, with another name and at other times."""
    pod, node = f"//pods/default/{name}", f"//nodes//{name}"
    return book(
        (0, 0, write("admin", "create", pod, 6)),
        (at, 0, ("step", {**FAIL, "name": name})),
        (at, 2, ("actor", {"what": "crash", "name": name, "reason": "power loss"})),
        (at + 40_000, 3, decision("manager-0", "unheard", f"nodes/{name}", silent_us=at)),
        (at + 40_100, 4, write("system:orch-controller-manager", "update status", node, 7)),
        (at + 90_000, 4, decision("manager-2", "evict", f"pods/default/{name}", node=name)),
        (at + 90_000, 6, write("system:orch-controller-manager", "delete", pod, 8)),
        (at + 90_000, 7, change(pod, "deleting", None, "2026-01-01T00:00:00Z")),
    )


def test_cause_has_the_kinds_of_faults_and_decisions_and_the_last_write() -> None:
    cause = cause_of(verdict(witness=8), OUTAGE)
    assert cause.links == ("fail power-loss", "unheard", "evict", "delete pods")
    assert cause.key == "fail power-loss > unheard > evict > delete pods > no pod goes"


@pytest.mark.parametrize(("name", "at"), [("web-1", 1_000), ("other-77", 300_000)])
def test_cause_has_no_names_and_times(name: str, at: int) -> None:
    assert cause_of(verdict(witness=8), lost(name, at)) == cause_of(verdict(witness=8), OUTAGE)


def test_causes_of_another_object_differ() -> None:
    pod, node = (cause_of(verdict(objects=(key,)), OUTAGE).key for key in (POD, NODE))
    assert pod != node


def test_cause_of_an_unavailability_is_the_step_by_which_it_began() -> None:
    harmless = ("step", {**FAIL, "name": "note", "kind": "mark", "detail": {}})
    lines = book(
        (0, 0, ("step", {**FAIL, "name": "web-1"})),
        (0, 1, ("actor", {"what": "crash", "name": "node-1", "reason": "power loss"})),
        (500, 0, harmless),
        (40_000, 2, decision("manager-0", "unheard", "nodes/node-1", silent_us=40_000_000)),
        (40_100, 4, write("system:orch-controller-manager", "update status", NODE, 7)),
        (60_000, 0, ("step", {**FAIL, "name": "again", "kind": "heal", "detail": {}})),
        (60_100, 6, write("system:node:node-1", "update status", NODE, 8)),
    )
    begun = verdict(kind="unavailability", objects=(NODE,), at_us=500_000)
    assert cause_of(begun, lines).links == ("fail power-loss",)


def test_cause_of_an_unavailability_without_a_change_is_the_last_step_before() -> None:
    begun = verdict(kind="unavailability", at_us=300_000_000)
    assert cause_of(begun, OUTAGE).links == ("fail power-loss",)
    assert cause_of(verdict(kind="unavailability", at_us=0), OUTAGE).links == ()


def test_causes_are_those_of_failed_verdicts() -> None:
    causes = causes_of([verdict(ok=True, witness=8), verdict()], OUTAGE)
    assert [cause.links for cause in causes] == [()]


def test_cause_of_an_error_has_no_numbers_and_no_quoted_names() -> None:
    one = cause_of_error("KeyError: 'web-1' at 0x7f31 after 12.5 s\nmore")
    assert one == cause_of_error("KeyError: 'db-0' at 0x9 after 7 s")
    assert one.key == "KeyError: … at … after … s"
