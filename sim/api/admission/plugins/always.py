"""AlwaysAdmit, AlwaysDeny and AlwaysPullImages: the same decision for each request.

Mirrors  kubernetes v1.25 plugin/pkg/admission/{admit,deny,alwayspullimages}/admission.go.
"""

from __future__ import annotations

from collections.abc import Iterator

from sim.api.admission.base import Attributes, Denial, Operation, View, failed, forbidden, is_pod, name_of
from sim.api.types import Obj
from sim.api.validation.errors import unsupported

LISTS = ("initContainers", "containers", "ephemeralContainers")
PULL_ALWAYS = "Always"


class AlwaysAdmit:
    """Admits each request, as the chain does without it."""

    def judges(self, operation: Operation, plural: str, subresource: str) -> bool:
        """False: there is nothing to check."""
        return False

    def validate(self, attributes: Attributes, obj: Obj, view: View) -> Denial | None:
        """No refusal."""
        return None


class AlwaysDeny:
    """Refuses each write."""

    def concerns(self, operation: Operation, plural: str, subresource: str) -> bool:
        """True for all requests."""
        return True

    def mutate(self, attributes: Attributes, obj: Obj, view: View) -> Obj | Denial:
        """The refusal."""
        text = "admission control is denying all modifications"
        return forbidden(attributes, text, name_of(attributes, obj))


class AlwaysPullImages:
    """Sets the pull policy of all containers of a pod to Always."""

    def concerns(self, operation: Operation, plural: str, subresource: str) -> bool:
        """True for requests with objects that the plugin mutates."""
        return operation != "delete" and is_pod(plural, subresource)

    judges = concerns

    def mutate(self, attributes: Attributes, obj: Obj, view: View) -> Obj | Denial:
        """The object as the plugin changes it, or the refusal."""
        if _has_no_new_images(attributes.old, obj):
            return obj
        spec, made = obj["spec"], {}
        for name in LISTS:
            given = spec.get(name) or ()
            if any(each.get("imagePullPolicy") != PULL_ALWAYS for each in given):
                made[name] = [{**each, "imagePullPolicy": PULL_ALWAYS} for each in given]
        return {**obj, "spec": {**spec, **made}} if made else obj

    def validate(self, attributes: Attributes, obj: Obj, view: View) -> Denial | None:
        """The refusal of an object as it would be stored; None if it is allowed."""
        if _has_no_new_images(attributes.old, obj):
            return None
        texts = []
        for path, each in _containers(obj):
            policy = each.get("imagePullPolicy", "")
            if policy != PULL_ALWAYS:
                error = unsupported(f"{path}.imagePullPolicy", policy, (PULL_ALWAYS,))
                denial = forbidden(attributes, f"{error.field}: {error.message}", name_of(attributes, obj))
                texts.append(denial.message)
        if not texts:
            return None
        return failed(texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]")


def _containers(pod: Obj) -> Iterator[tuple[str, Obj]]:
    """All containers, each with its path."""
    for name in LISTS:
        for index, each in enumerate(pod["spec"].get(name) or ()):
            yield f"spec.{name}[{index}]", each


def _has_no_new_images(old: Obj | None, new: Obj) -> bool:
    """True for an update without an image that the stored pod does not use."""
    if old is None:
        return False
    known = [each.get("image") for _, each in _containers(old)]
    return all(each.get("image") in known for _, each in _containers(new))
