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

from sim.api.kinds.common.errors import Errors, Shown, go_pointer, go_strings, invalid
from sim.api.schema.json_text import go_quote
from sim.api.types import Obj

_EVERY = ["*"]
_MASTERS, _UNKNOWN, _KNOWN = "system:masters", "system:unauthenticated", "system:authenticated"
_SUBJECTS = {"User": "user", "Group": "group", "ServiceAccount": "serviceAccount"}


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
    return _errors(name, spec, SCHEMAS, lambda: _shown_schema(spec))


def level_spec_errors(name: str, spec: Obj) -> Errors:
    """The error of a mandatory PriorityLevelConfiguration of another spec."""
    return _errors(name, spec, LEVELS, lambda: _shown_level(spec))


def _errors(name: str, spec: Obj, fixed: Mapping[str, Obj], show: Any) -> Errors:
    if name not in fixed or _bare(spec) == _bare(fixed[name]):
        return []
    return [invalid("spec", Shown(show()), f"spec of '{name}' must equal the fixed value")]


def _bare(value: Any) -> Any:
    """The value without empty members, which Semantic.DeepEqual treats as absent."""
    if isinstance(value, dict):
        kept = {key: _bare(each) for key, each in value.items()}
        return {key: each for key, each in kept.items() if each not in (None, [], "", 0, False)}
    return [_bare(each) for each in value] if isinstance(value, list) else value


# --- as Go shows them -----------------------------------------------------------------------------


def _struct(kind: str, **members: str) -> str:
    return f"flowcontrol.{kind}{{{', '.join(f'{name}:{text}' for name, text in members.items())}}}"


def _list(kind: str, given: Any, show: Any) -> str:
    if given is None:
        return f"[]flowcontrol.{kind}(nil)"
    return f"[]flowcontrol.{kind}{{{', '.join(show(each) for each in given)}}}"


def _shown_schema(spec: Obj) -> str:
    level = (spec.get("priorityLevelConfiguration") or {}).get("name", "")
    return _struct(
        "FlowSchemaSpec",
        PriorityLevelConfiguration=_struct("PriorityLevelConfigurationReference", Name=go_quote(level)),
        MatchingPrecedence=str(spec.get("matchingPrecedence", 0)),
        DistinguisherMethod=go_pointer(
            "flowcontrol.FlowDistinguisherMethod", spec.get("distinguisherMethod")
        ),
        Rules=_list("PolicyRulesWithSubjects", spec.get("rules"), _shown_rule),
    )


def _shown_rule(rule: Obj) -> str:
    return _struct(
        "PolicyRulesWithSubjects",
        Subjects=_list("Subject", rule.get("subjects"), _shown_subject),
        ResourceRules=_list("ResourcePolicyRule", rule.get("resourceRules"), _shown_resources),
        NonResourceRules=_list("NonResourcePolicyRule", rule.get("nonResourceRules"), _shown_paths),
    )


def _shown_subject(subject: Obj) -> str:
    pointers = {
        kind: go_pointer(f"flowcontrol.{kind}Subject", subject.get(field))
        for kind, field in _SUBJECTS.items()
    }
    return _struct("Subject", Kind=go_quote(subject.get("kind", "")), **pointers)


def _shown_resources(rule: Obj) -> str:
    return _struct(
        "ResourcePolicyRule",
        Verbs=go_strings(rule.get("verbs")),
        APIGroups=go_strings(rule.get("apiGroups")),
        Resources=go_strings(rule.get("resources")),
        ClusterScope=str(bool(rule.get("clusterScope"))).lower(),
        Namespaces=go_strings(rule.get("namespaces")),
    )


def _shown_paths(rule: Obj) -> str:
    return _struct(
        "NonResourcePolicyRule",
        Verbs=go_strings(rule.get("verbs")),
        NonResourceURLs=go_strings(rule.get("nonResourceURLs")),
    )


def _shown_level(spec: Obj) -> str:
    limited = go_pointer("flowcontrol.LimitedPriorityLevelConfiguration", spec.get("limited"))
    return _struct("PriorityLevelConfigurationSpec", Type=go_quote(spec.get("type", "")), Limited=limited)
