"""NamespaceExists: refuses requests in a namespace that does not exist.

NamespaceAutoProvision writes, so it is no link of the chain: see `sim.api.admission.provision`.

Mirrors  kubernetes v1.25 plugin/pkg/admission/namespace/exists/admission.go.
"""

from __future__ import annotations

from sim.api.admission.base import Attributes, Denial, Operation, View, not_found
from sim.api.types import Obj


class NamespaceExists:
    """Checks the namespace of creates, updates and deletes."""

    def judges(self, operation: Operation, plural: str, subresource: str) -> bool:
        """True for requests with objects that the plugin validates."""
        return plural != "namespaces"

    def validate(self, attributes: Attributes, obj: Obj, view: View) -> Denial | None:
        """The refusal of a request in an absent namespace; None if it is allowed."""
        name = attributes.namespace
        if not name or view.get("namespaces", "", name) is not None:
            return None
        return not_found("namespaces", name)
