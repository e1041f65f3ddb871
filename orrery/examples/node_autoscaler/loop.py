"""The shell of the node autoscaler: it scans, creates Node objects, and drains and deletes them.

Holds: all that a crash loses is `Memory` and the orders of nodes that do not exist yet; a node that
    an earlier incarnation was removing is opened again.

Mirrors  kubernetes/autoscaler cluster-autoscaler 1.25: core/static_autoscaler.go, core/scaledown/
         actuation/{actuator,drain}.go, utils/taints/taints.go.
"""

from __future__ import annotations

from collections.abc import Sequence

from orrery.examples.node_autoscaler.decide import LEAVING, Group, Memory, Options, Seen, decide, size_of
from orrery.examples.placing import Place
from sim.api.objects import name_of
from sim.api.scheduling import NO_SCHEDULE
from sim.api.types import Obj
from sim.client import Client
from sim.units import MINUTE, SECOND

EVICTION_MAX_US = 2 * MINUTE  # MaxPodEvictionTime
EVICTION_RETRY_US = 10 * SECOND  # EvictionRetryTime
POLL_US = 5 * SECOND
GRACE_MAX_US = 10 * MINUTE  # max-graceful-termination-sec
HEADROOM_US = 30 * SECOND  # PodEvictionHeadroom
DEFAULT = Options()


async def run(client: Client, groups: Sequence[Group], options: Options = DEFAULT) -> None:
    """Scan for ever."""
    await _Autoscaler(client, groups, options).run()


class _Autoscaler:
    """One incarnation.

    coming: nodes that are ordered and do not exist yet, by group
    leaving: nodes that are being removed
    """

    def __init__(self, client: Client, groups: Sequence[Group], options: Options) -> None:
        self.client, self.groups, self.options = client, groups, options
        self.ctx, self.names = client.ctx, client.scheme.names
        self.memory = Memory()
        self.coming: dict[str, int] = {}
        self.leaving: dict[str, None] = {}

    async def run(self) -> None:
        start = self.ctx.kernel.cause
        for node in await self._listed("nodes") or ():
            await self._mark(name_of(node), False)
        while True:
            await self._scan()
            await self.ctx.sleep_us(self.options.scan_us)
            self.ctx.kernel.follow(start)  # a scan does not happen because of the one before it

    async def _listed(self, resource: str) -> list[Obj] | None:
        reply = await self.client.list(resource)
        return [item.obj for item in reply.items or ()] if reply.ok else None

    async def _scan(self) -> None:
        nodes, pods = await self._listed("nodes"), await self._listed("pods")
        daemons, budgets = await self._listed("daemonsets"), await self._listed("poddisruptionbudgets")
        if nodes is None or pods is None or daemons is None or budgets is None:
            return
        seen = Seen(self.ctx.wall_us(), nodes, pods, daemons, budgets, self.coming, [*self.leaving])
        decision = decide(self.memory, seen, self.groups, self.names, self.options)
        self.memory = decision.memory
        if decision.add is not None:
            group, count = decision.add
            size = size_of(group, seen)
            self._decided(f"group/{group.name}", size, size + count, "pods find no room")
            self.coming[group.name] = self.coming.get(group.name, 0) + count
            for _ in range(count):
                self.ctx.spawn(self._order, group)
        for place in decision.remove:
            self.leaving[name_of(place.node)] = None
            self.ctx.spawn(self._remove, place)

    def _decided(self, target: str, before: int, after: int, why: str) -> None:
        """Record a decision, which `orrery why` shows as the cause of what follows."""
        self.ctx.decided("autoscale", target, {"from": before, "to": after, "why": why})

    async def _order(self, group: Group) -> None:
        """Have a node made, which takes the cloud some time."""
        await self.ctx.sleep_us(self.options.provision_us)
        node = group.node(self.names)
        del node["metadata"]["name"], node["metadata"]["labels"][self.names.label_hostname]
        await self.client.create("nodes", "", node)
        self.coming[group.name] -= 1

    async def _remove(self, place: Place) -> None:
        """Close a node, move its pods, and delete it; or open it again."""
        name = name_of(place.node)
        self._decided(f"nodes/{name}", 1, 0, "its pods fit elsewhere")
        closed = await self._mark(name, True)
        moved = closed and all(
            await self.ctx.gather(*[lambda pod=pod: self._move(pod) for pod in place.pods])
        )
        if not (moved and (await self.client.delete("nodes", "", name)).ok):
            await self._mark(name, False)
            now_us = self.ctx.wall_us()
            self.memory = Memory(self.memory.unneeded_us, self.memory.added_us, now_us)
        del self.leaving[name]

    async def _move(self, pod: Obj) -> bool:
        """Evict a pod, and wait until it is gone; False if that takes too long."""
        meta = pod["metadata"]
        namespace, name = meta["namespace"], meta["name"]
        body = {
            "apiVersion": self.names.api_version("policy", "v1"),
            "kind": "Eviction",
            "metadata": {"name": name, "namespace": namespace},
        }
        end_us = self.ctx.now_us() + EVICTION_MAX_US
        while True:
            reply = await self.client.create("pods", namespace, body, name=name, subresource="eviction")
            if reply.ok or reply.reason == "NotFound":
                break
            if self.ctx.now_us() + EVICTION_RETRY_US > end_us:
                return False
            await self.ctx.sleep_us(EVICTION_RETRY_US)
        grace_us = min(GRACE_MAX_US, pod["spec"].get("terminationGracePeriodSeconds", 30) * SECOND)
        end_us = self.ctx.now_us() + grace_us + HEADROOM_US
        while self.ctx.now_us() < end_us:
            current = await self.client.get("pods", namespace, name)
            if current.reason == "NotFound" or (current.ok and current.obj["metadata"]["uid"] != meta["uid"]):
                return True
            await self.ctx.sleep_us(POLL_US)
        return False

    async def _mark(self, name: str, leaving: bool) -> bool:
        """Put the taint of a node that is being removed, or take it away."""
        current = await self.client.get("nodes", "", name)
        if not current.ok:
            return False
        node = current.obj
        taints = [one for one in node["spec"].get("taints") or () if one["key"] != LEAVING]
        if leaving:
            taints.append({"key": LEAVING, "value": str(self.ctx.wall_us() // SECOND), "effect": NO_SCHEDULE})
        if taints == (node["spec"].get("taints") or []):
            return True
        return (await self.client.update("nodes", {**node, "spec": {**node["spec"], "taints": taints}})).ok
