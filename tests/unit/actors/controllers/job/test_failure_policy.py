"""What the rules of a podFailurePolicy make of a failed pod."""

from __future__ import annotations

from typing import Any

import pytest

from actors.controllers.job.failure_policy import Verdict, verdict
from sim.api.types import Obj

COUNTS = Verdict()


def pod(code: int | None = None, init: int | None = None, **status: Any) -> Obj:
    """A failed pod: the codes with which its container and its init container ended."""
    lists = {"containerStatuses": ("c", code), "initContainerStatuses": ("i", init)}
    ended = {
        kind: [{"name": "idle"}, {"name": name, "state": {"terminated": {"exitCode": number}}}]
        for kind, (name, number) in lists.items()
        if number is not None
    }
    return {"metadata": {"namespace": "d", "name": "p"}, "status": {**ended, **status}}


def codes(*values: int, operator: str = "In", action: str = "FailJob", **more: str) -> Obj:
    return {"action": action, "onExitCodes": {"operator": operator, "values": list(values), **more}}


def on(kind: str, status: str = "True", action: str = "FailJob") -> Obj:
    return {
        "action": action,
        "onPodConditions": [{"type": "Other", "status": "True"}, {"type": kind, "status": status}],
    }


def of(container: str, code: int, index: int = 0) -> Verdict:
    return Verdict(
        f"Container {container} for pod d/p failed with exit code {code} matching FailJob rule at index {index}"
    )


@pytest.mark.parametrize(
    ("rules", "failed", "wanted"),
    [
        (None, pod(1), COUNTS),
        ([], pod(1), COUNTS),
        ([codes(1, 3)], pod(3), of("c", 3)),
        ([codes(1, 3)], pod(2), COUNTS),
        ([codes(0)], pod(0), COUNTS),  # success is never matched
        ([codes(1, operator="NotIn")], pod(0), COUNTS),
        ([codes(1, operator="NotIn")], pod(1), COUNTS),
        ([codes(1, operator="NotIn")], pod(2), of("c", 2)),
        ([codes(7)], pod(0, init=7), of("i", 7)),
        ([codes(7)], pod(7, init=7), of("c", 7)),
        ([codes(7, containerName="i")], pod(7, init=7), of("i", 7)),
        ([codes(7, containerName="other")], pod(7), COUNTS),
        ([codes(7, containerName="c")], pod(7), of("c", 7)),
        ([codes(7, containerName="")], pod(7), of("c", 7)),
        ([codes(2), codes(7)], pod(7), of("c", 7, 1)),
        ([codes(7, action="Ignore"), codes(7)], pod(7), Verdict(counts=False)),
        ([codes(7, action="Count"), codes(7)], pod(7), COUNTS),
        ([codes(2, action="Ignore"), codes(7)], pod(7), of("c", 7, 1)),
        # an action of later versions decides nothing
        ([codes(7, action="FailIndex"), codes(7)], pod(7), of("c", 7, 1)),
    ],
)
def test_the_first_rule_that_matches_an_exit_code_decides(rules: Any, failed: Obj, wanted: Verdict) -> None:
    assert verdict({"rules": rules}, failed) == wanted


def test_without_a_policy_or_a_status_a_failure_counts() -> None:
    assert verdict(None, pod(1)) == COUNTS
    bare: Obj = {"metadata": {"namespace": "d", "name": "p"}}
    assert verdict({"rules": [codes(1), on("DisruptionTarget")]}, bare) == COUNTS
    assert verdict({"rules": [codes(1), on("DisruptionTarget")]}, {**bare, "status": None}) == COUNTS


def test_a_container_that_has_not_ended_is_not_matched() -> None:
    running = pod(containerStatuses=[{"name": "c", "state": {"running": {}}}, {"name": "d", "state": None}])
    assert verdict({"rules": [codes(1, operator="NotIn")]}, running) == COUNTS
    unknown = pod(containerStatuses=[{"name": "c", "state": {"terminated": {}}}])
    assert verdict({"rules": [codes(1, operator="NotIn")]}, unknown) == COUNTS


@pytest.mark.parametrize(
    ("rule", "conditions", "wanted"),
    [
        (on("DisruptionTarget"), [{"type": "DisruptionTarget", "status": "True"}], True),
        (on("DisruptionTarget"), [{"type": "DisruptionTarget", "status": "False"}], False),
        (on("DisruptionTarget"), [{"type": "Ready", "status": "True"}], False),
        (
            on("DisruptionTarget"),
            [{"type": "Ready", "status": "True"}, {"type": "DisruptionTarget", "status": "True"}],
            True,
        ),
        (on("DisruptionTarget"), None, False),
        ({"action": "FailJob", "onPodConditions": None}, [{"type": "Ready", "status": "True"}], False),
    ],
)
def test_a_rule_matches_a_condition_by_type_and_status(rule: Obj, conditions: Any, wanted: bool) -> None:
    found = verdict({"rules": [rule]}, pod(conditions=conditions))
    text = "Pod d/p has condition DisruptionTarget matching FailJob rule at index 0"
    assert found == (Verdict(text) if wanted else COUNTS)


def test_a_rule_for_exit_codes_reads_no_conditions() -> None:
    rule = {**codes(7), **on("DisruptionTarget")}
    assert (
        verdict({"rules": [rule]}, pod(1, conditions=[{"type": "DisruptionTarget", "status": "True"}]))
        == COUNTS
    )
