"""The user of a request, from its headers and its connection's certificate.

Holds: what an authenticator needs from outside is fetched before it judges, and a bounded number of
times.

Mirrors  kubernetes v1.25 apiserver pkg/endpoints/filters/authentication.go.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import msgspec

from sim.api.auth.authenticator import (
    Accepted,
    Authenticator,
    Credentials,
    Judged,
    Pending,
    Rejected,
)
from sim.wire.http.identity.certificates import CertificateReader

ROUNDS_MAX = 4  # of questions to services outside: more than there are services
_Answer = Callable[[Pending], Awaitable[None]]


class Identification:
    """The authenticator of a front.  answer: gets what is pending from a service outside"""

    def __init__(
        self, authenticator: Authenticator, certificates: CertificateReader, answer: _Answer
    ) -> None:
        self._authenticator = authenticator
        self._certificates = certificates
        self._answer = answer

    async def identify(self, headers: Sequence[tuple[str, str]], der: bytes | None) -> Accepted | Rejected:
        """The user of a request.  der: the certificate of its connection, None for none"""
        credentials = Credentials(headers, self._certificates.certificate(der))
        return await self._judged(lambda: self._authenticator.identify(credentials))

    async def prepare_review(self, body: Any) -> None:
        """Fetch what the authenticator will need for a TokenReview.  body: JSON text"""
        try:
            asked = msgspec.json.decode(body, type=_Review)
        except (msgspec.DecodeError, RecursionError, TypeError):
            return  # it is refused later, with upstream's text
        token, audiences = asked.spec.token, tuple(asked.spec.audiences or ())
        await self._judged(lambda: self._authenticator.review(token, audiences))

    async def _judged(self, judge: Callable[[], Judged]) -> Accepted | Rejected:
        for _ in range(ROUNDS_MAX):
            found = judge()
            if not isinstance(found, Pending):
                return found
            await self._answer(found)
        return Rejected(("a service that authenticates users does not answer",))


class _Spec(msgspec.Struct):
    token: str = ""
    audiences: list[str] | None = None


class _Review(msgspec.Struct):
    spec: _Spec = msgspec.field(default_factory=_Spec)
