"""Pod garbage collection: too many finished pods, pods of nodes that are gone, deleted pods never
scheduled.

Turns a look at the cache every 20 s into deletions with grace 0.

Holds: of finished pods all go at once, others one after the other; a node must be missing for 40 s
and then be missing at the API itself before its pods go; a pass costs in proportion to the pods it
deletes and the nodes there are, not to the pods.  With the gate PodDisruptionConditions a pod is
made Failed first, and one whose node is gone says so.  With NodeOutOfServiceVolumeDetach deleted
pods of a node that is not ready go as soon as somebody has tainted it as out of service; there are
no volumes to detach.

Mirrors  kubernetes v1.25 pkg/controller/podgc/gc_controller.go.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

from actors.controllers.shared.shell import NODE_INDEX, Env, in_parallel, index_by_node
from sim.api.kinds.core.pod.disruption_target import Disruption, disrupted, failed, status_patch
from sim.api.objects import is_deleting, is_ready, is_terminal, uid_of
from sim.api.types import Obj, Reply, Request
from sim.client.rest.pod_status import status_request
from sim.ident import Names
from sim.options.gates import OUT_OF_SERVICE, POD_DISRUPTION, enabled
from sim.units import MS, SECOND, format_time

CLIENT = "pod-garbage-collector"
PERIOD_US = 20 * SECOND  # gcCheckPeriod
QUARANTINE_US = 40 * SECOND  # quarantineTime
# What a pass takes besides requests: it settles the tie of two passes against the quarantine as
# upstream does.
PASS_US = 1 * MS
TERMINATED_INDEX = "terminated"
UNSCHEDULED_INDEX = "deleting unscheduled"
_LIVE_PHASES = ("Pending", "Running", "Unknown", "")


def terminated_values(pod: Obj) -> tuple[str, ...]:
    return ("",) if pod.get("status", {}).get("phase", "") not in _LIVE_PHASES else ()


def unscheduled_values(pod: Obj) -> tuple[str, ...]:
    """A pod that is being deleted without a node; none is bound to one any more."""
    return ("",) if "deletionTimestamp" in pod["metadata"] and not pod["spec"].get("nodeName") else ()


def surplus(terminated: Sequence[Obj], threshold: int) -> list[Obj]:
    """The oldest finished pods beyond the threshold (0 or less: none)."""
    count = len(terminated) - threshold
    if threshold <= 0 or count <= 0:
        return []
    return sorted(terminated, key=_age)[:count]


def _age(pod: Obj) -> tuple[str, str]:
    return pod["metadata"]["creationTimestamp"], pod["metadata"]["name"]


def quarantine(
    waiting: Mapping[str, int], used: Collection[str], nodes: Collection[str], now_us: int
) -> tuple[dict[str, int], list[str]]:
    """Nodes that pods name and nobody knows: those that wait (name to due time), those whose wait
    is over.

    The latter wait anew at once, for pods that cannot be deleted in this pass.
    """
    over = [name for name, due_us in waiting.items() if due_us <= now_us]
    still = {name: due_us for name, due_us in waiting.items() if due_us > now_us}
    for name in used:
        if name and name not in nodes:
            still.setdefault(name, now_us + QUARANTINE_US)
    return still, [name for name in over if name not in nodes]


def is_out_of_service(node: Obj, names: Names) -> bool:
    """Whether it has the taint, of whatever value and effect."""
    return any(taint["key"] == names.taint_out_of_service for taint in node["spec"].get("taints") or ())


async def start(env: Env) -> None:
    collector = PodCollector(env)
    await env.informers.start_and_sync()
    env.ctx.spawn(collector.run, name="podgc")


class PodCollector:
    def __init__(self, env: Env) -> None:
        self._env = env
        self._client = env.client(CLIENT)
        self._pods = env.informers["pods"]
        self._nodes = env.informers["nodes"]
        self._pods.add_index(TERMINATED_INDEX, terminated_values, ("status", "phase"))
        self._pods.add_index(UNSCHEDULED_INDEX, unscheduled_values, ("metadata", "deletionTimestamp"))
        index_by_node(self._pods)
        self._tells_why = enabled(env.options.feature_gates, POD_DISRUPTION)
        self._frees = enabled(env.options.feature_gates, OUT_OF_SERVICE)
        self._tainted: dict[str, int] = {}  # nodes out of service -> the record by which they are
        self._used: dict[str, int] = {}  # pods per node
        self._waiting: dict[str, int] = {}
        # nodes that pods are left of -> the record by which they went
        self._removed: dict[str, int] = {}
        self._pods.on(
            add=lambda pod: self._use(pod, 1), update=self._moved, delete=lambda pod: self._use(pod, -1)
        )

        self._nodes.on(delete=self._node_removed)
        if self._frees:
            self._nodes.on(add=lambda node: self._node_seen({}, node), update=self._node_seen)

    def _node_seen(self, old: Obj, new: Obj) -> None:
        if old.get("spec") is not new["spec"]:
            name = new["metadata"]["name"]
            if is_out_of_service(new, self._env.names):
                self._tainted.setdefault(name, self._env.ctx.kernel.cause)
            else:
                self._tainted.pop(name, None)

    def _node_removed(self, node: Obj) -> None:
        name = node["metadata"]["name"]
        self._tainted.pop(name, None)
        if name in self._used:
            self._removed[name] = self._env.ctx.kernel.cause

    def _use(self, pod: Obj, change: int) -> None:
        name = pod["spec"].get("nodeName")
        if name:
            self._used[name] = count = self._used.get(name, 0) + change
            if not count:
                del self._used[name]
                self._removed.pop(name, None)

    def _moved(self, old: Obj, new: Obj) -> None:
        if old["spec"] is not new["spec"] and old["spec"].get("nodeName") != new["spec"].get("nodeName"):
            self._use(old, -1)
            self._use(new, 1)

    async def run(self) -> None:
        while True:
            await self._collect()
            await self._env.ctx.sleep_us(PASS_US + PERIOD_US)

    async def _collect(self) -> None:
        threshold = self._env.options.terminated_pod_gc_threshold
        finished = surplus(self._pods.by_index(TERMINATED_INDEX, ""), threshold)
        await self._ask({}, finished, self._request)
        await self._delete_stranded()
        await self._delete_orphaned()
        for pod in self._pods.by_index(UNSCHEDULED_INDEX, ""):
            await self._remove(pod)

    async def _delete_stranded(self) -> None:
        """Deleted pods of nodes that are not ready and out of service."""
        down = [name for name in self._tainted if not is_ready(self._nodes.objects[name])]
        found = [pod for name in down for pod in self._pods.by_index(NODE_INDEX, name) if is_deleting(pod)]
        because = {name: self._tainted[name] for name in down}
        pods = sorted(found, key=_age)
        if self._tells_why:
            alive = [pod for pod in pods if not is_terminal(pod)]
            replies = await self._ask(because, alive, self._failing)
            refused = [uid_of(pod) for pod, reply in zip(alive, replies, strict=True) if not reply.ok]
            pods = [pod for pod in pods if uid_of(pod) not in refused]
        await self._ask(because, pods, self._request)

    async def _delete_orphaned(self) -> None:
        nodes, kernel = self._nodes.objects, self._env.ctx.kernel
        before = kernel.cause
        self._waiting, missing = quarantine(self._waiting, self._used, nodes, self._env.ctx.now_us())
        gone = [name for name in missing if (await self._client.get("nodes", "", name)).reason == "NotFound"]
        for name in gone:
            key = self._client.scheme.key("nodes", "", name)
            removed = self._removed.get(name) or kernel.standing.gone(key) or before
            for pod in self._pods.by_index(NODE_INDEX, name):
                kernel.cause = removed
                await self._remove(pod, Disruption.COLLECTOR)
        kernel.cause = before

    async def _remove(self, pod: Obj, why: Disruption | None = None) -> None:
        """Delete a pod, which its status says first where the gate is on."""
        if self._tells_why:
            told = failed(pod)
            if why is not None:
                told = disrupted(told, why, format_time(self._env.ctx.wall_us()))
            patch = status_patch(pod, told)
            if patch and not (await self._client.ask(status_request(self._client, pod, patch))).ok:
                return
        await self._client.ask(self._request(pod))

    def _request(self, pod: Obj) -> Request:
        """A deletion; one that fails is tried again by the next pass."""
        meta = pod["metadata"]
        return self._client.request(
            "delete", "pods", meta["namespace"], meta["name"], body={"gracePeriodSeconds": 0}
        )

    def _failing(self, pod: Obj) -> Request:
        return status_request(self._client, pod, status_patch(pod, failed(pod)) or {})

    async def _ask(
        self, because: Mapping[str, int], pods: Sequence[Obj], request: Callable[[Obj], Request]
    ) -> list[Reply]:
        """A request for each pod, all at once.

        because: records by which what is on a node goes.
        """
        kernel = self._env.ctx.kernel
        before = kernel.cause

        def send(index: int, on_reply: Callable[[Reply], None]) -> None:
            pod = pods[index]
            kernel.cause = because.get(pod["spec"].get("nodeName", ""), before)
            self._client.call(request(pod), on_reply)

        replies = await in_parallel(self._env.ctx, len(pods), send)
        kernel.cause = before
        return replies
