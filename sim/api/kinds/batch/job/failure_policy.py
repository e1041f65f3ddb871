"""Validation of a Job's rules about failed pods.

Mirrors  kubernetes v1.25 pkg/apis/batch/validation/validation.go (validatePodFailurePolicy and what
         it calls).
"""

from __future__ import annotations

from sim.api.go.printing import GoValue
from sim.api.types import Obj
from sim.api.validation import text
from sim.api.validation.errors import (
    INVALID,
    Errors,
    FieldError,
    checked,
    duplicate,
    invalid,
    one_of,
    too_many,
)

RULES_MAX, PATTERNS_MAX, CODES_MAX = 20, 20, 255
_ACTIONS = ("Count", "FailJob", "Ignore")
_OPERATORS = ("In", "NotIn")
_STATUSES = ("False", "True", "Unknown")


def failure_policy(spec: Obj, field: str) -> Errors:
    """Errors of the policy that the spec of a Job at `field` has."""
    rules, at = spec["podFailurePolicy"].get("rules") or (), f"{field}.podFailurePolicy.rules"
    errors = [too_many(at, len(rules), RULES_MAX)] if len(rules) > RULES_MAX else []
    made = (spec.get("template") or {}).get("spec") or {}
    known = [
        each.get("name", "") for kind in ("containers", "initContainers") for each in made.get(kind) or ()
    ]
    for index, rule in enumerate(rules):
        errors += _rule(rule, f"{at}[{index}]", known)
    return errors


def _rule(rule: Obj, at: str, known: list[str]) -> Errors:
    codes, patterns = rule.get("onExitCodes"), rule.get("onPodConditions")
    errors = _one_of(rule.get("action", ""), f"{at}.action", _ACTIONS)
    if codes is not None:
        errors += _exit_codes(codes, f"{at}.onExitCodes", known)
    if patterns:
        errors += _patterns(patterns, f"{at}.onPodConditions")
    if codes is not None and patterns:
        detail = "specifying both OnExitCodes and OnPodConditions is not supported"
        errors.append(FieldError(at, INVALID, detail))
    if codes is None and not patterns:
        detail = "specifying one of OnExitCodes and OnPodConditions is required"
        errors.append(FieldError(at, INVALID, detail))
    return errors


def _one_of(value: str, at: str, values: tuple[str, ...]) -> Errors:
    shown = " ".join(f'"{each}"' for each in values)
    return one_of(at, value, values, f"valid values: [{shown}]")


def _patterns(patterns: list[Obj], at: str) -> Errors:
    errors = [too_many(at, len(patterns), PATTERNS_MAX)] if len(patterns) > PATTERNS_MAX else []
    for index, pattern in enumerate(patterns):
        here, kind = f"{at}[{index}]", pattern.get("type", "")
        errors += checked(f"{here}.type", kind, text.qualified_name)
        errors += _one_of(pattern.get("status", ""), f"{here}.status", _STATUSES)
    return errors


def _exit_codes(codes: Obj, at: str, known: list[str]) -> Errors:
    operator, container = codes.get("operator", ""), codes.get("containerName")
    errors = _one_of(operator, f"{at}.operator", _OPERATORS)
    if container is not None and container not in known:
        detail = "must be one of the container or initContainer names in the pod template"
        errors.append(invalid(f"{at}.containerName", container, detail))
    given, at = codes.get("values") or [], f"{at}.values"
    if not given:
        errors.append(invalid(at, GoValue("[]int32", codes.get("values")), "at least one value is required"))
    elif len(given) > CODES_MAX:
        errors.append(too_many(at, len(given), CODES_MAX))
    seen: dict[int, None] = {}
    for index, code in enumerate(given):
        if operator == "In" and code == 0:
            errors.append(invalid(f"{at}[{index}]", code, "must not be 0 for the In operator"))
        if code in seen:
            errors.append(duplicate(f"{at}[{index}]", code))
        seen[code] = None
    if given != sorted(given):
        errors.append(invalid(at, GoValue("[]int32", given), "must be ordered"))
    return errors
