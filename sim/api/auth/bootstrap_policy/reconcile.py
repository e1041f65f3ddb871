"""How a starting server brings a stored role or binding up to date with the bootstrap policy.

Turns the stored object (None: there is none) and the expected one into the object to write, or
None if nothing is missing.

Holds: an object that opts out by its annotation is never changed; nothing that was added to an
object is taken away, except by a change of what a binding refers to.

Mirrors  kubernetes v1.25 pkg/registry/rbac/reconciliation/reconcile_role.go and
         reconcile_rolebindings.go, without the removal of extra permissions and subjects.
Differs  the steps for clusters that were made by version 1.8 or older are left out
         (storage_rbac.go: primeAggregatedClusterRoles, primeSplitClusterRoleBindings).
"""

from __future__ import annotations

from typing import NamedTuple

from sim.api.auth.rbac.rules import Rule, rules_of, uncovered
from sim.api.types import Obj
from sim.ident import Names

_SUBJECT_FIELDS = ("kind", "apiGroup", "name", "namespace")
_REFERENCE_FIELDS = ("apiGroup", "kind", "name")


class Reconciled(NamedTuple):
    """What has to be written.

    obj: the object
    `anew`: True if the stored object has to be deleted first
    """

    obj: Obj
    anew: bool = False


def reconcile(stored: Obj | None, expected: Obj, names: Names) -> Reconciled | None:
    """Return what has to be written for a role or a binding of either scope."""
    if stored is None:
        return Reconciled(expected)
    metadata = stored["metadata"]
    if (metadata.get("annotations") or {}).get(names.annotation_rbac_autoupdate) == "false":
        return None
    binding = "roleRef" in expected
    if binding and _fields(stored["roleRef"], _REFERENCE_FIELDS) != _fields(
        expected["roleRef"], _REFERENCE_FIELDS
    ):
        return Reconciled(expected, anew=True)
    changes = _missing_subjects(stored, expected) if binding else _missing_rules(stored, expected)
    merged = {
        field: {**expected["metadata"][field], **(metadata.get(field) or {})}
        for field in ("annotations", "labels")
    }
    if any(merged[field] != metadata.get(field) for field in merged):
        changes["metadata"] = {**metadata, **merged}
    if not changes:
        return None
    made = {**stored, **changes}
    if made.get("aggregationRule") is None:
        made.pop("aggregationRule", None)
    return Reconciled(made)


def _missing_rules(stored: Obj, expected: Obj) -> Obj:
    changes: Obj = {}
    if stored.get("rules") != expected["rules"]:
        missing = uncovered(rules_of(stored), rules_of(expected))
        if missing:
            changes["rules"] = [*(stored.get("rules") or ()), *map(_rule_obj, missing)]
    old, new = stored.get("aggregationRule"), expected.get("aggregationRule")
    if new is None:
        if old is not None:
            changes["aggregationRule"] = None
        return changes
    selectors = (old or {}).get("clusterRoleSelectors") or []
    absent = [selector for selector in new["clusterRoleSelectors"] if selector not in selectors]
    if absent:
        changes["aggregationRule"] = {"clusterRoleSelectors": [*selectors, *absent]}
    return changes


def _missing_subjects(stored: Obj, expected: Obj) -> Obj:
    subjects = stored.get("subjects") or []
    known = [_fields(subject, _SUBJECT_FIELDS) for subject in subjects]
    missing = [
        subject
        for subject in expected.get("subjects") or ()
        if _fields(subject, _SUBJECT_FIELDS) not in known
    ]
    return {"subjects": [*subjects, *missing]} if missing else {}


def _fields(value: Obj, fields: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(value.get(field) or "" for field in fields)


def _rule_obj(rule: Rule) -> Obj:
    parts = {
        "verbs": rule.verbs,
        "apiGroups": rule.groups,
        "resources": rule.resources,
        "resourceNames": rule.names,
        "nonResourceURLs": rule.urls,
    }
    return {field: list(values) for field, values in parts.items() if values}
