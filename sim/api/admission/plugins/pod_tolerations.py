"""PodTolerationRestriction and ExtendedResourceToleration: tolerations that pods get and may have.

Mirrors  kubernetes v1.25 plugin/pkg/admission/podtolerationrestriction/admission.go,
         plugin/pkg/admission/extendedresourcetoleration/admission.go,
         pkg/util/tolerations/tolerations.go.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from sim.api.admission.base import Attributes, Denial, View, failed, is_pod, not_found
from sim.api.kinds.common.resources import is_extended
from sim.api.kinds.core.pod.kind import qos_class
from sim.api.schema.json_text import parse
from sim.api.types import Obj
from sim.ident import Names


class TolerationLimits(msgspec.Struct, frozen=True):
    """Configuration of PodTolerationRestriction, for namespaces without annotations of their own.

    default: tolerations that pods get
    whitelist: tolerations that pods may have; all if it is empty
    """

    default: tuple[Obj, ...] = ()
    whitelist: tuple[Obj, ...] = ()


class PodTolerationRestriction:
    """Merges the tolerations of a namespace into its pods, and checks them against its whitelist."""

    def __init__(self, names: Names, limits: TolerationLimits) -> None:
        self._names = names
        self._limits = limits

    def concerns(self, operation: str, plural: str, subresource: str) -> bool:
        """True for requests with objects that the plugin mutates."""
        return operation != "delete" and is_pod(plural, subresource)

    judges = concerns

    def mutate(self, attributes: Attributes, obj: Obj, view: View) -> Obj | Denial:
        """The object as the plugin changes it, or the refusal."""
        spec = obj.get("spec") or {}
        given: list[Obj] = spec.get("tolerations") or []
        made = given
        if attributes.operation == "create":
            annotation = self._names.annotation_default_tolerations
            defaults = _tolerations_of(attributes.namespace, annotation, view)
            if isinstance(defaults, Denial):
                return defaults
            made = merged(self._limits.default if defaults is None else defaults, made)
        if qos_class(spec) != "BestEffort":
            pressure = {
                "key": self._names.taint_memory_pressure, "operator": "Exists", "effect": "NoSchedule",
            }  # fmt: skip
            made = merged(made, [pressure])
        if made and made != given:
            obj = {**obj, "spec": {**spec, "tolerations": made}}
        return self.validate(attributes, obj, view) or obj

    def validate(self, attributes: Attributes, obj: Obj, view: View) -> Denial | None:
        """The refusal of an object as it would be stored; None if it is allowed."""
        given = (obj.get("spec") or {}).get("tolerations") or []
        if not given:
            return None
        annotation = self._names.annotation_tolerations_whitelist
        found = _tolerations_of(attributes.namespace, annotation, view)
        if isinstance(found, Denial):
            return found
        allowed, scope = (self._limits.whitelist, "cluster") if found is None else (found, "namespace")
        if not allowed or all(any(_covers(wide, each) for wide in allowed) for each in given):
            return None
        return failed(
            "pod tolerations (possibly merged with namespace default tolerations) conflict with its"
            f" {scope} whitelist"
        )


def _tolerations_of(namespace: str, annotation: str, view: View) -> list[Obj] | Denial | None:
    """The tolerations in an annotation of the namespace; None if it has no such annotation."""
    found = view.get("namespaces", "", namespace)
    if found is None:
        return not_found("namespaces", namespace)
    text = (found["metadata"].get("annotations") or {}).get(annotation)
    if not text:
        return None if text is None else []
    try:
        value = parse(text)
    except ValueError as error:
        return failed(str(error))
    if not isinstance(value, list) or not all(isinstance(each, dict) for each in value):
        return failed("json: cannot unmarshal the annotation into Go value of type []v1.Toleration")
    return value


def merged(first: Sequence[Obj], second: Sequence[Obj]) -> list[Obj]:
    """Both lists without the tolerations that another one covers."""
    everything = [*first, *second]
    kept: list[Obj] = []
    for index, each in enumerate(everything):
        later = everything[index + 1 :]
        if any(_covers(wide, each) for wide in kept):
            continue
        if any(_canonical(wide) != _canonical(each) and _covers(wide, each) for wide in later):
            continue
        kept.append(each)
    return kept


def _canonical(toleration: Obj) -> Obj:
    """The toleration without empty fields."""
    return {key: value for key, value in toleration.items() if value not in ("", None)}


def _covers(wide: Obj, each: Obj) -> bool:
    """True if `wide` tolerates all that `each` tolerates."""
    wide, each = _canonical(wide), _canonical(each)
    if wide == each:
        return True
    operator = wide.get("operator", "")
    if each.get("key") != wide.get("key") and ("key" in wide or operator != "Exists"):
        return False
    if "effect" in wide and each.get("effect") != wide["effect"]:
        return False
    if wide.get("effect") == "NoExecute" and "tolerationSeconds" in wide:
        seconds = each.get("tolerationSeconds")
        if seconds is None or seconds > wide["tolerationSeconds"]:
            return False
    if operator in ("", "Equal"):
        # Quirk: an absent operator means Equal in the wide toleration only.
        return each.get("operator") == "Equal" and each.get("value") == wide.get("value")
    return bool(operator == "Exists")


class ExtendedResourceToleration:
    """Lets pods tolerate the taint of the nodes that have the devices they request."""

    def concerns(self, operation: str, plural: str, subresource: str) -> bool:
        """True for requests with objects that the plugin mutates."""
        return operation != "delete" and is_pod(plural, subresource)

    def mutate(self, attributes: Attributes, obj: Obj, view: View) -> Obj | Denial:
        """The object as the plugin changes it, or the refusal."""
        spec = obj.get("spec") or {}
        containers = (*(spec.get("containers") or ()), *(spec.get("initContainers") or ()))
        requested = (((each.get("resources") or {}).get("requests")) or {} for each in containers)
        devices = sorted({name: None for requests in requested for name in requests if is_extended(name)})
        given: list[Obj] = spec.get("tolerations") or []
        made = given
        for device in devices:
            made = _with_toleration(made, {"key": device, "operator": "Exists", "effect": "NoSchedule"})
        return {**obj, "spec": {**spec, "tolerations": made}} if made != given else obj


def _with_toleration(given: list[Obj], wanted: Obj) -> list[Obj]:
    """The list with this toleration in the place of those that match the same taint."""

    def matches(each: Obj) -> bool:
        fields = ("key", "operator", "effect", "value")
        return all(each.get(field, "") == wanted.get(field, "") for field in fields)

    if any(matches(each) for each in given):
        return [wanted if matches(each) else each for each in given]
    return [*given, wanted]
