"""Writes taints of nodes: read the node, patch the whole list of that revision, retry on conflict.

Turns taints to add and to remove into GET and PATCH requests of one client.

Holds: no request is sent if the cached node shows that there is nothing to remove; each attempt
       takes two tokens of the client's bucket.

Mirrors  kubernetes v1.25 pkg/controller/controller_utils.go (SwapNodeControllerTaint,
         AddOrUpdateTaintOnNode, RemoveTaintOffNode, PatchNodeTaints, UpdateTaintBackoff).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import TYPE_CHECKING

from actors.controllers.nodelifecycle.decide import Taint, taints_patch, with_taints, without_taints
from sim.api.types import Obj
from sim.units import MS, format_time

if TYPE_CHECKING:
    from sim.client import Client
    from sim.kernel import Context

TRIES = 5  # UpdateTaintBackoff: 5 steps of 100 ms, jitter 1.0
BACKOFF_US = 100 * MS


class TaintWriter:
    """Writes taints of nodes through one client."""

    def __init__(self, ctx: Context, client: Client, jitter: Random) -> None:
        self._ctx = ctx
        self._client = client
        self._jitter = jitter

    async def swap(
        self, node: Obj, add: Sequence[tuple[str, str]], remove: Sequence[tuple[str, str]]
    ) -> bool:
        """Add taints (key, effect) with the present time, then remove others; False on a failure."""
        if add:
            stamp = format_time(self._ctx.wall_us())
            taints = [{"key": key, "effect": effect, "timeAdded": stamp} for key, effect in add]
            if not await self._change(node["metadata"]["name"], lambda old: with_taints(old, taints)):
                return False
        return await self.remove(node, remove)

    async def mark(self, name: str, key: str, effect: str) -> bool:
        """Add a taint without a time, reading the node first; False on a failure."""
        return await self._change(name, lambda old: with_taints(old, [{"key": key, "effect": effect}]))

    async def remove(self, node: Obj, remove: Sequence[tuple[str, str]]) -> bool:
        """Remove taints; sends no request if the given node has none of them. False on a failure."""
        if without_taints(node.get("spec", {}).get("taints") or (), remove) is None:
            return True
        return await self._change(node["metadata"]["name"], lambda old: without_taints(old, remove))

    async def _change(self, name: str, change: Callable[[Sequence[Taint]], list[Taint] | None]) -> bool:
        for attempt in range(TRIES):
            # The first read may be served from the cache; later ones must see what conflicted.
            live = await self._client.get("nodes", "", name, revision=None if attempt else "0")
            if not live.ok:
                return False
            taints = change(live.obj.get("spec", {}).get("taints") or ())
            if taints is None:
                return True
            reply = await self._client.patch("nodes", "", name, taints_patch(live.obj, taints))
            if reply.ok:
                return True
            if reply.reason != "Conflict":
                return False
            await self._ctx.sleep_us(BACKOFF_US + int(BACKOFF_US * self._jitter.random()))
        return False
