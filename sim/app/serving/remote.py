"""Services outside of the simulation that authenticators consult: the issuer of ID tokens, and the
token webhook.

Turns pending questions into HTTP requests, and the answers into what the authenticators remember.

Holds: each question ends with an answer or an error, which is remembered.  The keys of an issuer
are fetched by one request at a time.  An answer that is too large or too late is an error.

Mirrors  coreos/go-oidc 2.2 oidc.go (NewProvider), jwks.go; kubernetes v1.25 apiserver
         plugin/pkg/authenticator/token/webhook/webhook.go.
Differs  A failed request is not repeated: the next question does that.  Proxy settings of the
         environment are ignored.
"""

from __future__ import annotations

import logging
import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from time import monotonic
from types import MappingProxyType
from typing import Any, TypeVar

import httpx
import msgspec
import trio

from sim.api.auth.authenticator import Pending
from sim.api.auth.authenticators import oidc, token_webhook
from sim.api.auth.authenticators.oidc import FETCH_AGAIN_US, IssuerKeys
from sim.api.auth.authenticators.token_webhook import WebhookTokens, review_of
from sim.api.auth.keys import VerifyingKey, read_key_set
from sim.app.receivers import Receiver

TIMEOUT_S = 10.0  # real seconds for one answer
ANSWER_MAX = 1 << 20  # bytes
THREADS_MAX = 8  # questions at a time
WELL_KNOWN = "/.well-known/openid-configuration"


LOG = logging.getLogger(__name__)
_Value = TypeVar("_Value")


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
    """The services of one cluster.  outside_us: reads the real time, in microseconds"""

    def __init__(self, issuer: Issuer | None, webhook: Webhook | None, outside_us: Callable[[], int]) -> None:
        self._issuer = issuer
        self._webhook = webhook
        self._outside_us = outside_us
        self._lock = trio.Lock()
        self._threads = trio.CapacityLimiter(THREADS_MAX)

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
        try:
            found = await self._on_thread(partial(_fetch_key_set, issuer))
        except RemoteError as failure:
            LOG.warning("the keys of the issuer of ID tokens are not known: %s", failure)
            keys.take(None, self._outside_us())
        else:
            keys.take(found, self._outside_us())

    async def _ask(self, webhook: Webhook, pending: Pending) -> None:
        receiver, tokens = webhook.receiver, webhook.tokens
        body = msgspec.json.encode(review_of(pending, webhook.api_version))
        headers = {**receiver.headers, "Content-Type": "application/json", "Accept": "application/json"}
        try:
            read = partial(_read, receiver.context, "POST", receiver.url, body, headers)
            review = _decoded(await self._on_thread(read))
        except RemoteError as error:
            tokens.fail(pending, str(error))
        else:
            tokens.answer(pending, review)

    async def _on_thread(self, work: Callable[[], _Value]) -> _Value:
        """Run work that waits for a service on a thread, which is abandoned if the request ends."""
        return await trio.to_thread.run_sync(work, limiter=self._threads, abandon_on_cancel=True)


def _fetch_key_set(issuer: Issuer) -> list[VerifyingKey]:
    """The keys that the discovery document of an issuer names; on a thread.  Raises RemoteError."""
    configuration = _decoded(_read(issuer.context, "GET", issuer.url.removesuffix("/") + WELL_KNOWN))
    if configuration.get("issuer") != issuer.url:
        raise RemoteError("oidc: issuer did not match the issuer returned by provider")
    try:
        return read_key_set(_read(issuer.context, "GET", str(configuration.get("jwks_uri"))))
    except ValueError as error:
        raise RemoteError(str(error)) from None


def _read(
    context: ssl.SSLContext | None,
    method: str,
    url: str,
    body: bytes = b"",
    headers: Mapping[str, str] = MappingProxyType({}),
) -> bytes:
    """The body of an answer; on a thread.  Raises RemoteError."""
    data = b""
    until_s = monotonic() + TIMEOUT_S
    try:
        with (
            httpx.Client(verify=context or True, timeout=TIMEOUT_S, trust_env=False) as client,
            client.stream(method, url, content=body, headers=dict(headers)) as answer,
        ):
            if not answer.is_success:
                raise RemoteError(f"{method} {url}: {answer.status_code}")
            for part in answer.iter_bytes():
                data += part
                if len(data) > ANSWER_MAX:
                    raise RemoteError(f"{method} {url}: the answer is too large")
                if monotonic() > until_s:
                    raise RemoteError(f"{method} {url}: no answer within {TIMEOUT_S:g} s")
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        raise RemoteError(f"{method} {url}: {error}") from None
    return data


def _decoded(data: bytes) -> dict[str, Any]:
    try:
        value = msgspec.json.decode(data)
    except (msgspec.DecodeError, RecursionError) as error:
        raise RemoteError(f"the answer is no JSON: {error}") from None
    if not isinstance(value, dict):
        raise RemoteError("the answer is no JSON object")
    return value
