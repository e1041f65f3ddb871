"""NamespaceLifecycle: no new objects in an absent or terminating namespace; system namespaces stay.

Mirrors  kubernetes v1.25 apiserver pkg/admission/plugin/namespace/lifecycle/admission.go.
Differs  a missing namespace is refused at once: the view is never behind the store, so upstream's
         short wait and live read have nothing to wait for.
"""

from __future__ import annotations

from sim.api.admission.base import Attributes, Denial, Operation, View, forbidden, name_of, not_found
from sim.api.types import Obj
from sim.ident import Names

LOCAL_REVIEW = "localsubjectaccessreviews"


class NamespaceLifecycle:
    """Refuses creates in an absent or terminating namespace, and deletes of the system namespaces."""

    def __init__(self, names: Names) -> None:
        self._immortal = (names.default_namespace, names.system_namespace, names.public_namespace)

    def concerns(self, operation: Operation, plural: str, subresource: str) -> bool:
        """True for requests with objects that the plugin mutates."""
        if plural == LOCAL_REVIEW:  # a refusal would show whether the namespace exists
            return False
        return (operation == "delete") == (plural == "namespaces")

    def mutate(self, attributes: Attributes, obj: Obj, view: View) -> Obj | Denial:
        """The object as the plugin changes it, or the refusal."""
        if attributes.operation == "delete":
            if attributes.name in self._immortal:
                return forbidden(attributes, "this namespace may not be deleted")
            return obj
        namespace = attributes.namespace
        if not namespace:
            return obj
        found = view.get("namespaces", "", namespace)
        if found is None:
            return not_found("namespaces", namespace)
        going = (found.get("status") or {}).get("phase") == "Terminating"
        if not going or attributes.operation != "create":
            return obj
        cause = {
            "reason": "NamespaceTerminating",
            "message": f"namespace {namespace} is being terminated",
            "field": "metadata.namespace",
        }
        text = f"unable to create new content in namespace {namespace} because it is being terminated"
        return forbidden(attributes, text, name_of(attributes, obj), [cause])
