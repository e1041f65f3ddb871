"""TaintNodesByCondition: taints a new node, so that it gets no pods until it is ready.

Mirrors  kubernetes v1.25 plugin/pkg/admission/nodetaint/admission.go.
"""

from __future__ import annotations

from sim.api.admission.base import Attributes, Denial, Operation, View
from sim.api.types import Obj
from sim.ident import Names


class TaintNodesByCondition:
    """Taints a new node, so that it gets no pods until it is ready."""

    def __init__(self, names: Names) -> None:
        self._taint = {"key": names.taint_not_ready, "effect": "NoSchedule"}

    def concerns(self, operation: Operation, plural: str, subresource: str) -> bool:
        """True for requests with objects that the plugin mutates."""
        return operation == "create" and plural == "nodes" and not subresource

    def mutate(self, attributes: Attributes, obj: Obj, view: View) -> Obj | Denial:
        """The object as the plugin changes it, or the refusal."""
        spec = obj.get("spec") or {}
        taints = spec.get("taints") or ()
        key, effect = self._taint["key"], self._taint["effect"]
        if any(t.get("key") == key and t.get("effect") == effect for t in taints):
            return obj
        return {**obj, "spec": {**spec, "taints": [*taints, self._taint]}}
