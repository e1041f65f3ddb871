"""Access to a secure port: the user of each request, and whether that user may send it.

Turns the headers and the certificate of a request into leave to continue, or into the Status that
refuses it, by the authenticators and authorizers of an API server with its reviews as their source.

Holds: a path that needs no rights still needs valid credentials, or none; of a token only its hash
is kept; an answer of a review counts for as long as its option says.

Mirrors  kubernetes v1.25 apiserver pkg/authentication/authenticatorfactory/delegating.go,
         pkg/server/options/authorization.go (toAuthorizer: system:masters, paths, reviews).
"""

from __future__ import annotations

from collections.abc import Callable
from urllib.parse import unquote

from sim.api import status
from sim.api.auth.attributes import NO_OPINION, AccessAttributes, Opinion
from sim.api.auth.authenticator import Accepted, Authenticator, Judged, Pending, Rejected
from sim.api.auth.authenticators.client_certificates import ClientCertificates
from sim.api.auth.authenticators.front_proxy import FrontProxy
from sim.api.auth.authenticators.token_webhook import WebhookTokens, review_of
from sim.api.auth.chain import refusal
from sim.api.auth.webhook_authorizer import Undecided, WebhookAuthorizer, WebhookSettings
from sim.api.types import Obj, UserInfo
from sim.app.daemons.secure.reviews import Reviewer, Unreviewed
from sim.app.daemons.secure.trust import Trust, Trusted
from sim.ident import Names
from sim.options.groups.secure import SecureFlags
from sim.options.groups.serving import ServerFlags
from sim.wire.exchange import PEER, Exchange
from sim.wire.http.certificates import CertificateReader
from sim.wire.http.chain.authentication import Identification


class PortAccess:
    """The access to one port.

    tokens, rights: review credentials and rights; None if an option names no API server for it
    now_us: reads the wall clock
    """

    def __init__(
        self,
        names: Names,
        flags: SecureFlags,
        server: ServerFlags,
        trust: Trust,
        tokens: Reviewer | None,
        rights: Reviewer | None,
        now_us: Callable[[], int],
    ) -> None:
        self._names, self._server, self._trust = names, server, trust
        self._tokens, self._rights, self._now_us = tokens, rights, now_us
        self._judging_us = 0  # the same time for all of one opinion
        self._known_tokens = WebhookTokens((), flags.token_webhook_cache_ttl_us, now_us)
        self._authorizer = WebhookAuthorizer(
            names,
            WebhookSettings("", "v1", flags.authorized_ttl_us, flags.unauthorized_ttl_us),
            lambda: self._judging_us,
        )
        self._made_of = Trusted()
        self._identification = self._made()

    async def refused(self, exchange: Exchange) -> Obj | None:
        """The Status that refuses a request; None if it may continue."""
        if self._trust.follow() != self._made_of:
            self._made_of = self._trust.present
            self._identification = self._made()
        user = await self._user(exchange)
        if user is None:
            return status.unauthorized()
        request = AccessAttributes(exchange.method.lower(), path=unquote(exchange.path))
        if self._names.group_masters in user.groups or self._server.allows(request.path):
            return None
        opinion = NO_OPINION if self._rights is None else await self._opinion(self._rights, user, request)
        return refusal(user, request, opinion)

    # --- authentication ---------------------------------------------------------------------------

    def _made(self) -> Identification:
        result = self._made_of
        authenticator = Authenticator(
            self._names,
            [
                *([FrontProxy(result.headers, self._now_us).authenticate] if result.proxies else []),
                *([ClientCertificates(self._now_us).authenticate] if result.clients else []),
            ],
            [self._known_tokens.authenticate] if self._tokens is not None else [],
        )
        reader = CertificateReader([result.clients] if result.clients else [], result.proxies)
        return Identification(authenticator, reader, self._review_token)

    async def _user(self, exchange: Exchange) -> UserInfo | None:
        """The user of a request; None for credentials that are not valid."""
        identification = self._identification
        peer, headers = exchange.extensions.get(PEER), exchange.headers.pairs

        def identify() -> Judged:
            return identification.identify(headers, peer)

        result = identify()
        judged: Accepted | Rejected
        judged = await identification.answered(result, identify) if isinstance(result, Pending) else result
        return judged.user if isinstance(judged, Accepted) else None

    async def _review_token(self, pending: Pending) -> None:
        assert self._tokens is not None
        body = review_of(pending, self._names.api_version("authentication", "v1"))
        try:
            answer = await self._tokens.review("tokenreviews", "authentication", body)
        except Unreviewed as error:
            self._known_tokens.fail(pending, str(error))
        else:
            self._known_tokens.answer(pending, answer)

    # --- authorization ----------------------------------------------------------------------------

    async def _opinion(self, rights: Reviewer, user: UserInfo, asked: AccessAttributes) -> Opinion:
        self._judging_us = self._now_us()
        try:
            return self._authorizer.authorize(user, asked)
        except Undecided as undecided:
            body, take = undecided.question.body, undecided.take
        answer, failure = None, ""
        try:
            answer = await rights.review("subjectaccessreviews", "authorization", body)
        except Unreviewed as error:
            failure = str(error)
        self._judging_us = self._now_us()
        take(answer, failure, 0)
        return self._authorizer.authorize(user, asked)
