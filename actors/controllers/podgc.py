"""Pod garbage collector: deletes surplus finished pods, pods of deleted nodes, and terminating pods
that were never scheduled.

Turns a pass over the cache every 20 s into deletes with grace period 0.

Holds: finished pods are deleted all at once, other pods one after the other; a node must be missing
       in the cache for 40 s, and then at the API server, before its pods are deleted; the cost of a
       pass grows with the pods that it deletes and with the nodes, not with all pods. With the gate
       PodDisruptionConditions a pod is first set to Failed, with a condition if its node is gone.
       With NodeOutOfServiceVolumeDetach terminating pods of a not ready node are deleted as soon as
       the node has the out-of-service taint; there are no volumes to detach.

Mirrors  kubernetes v1.25 pkg/controller/podgc/gc_controller.go.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

from actors.controllers.shared.shell import NODE_INDEX, Env, in_parallel, index_by_node
from sim.api.kinds.core.pod.disruption_target import Disruption, disrupted, failed, status_patch
from sim.api.objects import is_deleting, is_ready, is_terminal, uid_of
from sim.api.types import Obj, Reply, Request
from sim.client.pod_status import status_request
from sim.ident import Names
from sim.kernel.causes import caused_by
from sim.options.features.gates import OUT_OF_SERVICE, POD_DISRUPTION, enabled
from sim.units import MS, SECOND, format_time

CLIENT = "pod-garbage-collector"
PERIOD_US = 20 * SECOND  # gcCheckPeriod
QUARANTINE_US = 40 * SECOND  # quarantineTime
# Duration of a pass without its requests. It decides, as in upstream, whether two passes fit into
# the quarantine.
PASS_US = 1 * MS
TERMINATED_INDEX = "terminated"
UNSCHEDULED_INDEX = "deleting unscheduled"
_LIVE_PHASES = ("Pending", "Running", "Unknown", "")


def terminated_values(pod: Obj) -> tuple[str, ...]:
    """Values of a pod in the index of finished pods."""
    return ("",) if pod.get("status", {}).get("phase", "") not in _LIVE_PHASES else ()


def unscheduled_values(pod: Obj) -> tuple[str, ...]:
    """Values in the index of terminating pods without a node, which are never bound any more."""
    return ("",) if "deletionTimestamp" in pod["metadata"] and not pod["spec"].get("nodeName") else ()


def surplus(terminated: Sequence[Obj], threshold: int) -> list[Obj]:
    """The oldest finished pods beyond the threshold (0 or less: no limit)."""
    count = len(terminated) - threshold
    if threshold <= 0 or count <= 0:
        return []
    return sorted(terminated, key=_age)[:count]


def _age(pod: Obj) -> tuple[str, str]:
    return pod["metadata"]["creationTimestamp"], pod["metadata"]["name"]


def quarantine(
    waiting: Mapping[str, int], used: Collection[str], nodes: Collection[str], now_us: int
) -> tuple[dict[str, int], list[str]]:
    """Nodes that pods refer to and that do not exist: (name -> end of quarantine, names at its
    end).

    A node at the end of its quarantine starts another one at once, for the pods that cannot be
    deleted in this pass.
    """
    over = [name for name, due_us in waiting.items() if due_us <= now_us]
    waiting_after = {name: due_us for name, due_us in waiting.items() if due_us > now_us}
    for name in used:
        if name and name not in nodes:
            waiting_after.setdefault(name, now_us + QUARANTINE_US)
    return waiting_after, [name for name in over if name not in nodes]


def is_out_of_service(node: Obj, names: Names) -> bool:
    """True if the node has the out-of-service taint, with any value and effect."""
    return any(taint["key"] == names.taint_out_of_service for taint in node["spec"].get("taints") or ())


async def start(env: Env) -> None:
    """Run the pod garbage collector until its process ends."""
    collector = PodCollector(env)
    await env.informers.start_and_sync()
    env.ctx.spawn(collector.run, name="podgc")


class PodCollector:
    """Shell of the controller: counts of pods by node, and the passes."""

    def __init__(self, env: Env) -> None:
        self._env = env
        self._client = env.client(CLIENT)
        self._pods = env.informers["pods"]
        self._nodes = env.informers["nodes"]
        self._pods.add_index(TERMINATED_INDEX, terminated_values, ("status", "phase"))
        self._pods.add_index(UNSCHEDULED_INDEX, unscheduled_values, ("metadata", "deletionTimestamp"))
        index_by_node(self._pods)
        self._conditions_enabled = enabled(env.options.feature_gates, POD_DISRUPTION)
        self._out_of_service_enabled = enabled(env.options.feature_gates, OUT_OF_SERVICE)
        self._tainted: dict[str, int] = {}  # out-of-service node -> trace record of its taint
        self._pod_counts: dict[str, int] = {}  # node name -> number of pods
        self._waiting: dict[str, int] = {}  # missing node -> end of its quarantine
        # deleted node with remaining pods -> trace record of the delete
        self._removed: dict[str, int] = {}
        self._pods.on(
            add=lambda pod: self._count(pod, 1), update=self._updated, delete=lambda pod: self._count(pod, -1)
        )

        self._nodes.on(delete=self._node_removed)
        if self._out_of_service_enabled:
            self._nodes.on(add=lambda node: self._node_changed({}, node), update=self._node_changed)

    def _node_changed(self, old: Obj, new: Obj) -> None:
        if old.get("spec") is not new["spec"]:
            name = new["metadata"]["name"]
            if is_out_of_service(new, self._env.names):
                self._tainted.setdefault(name, self._env.ctx.kernel.cause)
            else:
                self._tainted.pop(name, None)

    def _node_removed(self, node: Obj) -> None:
        name = node["metadata"]["name"]
        self._tainted.pop(name, None)
        if name in self._pod_counts:
            self._removed[name] = self._env.ctx.kernel.cause

    def _count(self, pod: Obj, change: int) -> None:
        name = pod["spec"].get("nodeName")
        if name:
            self._pod_counts[name] = count = self._pod_counts.get(name, 0) + change
            if not count:
                del self._pod_counts[name]
                self._removed.pop(name, None)

    def _updated(self, old: Obj, new: Obj) -> None:
        if old["spec"] is not new["spec"] and old["spec"].get("nodeName") != new["spec"].get("nodeName"):
            self._count(old, -1)
            self._count(new, 1)

    async def run(self) -> None:
        """Run a pass every 20 s until the process ends."""
        while True:
            await self._collect()
            await self._env.ctx.sleep_us(PASS_US + PERIOD_US)

    async def _collect(self) -> None:
        threshold = self._env.options.terminated_pod_gc_threshold
        finished = surplus(self._pods.by_index(TERMINATED_INDEX, ""), threshold)
        await self._request_all({}, finished, self._request)
        await self._delete_stranded()
        await self._delete_orphaned()
        for pod in self._pods.by_index(UNSCHEDULED_INDEX, ""):
            await self._remove(pod)

    async def _delete_stranded(self) -> None:
        """Delete terminating pods of nodes that are not ready and out of service."""
        down = [name for name in self._tainted if not is_ready(self._nodes.objects[name])]
        found = [pod for name in down for pod in self._pods.by_index(NODE_INDEX, name) if is_deleting(pod)]
        causes = {name: self._tainted[name] for name in down}
        pods = sorted(found, key=_age)
        if self._conditions_enabled:
            alive = [pod for pod in pods if not is_terminal(pod)]
            replies = await self._request_all(causes, alive, self._failing)
            refused = [uid_of(pod) for pod, reply in zip(alive, replies, strict=True) if not reply.ok]
            pods = [pod for pod in pods if uid_of(pod) not in refused]
        await self._request_all(causes, pods, self._request)

    async def _delete_orphaned(self) -> None:
        nodes, kernel = self._nodes.objects, self._env.ctx.kernel
        self._waiting, missing = quarantine(self._waiting, self._pod_counts, nodes, self._env.ctx.now_us())
        gone = [name for name in missing if (await self._client.get("nodes", "", name)).reason == "NotFound"]
        for name in gone:
            key = self._client.scheme.key("nodes", "", name)
            removed = self._removed.get(name) or kernel.standing.gone(key)
            for pod in self._pods.by_index(NODE_INDEX, name):
                with caused_by(kernel, removed):
                    await self._remove(pod, Disruption.COLLECTOR)

    async def _remove(self, pod: Obj, why: Disruption | None = None) -> None:
        """Delete a pod, after writing the reason to its status if the gate is on."""
        if self._conditions_enabled:
            changed = failed(pod)
            if why is not None:
                changed = disrupted(changed, why, format_time(self._env.ctx.wall_us()))
            patch = status_patch(pod, changed)
            if patch and not (await self._client.ask(status_request(self._client, pod, patch))).ok:
                return
        await self._client.ask(self._request(pod))

    def _request(self, pod: Obj) -> Request:
        """A delete with grace period 0; if it fails, the next pass tries again."""
        meta = pod["metadata"]
        return self._client.request(
            "delete", "pods", meta["namespace"], meta["name"], body={"gracePeriodSeconds": 0}
        )

    def _failing(self, pod: Obj) -> Request:
        return status_request(self._client, pod, status_patch(pod, failed(pod)) or {})

    async def _request_all(
        self, causes: Mapping[str, int], pods: Sequence[Obj], request: Callable[[Obj], Request]
    ) -> list[Reply]:
        """Send a request for each pod in parallel.

        causes: node name -> trace record that causes the requests for the node's pods
        """
        kernel = self._env.ctx.kernel
        before = kernel.cause

        def send(index: int, on_reply: Callable[[Reply], None]) -> None:
            pod = pods[index]
            kernel.follow(causes.get(pod["spec"].get("nodeName", ""), before))
            self._client.call(request(pod), on_reply)

        with caused_by(kernel, before):
            return await in_parallel(self._env.ctx, len(pods), send)
