"""Validation of ResourceQuotas."""

from __future__ import annotations

from tests.unit.sim.api.kinds.writes import made, problems


def test_scope_that_does_not_fit_the_resources_is_refused() -> None:
    found = problems(
        "resourcequotas", made("resourcequotas", {"hard": {"cpu": "1"}, "scopes": ["BestEffort"]})
    )
    assert found == [
        'spec.scopes: Invalid value: []core.ResourceQuotaScope{"BestEffort"}: '
        "unsupported scope applied to resource"
    ]
