"""The FlowSchemas and PriorityLevelConfigurations of which the spec is fixed.

Turns a name and a spec into the error of a spec that is not the fixed one.

Mirrors  kubernetes v1.25 pkg/apis/flowcontrol/validation/validation.go (ValidateFlowSchema,
         ValidatePriorityLevelConfiguration), pkg/apis/flowcontrol/internalbootstrap/
         default-internal.go, apiserver pkg/apis/flowcontrol/bootstrap/default.go.
Differs  pointers are shown as 0xc000000000.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sim.api.go.printing import GoValue
from sim.api.types import Obj
from sim.api.validation.errors import Errors, invalid

_EVERY = ["*"]
_MASTERS, _UNKNOWN, _KNOWN = "system:masters", "system:unauthenticated", "system:authenticated"


def _schema(name: str, precedence: int, groups: tuple[str, ...], **method: Obj) -> Obj:
    covered = {"verbs": _EVERY, "apiGroups": _EVERY, "resources": _EVERY, "namespaces": _EVERY}
    rule = {
        "subjects": [{"kind": "Group", "group": {"name": group}} for group in groups],
        "resourceRules": [{**covered, "clusterScope": True}],
        "nonResourceRules": [{"verbs": _EVERY, "nonResourceURLs": _EVERY}],
    }
    reference = {"priorityLevelConfiguration": {"name": name}, "matchingPrecedence": precedence}
    return {**reference, **method, "rules": [rule]}


SCHEMAS: Mapping[str, Obj] = {
    "exempt": _schema("exempt", 1, (_MASTERS,)),
    "catch-all": _schema("catch-all", 10_000, (_UNKNOWN, _KNOWN), distinguisherMethod={"type": "ByUser"}),
}
LEVELS: Mapping[str, Obj] = {
    "exempt": {"type": "Exempt"},
    "catch-all": {
        "type": "Limited",
        "limited": {"assuredConcurrencyShares": 5, "limitResponse": {"type": "Reject"}},
    },
}


def schema_spec_errors(name: str, spec: Obj) -> Errors:
    """The error of a mandatory FlowSchema of another spec."""
    return _errors(name, spec, SCHEMAS, "flowcontrol.FlowSchemaSpec")


def level_spec_errors(name: str, spec: Obj) -> Errors:
    """The error of a mandatory PriorityLevelConfiguration of another spec."""
    return _errors(name, spec, LEVELS, "flowcontrol.PriorityLevelConfigurationSpec")


def _errors(name: str, spec: Obj, fixed: Mapping[str, Obj], kind: str) -> Errors:
    if name not in fixed or _bare(spec) == _bare(fixed[name]):
        return []
    return [invalid("spec", GoValue(kind, spec), f"spec of '{name}' must equal the fixed value")]


def _bare(value: Any) -> Any:
    """The value without empty members, which Semantic.DeepEqual treats as absent."""
    if isinstance(value, dict):
        kept = {key: _bare(each) for key, each in value.items()}
        return {key: each for key, each in kept.items() if each not in (None, [], "", 0, False)}
    return [_bare(each) for each in value] if isinstance(value, list) else value
