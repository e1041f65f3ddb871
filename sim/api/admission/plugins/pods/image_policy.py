"""ImagePolicyWebhook: a service outside judges the images of pods by ImageReviews.

Mirrors  kubernetes v1.25 plugin/pkg/admission/imagepolicy/{admission,config}.go.
Differs  A failed request is not repeated.  Upstream also writes the annotation of a failure that is
         ignored into the pod; a plugin that validates here changes no object.
"""

from __future__ import annotations

import msgspec

from sim.api.admission.base import Attributes, Denial, Operation, View, forbidden, name_of
from sim.api.store import Question
from sim.api.types import Json, Obj
from sim.api.webhooks.reviews import BadReview, decoded_status
from sim.api.webhooks.unanswered import Answers, Known, Unanswered
from sim.ident import Names
from sim.units import SECOND

REVIEW = "ImageReview"
NAME = "ImagePolicyWebhook"
RECEIVER = "imagePolicy.kubeConfigFile"
ANSWERS_MAX = 1024
TIMEOUT_US = 30 * SECOND
EPHEMERAL = "ephemeralcontainers"


class ImagePolicy(msgspec.Struct, frozen=True):
    """The configuration of the plugin.

    kubeconfig: the file that names the service; "" for none
    default_allow: True if pods are admitted while the service fails
    """

    kubeconfig: str = ""
    allow_ttl_us: int = 300 * SECOND
    deny_ttl_us: int = 30 * SECOND
    default_allow: bool = False


class ImagePolicyWebhook:
    """Judges the images of pods."""

    def __init__(self, names: Names, policy: ImagePolicy) -> None:
        self._names, self._policy = names, policy
        self._answers = Answers(ANSWERS_MAX)

    def judges(self, operation: Operation, plural: str, subresource: str) -> bool:
        """True for writes of pods and of their ephemeral containers."""
        return operation != "delete" and plural == "pods" and subresource in ("", EPHEMERAL)

    def validate(self, attributes: Attributes, obj: Obj, view: View) -> Denial | None:
        """The refusal of a pod; raises `Unanswered` if the service has to be asked."""
        view.mark_volatile()
        spec = self._spec(attributes, obj)
        key = msgspec.json.encode(spec).decode()
        known = self._answers.get(key, attributes.now_us)
        if known is None:
            raise self._unanswered(spec, key, attributes.now_us)
        domain = f"{NAME.lower()}.image-policy.{self._names.group_domain}"
        if known.failure:
            if self._policy.default_allow:
                _annotate(attributes, f"{domain}/failed-open", "true")
                return None
            return forbidden(attributes, known.failure, name_of(attributes, obj))
        status = known.status
        for name, value in sorted((status.get("auditAnnotations") or {}).items()):
            _annotate(attributes, f"{domain}/{name}", str(value))
        if status.get("allowed"):
            return None
        reason = status.get("reason") or ""
        if reason:
            text = f"image policy webhook backend denied one or more images: {reason}"
        else:
            text = "one or more images rejected by webhook backend"
        return forbidden(attributes, text, name_of(attributes, obj))

    def _spec(self, attributes: Attributes, pod: Obj) -> Obj:
        given = pod["spec"]
        fields = (
            (EPHEMERAL_FIELD,) if attributes.subresource == EPHEMERAL else ("containers", "initContainers")
        )
        containers = [each for field in fields for each in given.get(field) or ()]
        spec: Obj = {"containers": [{"image": each["image"]} for each in containers if each.get("image")]}
        wanted = f".image-policy.{self._names.group_domain}/"
        annotations = (pod["metadata"].get("annotations") or {}).items()
        kept = {name: value for name, value in annotations if wanted in name}
        if kept:
            spec["annotations"] = kept
        if attributes.namespace:
            spec["namespace"] = attributes.namespace
        return spec

    def _unanswered(self, spec: Obj, key: str, now_us: int) -> Unanswered:
        policy = self._policy
        body = {
            "kind": REVIEW,
            "apiVersion": self._names.api_version("imagepolicy", "v1alpha1"),
            "metadata": {"creationTimestamp": None},
            "spec": spec,
            "status": {"allowed": False},
        }

        def take(answer: Json, failure: str, at_us: int) -> None:
            status: Obj = {}
            try:
                status = {} if failure else decoded_status(answer, REVIEW)
            except BadReview as error:
                failure = str(error)
            ttl_us = 0
            if not failure:
                ttl_us = policy.allow_ttl_us if status.get("allowed") else policy.deny_ttl_us
            self._answers.keep(key, Known(status, failure, at_us + ttl_us))

        return Unanswered(Question(NAME, "", None, body, TIMEOUT_US, receiver=RECEIVER), take)


EPHEMERAL_FIELD = "ephemeralContainers"


def _annotate(attributes: Attributes, key: str, value: str) -> None:
    if attributes.annotations is not None:
        attributes.annotations.setdefault(key, value)
