"""Cloud node lifecycle controller: deletes nodes without an instance, taints nodes with a stopped
one.

Each `node-monitor-period` it queries the cloud for every node that is not ready. A node without an
instance is deleted; a node with a stopped instance gets the shutdown taint, which is removed when
the node is ready again.

Holds: the cloud is never queried for a ready node; nodes are processed one after the other in the
       order of their names; the next pass begins one period after the end of this one; a node for
       which the cloud gives an error is left unchanged.

Mirrors  kubernetes v1.25
         staging/src/k8s.io/cloud-provider/controllers/nodelifecycle/node_lifecycle_controller.go;
         events and writes share one client (cmd/kube-controller-manager/app/cloudproviders.go,
         core.go).
Differs  upstream iterates over nodes in map order; upstream's first pass, which runs before the
         informer has listed, is left out.
"""

from __future__ import annotations

from actors.controllers.nodelifecycle.decide import NO_SCHEDULE, has_taint
from actors.controllers.nodelifecycle.writes import TaintWriter
from actors.controllers.shared.cloud import INSTANCES, Cloud, Instance, State
from actors.controllers.shared.shell import Env
from sim.api.objects import is_ready
from sim.api.types import Obj
from sim.client import unmoved
from sim.kernel.causes import caused_by

NAME = "cloud-node-lifecycle"
CLIENT = "node-controller"
COMPONENT = "cloud-node-lifecycle-controller"


async def start(env: Env) -> None:
    """Run the controller until its process ends."""
    assert env.cloud is not None  # the manager starts this loop only if there is a cloud provider
    await CloudNodeLifecycle(env, env.cloud).run()


class CloudNodeLifecycle:
    """Shell of the controller: tracks nodes that need attention and runs a pass over them each
    period.
    """

    def __init__(self, env: Env, cloud: Cloud) -> None:
        self._env = env
        self._ctx = env.ctx
        self._cloud = cloud
        self._client = env.client(CLIENT)
        self._recorder = env.recorder(COMPONENT, self._client)
        self._writer = TaintWriter(self._ctx, self._client, self._ctx.stream("cloud-taint-backoff"))
        self._nodes = env.informers["nodes"]
        self._mark = env.names.taint_shutdown, NO_SCHEDULE
        # Nodes for the next pass (not ready, or tainted) -> trace record of their last change.
        self._pending: dict[str, int] = {}
        self._failed = self._ctx.kernel.kind("sync-error", "queue", "key", "error")

    async def run(self) -> None:
        """Run passes until the process ends."""
        period_us = self._env.options.node_monitor_period_us
        begun_us = self._ctx.now_us()
        self._nodes.on(self._observed, lambda _, node: self._observed(node), self._deleted, beat=unmoved)
        await self._env.informers.start_and_sync()
        await self._ctx.sleep_us(max(0, begun_us + period_us - self._ctx.now_us()))
        while True:
            await self._run_pass()
            await self._ctx.sleep_us(period_us)

    def _observed(self, node: Obj) -> None:
        name = node["metadata"]["name"]
        if is_ready(node) and not has_taint(node, *self._mark):
            self._pending.pop(name, None)
        else:
            self._pending[name] = self._ctx.kernel.cause

    def _deleted(self, node: Obj) -> None:
        self._pending.pop(node["metadata"]["name"], None)

    async def _run_pass(self) -> None:
        kernel = self._ctx.kernel
        for name, cause in sorted(self._pending.items()):
            node = self._nodes.get(name)
            if node is not None:
                with caused_by(kernel, cause):
                    await self._process(name, node)

    async def _process(self, name: str, node: Obj) -> None:
        if is_ready(node):
            await self._writer.remove(node, [self._mark])
            return
        found = await self._instance_of(name, node)
        if found is None:
            return
        if found.state is State.GONE:
            await self._delete(name, node, found)
            return
        found = await self._instance_of(name, node)
        if found is not None and found.state is State.STOPPED:
            if not has_taint(node, *self._mark):
                self._ctx.decided("instance-stopped", f"nodes/{name}", {}, found.cause)
            await self._writer.mark(name, *self._mark)

    async def _instance_of(self, name: str, node: Obj) -> Instance | None:
        """Call the cloud once; returns None if the call fails."""
        duration_us = self._cloud.call_us(INSTANCES)
        if duration_us:
            await self._ctx.sleep_us(duration_us)
        found = self._cloud.instance(node)
        if isinstance(found, Instance):
            return found
        self._ctx.record(self._failed, (NAME, name, found))
        return None

    async def _delete(self, name: str, node: Obj, found: Instance) -> None:
        """Delete a node; if the request fails, the next pass tries again."""
        self._ctx.decided("instance-gone", f"nodes/{name}", {}, found.cause)
        self._recorder.event(
            {"kind": "Node", "name": name, "uid": node["metadata"]["uid"]},
            "Normal",
            "DeletingNode",
            f"Deleting node {name} because it does not exist in the cloud provider",
        )
        await self._client.delete("nodes", "", name)
