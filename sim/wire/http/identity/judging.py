"""Authorization of outside clients, where a service may have to judge a request.

Turns a decision that asks an authorizer into its result.  An opinion that needs an answer of a
service is got through the gate of the kernel, and the decision is made again with it.

Mirrors  nothing upstream.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

from sim.api.auth.attributes import AccessAttributes, Opinion, OpinionGiver
from sim.api.auth.webhook_authorizer import Undecided
from sim.api.types import UserInfo

_Value = TypeVar("_Value")
Judge = Callable[[UserInfo, AccessAttributes], Awaitable[Opinion]]


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
