"""Services outside of the simulation that authenticators consult: the issuer of ID tokens, and the
token webhook.

Turns pending questions into HTTP requests, and the answers into what the authenticators remember.

Holds: each question ends with an answer or an error, which is remembered.  The keys of an issuer
are fetched by one request at a time.  An answer that is too large or too late is an error; the
deadline is one for all of a question, from its wait for a turn to the last byte of its answers.

Mirrors  coreos/go-oidc 2.2 oidc.go (NewProvider), jwks.go; kubernetes v1.25 apiserver
         plugin/pkg/authenticator/token/webhook/webhook.go.
Differs  A failed request is not repeated: the next question does that.  Proxy settings of the
         environment are ignored.
"""

from __future__ import annotations

import logging
import ssl
from collections.abc import Callable
from typing import Any

import msgspec
import trio

from sim.api.auth.authenticator import Pending
from sim.api.auth.authenticators import oidc, token_webhook
from sim.api.auth.authenticators.oidc import FETCH_AGAIN_US, IssuerKeys
from sim.api.auth.authenticators.token_webhook import WebhookTokens, review_of
from sim.api.auth.keys import VerifyingKey, read_key_set
from sim.dataclass import dataclass
from sim.kernel import OutsideRequest
from sim.wire.outside.calls import Exchanger
from sim.wire.outside.receiver import Receiver
from sim.wire.patience import within
from sim.wire.tls import client_context

TIMEOUT_S = 10.0  # real seconds for one question
ANSWER_MAX = 1 << 20  # bytes
QUESTIONS_MAX = 500  # at a time
OK, MULTIPLE_CHOICES = 200, 300
WELL_KNOWN = "/.well-known/openid-configuration"
WEBHOOK, ISSUER = "webhook", "issuer"  # receivers


LOG = logging.getLogger(__name__)


class RemoteError(Exception):
    """A service gave no answer that can be used."""


@dataclass(frozen=True, slots=True)
class Issuer:
    """The issuer of ID tokens.  context: None for the certificate authorities of this machine"""

    url: str
    keys: IssuerKeys
    context: ssl.SSLContext | None = None


@dataclass(frozen=True, slots=True)
class Webhook:
    """The service that judges tokens.  api_version: of the TokenReviews that it receives"""

    receiver: Receiver
    tokens: WebhookTokens
    api_version: str


class Remote:
    """The services of one cluster.

    outside_us: reads the real time, in microseconds
    timeout_s: real seconds for one question
    """

    def __init__(
        self,
        issuer: Issuer | None,
        webhook: Webhook | None,
        outside_us: Callable[[], int],
        timeout_s: float = TIMEOUT_S,
    ) -> None:
        self._issuer = issuer
        self._webhook = webhook
        self._outside_us = outside_us
        self._lock = trio.Lock()
        self._turns = trio.CapacityLimiter(QUESTIONS_MAX)
        self._timeout_s = timeout_s
        receivers = {} if webhook is None else {WEBHOOK: webhook.receiver}
        if issuer is not None:
            context = issuer.context or client_context()
            receivers[ISSUER] = Receiver(issuer.url, {}, context)
        self._exchanger = Exchanger(receivers, idle_max=0)

    async def answer(self, pending: Pending) -> None:
        """Get what an authenticator needs, or an error."""
        if pending.source == oidc.SOURCE and self._issuer is not None:
            async with self._lock:
                await self._fetch_keys(self._issuer)
        elif pending.source == token_webhook.SOURCE and self._webhook is not None:
            await self._ask(self._webhook, pending)

    async def _fetch_keys(self, issuer: Issuer) -> None:
        keys = issuer.keys
        if self._outside_us() < keys.fetched_us + FETCH_AGAIN_US:
            return  # another request has fetched them
        result: list[VerifyingKey] | None = None
        failure = f"no answer within {self._timeout_s:g} s"
        with within(self._timeout_s):
            try:
                result, failure = await self._key_set(issuer), ""
            except RemoteError as error:
                failure = str(error)
        if failure:
            LOG.warning("the keys of the issuer of ID tokens are not known: %s", failure)
        keys.take(result, self._outside_us())

    async def _key_set(self, issuer: Issuer) -> list[VerifyingKey]:
        """The keys that the discovery document of an issuer names.  Raises RemoteError."""
        place = issuer.url.removesuffix("/") + WELL_KNOWN
        configuration = _decoded(await self._read(OutsideRequest("GET", place, receiver=ISSUER)))
        if configuration.get("issuer") != issuer.url:
            raise RemoteError("oidc: issuer did not match the issuer returned by provider")
        of_keys = OutsideRequest("GET", str(configuration.get("jwks_uri")), receiver=ISSUER)
        try:
            return read_key_set(await self._read(of_keys))
        except ValueError as error:
            raise RemoteError(str(error)) from None

    async def _ask(self, webhook: Webhook, pending: Pending) -> None:
        tokens = webhook.tokens
        body = msgspec.json.encode(review_of(pending, webhook.api_version))
        headers = (("Content-Type", "application/json"), ("Accept", "application/json"))
        request = OutsideRequest("POST", webhook.receiver.url, headers, body, receiver=WEBHOOK)
        failure = f"POST {request.url}: no answer within {self._timeout_s:g} s"
        with within(self._timeout_s):
            try:
                async with self._turns:
                    review = _decoded(await self._read(request))
                tokens.answer(pending, review)
            except RemoteError as error:
                failure = str(error)
            else:
                return
        tokens.fail(pending, failure)

    async def _read(self, request: OutsideRequest) -> bytes:
        """The body of an answer.  Raises RemoteError."""
        answer = await self._exchanger.exchange(msgspec.structs.replace(request, answer_max=ANSWER_MAX))
        if answer.failure:
            raise RemoteError(f"{request.method} {request.url}: {answer.failure}")
        if not OK <= answer.code < MULTIPLE_CHOICES:
            raise RemoteError(f"{request.method} {request.url}: {answer.code}")
        return answer.body


def _decoded(data: bytes) -> dict[str, Any]:
    try:
        value = msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise RemoteError(f"the answer is no JSON: {error}") from None
    if not isinstance(value, dict):
        raise RemoteError("the answer is no JSON object")
    return value
