"""Validation of spread constraints."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.sim.api.kinds.samples import created, made


@pytest.mark.parametrize(
    ("fields", "wrong"),
    [
        ({"minDomains": 2, "nodeAffinityPolicy": "Ignore", "matchLabelKeys": ["x.io/v"]}, []),
        ({"minDomains": 0}, ["minDomains: Invalid value: 0: must be greater than zero"]),
        (
            {"minDomains": 2, "whenUnsatisfiable": "ScheduleAnyway"},
            [
                "minDomains: Invalid value: 2: can only use minDomains if"
                " whenUnsatisfiable=DoNotSchedule, not ScheduleAnyway"
            ],
        ),
        (
            {"nodeTaintsPolicy": "Heed"},
            ['nodeTaintsPolicy: Unsupported value: "Heed": supported values: "Honor", "Ignore"'],
        ),
        (
            {"matchLabelKeys": ["a", "b c"]},
            [
                'matchLabelKeys[0]: Invalid value: "a": exists in both matchLabelKeys and labelSelector',
                'matchLabelKeys[1]: Invalid value: "b c": name part must consist of',
            ],
        ),
    ],
)
def test_gated_fields_of_a_spread_constraint_are_checked(fields: dict[str, Any], wrong: list[str]) -> None:
    rule = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}
    rule["labelSelector"] = {"matchLabels": {"a": "b"}}
    spec = {**made("pods")["spec"], "topologySpreadConstraints": [{**rule, **fields}]}
    found = created("pods", made("pods", spec=spec))
    at = "spec.topologySpreadConstraints[0]."
    assert [text.removeprefix(at)[: len(want)] for text, want in zip(found, wrong, strict=True)] == wrong
