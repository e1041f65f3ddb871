"""Nodes whose instances are gone from the cloud go too; those whose instances are stopped are closed to new pods.

Turns a look at all nodes that are not ready, each `node-monitor-period`, into questions to the cloud, and its answers into
deletions of nodes and the taint of a shutdown, which a node that is ready again loses.

Holds: a ready node's instance is never asked for; nodes are seen to one after the other, in the order of their names, and the
next pass begins a period after this one has ended; a node about which the cloud does not answer is left as it is.

Mirrors  kubernetes v1.25 staging/src/k8s.io/cloud-provider/controllers/nodelifecycle/node_lifecycle_controller.go; events
         and writes are paid from a client of its own (cmd/kube-controller-manager/app/cloudproviders.go, core.go).
Differs  upstream walks the nodes in the order of a map; its first pass, which runs before anything is listed, is left out.
"""

from __future__ import annotations

from actors.controllers.cloud import Cloud, Instance, State
from actors.controllers.nodelifecycle_decide import NO_SCHEDULE, has_taint
from actors.controllers.nodelifecycle_taints import TaintWriter
from actors.controllers.shell import Env
from sim.client import unmoved
from sim.machinery.api import Obj
from sim.machinery.objects import is_ready

NAME = "cloud-node-lifecycle"
CLIENT = "node-controller"
COMPONENT = "cloud-node-lifecycle-controller"


async def start(env: Env) -> None:
    assert env.cloud is not None  # the manager starts no such loop without one
    await CloudNodeLifecycle(env, env.cloud).run()


class CloudNodeLifecycle:
    def __init__(self, env: Env, cloud: Cloud) -> None:
        self._env = env
        self._ctx = env.ctx
        self._cloud = cloud
        self._client = env.client(CLIENT)
        self._recorder = env.recorder(COMPONENT, self._client)
        self._writer = TaintWriter(self._ctx, self._client, self._ctx.stream("cloud-taint-backoff"))
        self._nodes = env.informers["nodes"]
        self._mark = env.names.taint_shutdown, NO_SCHEDULE
        # Those that a pass has something to do with -> the record by which they are as they are.
        self._restless: dict[str, int] = {}
        self._failed = self._ctx.kernel.kind("sync-error", "queue", "key", "error")

    async def run(self) -> None:
        period_us = self._env.options.node_monitor_period_us
        begun_us = self._ctx.now_us()
        self._nodes.on(self._seen, lambda _, node: self._seen(node), self._gone, beat=unmoved)
        await self._env.informers.start_and_sync()
        await self._ctx.sleep_us(max(0, begun_us + period_us - self._ctx.now_us()))
        while True:
            await self._look_at_all()
            await self._ctx.sleep_us(period_us)

    def _seen(self, node: Obj) -> None:
        name = node["metadata"]["name"]
        if is_ready(node) and not has_taint(node, *self._mark):
            self._restless.pop(name, None)
        else:
            self._restless[name] = self._ctx.kernel.cause

    def _gone(self, node: Obj) -> None:
        self._restless.pop(node["metadata"]["name"], None)

    async def _look_at_all(self) -> None:
        kernel = self._ctx.kernel
        before = kernel.cause
        for name, cause in sorted(self._restless.items()):
            node = self._nodes.get(name)
            if node is not None:
                kernel.cause = cause
                await self._look(name, node)
        kernel.cause = before

    async def _look(self, name: str, node: Obj) -> None:
        if is_ready(node):
            await self._writer.remove(node, [self._mark])
            return
        found = await self._ask(name, node)
        if found is None:
            return
        if found.state is State.GONE:
            await self._delete(name, node, found)
            return
        found = await self._ask(name, node)
        if found is not None and found.state is State.STOPPED:
            if not has_taint(node, *self._mark):
                self._ctx.decided("instance-stopped", f"nodes/{name}", {}, found.cause)
            await self._writer.mark(name, *self._mark)

    async def _ask(self, name: str, node: Obj) -> Instance | None:
        """One call to the cloud; None if it comes to nothing."""
        if self._cloud.call_us:
            await self._ctx.sleep_us(self._cloud.call_us)
        found = self._cloud.instance(node)
        if isinstance(found, Instance):
            return found
        self._ctx.record(self._failed, (NAME, name, found))
        return None

    async def _delete(self, name: str, node: Obj, found: Instance) -> None:
        """A deletion that fails is tried again by the next pass."""
        self._ctx.decided("instance-gone", f"nodes/{name}", {}, found.cause)
        self._recorder.event(
            {"kind": "Node", "name": name, "uid": node["metadata"]["uid"]},
            "Normal",
            "DeletingNode",
            f"Deleting node {name} because it does not exist in the cloud provider",
        )
        await self._client.delete("nodes", "", name)
