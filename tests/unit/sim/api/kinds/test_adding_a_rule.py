"""The recipe "A validation rule" of CONTRIBUTING: a function of field errors, and its call.

The rule is made up: a budget must name what it selects.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from sim.api.kinds.policy.pod_disruption_budget import KIND
from sim.api.kinds.registry import KINDS
from sim.api.types import Obj
from sim.api.validation.errors import Errors, required
from tests.unit.sim.api.golden_api import Api

PATH = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"

# --- the rule, in the module of the kind or in `sim.api.kinds.common` ----------


def selector_required(spec: Obj, field: str) -> Errors:
    return [] if spec.get("selector") else [required(f"{field}.selector")]


def _validate_create(obj: Obj) -> Errors:
    assert KIND.validate_create is not None
    return KIND.validate_create(obj) + selector_required(obj.get("spec") or {}, "spec")


# --- the call, in the kind's `validate_create` ----------

EXTENDED = tuple(replace(KIND, validate_create=_validate_create) if kind is KIND else kind for kind in KINDS)


@pytest.fixture
def api() -> Api:
    return Api(kinds=EXTENDED)


def budget(**spec: object) -> Obj:
    return {"metadata": {"name": "b"}, "spec": spec}


def test_added_rule_refuses_with_field_reason_and_cause(api: Api) -> None:
    refused = api.ask("POST", PATH, budget(minAvailable=1))
    assert (refused.code, refused.message) == (
        422,
        'PodDisruptionBudget.policy "b" is invalid: spec.selector: Required value',
    )
    assert refused.obj["details"]["causes"] == [
        {"reason": "FieldValueRequired", "message": "Required value", "field": "spec.selector"}
    ]


def test_added_rule_reports_beside_the_earlier_rules(api: Api) -> None:
    refused = api.ask("POST", PATH, budget(minAvailable=-1))
    assert [cause["field"] for cause in refused.obj["details"]["causes"]] == [
        "spec.minAvailable",
        "spec.selector",
    ]


def test_object_that_keeps_the_added_rule_is_stored(api: Api) -> None:
    assert api.ask("POST", PATH, budget(minAvailable=1, selector={"matchLabels": {"a": "b"}})).code == 201
