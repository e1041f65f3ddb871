"""A disruption budget that a stale cache breaks.

The controller repeated a refused write of the status on the newest revision with the numbers that
it had computed before, and so took back an eviction that had been granted in between.

Thread   https://github.com/kubernetes/kubernetes/issues/82149
Mended   v1.17 (https://github.com/kubernetes/kubernetes/pull/82152), and in v1.16 and
         v1.15: after a conflict the budget is computed again.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any

from actors.controllers.disruption import RESOURCE, DisruptionLoop
from actors.controllers.shared.shell import Env
from sim.api.types import Obj, Reply
from tests.planted.planting import Planted, replaced

RETRIES = 3
_init = DisruptionLoop.__init__


class _Persistent:
    """A client that repeats a refused update of a budget on its newest revision."""

    def __init__(self, client: Any) -> None:
        self._client = client

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)

    async def update(self, resource: str, obj: Obj, subresource: str = "") -> Reply:
        """Update an object; a conflict is answered by another write."""
        reply: Reply = await self._client.update(resource, obj, subresource=subresource)
        for _ in range(RETRIES):
            if reply.reason != "Conflict":
                break
            meta = obj["metadata"]
            live = await self._client.get(RESOURCE, meta["namespace"], meta["name"])
            if live.ok:
                newest = {**live.obj, "status": obj["status"]}
                reply = await self._client.update(resource, newest, subresource=subresource)
        return reply


def _with_retries(loop: DisruptionLoop, env: Env) -> None:
    _init(loop, env)
    loop.client = _Persistent(loop.client)  # type: ignore[assignment]


def _plant() -> AbstractContextManager[None]:
    return replaced(DisruptionLoop, "__init__", _with_retries)


BUG = Planted(
    name="overdrawn_budget",
    thread="https://github.com/kubernetes/kubernetes/issues/82149",
    mended="v1.17",
    plant=_plant,
    story="""
- {at: 55s, name: far, network: {between: [controller-manager, apiserver], latency: 200ms..600ms}, for: 60s}
""",
)
