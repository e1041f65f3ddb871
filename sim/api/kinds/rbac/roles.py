"""Roles and ClusterRoles.

Mirrors  kubernetes v1.25 pkg/apis/rbac/validation/validation.go: ValidateRole, ValidateClusterRole
         and their updates; pkg/registry/rbac/{role,clusterrole}/strategy.go.
"""

from __future__ import annotations

from functools import partial

from sim.api.kinds.common.fill import present
from sim.api.schema.kind import Kind, Row, Strategy
from sim.api.types import Obj
from sim.api.validation import text
from sim.api.validation.errors import Errors, invalid, required
from sim.api.validation.metadata import is_sound, label_selector, object_meta, object_meta_update

# --- defaults -------------------------------------------------------------------------------------


def _fill_defaults(obj: Obj) -> Obj:
    """The object with its rules, which upstream's encoding always writes."""
    return present(obj, {"rules": None})


def _prepare(obj: Obj) -> Obj:
    """An empty list of rules is stored as null; its writer owns it all the same."""
    return {**obj, "rules": None} if obj["rules"] == [] else obj


# --- validation -----------------------------------------------------------------------------------


def rbac_name(name: str) -> text.Problems:
    """Problems of the name of a role or a binding.

    Quirk: what a name is generated from must be a whole name itself (ValidateRBACName).
    """
    return text.segment(name)


def _validate_create(obj: Obj, namespaced: bool) -> Errors:
    errors = object_meta(obj["metadata"], namespaced, rbac_name)
    for i, rule in enumerate(obj.get("rules") or ()):
        errors += _rule_errors(rule, namespaced, f"rules[{i}]")
    aggregation = obj.get("aggregationRule")
    return errors if aggregation is None else errors + _aggregation_errors(aggregation)


def _validate_update(new: Obj, old: Obj, namespaced: bool) -> Errors:
    """Quirk: the strategy checks the object twice, so each error about it is listed twice."""
    errors = _validate_create(new, namespaced)
    return errors + errors + object_meta_update(new["metadata"], old["metadata"])


def _rule_errors(rule: Obj, namespaced: bool, at: str) -> Errors:
    errors: Errors = []
    if not rule.get("verbs"):
        errors.append(required(f"{at}.verbs", "verbs must contain at least one value"))
    resources, urls = rule.get("resources"), rule.get("nonResourceURLs")
    if urls:
        where = f"{at}.nonResourceURLs"
        if namespaced:
            errors.append(invalid(where, urls, "namespaced rules cannot apply to non-resource URLs"))
        if rule.get("apiGroups") or resources or rule.get("resourceNames"):
            detail = "rules cannot apply to both regular resources and non-resource URLs"
            errors.append(invalid(where, urls, detail))
        return errors
    if not rule.get("apiGroups"):
        errors.append(required(f"{at}.apiGroups", "resource rules must supply at least one api group"))
    if not resources:
        errors.append(required(f"{at}.resources", "resource rules must supply at least one resource"))
    return errors


def _aggregation_errors(aggregation: Obj) -> Errors:
    at = "aggregationRule.clusterRoleSelectors"
    selectors = aggregation.get("clusterRoleSelectors")
    if not selectors:
        detail = "at least one clusterRoleSelector required if aggregationRule is non-nil"
        return [required(at, detail)]
    errors: Errors = []
    for i, selector in enumerate(selectors):
        errors += label_selector(selector, f"{at}[{i}]")
        if not is_sound(selector):
            errors.append(invalid(f"{at}[{i}]", None, "invalid label selector."))
    return errors


# --- kinds ----------------------------------------------------------------------------------------


def _kind(row: Row) -> Kind:
    return Kind(
        rows=(row,),
        strategy=Strategy(
            create_by_put=True,
            prepare_create=lambda obj, _names: _prepare(obj),
            prepare_update=lambda new, _old, _names: _prepare(new),
        ),
        defaults=_fill_defaults,
        validate_create=partial(_validate_create, namespaced=row.namespaced),
        validate_update={"": partial(_validate_update, namespaced=row.namespaced)},
    )


ROLE = _kind(Row("rbac.authorization", "v1", "roles", "Role"))
CLUSTER_ROLE = _kind(Row("rbac.authorization", "v1", "clusterroles", "ClusterRole", namespaced=False))
