"""LimitRanges at admission: default requests and limits of containers, and bounds for containers,
pods and claims.

A pod gets the defaults of its namespace's LimitRanges, and an annotation that lists them; an object
outside of the bounds is refused.

Holds: a pod spec that was admitted before under the same ranges comes out as the same object.

Mirrors  kubernetes v1.25 plugin/pkg/admission/limitranger/admission.go.
Differs  several violations are listed in the order of resource names (upstream: in the order of a
         map).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from sim.api.admission.base import Attributes, Denial, Operation, View, forbidden, name_of
from sim.api.memo import IdentityMemo
from sim.api.types import Obj
from sim.ident import Names
from sim.units import (
    DECIMAL_SI,
    NANO,
    NANO_PER_MILLI,
    format_quantity_nano,
    quantity_milli,
    quantity_nano,
    quantity_style,
    quantity_text,
)

Amounts = Mapping[str, Any]
_KINDS = (("containers", "container"), ("initContainers", "init container"))


class LimitRanger:
    """Applies LimitRanges to pods on create, and to claims on create and update."""

    def __init__(self, names: Names) -> None:
        self._annotation = names.annotation_limit_ranger
        self._made: IdentityMemo[tuple[Obj, str]] = IdentityMemo()
        self._judged: IdentityMemo[str] = IdentityMemo()

    def concerns(self, operation: Operation, plural: str, subresource: str) -> bool:
        """True for requests with objects that the plugin mutates."""
        return operation == "create" and plural == "pods" and not subresource

    def judges(self, operation: Operation, plural: str, subresource: str) -> bool:
        """True for requests with objects that the plugin validates."""
        claims = plural == "persistentvolumeclaims" and operation != "delete" and not subresource
        return claims or self.concerns(operation, plural, subresource)

    def mutate(self, attributes: Attributes, obj: Obj, view: View) -> Obj | Denial:
        """The object as the plugin changes it, or the refusal."""
        ranges = view.list("limitranges", attributes.namespace)
        if not ranges:
            return obj
        spec = obj.get("spec") or {}
        made = self._made.get(spec, ranges)
        if made is None:
            made = self._made.put(_with_defaults(spec, ranges), spec, ranges)
        spec, note = made
        if not note:
            return obj
        meta = obj["metadata"]
        annotations = {**(meta.get("annotations") or {}), self._annotation: note}
        return {**obj, "metadata": {**meta, "annotations": annotations}, "spec": spec}

    def validate(self, attributes: Attributes, obj: Obj, view: View) -> Denial | None:
        """The refusal of an object as it would be stored; None if it is allowed."""
        ranges = view.list("limitranges", attributes.namespace)
        if not ranges:
            return None
        spec = obj.get("spec") or {}
        text = self._judged.get(spec, ranges)
        if text is None:
            judge = _claim_problems if attributes.resource.rule == "persistentvolumeclaims" else _pod_problems
            text = self._judged.put(_first_problem(ranges, spec, judge), spec, ranges)
        return forbidden(attributes, text, name_of(attributes, obj)) if text else None


def _limits_of(limit_range: Obj, kind: str) -> list[Obj]:
    return [
        limit for limit in (limit_range.get("spec") or {}).get("limits") or () if limit.get("type") == kind
    ]


# --- defaults -------------------------------------------------------------------------------------


def _with_defaults(spec: Obj, ranges: Sequence[Obj]) -> tuple[Obj, str]:
    """The spec with defaults, and the note of the last range that set any."""
    note = ""
    for limit_range in ranges:
        requests: dict[str, Any] = {}
        limits: dict[str, Any] = {}
        for limit in _limits_of(limit_range, "Container"):
            requests |= limit.get("defaultRequest") or {}
            limits |= limit.get("default") or {}
        notes: list[str] = []
        changed = {}
        for field, word in _KINDS:
            if spec.get(field):
                changed[field] = [_filled(c, requests, limits, word, notes) for c in spec[field]]
        if notes:
            spec, note = {**spec, **changed}, "LimitRanger plugin set: " + "; ".join(notes)
    return spec, note


def _filled(container: Obj, requests: Amounts, limits: Amounts, word: str, notes: list[str]) -> Obj:
    resources = container.get("resources") or {}
    made = dict(resources)
    for field, said, defaults in (("requests", "request", requests), ("limits", "limit", limits)):
        given = resources.get(field) or {}
        missing = sorted(name for name in defaults if name not in given)
        if missing:
            made[field] = {**given, **{name: defaults[name] for name in missing}}
            notes.append(f"{', '.join(missing)} {said} for {word} {container['name']}")
    return container if made == resources else {**container, "resources": made}


# --- bounds ---------------------------------------------------------------------------------------


def _first_problem(ranges: Sequence[Obj], spec: Obj, judge: Callable[[Obj, Obj], list[str]]) -> str:
    """All violations of the first range that has any."""
    for limit_range in ranges:
        found = list(dict.fromkeys(judge(limit_range, spec)))
        if found:
            return found[0] if len(found) == 1 else f"[{', '.join(found)}]"
    return ""


def _pod_problems(limit_range: Obj, spec: Obj) -> list[str]:
    found: list[str] = []
    for limit in (limit_range.get("spec") or {}).get("limits") or ():
        if limit.get("type") == "Container":
            for field, _ in _KINDS:
                for container in spec.get(field) or ():
                    resources = container.get("resources") or {}
                    found += _bounds(limit, resources.get("requests") or {}, resources.get("limits") or {})
        elif limit.get("type") == "Pod":
            found += _bounds(limit, _total(spec, "requests"), _total(spec, "limits"))
    return found


def _bounds(limit: Obj, requests: Amounts, limits: Amounts) -> list[str]:
    checks = (("min", _too_little), ("max", _too_much), ("maxLimitRequestRatio", _too_far_apart))
    found = []
    for field, check in checks:
        for name, bound in sorted((limit.get(field) or {}).items()):
            text = check(name, str(limit.get("type")), bound, requests.get(name), limits.get(name))
            found += [text] if text else []
    return found


def _claim_problems(limit_range: Obj, spec: Obj) -> list[str]:
    found = []
    requests = (spec.get("resources") or {}).get("requests") or {}
    for limit in _limits_of(limit_range, "PersistentVolumeClaim"):
        for name, bound in sorted((limit.get("min") or {}).items()):
            text = _too_little(name, "PersistentVolumeClaim", bound, requests.get(name), None)
            found += [text] if text else []
        for name, bound in sorted((limit.get("max") or {}).items()):
            asked, shown = requests.get(name), quantity_text(bound)
            head = f"maximum {name} usage per PersistentVolumeClaim is {shown}"
            if asked is None:
                found.append(f"{head}.  No request is specified")
            elif quantity_nano(asked) > quantity_nano(bound):
                found.append(f"{head}, but request is {quantity_text(asked)}")
    return found


def _too_little(name: str, kind: str, bound: Any, request: Any, limit: Any) -> str:
    head = f"minimum {name} usage per {kind} is {quantity_text(bound)}"
    if request is None:
        return f"{head}.  No request is specified"
    if quantity_nano(request) < quantity_nano(bound):
        return f"{head}, but request is {quantity_text(request)}"
    if limit is not None and quantity_nano(limit) < quantity_nano(bound):
        return f"{head}, but limit is {quantity_text(limit)}"
    return ""


def _too_much(name: str, kind: str, bound: Any, request: Any, limit: Any) -> str:
    head = f"maximum {name} usage per {kind} is {quantity_text(bound)}"
    if limit is None:
        return f"{head}.  No limit is specified"
    if quantity_nano(limit) > quantity_nano(bound):
        return f"{head}, but limit is {quantity_text(limit)}"
    if request is not None and quantity_nano(request) > quantity_nano(bound):
        return f"{head}, but request is {quantity_text(request)}"
    return ""


def _too_far_apart(name: str, kind: str, bound: Any, request: Any, limit: Any) -> str:
    head = f"{name} max limit to request ratio per {kind} is {quantity_text(bound)}"
    asked, most = (quantity_milli(request) if request else 0), (quantity_milli(limit) if limit else 0)
    if not asked:
        return f"{head}, but no request is specified or request is 0"
    if not most:
        return f"{head}, but no limit is specified or limit is 0"
    if most * 1000 > quantity_milli(bound) * asked:
        return f"{head}, but provided ratio is {most / asked:f}"
    return ""


def _total(spec: Obj, field: str) -> dict[str, str]:
    """The requests or limits of a pod: the sum of its containers, or a larger init container.

    Quirk: what one container leaves out has no sum; sums are decimal, of whole units but for the
    processor.
    """
    given = [(one.get("resources") or {}).get(field) or {} for one in spec.get("containers") or ()]
    total: dict[str, tuple[int, str]] = {}
    for name in dict.fromkeys(name for amounts in given for name in amounts):
        if all(name in amounts for amounts in given):
            unit = NANO_PER_MILLI if name == "cpu" else NANO
            total[name] = (
                sum(-(-quantity_nano(amounts[name]) // unit) * unit for amounts in given),
                DECIMAL_SI,
            )
    for container in spec.get("initContainers") or ():
        for name, text in ((container.get("resources") or {}).get(field) or {}).items():
            if name not in total or total[name][0] < quantity_nano(text):
                total[name] = (quantity_nano(text), quantity_style(text))
    return {name: format_quantity_nano(*amount) for name, amount in total.items()}
