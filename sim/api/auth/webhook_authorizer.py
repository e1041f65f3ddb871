"""The mode Webhook: a service outside judges requests by SubjectAccessReviews.

Turns a request into the review that is asked for, and the status of the answer into an opinion.

Holds: answers are remembered for their time, by the spec of the review.  A failed review is no
opinion with an error, so that later authorizers decide.

Mirrors  kubernetes v1.25 apiserver plugin/pkg/authorizer/webhook/webhook.go.
Differs  A failed request is not repeated: the next request for the same right does that.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import msgspec

from sim.api.auth.attributes import NO_OPINION, AccessAttributes, Decision, Opinion
from sim.api.auth.chain import UserRules
from sim.api.store import Question
from sim.api.types import Json, Obj, UserInfo
from sim.api.webhooks.reviews import BadReview, decoded_status
from sim.api.webhooks.unanswered import Answers, Known, Take, Unanswered
from sim.ident import Names
from sim.units import SECOND

REVIEW = "SubjectAccessReview"
RECEIVER = "authorization-webhook-config-file"
ANSWERS_MAX = 8192
CONTROLLED_MAX = 10_000  # maxControlledAttrCacheSize
TIMEOUT_US = 30 * SECOND  # pkg/util/webhook: defaultRequestTimeout


class WebhookSettings(NamedTuple):
    """The options of the mode.

    kubeconfig: the file that names the service
    version: of the reviews
    authorized_ttl_us, unauthorized_ttl_us: how long an answer is remembered
    """

    kubeconfig: str
    version: str
    authorized_ttl_us: int
    unauthorized_ttl_us: int


class Undecided(Unanswered):
    """The service has to judge a request."""

    def __init__(self, question: Question, take: Take, user: UserInfo, attributes: AccessAttributes) -> None:
        super().__init__(question, take)
        self.user = user
        self.attributes = attributes


class WebhookAuthorizer:
    """A member of the chain of authorizers.

    now_us: reads virtual time
    """

    def __init__(self, names: Names, settings: WebhookSettings, now_us: Callable[[], int]) -> None:
        self._names, self._settings, self._now_us = names, settings, now_us
        self._answers = Answers(ANSWERS_MAX)

    def authorize(self, user: UserInfo, attributes: AccessAttributes) -> Opinion:
        """Judge one request; raises `Undecided` if the service has to be asked."""
        spec = spec_of(user, attributes, self._settings.version)
        key = msgspec.json.encode(spec).decode()
        known = self._answers.get(key, self._now_us())
        if known is not None:
            return opinion_of(known)
        body = {
            "kind": REVIEW,
            "apiVersion": self._names.api_version("authorization", self._settings.version),
            "metadata": {"creationTimestamp": None},
            "spec": spec,
            "status": {"allowed": False},
        }
        question = Question(RECEIVER, "", None, body, TIMEOUT_US, receiver=RECEIVER)

        def take(answer: Json, failure: str, _: int) -> None:
            now_us, settings = self._now_us(), self._settings
            status: Obj = {}
            try:
                status = {} if failure else decoded_status(answer, REVIEW)
            except BadReview as error:
                failure = str(error)
            ttl_us = 0
            if not failure and is_remembered(attributes):
                ttl_us = settings.authorized_ttl_us if status.get("allowed") else settings.unauthorized_ttl_us
            self._answers.keep(key, Known(status, failure, now_us + ttl_us))

        raise Undecided(question, take, user, attributes)

    def user_rules(self, user: UserInfo, namespace: str) -> UserRules:
        """No rules: the service cannot list them."""
        text = "webhook authorizer does not support user rule resolution"
        return UserRules(incomplete=True, errors=(text,))

    def standing(self, user: UserInfo, namespace: str) -> object:
        """The user: the service may judge by all of it."""
        return user.name, user.groups


def spec_of(user: UserInfo, attributes: AccessAttributes, version: str) -> Obj:
    """The spec of the review of a request, without empty fields."""
    spec: dict[str, Any] = {}
    fields: Sequence[tuple[str, str]]
    if attributes.is_resource:
        fields = (
            ("namespace", attributes.namespace),
            ("verb", attributes.verb),
            ("group", attributes.group),
            ("version", attributes.version),
            ("resource", attributes.resource),
            ("subresource", attributes.subresource),
            ("name", attributes.name),
        )
        spec["resourceAttributes"] = {name: value for name, value in fields if value}
    else:
        fields = (("path", attributes.path), ("verb", attributes.verb))
        spec["nonResourceAttributes"] = {name: value for name, value in fields if value}
    of_user = (
        ("user", user.name),
        ("groups" if version == "v1" else "group", list(user.groups)),
        ("extra", {key: list(values) for key, values in user.extra.items()}),
        ("uid", user.uid),
    )
    return spec | {name: value for name, value in of_user if value}


def is_remembered(attributes: AccessAttributes) -> bool:
    """True if what the sender chose is small enough to be kept."""
    parts: Sequence[str]
    if attributes.is_resource:
        parts = (
            attributes.namespace,
            attributes.verb,
            attributes.group,
            attributes.version,
            attributes.resource,
            attributes.subresource,
            attributes.name,
        )
    else:
        parts = (attributes.path, attributes.verb)
    return sum(len(part.encode()) for part in parts) < CONTROLLED_MAX


def opinion_of(known: Known) -> Opinion:
    """The opinion that an answer means."""
    if known.failure:
        return Opinion(Decision.NO_OPINION, "", known.failure)
    status = known.status
    reason = str(status.get("reason") or "")
    allowed, denied = bool(status.get("allowed")), bool(status.get("denied"))
    if allowed and denied:
        text = "webhook subject access review returned both allow and deny response"
        return Opinion(Decision.DENY, reason, text)
    if denied:
        return Opinion(Decision.DENY, reason)
    if allowed:
        return Opinion(Decision.ALLOW, reason)
    return Opinion(Decision.NO_OPINION, reason) if reason else NO_OPINION
