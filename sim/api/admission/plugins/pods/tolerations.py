"""PodTolerationRestriction and ExtendedResourceToleration: tolerations that pods get and may have.

Mirrors  kubernetes v1.25 plugin/pkg/admission/podtolerationrestriction/admission.go,
         plugin/pkg/admission/extendedresourcetoleration/admission.go,
         pkg/util/tolerations/tolerations.go.
"""

from __future__ import annotations

import msgspec

from sim.api.admission.base import Attributes, Denial, Operation, View, failed, is_pod, not_found
from sim.api.kinds.common.resources import is_extended
from sim.api.scheduling import (
    BEST_EFFORT,
    NO_SCHEDULE,
    covers,
    merged_tolerations,
    qos_class,
    toleration,
    with_toleration,
)
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

    def concerns(self, operation: Operation, plural: str, subresource: str) -> bool:
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
            made = merged_tolerations(self._limits.default if defaults is None else defaults, made)
        if qos_class(spec) != BEST_EFFORT:
            made = merged_tolerations(made, [toleration(self._names.taint_memory_pressure, NO_SCHEDULE)])
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
        if not allowed or all(any(covers(wide, each) for wide in allowed) for each in given):
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


class ExtendedResourceToleration:
    """Lets pods tolerate the taint of the nodes that have the devices they request."""

    def concerns(self, operation: Operation, plural: str, subresource: str) -> bool:
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
            made = with_toleration(made, toleration(device, NO_SCHEDULE))
        return {**obj, "spec": {**spec, "tolerations": made}} if made != given else obj
