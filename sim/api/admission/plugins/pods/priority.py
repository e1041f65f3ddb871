"""Priority: sets a pod's priority from its class only, and refuses a second default class.

Holds: a pod spec that was admitted before under the same class gives the same object.

Mirrors  kubernetes v1.25 plugin/pkg/admission/priority/admission.go.
"""

from __future__ import annotations

from sim.api.admission.base import Attributes, Denial, Operation, View, forbidden, is_pod, name_of
from sim.api.memo import IdentityMemo
from sim.api.types import Obj
from sim.ident import Names

PREEMPT = "PreemptLowerPriority"


class Priority:
    """Sets a pod's priority from its class only; refuses a second default class."""

    def __init__(self, names: Names) -> None:
        self._specs: IdentityMemo[Obj] = IdentityMemo()
        self._no_class: Obj = {"value": 0}

    def concerns(self, operation: Operation, plural: str, subresource: str) -> bool:
        """True for requests with objects that the plugin mutates."""
        return operation != "delete" and is_pod(plural, subresource)

    def judges(self, operation: Operation, plural: str, subresource: str) -> bool:
        """True for requests with objects that the plugin validates."""
        return operation != "delete" and plural == "priorityclasses"

    def mutate(self, attributes: Attributes, obj: Obj, view: View) -> Obj | Denial:
        """The object as the plugin changes it, or the refusal."""
        if attributes.operation == "update":
            return self._kept(attributes, obj)
        spec = obj.get("spec") or {}
        name = spec.get("priorityClassName")
        found = view.get("priorityclasses", "", name) if name else self._default_class(view)
        if found is None:
            if name:
                text = f"no PriorityClass with name {name} was found"
                return forbidden(attributes, text, name_of(attributes, obj))
            found = self._no_class
        made = self._specs.get(spec, found)
        if made is None:
            text = _priority_error(spec, found)
            if text:
                return forbidden(attributes, text, name_of(attributes, obj))
            made = self._specs.put(_with_priority(spec, found), spec, found)
        return {**obj, "spec": made}

    def validate(self, attributes: Attributes, obj: Obj, view: View) -> Denial | None:
        """The refusal of an object as it would be stored; None if it is allowed."""
        if not obj.get("globalDefault"):
            return None
        default = self._default_class(view)
        name = default["metadata"]["name"] if default else ""
        if not name or (attributes.operation == "update" and name == obj["metadata"].get("name")):
            return None
        text = f"PriorityClass {name} is already marked as default. Only one default can exist"
        return forbidden(attributes, text, name_of(attributes, obj))

    def _kept(self, attributes: Attributes, obj: Obj) -> Obj:
        """An update without a priority, with the stored one."""
        spec = obj.get("spec") or {}
        old = (attributes.old or {}).get("spec") or {}
        missing = {
            key: old[key] for key in ("priority", "preemptionPolicy") if spec.get(key) is None and key in old
        }
        return {**obj, "spec": {**spec, **missing}} if missing else obj

    def _default_class(self, view: View) -> Obj | None:
        """The global default; the lowest if two concurrent creates made several."""
        defaults = [c for c in view.list("priorityclasses") if c.get("globalDefault")]
        return min(defaults, key=lambda c: (c["value"], c["metadata"]["name"])) if defaults else None


def _priority_error(spec: Obj, found: Obj) -> str:
    value, policy = found.get("value", 0), found.get("preemptionPolicy", PREEMPT)
    tail = "from the given PriorityClass name"
    given = spec.get("priority")
    if given is not None and given != value:
        return (
            f"the integer value of priority ({given}) must not be provided in pod spec;"
            f" priority admission controller computed {value} {tail}"
        )
    given = spec.get("preemptionPolicy")
    if given is not None and given != policy:
        return (
            f"the string value of PreemptionPolicy ({given}) must not be provided in pod spec;"
            f" priority admission controller computed {policy} {tail}"
        )
    return ""


def _with_priority(spec: Obj, found: Obj) -> Obj:
    out = {
        **spec,
        "priority": found.get("value", 0),
        "preemptionPolicy": found.get("preemptionPolicy", PREEMPT),
    }
    if "metadata" in found:
        out["priorityClassName"] = found["metadata"]["name"]
    return out
