"""Admission by classes: the default class of an Ingress, and what a pod's RuntimeClass adds to it.

An Ingress without a class gets the default class; a pod with a RuntimeClass gets its overhead, node
selector and tolerations.

Mirrors  kubernetes v1.25 plugin/pkg/admission/network/defaultingressclass/admission.go,
         plugin/pkg/admission/runtimeclass/admission.go.
Differs  overhead is compared as text: both texts are canonical here.
"""

from __future__ import annotations

from sim.api.admission.base import Attributes, Denial, Operation, View, bad_name, failed, forbidden, name_of
from sim.api.schema.json_text import go_quote
from sim.api.types import Obj
from sim.ident import Names

EMPTY: Obj = {}


class DefaultIngressClass:
    """Gives an Ingress without a class the newest default class."""

    def __init__(self, names: Names) -> None:
        self._of_ingress = names.annotation_ingress_class
        self._default = names.annotation_default_ingress_class

    def concerns(self, operation: Operation, plural: str, subresource: str) -> bool:
        """True for requests with objects that the plugin mutates."""
        return operation == "create" and plural == "ingresses" and not subresource

    def mutate(self, attributes: Attributes, obj: Obj, view: View) -> Obj | Denial:
        """The object as the plugin changes it, or the refusal."""
        spec = obj.get("spec") or EMPTY
        annotations = obj["metadata"].get("annotations") or EMPTY
        if spec.get("ingressClassName") is not None or self._of_ingress in annotations:
            return obj
        found = [each["metadata"] for each in view.list("ingressclasses") if self._is_default(each)]
        if not found:
            return obj
        newest = max(meta["creationTimestamp"] for meta in found)
        name = min(meta["name"] for meta in found if meta["creationTimestamp"] == newest)
        return {**obj, "spec": {**spec, "ingressClassName": name}}

    def _is_default(self, each: Obj) -> bool:
        return (each["metadata"].get("annotations") or EMPTY).get(self._default) == "true"


class RuntimeClass:
    """Adds overhead and scheduling of its RuntimeClass to a pod; refuses an unknown class."""

    def concerns(self, operation: Operation, plural: str, subresource: str) -> bool:
        """True for requests with objects that the plugin mutates."""
        return operation == "create" and plural == "pods" and not subresource

    judges = concerns

    def mutate(self, attributes: Attributes, obj: Obj, view: View) -> Obj | Denial:
        """The object as the plugin changes it, or the refusal."""
        spec = obj.get("spec") or EMPTY
        name = spec.get("runtimeClassName")
        if name is None:
            return obj
        found = view.get("runtimeclasses", "", name)
        if found is None:
            wrong = bad_name(name)
            if wrong:
                return failed(wrong)
            return self._no(attributes, obj, f"pod rejected: RuntimeClass {go_quote(name)} not found")
        made = spec
        overhead = (found.get("overhead") or EMPTY).get("podFixed")
        if overhead is not None:
            if spec.get("overhead") not in (None, overhead):
                return self._no(
                    attributes,
                    obj,
                    "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead",
                )
            made = {**made, "overhead": overhead}
        scheduling = found.get("scheduling") or EMPTY
        wanted, given = scheduling.get("nodeSelector") or EMPTY, spec.get("nodeSelector") or EMPTY
        for key, value in wanted.items():
            if given.get(key, value) != value:
                text = (
                    f"conflict: runtimeClass.scheduling.nodeSelector[{key}] = {value}; "
                    f"pod.spec.nodeSelector[{key}] = {given[key]}"
                )
                return self._no(attributes, obj, text)
        if wanted:
            made = {**made, "nodeSelector": {**given, **wanted}}
        tolerations = spec.get("tolerations") or []
        more = [each for each in scheduling.get("tolerations") or () if each not in tolerations]
        if more:
            made = {**made, "tolerations": [*tolerations, *more]}
        return obj if made is spec else {**obj, "spec": made}

    def validate(self, attributes: Attributes, obj: Obj, view: View) -> Denial | None:
        """The refusal of an object as it would be stored; None if it is allowed."""
        spec = obj.get("spec") or EMPTY
        name = spec.get("runtimeClassName")
        found = view.get("runtimeclasses", "", name) if name else None
        if spec.get("overhead") is None or (found or EMPTY).get("overhead"):
            return None
        text = "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead"
        return self._no(attributes, obj, text)

    @staticmethod
    def _no(attributes: Attributes, obj: Obj, text: str) -> Denial:
        return forbidden(attributes, text, name_of(attributes, obj))
