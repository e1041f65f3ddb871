"""PersistentVolumeClaimResize: only bound claims of expandable classes may grow.

Mirrors  kubernetes v1.25 plugin/pkg/admission/storage/persistentvolume/resize/admission.go.
Differs  StorageClasses are not served, so no class allows the growth of a bound claim.
"""

from __future__ import annotations

from sim.api.admission.base import Attributes, Denial, View, forbidden, name_of
from sim.api.types import Obj
from sim.units import quantity_nano


class PersistentVolumeClaimResize:
    """Refuses to let a claim ask for more storage."""

    def judges(self, operation: str, plural: str, subresource: str) -> bool:
        """True for requests with objects that the plugin validates."""
        return operation == "update" and plural == "persistentvolumeclaims" and not subresource

    def validate(self, attributes: Attributes, obj: Obj, view: View) -> Denial | None:
        """The refusal of an object as it would be stored; None if it is allowed."""
        old = attributes.old or {}
        if _storage_nano(obj) <= _storage_nano(old):
            return None
        if (old.get("status") or {}).get("phase") != "Bound":
            text = "Only bound persistent volume claims can be expanded"
        else:
            text = (
                "only dynamically provisioned pvc can be resized and the storageclass that provisions"
                " the pvc must support resize"
            )
        return forbidden(attributes, text, name_of(attributes, obj))


def _storage_nano(claim: Obj) -> int:
    resources = (claim.get("spec") or {}).get("resources") or {}
    return quantity_nano((resources.get("requests") or {}).get("storage", "0"))
