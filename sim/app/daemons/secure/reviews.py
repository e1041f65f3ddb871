"""Questions of a secure port to the API server, in real time.

Turns the body of a review into its answer, after as many tries as upstream makes.

Mirrors  kubernetes v1.25 apiserver pkg/server/options/authentication.go
         (DefaultAuthWebhookRetryBackoff, TokenRequestTimeout), pkg/util/webhook
         (DefaultShouldRetry).
"""

from __future__ import annotations

from random import Random
from typing import Any

import trio

from sim.api.types import Obj
from sim.ident import Names
from sim.wire.rest.access import AccessError
from sim.wire.rest.transport import Sender

TRIES, FIRST_S, FACTOR, JITTER = 5, 0.5, 1.5, 0.2
LIMIT_S = 10.0  # of one try
RETRIED = (0, 429, 500, 504)  # no answer, and what DefaultShouldRetry names
OK = (200, 201)


class Unreviewed(Exception):
    """The API server has not answered: why."""


class Reviewer:
    """The reviews of one process.  sender: sends with the credentials that an option names"""

    def __init__(self, names: Names, sender: Sender, manager: str, draw: Random) -> None:
        self._names, self._sender, self._manager, self._draw = names, sender, manager, draw

    async def review(self, plural: str, group: str, body: Obj) -> Any:
        """The answer to a review.  Raises Unreviewed."""
        path, wait_s = f"/apis/{self._names.group(group)}/v1/{plural}", FIRST_S
        code, answer = await self._sent("POST", path, body)
        for _ in range(TRIES - 1):
            if code not in RETRIED:
                break
            await trio.sleep(wait_s * (1 + JITTER * self._draw.random()))
            wait_s *= FACTOR
            code, answer = await self._sent("POST", path, body)
        if code not in OK:
            raise Unreviewed(str(answer.get("message", code)))
        return answer

    async def config_map(self, name: str) -> Obj:
        """The data of a ConfigMap of the system.  Raises Unreviewed."""
        path = f"/api/v1/namespaces/{self._names.system_namespace}/configmaps/{name}"
        code, answer = await self._sent("GET", path, None)
        if code not in OK:
            raise Unreviewed(str(answer.get("message", code)))
        return answer.get("data") or {}

    async def _sent(self, method: str, path: str, body: Obj | None) -> tuple[int, Any]:
        try:
            code, answer = await self._sender.ask(method, path, body, self._manager, LIMIT_S)
        except AccessError as error:
            raise Unreviewed(str(error)) from None
        return (code, answer) if isinstance(answer, dict) else (0, {"message": "no object was sent"})
