"""SecurityContextDeny and LimitPodHardAntiAffinityTopology: fields that pods may not use.

Mirrors  kubernetes v1.25 plugin/pkg/admission/securitycontext/scdeny/admission.go,
         plugin/pkg/admission/antiaffinity/admission.go.
"""

from __future__ import annotations

from sim.api.admission.base import Attributes, Denial, Operation, View, forbidden, is_pod, name_of
from sim.api.types import Obj
from sim.ident import Names

OF_POD = ("supplementalGroups", "seLinuxOptions", "runAsUser", "fsGroup")
OF_CONTAINER = ("seLinuxOptions", "runAsUser")
_SHOWN = {
    "supplementalGroups": "SupplementalGroups",
    "seLinuxOptions": "SELinuxOptions",
    "runAsUser": "RunAsUser",
    "fsGroup": "FSGroup",
}


class SecurityContextDeny:
    """Refuses pods that choose their user, groups or SELinux options."""

    def judges(self, operation: Operation, plural: str, subresource: str) -> bool:
        """True for requests with objects that the plugin validates."""
        return operation != "delete" and is_pod(plural, subresource)

    def validate(self, attributes: Attributes, obj: Obj, view: View) -> Denial | None:
        """The refusal of an object as it would be stored; None if it is allowed."""
        spec = obj.get("spec") or {}
        context = spec.get("securityContext") or {}
        for field in OF_POD:
            if context.get(field) is not None:
                text = f"pod.Spec.SecurityContext.{_SHOWN[field]} is forbidden"
                return forbidden(attributes, text, name_of(attributes, obj))
        for each in (*(spec.get("initContainers") or ()), *(spec.get("containers") or ())):
            context = each.get("securityContext") or {}
            for field in OF_CONTAINER:
                if context.get(field) is not None:
                    text = f"SecurityContext.{_SHOWN[field]} is forbidden"
                    return forbidden(attributes, text, name_of(attributes, obj))
        return None


class LimitPodHardAntiAffinityTopology:
    """Allows required anti-affinity between pods by host only."""

    def __init__(self, names: Names) -> None:
        self._hostname = names.label_hostname

    def judges(self, operation: Operation, plural: str, subresource: str) -> bool:
        """True for requests with objects that the plugin validates."""
        return operation != "delete" and is_pod(plural, subresource)

    def validate(self, attributes: Attributes, obj: Obj, view: View) -> Denial | None:
        """The refusal of an object as it would be stored; None if it is allowed."""
        affinity = ((obj.get("spec") or {}).get("affinity") or {}).get("podAntiAffinity") or {}
        for term in affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or ():
            key = term.get("topologyKey", "")
            if key != self._hostname:
                text = (
                    f"affinity.PodAntiAffinity.RequiredDuringScheduling has TopologyKey {key}"
                    f" but only key {self._hostname} is allowed"
                )
                return forbidden(attributes, text, name_of(attributes, obj))
        return None
