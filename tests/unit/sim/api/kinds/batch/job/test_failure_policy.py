"""Validation of rules about failed pods."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.sim.api.kinds.samples import created, made, updated

IN_1 = {"operator": "In", "values": [1]}

RULE = "spec.podFailurePolicy.rules[0]"


@pytest.mark.parametrize(
    ("rule", "wrong"),
    [
        ({"action": "FailJob", "onExitCodes": IN_1}, []),
        ({"action": "Ignore", "onPodConditions": [{"type": "x.io/A", "status": "True"}]}, []),
        (
            {"onExitCodes": IN_1},
            [f'{RULE}.action: Required value: valid values: ["Count" "FailJob" "Ignore"]'],
        ),
        (
            {"action": "Stop", "onExitCodes": IN_1},
            [f'{RULE}.action: Unsupported value: "Stop": supported values: "Count", "FailJob", "Ignore"'],
        ),
        (
            {"action": "Count"},
            [f"{RULE}: Invalid value: specifying one of OnExitCodes and OnPodConditions is required"],
        ),
        (
            {
                "action": "Count",
                "onExitCodes": IN_1,
                "onPodConditions": [{"type": "A b", "status": "Maybe"}],
            },
            [
                f'{RULE}.onPodConditions[0].type: Invalid value: "A b": name part must consist of',
                f'{RULE}.onPodConditions[0].status: Unsupported value: "Maybe":'
                ' supported values: "False", "True", "Unknown"',
                f"{RULE}: Invalid value: specifying both OnExitCodes and OnPodConditions is not supported",
            ],
        ),
        (
            {"action": "Count", "onExitCodes": {"operator": "In", "values": [3, 0, 3], "containerName": "d"}},
            [
                f'{RULE}.onExitCodes.containerName: Invalid value: "d": must be one of the container',
                f"{RULE}.onExitCodes.values[1]: Invalid value: 0: must not be 0 for the In operator",
                f"{RULE}.onExitCodes.values[2]: Duplicate value: 3",
                f"{RULE}.onExitCodes.values: Invalid value: []int32{{3, 0, 3}}: must be ordered",
            ],
        ),
        (
            {"action": "Count", "onExitCodes": {"values": []}},
            [
                f'{RULE}.onExitCodes.operator: Required value: valid values: ["In" "NotIn"]',
                f"{RULE}.onExitCodes.values: Invalid value: []int32{{}}: at least one value is required",
            ],
        ),
    ],
)
def test_rules_of_a_failure_policy_are_checked(rule: dict[str, Any], wrong: list[str]) -> None:
    spec = {**made("jobs")["spec"], "podFailurePolicy": {"rules": [rule]}}
    found = created("jobs", made("jobs", spec=spec))
    assert [text[: len(want)] for text, want in zip(found, wrong, strict=True)] == wrong


def test_failure_policy_is_immutable_bounded_and_needs_never() -> None:
    old = made("jobs")
    rules = [{"action": "FailJob", "onExitCodes": IN_1}]
    spec = {**old["spec"], "podFailurePolicy": {"rules": rules}}
    assert any("spec.podFailurePolicy: " in text for text in updated("jobs", {**old, "spec": spec}, old))
    again = {**spec, "template": {**spec["template"], "spec": {**spec["template"]["spec"]}}}
    again["template"]["spec"]["restartPolicy"] = "OnFailure"
    assert created("jobs", made("jobs", spec=again)) == [
        'spec.template.spec.restartPolicy: Invalid value: "OnFailure":'
        ' only "Never" is supported when podFailurePolicy is specified'
    ]
    many = {**spec, "podFailurePolicy": {"rules": rules * 21}}
    assert created("jobs", made("jobs", spec=many)) == [
        "spec.podFailurePolicy.rules: Too many: 21: must have at most 20 items"
    ]
