"""The stage that finds the user of a request, from its headers and its connection's certificate.

Holds: what an authenticator needs from outside is fetched before it judges, and a bounded number of
times; a request without a valid user has one event in the audit.

Mirrors  kubernetes v1.25 apiserver pkg/endpoints/filters/{authentication,authn_audit}.go.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import msgspec

from sim.api import status
from sim.api.auth.authenticator import (
    Accepted,
    Authenticator,
    Credentials,
    Judged,
    Pending,
    Rejected,
)
from sim.units import SECOND
from sim.wire.exchange import PEER
from sim.wire.http.certificates import CertificateReader
from sim.wire.http.chain.audited import HttpAudit
from sim.wire.http.chain.request import HttpRequest
from sim.wire.http.measures.counts import Counts
from sim.wire.http.refused import Refused

ROUNDS_MAX = 4  # of questions to services outside: more than there are services
_Answer = Callable[[Pending], Awaitable[None]]
LOG = logging.getLogger(__name__)


class Identification:
    """The authenticator of a front.  answer: gets what is pending from a service outside"""

    def __init__(
        self, authenticator: Authenticator, certificates: CertificateReader, answer: _Answer
    ) -> None:
        self._authenticator = authenticator
        self._certificates = certificates
        self._answer = answer

    def identify(self, headers: Sequence[tuple[str, str]], der: bytes | None) -> Judged:
        """The user of a request, or what is pending.  der: the certificate of its connection"""
        return self._authenticator.identify(Credentials(headers, self._certificates.certificate(der)))

    async def prepare_review(self, body: Any) -> None:
        """Fetch what the authenticator will need for a TokenReview.  body: JSON text"""
        try:
            asked = msgspec.json.decode(body, type=_Review)
        except (msgspec.DecodeError, RecursionError, TypeError):
            return  # it is refused later, with upstream's text
        token, audiences = asked.spec.token, tuple(asked.spec.audiences or ())
        found = self._authenticator.review(token, audiences)
        if isinstance(found, Pending):
            await self.answered(found, lambda: self._authenticator.review(token, audiences))

    async def answered(self, pending: Pending, judge: Callable[[], Judged]) -> Accepted | Rejected:
        """The judgement once what is pending has been answered."""
        for _ in range(ROUNDS_MAX):
            await self._answer(pending)
            found = judge()
            if not isinstance(found, Pending):
                return found
            pending = found
        return Rejected(("a service that authenticates users does not answer",))


class Authentication:
    """The stage.  now_us: reads the time of the cluster; audit: None without one"""

    def __init__(
        self,
        identification: Identification,
        counts: Counts,
        now_us: Callable[[], int],
        audit: HttpAudit | None,
    ) -> None:
        self._identification = identification
        self._counts = counts
        self._now_us = now_us
        # Users by the header of a static token, of which there are as many as users.
        self._lasting: dict[str, Accepted] = {}
        self._audit = audit

    def __call__(self, request: HttpRequest) -> Awaitable[None] | None:
        """Notes the user.  Raises Refused."""
        exchange = request.exchange
        peer, shown = exchange.extensions.get(PEER), request.header("authorization")
        if not peer and shown in self._lasting:
            self._note(request, self._lasting[shown])
            return None
        found = self._identification.identify(exchange.headers.pairs, peer)
        if isinstance(found, Pending):
            return self._wait(request, found)
        if not peer and isinstance(found, Accepted) and found.lasting:
            self._lasting[shown] = found
        self._note(request, found)
        return None

    async def _wait(self, request: HttpRequest, pending: Pending) -> None:
        exchange, identify = request.exchange, self._identification.identify
        peer = exchange.extensions.get(PEER)
        found = await self._identification.answered(pending, lambda: identify(exchange.headers.pairs, peer))
        self._note(request, found, (self._now_us() - request.begun_us) / SECOND)

    def _note(self, request: HttpRequest, found: Accepted | Rejected, took_s: float = 0.0) -> None:
        if isinstance(found, Accepted):
            request.user = found.user
            self._counts.authenticated("success", found.user.name, took_s)
            return
        self._counts.authenticated("error" if found.errors else "failure", "", took_s)
        LOG.debug("unable to authenticate the request: %s", found.text)
        if self._audit is not None:
            self._audit.open(request.exchange, request.attributes, None).refuse_credentials(
                request.exchange, request.options, request.exchange.extensions.get(PEER) is not None
            )
        raise Refused(status.unauthorized())


class _Spec(msgspec.Struct):
    token: str = ""
    audiences: list[str] | None = None


class _Review(msgspec.Struct):
    spec: _Spec = msgspec.field(default_factory=_Spec)
