"""OwnerReferencesPermissionEnforcement: setting an owner needs rights on object and owner.

Owner references are changed by users that may delete the object, and block the deletion of an owner
only for users that may update the owner's finalizers.

Mirrors  kubernetes v1.25 plugin/pkg/admission/gc/gc_admission.go.
"""

from __future__ import annotations

from typing import Any

from sim.api.admission.base import Attributes, Denial, Operation, View, forbidden, name_of
from sim.api.auth.attributes import AccessAttributes, Decision, OpinionGiver
from sim.api.types import Obj

FINALIZE_ALL = AccessAttributes(
    "update", group="*", version="*", resource="*", subresource="finalizers", name="*"
)


class OwnerReferencesPermissionEnforcement:
    """Asks the authorizer about changes of owner references."""

    def judges(self, operation: Operation, plural: str, subresource: str) -> bool:
        """True for requests with objects that the plugin validates."""
        return operation != "delete" and (plural, subresource) != ("pods", "status")

    def validate(self, attributes: Attributes, obj: Obj, view: View) -> Denial | None:
        """The refusal of an object as it would be stored; None if it is allowed."""
        new = _owners(obj)
        old = None if attributes.old is None else _owners(attributes.old)
        if new == (old or []) or attributes.authorizer is None:
            return None
        view.mark_volatile()
        text = _problem(attributes, attributes.authorizer, new, old, view)
        return forbidden(attributes, text, name_of(attributes, obj)) if text else None


def _problem(
    attributes: Attributes, authorizer: OpinionGiver, new: list[Obj], old: list[Obj] | None, view: View
) -> str:
    """Why the user may not change the owners; "" if the change is allowed."""
    resource, user = attributes.resource, attributes.user
    if attributes.operation != "create":
        removal = AccessAttributes(
            "delete", "", resource.group, resource.version, resource.plural, attributes.subresource,
            attributes.namespace, attributes.name,
        )  # fmt: skip
        opinion = authorizer.authorize(user, removal)
        if opinion.decision is not Decision.ALLOW:
            answer = f"{opinion.reason}, {opinion.error or '<nil>'}"
            return f"cannot set an ownerRef on a resource you can't delete: {answer}"
    blocking = _newly_blocking(new, old)
    # A user that may finalize everything needs no resource for the kind of the owner.
    if not blocking or authorizer.authorize(user, FINALIZE_ALL).decision is Decision.ALLOW:
        return ""
    for owner in blocking:
        version, kind = owner.get("apiVersion", ""), owner.get("kind", "")
        found = view.by_kind(version, kind)
        if found is None:
            return (
                "cannot set blockOwnerDeletion in this case because cannot find RESTMapping for"
                f" APIVersion {version} Kind {kind}: no matches for kind"
                f' "{kind}" in version "{version}"'
            )
        namespace = attributes.namespace if found.namespaced else ""
        update = AccessAttributes(
            "update", "", found.group, found.version, found.plural, "finalizers", namespace, owner.get("name", "")
        )  # fmt: skip
        opinion = authorizer.authorize(user, update)
        if opinion.decision is not Decision.ALLOW:
            return (
                "cannot set blockOwnerDeletion if an ownerReference refers to a resource you can't set"
                f" finalizers on: {opinion.reason}, {opinion.error or '<nil>'}"
            )
    return ""


def _owners(obj: Obj) -> list[Any]:
    return (obj.get("metadata") or {}).get("ownerReferences") or []


def _newly_blocking(new: list[Obj], old: list[Obj] | None) -> list[Obj]:
    """The references that block the deletion of their owner, and did not before."""
    before = {owner.get("uid"): owner.get("blockOwnerDeletion") is True for owner in old or ()}
    return [
        owner
        for owner in new
        if owner.get("blockOwnerDeletion") is True and not before.get(owner.get("uid"), False)
    ]
