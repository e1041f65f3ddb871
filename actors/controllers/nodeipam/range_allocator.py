"""Range allocator: divides the cluster's networks into pod CIDRs of nodes.

Turns events of nodes into patches of `spec.podCIDRs`, by 30 workers.

Holds: a part is reserved when a node is seen without one, in the order of the events, and written
       by a worker; parts of services and of nodes that are there at the start are never handed out;
       a node that finds no part left is looked at again at its next event; a node's part is free
       once the node is deleted.

Mirrors  kubernetes v1.25 pkg/controller/nodeipam/ipam/range_allocator.go,
         component-helpers/node/util/cidr.go (PatchNodeCIDRs).
Differs  the reservation of a node that is deleted before its patch is given up, where upstream
         takes it up again for ever without a pause; as there, it stays in use.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from actors.controllers.nodeipam.cidr_sets import CidrSet, Network, NoneLeft, OutOfRange, overlap
from actors.controllers.shared.shell import Env
from sim.api.types import Obj, Reply
from sim.client import Client, EventRecorder, Heartbeats
from sim.dataclass import dataclass
from sim.kernel.measure import count, observe
from sim.options.controllers.networks import network

WORKERS = 30  # cidrUpdateWorkers
PREFIX = "node_ipam_controller_cidrset_"
TRIES = 3  # cidrUpdateRetries
SERVER_TIMEOUT = "ServerTimeout"


class Clash(ValueError):
    """A node's CIDR that no set of the cluster can hold."""


@dataclass(slots=True)
class Sets:
    """One set of parts for each of the cluster's networks."""

    all: list[CidrSet]

    def exclude(self, services: tuple[Network, ...]) -> None:
        """Hand out no part of the networks of services."""
        for one in services:
            for parts in self.all:
                if overlap(parts.cluster, one):
                    parts.occupy(one)

    def occupy(self, node: Obj) -> None:
        """Mark a node's CIDRs as used; raises Clash."""
        name = node["metadata"]["name"]
        for index, text in enumerate(cidrs_of(node)):
            if index >= len(self.all):
                raise Clash(
                    f"node:{name} has an allocated cidr: {text} at index:{index} that does not exist in "
                    "cluster cidrs configuration"
                )
            try:
                self.all[index].occupy(network(text))
            except OutOfRange as problem:
                where = f"cidr[{text}] at idx [{index}]"
                raise Clash(f"failed to mark {where} as occupied for node: {name}: {problem}") from None

    def take(self) -> tuple[Network, ...]:
        """One part of each set; raises NoneLeft.

        Quirk: parts taken before the set that has none left stay in use.
        """
        return tuple(parts.take_next() for parts in self.all)

    def release(self, parts: tuple[Network, ...]) -> None:
        """Free the parts of a node; those outside of the sets are left alone."""
        for one, part in zip(self.all, parts, strict=False):
            if overlap(one.cluster, part):
                one.release(part)


def cidrs_of(node: Obj) -> list[str]:
    """The pod CIDRs of a node."""
    return list(node["spec"].get("podCIDRs") or ())


def cidrs_patch(cidrs: list[str]) -> Obj:
    """The patch that gives a node these pod CIDRs."""
    return {"spec": {"podCIDR": cidrs[0], "podCIDRs": cidrs}}


def record_change(recorder: EventRecorder, node: Obj, what: str) -> None:
    """The event of a changed state of a node.  Mirrors RecordNodeStatusChange."""
    meta = node["metadata"]
    about = {"kind": "Node", "name": meta["name"], "uid": meta["uid"]}
    recorder.event(about, "Normal", what, f"Node {meta['name']} status is now: {what}")


class RangeAllocator:
    """Shell of the allocator: handlers of nodes, and the workers that write."""

    def _count(self, network: str, taken: int, freed: int) -> None:
        for family, number in (("allocations", taken), ("releases", freed)):
            if number:
                count(self._env.ctx.kernel, f"{PREFIX}cidrs_{family}_total", network, by=number)

    def _count_tries(self, network: str, tries: int) -> None:
        observe(self._env.ctx.kernel, f"{PREFIX}allocation_tries_per_request", tries, network)

    def _gauges(self) -> Iterator[tuple[str, tuple[str, ...], float]]:
        for one in self._sets.all:
            yield f"{PREFIX}usage_cidrs", (str(one.cluster),), one.usage

    def __init__(self, env: Env, client: Client, recorder: EventRecorder) -> None:
        options = env.options
        self._env = env
        self._client = client
        self._recorder = recorder
        networks = zip(options.cluster_networks, options.mask_sizes, strict=True)
        self._sets = Sets([CidrSet(cluster, size) for cluster, size in networks])
        for one in self._sets.all:
            one.changed = partial(self._count, str(one.cluster))
            one.tried = partial(self._count_tries, str(one.cluster))
        self._sets.exclude(options.service_networks)
        env.ctx.kernel.gauges[f"{env.ctx.name} nodeipam"] = self._gauges
        self._nodes = env.informers["nodes"]
        self._queue = env.queue("nodeipam")
        self._reserved: dict[str, tuple[Network, ...]] = {}  # of the nodes in the queue
        self._bare: dict[str, None] = {}  # nodes that found no part left
        self._failed = env.ctx.kernel.kind("sync-error", "queue", "key", "error")

    async def run(self, present: list[Obj]) -> None:
        """Take in the nodes that are there, then follow their events; raises Clash."""
        for node in present:
            self._sets.occupy(node)
        self._nodes.on(
            self._seen,
            lambda _, node: self._seen(node, again=True),
            self._deleted,
            heartbeats=Heartbeats.ON_READ,
        )
        await self._env.informers.start_and_sync()
        for index in range(WORKERS):
            self._env.ctx.spawn(self._work, name=f"nodeipam-{index}")

    def _seen(self, node: Obj, again: bool = False) -> None:
        name = node["metadata"]["name"]
        if name in self._reserved:
            return
        if cidrs_of(node):
            if not again:
                self._occupy(node)
            self._bare.pop(name, None)
        else:
            self._reserve(name, node)
        self._nodes.deliver_promptly("nodeipam", bool(self._bare))

    def _occupy(self, node: Obj) -> None:
        try:
            self._sets.occupy(node)
        except Clash as problem:
            self._record_failure(node["metadata"]["name"], str(problem))

    def _reserve(self, name: str, node: Obj) -> None:
        try:
            self._reserved[name] = self._sets.take()
        except NoneLeft as problem:
            self._bare[name] = None
            self._record_failure(name, str(problem))
            record_change(self._recorder, node, "CIDRNotAvailable")
            return
        self._bare.pop(name, None)
        self._queue.add(name)

    def _deleted(self, node: Obj) -> None:
        self._bare.pop(node["metadata"]["name"], None)
        self._sets.release(tuple(network(text) for text in cidrs_of(node)))
        self._nodes.deliver_promptly("nodeipam", bool(self._bare))

    async def _work(self) -> None:
        while True:
            name = await self._queue.get()
            done = await self._write(name, self._reserved[name])
            if done:
                del self._reserved[name]
            else:
                self._queue.add(name)
            self._queue.done(name)

    async def _write(self, name: str, parts: tuple[Network, ...]) -> bool:
        """Give a node its reserved parts; False to try again at once."""
        node = self._nodes.get(name)
        if node is None:
            return True
        wanted, held = [str(part) for part in parts], cidrs_of(node)
        if held:
            if held != wanted:
                self._sets.release(parts)
            return True
        reply = await self._patch(name, wanted)
        if reply.ok:
            return True
        record_change(self._recorder, node, "CIDRAssignmentFailed")
        self._record_failure(name, reply.message)
        if reply.reason != SERVER_TIMEOUT:
            self._sets.release(parts)
        return False

    async def _patch(self, name: str, cidrs: list[str]) -> Reply:
        for _ in range(TRIES):
            reply = await self._client.patch("nodes", "", name, cidrs_patch(cidrs))
            if reply.ok:
                break
        return reply

    def _record_failure(self, name: str, error: str) -> None:
        self._env.ctx.record(self._failed, ("nodeipam", name, error))
