"""Admission of claims and volumes: the default class, the protection finalizers, and growth.

Mirrors  kubernetes v1.25 plugin/pkg/admission/storage/storageclass/setdefault/admission.go,
         storageobjectinuseprotection/admission.go, persistentvolume/resize/admission.go.
"""

from __future__ import annotations

from sim.api.admission.base import Attributes, Denial, Operation, View, forbidden, name_of
from sim.api.kinds.common.claims import class_of
from sim.api.kinds.storage.storage_class import is_default
from sim.api.objects import annotations_of, phase_of, with_metadata
from sim.api.types import Obj
from sim.ident import Names
from sim.units import quantity_nano

CLAIMS, VOLUMES, CLASSES = "persistentvolumeclaims", "persistentvolumes", "storageclasses"


class DefaultStorageClass:
    """Gives a claim without a class the default class."""

    def __init__(self, names: Names) -> None:
        self._names = names

    def concerns(self, operation: Operation, plural: str, subresource: str) -> bool:
        """True for requests with objects that the plugin mutates."""
        return operation == "create" and plural == CLAIMS and not subresource

    def mutate(self, attributes: Attributes, obj: Obj, view: View) -> Obj | Denial:
        """The object as the plugin changes it, or the refusal."""
        spec, names = obj.get("spec") or {}, self._names
        if spec.get("storageClassName") is not None:
            return obj
        if names.annotation_beta_storage_class in annotations_of(obj):
            return obj
        found = [each["metadata"]["name"] for each in view.list(CLASSES) if is_default(each, names)]
        if not found:
            return obj
        if len(found) > 1:
            text = f"Internal error occurred: {len(found)} default StorageClasses were found"
            return forbidden(attributes, text, name_of(attributes, obj))
        return {**obj, "spec": {**spec, "storageClassName": found[0]}}


class StorageObjectInUseProtection:
    """Adds the finalizers that keep claims and volumes while they are in use."""

    def __init__(self, names: Names) -> None:
        self._finalizers = {
            CLAIMS: names.finalizer_claim_protection,
            VOLUMES: names.finalizer_volume_protection,
        }

    def concerns(self, operation: Operation, plural: str, subresource: str) -> bool:
        """True for requests with objects that the plugin mutates."""
        return operation == "create" and plural in self._finalizers and not subresource

    def mutate(self, attributes: Attributes, obj: Obj, view: View) -> Obj | Denial:
        """The object as the plugin changes it, or the refusal."""
        finalizer = self._finalizers[attributes.resource.plural]
        given = obj["metadata"].get("finalizers") or []
        return obj if finalizer in given else with_metadata(obj, finalizers=[*given, finalizer])


class PersistentVolumeClaimResize:
    """Lets only bound claims of classes that allow it ask for more storage."""

    def __init__(self, names: Names) -> None:
        self._names = names

    def judges(self, operation: Operation, plural: str, subresource: str) -> bool:
        """True for requests with objects that the plugin validates."""
        return operation == "update" and plural == CLAIMS and not subresource

    def validate(self, attributes: Attributes, obj: Obj, view: View) -> Denial | None:
        """The refusal of an object as it would be stored; None if it is allowed."""
        old = attributes.old or {}
        if _storage_nano(obj) <= _storage_nano(old):
            return None
        if phase_of(old) != "Bound":
            text = "Only bound persistent volume claims can be expanded"
        elif self._may_grow(obj, old, view):
            return None
        else:
            text = (
                "only dynamically provisioned pvc can be resized and the storageclass that provisions"
                " the pvc must support resize"
            )
        return forbidden(attributes, text, name_of(attributes, obj))

    def _may_grow(self, claim: Obj, old: Obj, view: View) -> bool:
        name = class_of(claim, self._names)
        if not name or name != class_of(old, self._names):
            return False
        found = view.get(CLASSES, "", name)
        return found is not None and bool(found.get("allowVolumeExpansion"))


def _storage_nano(claim: Obj) -> int:
    resources = (claim.get("spec") or {}).get("resources") or {}
    return quantity_nano((resources.get("requests") or {}).get("storage", "0"))
