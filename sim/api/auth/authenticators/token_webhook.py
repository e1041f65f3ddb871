"""Token webhooks: a service outside judges bearer tokens by TokenReviews.

A token and the remembered answers of the service become a user, an error, or a question.

Holds: an answer counts for as long as the option says and for the same audiences only; an answer
that names none of the wanted audiences is none, and one with a value of a wrong type is an error.

Mirrors  kubernetes v1.25 apiserver plugin/pkg/authenticator/token/webhook/webhook.go,
         pkg/authentication/token/cache/cached_token_authenticator.go.
Differs  an error of the service is remembered for a moment, in which the request that asked reads
         it; the service is asked once, and not again after a failure. The transport calls the
         service, outside of virtual time.
"""

from __future__ import annotations

from collections.abc import Callable
from hashlib import sha256
from typing import Any

from sim.api.auth.authenticator import Accepted, Outcome, Pending, Rejected, intersection
from sim.api.types import Obj, UserInfo
from sim.api.webhooks.reviews import BadReview, decoded_status
from sim.units import SECOND

SOURCE = "token-webhook"
ANSWERS_MAX = 4096  # the oldest is forgotten
ERROR_US = SECOND
REVIEW = "TokenReview"


class WebhookTokens:
    """The answers of a service.

    audiences: of the API; answered_us: how long an answer counts
    outside_us: as of `ClientCertificates`
    """

    def __init__(self, audiences: tuple[str, ...], answered_us: int, outside_us: Callable[[], int]) -> None:
        self._audiences = audiences
        self._answered_us = answered_us
        self._outside_us = outside_us
        self._answers: dict[tuple[bytes, tuple[str, ...]], tuple[Outcome, int]] = {}

    def authenticate(self, token: str, audiences: tuple[str, ...]) -> Outcome:
        """The user of a token; pending until the service has answered."""
        outcome, until_us = self._answers.get(_key(token, audiences), (None, 0))
        if self._outside_us() >= until_us:
            return Pending(SOURCE, token, audiences)
        return outcome

    def answer(self, asked: Pending, review: Any) -> None:
        """Take the TokenReview that the service answered with."""
        try:
            outcome = self._outcome(asked.audiences, decoded_status(review, REVIEW))
        except BadReview as error:
            self.fail(asked, str(error))
        else:
            self._remember(asked, outcome, max(self._answered_us, ERROR_US))

    def fail(self, asked: Pending, error: str) -> None:
        """The service gave no answer."""
        self._remember(asked, Rejected((error,)), ERROR_US)

    def _remember(self, asked: Pending, outcome: Outcome, for_us: int) -> None:
        key = _key(asked.token, asked.audiences)
        self._answers.pop(key, None)
        if len(self._answers) >= ANSWERS_MAX:
            del self._answers[next(iter(self._answers))]
        self._answers[key] = outcome, self._outside_us() + for_us

    def _outcome(self, wanted: tuple[str, ...], status: Obj) -> Outcome:
        audiences = intersection(wanted, status.get("audiences") or self._audiences)
        if wanted and not audiences:
            return None
        if not status.get("authenticated"):
            error = status.get("error")
            return Rejected((error,)) if error else None
        user = status.get("user") or {}
        extra = {key: tuple(values or ()) for key, values in (user.get("extra") or {}).items()}
        groups = tuple(user.get("groups") or ())
        return Accepted(UserInfo(user.get("username", ""), groups, user.get("uid", ""), extra), audiences)


def review_of(asked: Pending, api_version: str) -> Obj:
    """The TokenReview that is sent."""
    spec: Obj = {"token": asked.token}
    if asked.audiences:
        spec["audiences"] = list(asked.audiences)
    return {"apiVersion": api_version, "kind": REVIEW, "spec": spec}


def _key(token: str, audiences: tuple[str, ...]) -> tuple[bytes, tuple[str, ...]]:
    """What an answer is remembered under: no token is kept."""
    return sha256(token.encode()).digest(), audiences
