"""Validation of where a pod may run: node selectors, affinity, tolerations, spread constraints.

Mirrors  kubernetes v1.25 pkg/apis/core/validation/validation.go: validateAffinity,
         ValidateTolerations, validateTopologySpreadConstraints.
"""

from __future__ import annotations

from typing import Any

from sim.api.go.printing import GoValue
from sim.api.scheduling import EQUAL
from sim.api.selectors import DOES_NOT_EXIST, EXISTS, GREATER, IN, LESS, NOT_IN
from sim.api.types import Obj
from sim.api.validation import text
from sim.api.validation.errors import (
    ABOVE_ZERO,
    Errors,
    among,
    checked,
    duplicate,
    forbidden,
    invalid,
    required,
    unsupported,
)
from sim.api.validation.metadata import label_selector
from sim.ident import TAINT_EFFECTS

_MATCH_FIELDS = ("metadata.name",)


def affinity(given: Any, field: str) -> Errors:
    """Errors of node affinity, pod affinity and pod anti-affinity."""
    errors: Errors = []
    node = given.get("nodeAffinity")
    if node:
        errors += _node_affinity(node, f"{field}.nodeAffinity")
    for kind in ("podAffinity", "podAntiAffinity"):
        terms = given.get(kind)
        if terms:
            errors += _pod_affinity(terms, f"{field}.{kind}")
    return errors


def _node_affinity(given: Obj, field: str) -> Errors:
    errors: Errors = []
    wanted = given.get("requiredDuringSchedulingIgnoredDuringExecution")
    if wanted is not None:
        at = f"{field}.requiredDuringSchedulingIgnoredDuringExecution"
        errors += node_selector(wanted, at)
    for i, term in enumerate(given.get("preferredDuringSchedulingIgnoredDuringExecution") or ()):
        at = f"{field}.preferredDuringSchedulingIgnoredDuringExecution[{i}]"
        weight = term.get("weight", 0)
        if not 1 <= weight <= 100:
            errors.append(invalid(f"{at}.weight", weight, "must be in the range 1-100"))
        errors += _term(term.get("preference") or {}, f"{at}.preference")
    return errors


def node_selector(given: Obj, field: str) -> Errors:
    """Errors of the terms of a node selector."""
    terms = given.get("nodeSelectorTerms")
    if not terms:
        return [required(f"{field}.nodeSelectorTerms", "must have at least one node selector term")]
    return [e for i, term in enumerate(terms) for e in _term(term, f"{field}.nodeSelectorTerms[{i}]")]


def _term(term: Obj, field: str) -> Errors:
    errors: Errors = []
    for i, expression in enumerate(term.get("matchExpressions") or ()):
        errors += _node_requirement(expression, f"{field}.matchExpressions[{i}]")
    for i, expression in enumerate(term.get("matchFields") or ()):
        errors += _field_requirement(expression, f"{field}.matchFields[{i}]")
    return errors


def _node_requirement(expression: Obj, field: str) -> Errors:
    operator, values, key = (
        expression.get("operator", ""),
        expression.get("values"),
        expression.get("key", ""),
    )
    errors: Errors = []
    if operator in (IN, NOT_IN):
        if not values:
            errors.append(required(f"{field}.values", "must be specified when `operator` is 'In' or 'NotIn'"))
    elif operator in (EXISTS, DOES_NOT_EXIST):
        if values:
            detail = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
            errors.append(forbidden(f"{field}.values", detail))
    elif operator in (GREATER, LESS):
        if not values or len(values) != 1:
            detail = "must be specified single value when `operator` is 'Lt' or 'Gt'"
            errors.append(required(f"{field}.values", detail))
    else:
        errors.append(invalid(f"{field}.operator", operator, "not a valid selector operator"))
    return errors + checked(f"{field}.key", key, text.qualified_name)


def _field_requirement(expression: Obj, field: str) -> Errors:
    operator, values, key = (
        expression.get("operator", ""),
        expression.get("values") or (),
        expression.get("key", ""),
    )
    errors: Errors = []
    if operator in (IN, NOT_IN):
        if len(values) != 1:
            detail = "must be only one value when `operator` is 'In' or 'NotIn' for node field selector"
            errors.append(required(f"{field}.values", detail))
    else:
        errors.append(invalid(f"{field}.operator", operator, "not a valid selector operator"))
    if key not in _MATCH_FIELDS:
        return [*errors, invalid(f"{field}.key", key, "not a valid field selector key")]
    for i, value in enumerate(values):
        errors += checked(f"{field}.values[{i}]", value, text.subdomain)
    return errors


def _pod_affinity(given: Obj, field: str) -> Errors:
    errors: Errors = []
    for i, term in enumerate(given.get("requiredDuringSchedulingIgnoredDuringExecution") or ()):
        errors += _pod_term(term, f"{field}.requiredDuringSchedulingIgnoredDuringExecution[{i}]")
    for i, weighted in enumerate(given.get("preferredDuringSchedulingIgnoredDuringExecution") or ()):
        at = f"{field}.preferredDuringSchedulingIgnoredDuringExecution[{i}]"
        weight = weighted.get("weight", 0)
        if not 1 <= weight <= 100:
            errors.append(invalid(f"{at}.weight", weight, "must be in the range 1-100"))
        errors += _pod_term(weighted.get("podAffinityTerm") or {}, f"{at}.podAffinityTerm")
    return errors


def _pod_term(term: Obj, field: str) -> Errors:
    errors = label_selector(term.get("labelSelector"), f"{field}.labelSelector")
    errors += label_selector(term.get("namespaceSelector"), f"{field}.namespaceSelector")
    for name in term.get("namespaces") or ():
        errors += checked(f"{field}.namespace", name, text.label)
    key = term.get("topologyKey", "")
    if not key:
        errors.append(required(f"{field}.topologyKey", "can not be empty"))
    # Quirk: an empty key is reported by its syntax as well.
    return errors + checked(f"{field}.topologyKey", key, text.qualified_name)


def tolerations(given: Any, field: str) -> Errors:
    """Errors of tolerations."""
    errors: Errors = []
    for i, toleration in enumerate(given or ()):
        errors += _toleration(toleration, f"{field}[{i}]")
    return errors


def _toleration(toleration: Obj, at: str) -> Errors:
    key, operator = toleration.get("key", ""), toleration.get("operator", "")
    value, effect = toleration.get("value", ""), toleration.get("effect", "")
    errors: Errors = []
    if key:
        errors += checked(f"{at}.key", key, text.qualified_name)
    elif operator != EXISTS:
        detail = 'operator must be Exists when `key` is empty, which means "match all values and all keys"'
        errors.append(invalid(f"{at}.operator", operator, detail))
    if toleration.get("tolerationSeconds") is not None and effect != "NoExecute":
        detail = "effect must be 'NoExecute' when `tolerationSeconds` is set"
        errors.append(invalid(f"{at}.effect", effect, detail))
    if operator in (EQUAL, ""):
        problems = text.label_value(value)
        if problems:
            errors.append(invalid(f"{at}.operator", value, ";".join(problems)))
    elif operator == EXISTS:
        if value:
            detail = "value must be empty when `operator` is 'Exists'"
            errors.append(invalid(f"{at}.operator", GoValue("core.Toleration", toleration), detail))
    else:
        errors.append(unsupported(f"{at}.operator", operator, (EQUAL, EXISTS)))
    errors += among(f"{at}.effect", effect or None, TAINT_EFFECTS)
    return errors


_NODE_POLICIES = ("Honor", "Ignore")


def _gated(constraint: Obj, at: str, action: str) -> Errors:
    """Errors of the fields of a spread constraint that are behind gates."""
    errors: Errors = []
    least = constraint.get("minDomains")
    if least is not None and least <= 0:
        errors.append(invalid(f"{at}.minDomains", least, ABOVE_ZERO))
    if least is not None and action != "DoNotSchedule":
        detail = f"can only use minDomains if whenUnsatisfiable=DoNotSchedule, not {action}"
        errors.append(invalid(f"{at}.minDomains", least, detail))
    for name in ("nodeAffinityPolicy", "nodeTaintsPolicy"):
        errors += among(f"{at}.{name}", constraint.get(name), _NODE_POLICIES)
    selector = constraint.get("labelSelector") or {}
    selected = [*(selector.get("matchLabels") or ())]
    selected += [each.get("key") for each in selector.get("matchExpressions") or ()]
    for i, label in enumerate(constraint.get("matchLabelKeys") or ()):
        where = f"{at}.matchLabelKeys[{i}]"
        errors += checked(where, label, text.qualified_name)
        if label in selected:
            errors.append(invalid(where, label, "exists in both matchLabelKeys and labelSelector"))
    return errors


def spread_constraints(given: Any, field: str) -> Errors:
    """Errors of topology spread constraints."""
    errors: Errors = []
    pairs = [(each.get("topologyKey", ""), each.get("whenUnsatisfiable", "")) for each in given or ()]
    for i, constraint in enumerate(given or ()):
        at = f"{field}[{i}]"
        skew, key = constraint.get("maxSkew", 0), constraint.get("topologyKey", "")
        action = constraint.get("whenUnsatisfiable", "")
        if skew <= 0:
            errors.append(invalid(f"{at}.maxSkew", skew, ABOVE_ZERO))
        if not key:
            errors.append(required(f"{at}.topologyKey", "can not be empty"))
        if action not in ("DoNotSchedule", "ScheduleAnyway"):
            errors.append(unsupported(f"{at}.whenUnsatisfiable", action, ("DoNotSchedule", "ScheduleAnyway")))
        if (key, action) in pairs[i + 1 :]:
            shown = f"{{{key}, {action}}}"
            errors.append(duplicate(f"{at}.{{topologyKey, whenUnsatisfiable}}", shown))
        errors += _gated(constraint, at, action)
    return errors
