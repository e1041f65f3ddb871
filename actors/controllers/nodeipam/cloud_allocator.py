"""Cloud allocator: gives each node the address range that the cloud has for its instance.

Turns events of nodes into patches of `spec.podCIDRs`, by 30 workers, and shows that the cloud's
network carries them.

Holds: the cloud is called for a node without a pod CIDR, or with a network that is not known to be
       there; a failed node is tried again up to ten times, after a delay that doubles to 5 s.

Mirrors  kubernetes v1.25 pkg/controller/nodeipam/ipam/cloud_cidr_allocator.go.
Differs  upstream writes the condition before the CIDR is checked for other values too; a node that
         has another CIDR than its instance keeps it, as there the API refuses the change. Delays
         have no jitter (upstream: up to a half).
"""

from __future__ import annotations

from actors.controllers.nodeipam.range_allocator import TRIES, WORKERS, cidrs_of, cidrs_patch, record_change
from actors.controllers.shared.cloud import Cloud
from actors.controllers.shared.network_condition import network_patch
from actors.controllers.shared.shell import Env
from sim.api.objects import condition_status
from sim.api.types import Obj
from sim.client import Client, EventRecorder, unmoved
from sim.units import MS, SECOND

RETRIES = 10  # updateMaxRetries
FIRST_US, MAX_US = 250 * MS, 5 * SECOND  # nodeUpdateRetryTimeout, maxUpdateRetryTimeout


class CloudAllocator:
    """Shell of the allocator: handlers of nodes, and the workers that call the cloud and write."""

    def __init__(self, env: Env, client: Client, recorder: EventRecorder, cloud: Cloud) -> None:
        self._env = env
        self._client = client
        self._recorder = recorder
        self._cloud = cloud
        self._nodes = env.informers["nodes"]
        self._queue = env.queue("nodeipam")
        self._tries: dict[str, int] = {}
        self._failed = env.ctx.kernel.kind("sync-error", "queue", "key", "error")

    async def run(self) -> None:
        """Follow the events of nodes."""
        self._nodes.on(self._seen, lambda _, node: self._updated(node), beat=unmoved)
        await self._env.informers.start_and_sync()
        for index in range(WORKERS):
            self._env.ctx.spawn(self._work, name=f"nodeipam-{index}")

    def _seen(self, node: Obj) -> None:
        self._queue.add(node["metadata"]["name"])

    def _updated(self, node: Obj) -> None:
        # A network that is unavailable, or of which nothing is known, is looked at again.
        if not cidrs_of(node) or condition_status(node, "NetworkUnavailable") != "False":
            self._seen(node)

    async def _work(self) -> None:
        while True:
            name = await self._queue.get()
            error = await self._sync(name)
            if error is None:
                self._tries.pop(name, None)
            else:
                self._env.ctx.kernel.follow(self._env.ctx.record(self._failed, ("nodeipam", name, error)))
                tries = self._tries[name] = self._tries.get(name, 0) + 1
                if tries <= RETRIES:
                    self._queue.add_after_us(name, min(MAX_US, FIRST_US << tries - 1))
                else:
                    del self._tries[name]
            self._queue.done(name)

    async def _sync(self, name: str) -> str | None:
        node = self._nodes.get(name)
        if node is None:
            return None
        if self._cloud.call_us("instances"):
            await self._env.ctx.sleep_us(self._cloud.call_us("instances"))
        ranges = self._cloud.pod_ranges(node)
        if isinstance(ranges, str) or not ranges:
            record_change(self._recorder, node, "CIDRNotAvailable")
            return ranges if isinstance(ranges, str) else f"failed to allocate cidr: Node {name} has no CIDRs"
        if cidrs_of(node) != [*ranges] and not await self._write(name, [*ranges]):
            record_change(self._recorder, node, "CIDRAssignmentFailed")
            return f"failed to update Node {name} PodCIDR after multiple attempts"
        patch = network_patch(
            node, True, "RouteCreated", "NodeController create implicit route", self._env.ctx.wall_us()
        )
        if patch is None:
            return None
        reply = await self._client.patch("nodes", "", name, patch, subresource="status")
        return None if reply.ok else reply.message

    async def _write(self, name: str, cidrs: list[str]) -> bool:
        for _ in range(TRIES):
            if (await self._client.patch("nodes", "", name, cidrs_patch(cidrs))).ok:
                return True
        return False
