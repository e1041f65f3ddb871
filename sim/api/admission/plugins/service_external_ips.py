"""DenyServiceExternalIPs: Services get no new external addresses.

Mirrors  kubernetes v1.25 plugin/pkg/admission/network/denyserviceexternalips/admission.go.
"""

from __future__ import annotations

from sim.api.admission.base import Attributes, Denial, Operation, View, forbidden, name_of
from sim.api.types import Obj


class DenyServiceExternalIPs:
    """Refuses external addresses that the stored Service does not have."""

    def judges(self, operation: Operation, plural: str, subresource: str) -> bool:
        """True for requests with objects that the plugin validates."""
        return operation != "delete" and plural == "services" and not subresource

    def validate(self, attributes: Attributes, obj: Obj, view: View) -> Denial | None:
        """The refusal of an object as it would be stored; None if it is allowed."""
        given, known = _addresses(obj), _addresses(attributes.old or {})
        if all(address in known for address in given):
            return None
        text = "Use of external IPs is denied by admission control"
        return forbidden(attributes, text, name_of(attributes, obj))


def _addresses(service: Obj) -> list[str]:
    return (service.get("spec") or {}).get("externalIPs") or []
