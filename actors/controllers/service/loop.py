"""Service controller: has the cloud make, change and delete the load balancers of services.

Turns events of services and nodes into keys and passes over the nodes, and carries out the steps
of each sync by requests and calls of the cloud.

Holds: the steps are those of `sync`; a failed service is tried again after 5 s, doubling to 300 s;
       a changed set of nodes is given to all load balancers, and in later passes to those that
       failed.

Mirrors  kubernetes v1.25 staging/src/k8s.io/cloud-provider/controllers/service/controller.go,
         cmd/kube-controller-manager/app/core.go (startServiceController).
Differs  load balancers are updated in the order of the services' names, upstream's order is that of
         a map; the times of writes that the cloud takes are those of its calls.
"""

from __future__ import annotations

from collections import deque
from typing import assert_never

from actors.controllers.service.decide import (
    changes_traffic,
    hosts,
    needs_cleanup,
    needs_update,
    wants_balancer,
)
from actors.controllers.service.sync import (
    Action,
    Answer,
    Ensure,
    Explain,
    Find,
    Follow,
    Move,
    Patch,
    Remove,
    Seen,
    Syncs,
)
from actors.controllers.shared.cloud import LOAD_BALANCERS, Cloud
from actors.controllers.shared.shell import Env, run_workers
from actors.controllers.shared.steps import Event, carry_out
from sim.api.types import Obj
from sim.client import ItemExponential, WorkQueue, unmoved
from sim.kernel.causes import caused_by
from sim.kernel.measure import observe
from sim.units import SECOND

NAME = "service"
CLIENT = COMPONENT = "service-controller"
RETRY_US, RETRY_MAX_US = 5 * SECOND, 300 * SECOND  # minRetryDelay, maxRetryDelay
SERVICES_RESYNC_US, NODES_RESYNC_US = 30 * SECOND, 100 * SECOND  # serviceSyncPeriod, nodeSyncPeriod


async def start(env: Env) -> None:
    """Run the controller until its process ends."""
    assert env.cloud is not None  # the manager starts this loop only if there is a cloud provider
    await ServiceController(env, env.cloud).run()


class ServiceController:
    """Shell of the controller: a queue of services, and passes over the nodes behind them."""

    def __init__(self, env: Env, cloud: Cloud) -> None:
        self._env = env
        self._ctx = env.ctx
        self._cloud = cloud
        self._cluster = env.options.cluster_name
        self._client = env.client(CLIENT)
        self._recorder = env.recorder(COMPONENT, self._client)
        self._finalizer = env.names.finalizer_balancer_cleanup
        self._services = env.informers["services"]
        self._nodes = env.informers["nodes"]
        self._queue = WorkQueue(env.ctx, "service", ItemExponential(RETRY_US, RETRY_MAX_US))
        self._syncs = Syncs(Seen(self._finalizer, self._present_hosts))
        self._causes: dict[str, int] = {}  # trace record of the last change or failure of a service
        self._hosts: tuple[str, ...] = ()
        self._all_due = False  # True if the next pass is for all load balancers
        self._due: list[str] = []  # services with a load balancer that lacks the present nodes
        # One pass at most waits for its turn.
        self._pass = env.ctx.mailbox("load balancer nodes", 1)
        self._failed = env.ctx.kernel.kind("sync-error", "queue", "key", "error")

    async def run(self) -> None:
        """Start the handlers, the workers and the passes."""
        self._services.on(self._added, self._updated)
        self._nodes.on(
            lambda _: self._nodes_changed(),
            lambda old, new: self._nodes_changed() if changes_traffic(old, new) else None,
            lambda _: self._nodes_changed(),
            beat=unmoved,
        )
        await self._env.informers.start_and_sync()
        run_workers(self._env, self._queue, self._sync, self._env.options.concurrent_service_syncs)
        self._ctx.spawn(self._update_nodes, name="service-nodes")
        self._ctx.spawn(self._resync, name="service-resync")
        while True:
            self._nodes_changed()
            await self._ctx.sleep_us(NODES_RESYNC_US)

    # --- events ---

    def _key(self, service: Obj) -> str:
        meta = service["metadata"]
        return f"{meta['namespace']}/{meta['name']}"

    def _queued(self, service: Obj) -> None:
        key = self._key(service)
        self._causes[key] = self._ctx.kernel.cause
        self._queue.add(key)

    def _added(self, service: Obj) -> None:
        if wants_balancer(service) or needs_cleanup(service, self._finalizer):
            self._queued(service)

    def _updated(self, old: Obj, new: Obj) -> None:
        update = needs_update(old, new)
        if update.event is not None:
            self._recorder.event(new, "Normal", *update.event)
        if update.needed or needs_cleanup(new, self._finalizer):
            self._queued(new)

    async def _resync(self) -> None:
        """Queue the services to clean up again and again: a resync of the informer, as upstream."""
        kernel = self._ctx.kernel
        while True:
            await self._ctx.sleep_us(SERVICES_RESYNC_US)
            for service in self._services.list():
                if needs_cleanup(service, self._finalizer):
                    key = self._key(service)
                    with caused_by(kernel, self._causes.get(key, 0)):
                        self._queue.add(key)

    # --- services ---

    async def _sync(self, key: str) -> str | None:
        return await carry_out(self._syncs.sync(key, self._services.get(key)), self._do)

    async def _do(self, action: Action) -> Answer:
        match action:
            case Event(obj, kind, reason, message):
                self._recorder.event(obj, kind, reason, message)
            case Patch(service, patch):
                meta = service["metadata"]
                return await self._client.patch(
                    "services", meta["namespace"], meta["name"], patch, subresource="status"
                )
            case Find() | Ensure() | Move() | Remove():
                return await self._call(action)
            case Follow(cause):
                self._ctx.kernel.follow(cause)
            case Explain(key, True):
                self._causes[key] = self._ctx.kernel.cause
            case Explain(key):
                self._causes.pop(key, None)
            case _:
                assert_never(action)
        return None

    async def _call(self, action: Find | Ensure | Move | Remove) -> Answer:
        """Call the cloud, after what a call takes."""
        duration_us = self._cloud.call_us(LOAD_BALANCERS)
        if duration_us:
            await self._ctx.sleep_us(duration_us)
        cloud, cluster = self._cloud, self._cluster
        match action:
            case Find(service):
                return cloud.balancer(cluster, service)
            case Ensure(service, nodes):
                return cloud.ensure_balancer(cluster, service, nodes)
            case Move(service, nodes):
                return cloud.update_balancer(cluster, service, nodes)
            case Remove(service):
                return cloud.delete_balancer(cluster, service)
            case _:
                assert_never(action)

    # --- nodes ---

    def _present_hosts(self) -> tuple[str, ...]:
        return hosts(self._nodes.list(), self._env.names)

    def _nodes_changed(self) -> None:
        found = self._present_hosts()
        if found != self._hosts:
            self._hosts, self._all_due = found, True
        self._pass.put(None)

    async def _update_nodes(self) -> None:
        while True:
            await self._pass.get()
            due = sorted(self._syncs.known) if self._all_due else self._due
            self._all_due, self._due = False, []
            await self._update_all(deque(due))

    async def _update_all(self, due: deque[str]) -> None:
        """Give the present nodes to load balancers, as many at a time as there are workers."""
        failed: list[str] = []
        begun_us = self._ctx.now_us()

        async def work() -> None:
            while due:
                key = due.popleft()
                if not await self._update(key):
                    failed.append(key)

        await self._ctx.gather(*[work] * max(1, self._env.options.concurrent_service_syncs))
        self._due = sorted(failed)
        took_s = (self._ctx.now_us() - begun_us) / SECOND
        observe(self._ctx.kernel, "service_controller_nodesync_latency_seconds", took_s)

    async def _update(self, key: str) -> bool:
        service = self._syncs.known.get(key)
        if service is None or not wants_balancer(service):
            return True
        begun_us = self._ctx.now_us()
        error = await carry_out(self._syncs.move(service), self._do)
        if error is not None:
            self._ctx.record(self._failed, ("service", key, error))
        took_s = (self._ctx.now_us() - begun_us) / SECOND
        observe(self._ctx.kernel, "service_controller_update_loadbalancer_host_latency_seconds", took_s)
        return error is None
