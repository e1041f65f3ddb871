"""TTL controller: annotates each node with the time for which its agent may cache objects.

Turns the number of nodes into an annotation of seconds.

Holds: the bands for growing and shrinking overlap, so that one node more or less does not rewrite
       all annotations; a node gets the present value at its next event, not before.

Mirrors  kubernetes v1.25 pkg/controller/ttl/ttl_controller.go.
Differs  an event of a node with the right value queues no key.
"""

from __future__ import annotations

from actors.controllers.shared.shell import Env, run_workers
from sim.api.types import Obj
from sim.client import Heartbeats
from sim.dataclass import dataclass

CLIENT = "ttl-controller"
WORKERS = 5


@dataclass(frozen=True, slots=True)
class Band:
    """Cluster sizes with the same annotation value."""

    nodes_min: int
    nodes_max: int | None
    seconds: int


# ttlBoundaries
BANDS = (
    Band(0, 100, 0),
    Band(90, 500, 15),
    Band(450, 1000, 30),
    Band(900, 2000, 60),
    Band(1800, None, 300),
)


def next_band(band: int, nodes: int) -> int:
    """The band after one node was added or deleted: at most one step away."""
    most = BANDS[band].nodes_max
    if most is not None and nodes > most:
        return band + 1
    return band - 1 if nodes < BANDS[band].nodes_min else band


def seconds_at(nodes: int) -> int:
    """The annotation value in a cluster that has grown to this number of nodes."""
    band = 0
    for count in range(1, nodes + 1):
        band = next_band(band, count)
    return BANDS[band].seconds


async def start(env: Env) -> None:
    """Run the TTL controller until its process ends."""
    await NodeTTL(env).run()


class NodeTTL:
    """Shell of the controller: counts nodes, queues those with an old value, and patches them."""

    def __init__(self, env: Env) -> None:
        self._env = env
        self._client = env.client(CLIENT)
        self._nodes = env.informers["nodes"]
        self._queue = env.queue("ttlcontroller")
        self._annotation = env.names.annotation_node_ttl
        self._count = 0
        self._band = 0
        self._stale: dict[str, None] = {}  # nodes with an old value, queued at their next heartbeat

    async def run(self) -> None:
        """Start the handlers and the workers."""
        self._nodes.on(
            self._added, self._updated, self._deleted, beat=self._updated, heartbeats=Heartbeats.ON_READ
        )
        await self._env.informers.start_and_sync()
        run_workers(self._env, self._queue, self._sync, WORKERS)

    def _added(self, node: Obj) -> None:
        self._count_changed(1)
        self._check(node)

    def _updated(self, _: Obj, node: Obj) -> None:
        self._check(node)

    def _deleted(self, node: Obj) -> None:
        self._stale.pop(node["metadata"]["name"], None)
        self._count_changed(-1)
        self._nodes.deliver_promptly("ttl", bool(self._stale))

    def _count_changed(self, more: int) -> None:
        self._count += more
        band = next_band(self._band, self._count)
        if band != self._band:
            self._band = band
            self._stale = {
                node["metadata"]["name"]: None for node in self._nodes.list() if self._differs(node)
            }

    def _check(self, node: Obj) -> None:
        name = node["metadata"]["name"]
        if self._differs(node):
            self._stale[name] = None
            self._queue.add(name)
        else:
            self._stale.pop(name, None)
        self._nodes.deliver_promptly("ttl", bool(self._stale))

    def _differs(self, node: Obj) -> bool:
        annotations = node["metadata"].get("annotations") or {}
        return bool(annotations.get(self._annotation) != str(BANDS[self._band].seconds))

    async def _sync(self, key: str) -> str | None:
        node = self._nodes.get(key)
        if node is None or not self._differs(node):
            return None
        patch = {"metadata": {"annotations": {self._annotation: str(BANDS[self._band].seconds)}}}
        reply = await self._client.patch("nodes", "", key, patch)
        return None if reply.ok else reply.message
