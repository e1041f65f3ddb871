"""Access to the server of an agent: authentication, and authorization by the API server's reviews.

Turns the credentials and the path of a request into leave to continue, or into the answer that
refuses it, after as many reviews as are not remembered.

Holds: a review counts for as long as its option says; no token is kept, only its hash; at most
`ANSWERS_MAX` reviews of each kind are remembered, and `WAITING_MAX` requests wait for one.

Mirrors  kubernetes v1.25 cmd/kubelet/app/auth.go; pkg/kubelet/server/{auth,server}.go
         (InstallAuthFilter); apiserver pkg/authentication/authenticatorfactory/delegating.go,
         pkg/authentication/token/cache, plugin/pkg/{authenticator/token,authorizer}/webhook,
         pkg/util/webhook (WithExponentialBackoff).
Differs  without a client CA the agent asks for no certificate, as upstream; a review that fails is
         repeated without jitter; upstream does not bound the waiting requests.
"""

from __future__ import annotations

from collections.abc import Callable
from hashlib import sha256
from typing import Any, NamedTuple

import msgspec

from actors.node.agent import NodeAgent
from actors.node.server.exchange import AgentRequest, AgentResponse, text
from sim.api.auth.attributes import AccessAttributes
from sim.api.auth.webhook_authorizer import is_remembered, spec_of
from sim.api.types import Obj, Reply, UserInfo
from sim.options.node.servers import WEBHOOK
from sim.units import MS

ANSWERS_MAX = 8192  # authorizer/webhook: the size of the cache of answers
WAITING_MAX = 500
TRIES, FIRST_WAIT_US, FACTOR_TENTHS = 5, 500 * MS, 15  # DefaultAuthWebhookRetryBackoff
RETRIED = (0, 429, 500, 504)  # no answer, and what DefaultShouldRetry names
VERBS = {"POST": "create", "GET": "get", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
UNAUTHORIZED = text(401, "Unauthorized")
BUSY = text(429, "Too many requests wait for a review")
Then = Callable[[AgentResponse | None], None]


class _Kept(NamedTuple):
    """A remembered answer."""

    value: Any
    until_us: int


class _Answers:
    """Answers of reviews by what was asked; the oldest is forgotten first."""

    def __init__(self, now_us: Callable[[], int]) -> None:
        self._now_us = now_us
        self._kept: dict[bytes, _Kept] = {}

    def get(self, key: bytes) -> _Kept | None:
        """An answer that still counts."""
        kept = self._kept.get(key)
        return kept if kept is not None and self._now_us() < kept.until_us else None

    def keep(self, key: bytes, value: Any, for_us: int) -> None:
        """Remember an answer."""
        self._kept.pop(key, None)
        if len(self._kept) >= ANSWERS_MAX:
            del self._kept[next(iter(self._kept))]
        self._kept[key] = _Kept(value, self._now_us() + for_us)


class Access:
    """The access to one incarnation of an agent.

    _waiting: how many requests wait for a review
    """

    def __init__(self, agent: NodeAgent) -> None:
        self._agent, self._options = agent, agent.options
        self._tokens, self._rights = (_Answers(lambda: agent.now_us) for _ in range(2))
        self._waiting = 0

    def check(self, request: AgentRequest, then: Then) -> None:
        """Call `then` with None if a request may continue, or with the answer that refuses it."""
        if self._waiting >= WAITING_MAX:
            then(BUSY)
            return
        self._waiting += 1

        def done(answer: AgentResponse | None) -> None:
            self._waiting -= 1
            then(answer)

        self._authenticate(request, lambda user: self._authorize(request, user, done))

    # --- authentication ---------------------------------------------------------------------------

    def _authenticate(self, request: AgentRequest, then: Callable[[UserInfo | None], None]) -> None:
        names = self._agent.names
        if request.certificate is not None and self._options.client_ca_file:
            then(self._known(request.certificate))
        elif request.token and self._options.token_webhook:
            self._review_token(request.token, then)
        elif self._options.anonymous_auth:
            then(UserInfo(names.user_anonymous, (names.group_unauthenticated,)))
        else:
            then(None)

    def _known(self, user: UserInfo) -> UserInfo:
        """A user with the group of all that are authenticated."""
        group = self._agent.names.group_authenticated
        return (
            user if group in user.groups else UserInfo(user.name, (*user.groups, group), user.uid, user.extra)
        )

    def _review_token(self, token: str, then: Callable[[UserInfo | None], None]) -> None:
        key = sha256(token.encode()).digest()
        if (kept := self._tokens.get(key)) is not None:
            then(kept.value)
            return

        def take(reply: Reply) -> None:
            if not reply.ok:
                then(None)
                return
            status = _status_of(reply)
            user = None
            if status.get("authenticated"):
                user = self._known(_user_of(status.get("user") or {}))
            self._tokens.keep(key, user, self._options.token_webhook_cache_ttl_us)
            then(user)

        self._review("tokenreviews", "authentication", "TokenReview", {"token": token}, take)

    # --- authorization ----------------------------------------------------------------------------

    def _authorize(self, request: AgentRequest, user: UserInfo | None, then: Then) -> None:
        if user is None:
            then(UNAUTHORIZED)
            return
        if self._options.authorization_mode != WEBHOOK:
            then(None)
            return
        attributes = attributes_of(request, self._agent.spec.name)
        about = f"(user={user.name}, verb={attributes.verb}, resource=nodes, subresource={attributes.subresource})"
        forbidden = text(403, f"Forbidden {about}")
        spec = spec_of(user, attributes, "v1")
        key = sha256(msgspec.json.encode(spec)).digest()
        if (kept := self._rights.get(key)) is not None:
            then(None if kept.value else forbidden)
            return

        def take(reply: Reply) -> None:
            if not reply.ok:
                then(text(500, f"Authorization error {about}"))
                return
            allowed = bool(_status_of(reply).get("allowed"))
            options = self._options
            if is_remembered(attributes):
                for_us = options.authorized_ttl_us if allowed else options.unauthorized_ttl_us
                self._rights.keep(key, allowed, for_us)
            then(None if allowed else forbidden)

        self._review("subjectaccessreviews", "authorization", "SubjectAccessReview", spec, take)

    # --- reviews ----------------------------------------------------------------------------------

    def _review(
        self, plural: str, short: str, kind: str, spec: Obj, take: Callable[[Reply], None], tries: int = TRIES
    ) -> None:
        """Ask the API server, again after a failure that may pass."""
        agent = self._agent
        body = {
            "kind": kind,
            "apiVersion": agent.names.api_version(short, "v1"),
            "metadata": {},
            "spec": spec,
        }

        def replied(reply: Reply) -> None:
            if reply.code not in RETRIED or tries <= 1:
                take(reply)
                return
            wait_us = FIRST_WAIT_US * FACTOR_TENTHS ** (TRIES - tries) // 10 ** (TRIES - tries)
            agent.ctx.call_later_us(
                wait_us, lambda _: self._review(plural, short, kind, spec, take, tries - 1)
            )

        agent.api.review(plural, agent.names.group(short), body, replied)


def attributes_of(request: AgentRequest, node: str) -> AccessAttributes:
    """What a request does, as the API's rules for nodes see it."""
    subresource = "proxy"
    for path, name in (("/stats", "stats"), ("/metrics", "metrics"), ("/logs", "log")):
        if request.path == path or request.path.startswith(f"{path}/"):
            subresource = name
    return AccessAttributes(
        VERBS.get(request.method, ""), version="v1", resource="nodes", subresource=subresource, name=node
    )


def _status_of(reply: Reply) -> Obj:
    body: Any = reply.item.obj if reply.item is not None else reply.body
    return (body or {}).get("status") or {}


def _user_of(given: Obj) -> UserInfo:
    extra = {key: tuple(values or ()) for key, values in (given.get("extra") or {}).items()}
    return UserInfo(given.get("username", ""), tuple(given.get("groups") or ()), given.get("uid", ""), extra)
