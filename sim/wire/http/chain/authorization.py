"""The stage of authorization: a request that its user may not send is refused.

An opinion that needs an answer of a service is got through the gate of the kernel, and the decision
is made again with it.

Holds: a request from outside is authorized here, and not again by the replica that serves it.

Mirrors  kubernetes v1.25 apiserver pkg/endpoints/filters/authorization.go.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

from sim.api.auth.attributes import AccessAttributes, Opinion, OpinionGiver
from sim.api.auth.chain import refusal
from sim.api.auth.webhook_authorizer import Undecided
from sim.api.types import UserInfo
from sim.wire.http.chain.request import HttpRequest
from sim.wire.http.refused import Refused

_Value = TypeVar("_Value")
Judge = Callable[[UserInfo, AccessAttributes], Awaitable[Opinion]]
Covers = Callable[[UserInfo, str, str, str, str], bool]


class _Opinions:
    """An authorizer for one request of one user, with the opinions that were got for it."""

    def __init__(self, authorizer: OpinionGiver) -> None:
        self._authorizer = authorizer
        self.known: dict[AccessAttributes, Opinion] = {}

    def authorize(self, user: UserInfo, attributes: AccessAttributes) -> Opinion:
        """Judge one request; raises `Undecided`."""
        if attributes in self.known:
            return self.known[attributes]
        return self._authorizer.authorize(user, attributes)


async def judged(authorizer: OpinionGiver, judge: Judge, decide: Callable[[OpinionGiver], _Value]) -> _Value:
    """The result of `decide`, which asks an authorizer about one user.

    judge: gets the opinion about a request that a service has to judge
    """
    opinions = _Opinions(authorizer)
    while True:
        try:
            return decide(opinions)
        except Undecided as missing:
            found = await judge(missing.user, missing.attributes)
            opinions.known[missing.attributes] = found


class Authorization:
    """The stage.

    covers: True if a user may use a verb on a resource in all namespaces and for all names
    judge: gets the opinion about a request that a service has to judge
    """

    def __init__(self, authorizer: OpinionGiver, covers: Covers, judge: Judge) -> None:
        self._authorizer = authorizer
        self._covers = covers
        self._judge = judge

    def __call__(self, request: HttpRequest) -> Awaitable[None] | None:
        """Raises Refused.  An audited request is judged in full, since its record has the reason."""
        asked, user = request.attributes, request.user
        if (
            asked.resource
            and request.audited.record is None
            and self._covers(user, asked.verb, asked.group, asked.resource, asked.subresource)
        ):
            return None
        try:
            opinion = self._authorizer.authorize(user, asked)
        except Undecided:
            return self._wait(request)
        self._decide(request, opinion)
        return None

    async def _wait(self, request: HttpRequest) -> None:
        asked, user = request.attributes, request.user
        opinion = await judged(self._authorizer, self._judge, lambda giver: giver.authorize(user, asked))
        self._decide(request, opinion)

    def _decide(self, request: HttpRequest, opinion: Opinion) -> None:
        request.audited.decide(opinion)
        refused = refusal(request.user, request.attributes, opinion)
        if refused is not None:
            raise Refused(refused)
