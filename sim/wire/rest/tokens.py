"""Tokens of service accounts, for controllers that use accounts of their own.

Holds: a token is requested once while it is valid, for all clients; it is renewed when a fifth of
its time is left.

Mirrors  kubernetes v1.25 controller clientbuilder client_builder_dynamic.go (3,600 s, leeway 20 %,
         a try each second for 30 s; an
         account that is not there is created).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import trio

from sim.api.types import UserInfo
from sim.ident import Names
from sim.wire.rest.access import AccessError

LIFETIME_S, LEEWAY = 3600, 0.2
TRY_S, TRIES = 1.0, 30
Account = tuple[str, str, str, str]  # namespace, name, and the name and uid of its pod, "" for none
Create = Callable[[Account, int], Awaitable[tuple[int, Mapping[str, Any]]]]


def account_of(names: Names, user: UserInfo) -> Account | None:
    """The service account that a user is; None for another user."""
    parts = user.name.split(":")
    if len(parts) != 4 or parts[:2] != ["system", "serviceaccount"]:
        return None
    (pod,), (uid,) = (user.extra.get(each, ("",)) for each in (names.extra_pod_name, names.extra_pod_uid))
    return parts[2], parts[3], pod, uid


class AccountTokens:
    """The tokens of one process.  create: sends a TokenRequest; now_s: the time in which they age"""

    def __init__(self, create: Create, now_s: Callable[[], float] = trio.current_time) -> None:
        self._create, self._now_s = create, now_s
        self._tokens: dict[Account, tuple[str, float]] = {}
        self._locks: dict[Account, trio.Lock] = {}

    async def token(self, account: Account) -> str:
        """A token that is valid for a while.  Raises AccessError."""
        async with self._locks.setdefault(account, trio.Lock()):
            token, renew_s = self._tokens.get(account, ("", 0.0))
            if not token or self._now_s() >= renew_s:
                token = await self._ask(account)
                self._tokens[account] = token, self._now_s() + LIFETIME_S * (1 - LEEWAY)
            return token

    async def _ask(self, account: Account) -> str:
        why = ""
        for _ in range(TRIES):
            code, body = await self._create(account, LIFETIME_S)
            if code == 201:
                return str(body["status"]["token"])
            why = str(body.get("message", code))
            await trio.sleep(TRY_S)
        raise AccessError(f"no token for the service account {account[0]}/{account[1]}: {why}")
