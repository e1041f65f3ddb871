"""Service controller: has the cloud make, change and delete the load balancers of services.

Turns events of services and nodes into calls of the cloud, a finalizer, and the addresses in the
status of the service.

Holds: a service keeps its finalizer until the cloud has deleted its load balancer; a failed service
       is tried again after 5 s, doubling to 300 s; a changed set of nodes is given to all load
       balancers, and in later passes to those that failed.

Mirrors  kubernetes v1.25 staging/src/k8s.io/cloud-provider/controllers/service/controller.go,
         cloud-provider/service/helpers (AddFinalizer, PatchService),
         cmd/kube-controller-manager/app/core.go (startServiceController).
Differs  load balancers are updated in the order of the services' names, upstream's order is that of
         a map; the times of writes that the cloud takes are those of its calls.
"""

from __future__ import annotations

from collections import deque

from actors.controllers.service.decide import (
    changes_traffic,
    hosts,
    needs_cleanup,
    needs_update,
    wants_balancer,
)
from actors.controllers.shared.cloud import LOAD_BALANCERS, Cloud, Refused
from actors.controllers.shared.shell import Env, run_workers
from sim.api.objects import get_in
from sim.api.types import Obj
from sim.client import ItemExponential, WorkQueue, unmoved
from sim.client.events.recorder import EventKind
from sim.kernel.causes import caused_by
from sim.kernel.measure import observe
from sim.units import SECOND

NAME = "service"
CLIENT = COMPONENT = "service-controller"
RETRY_US, RETRY_MAX_US = 5 * SECOND, 300 * SECOND  # minRetryDelay, maxRetryDelay
SERVICES_RESYNC_US, NODES_RESYNC_US = 30 * SECOND, 100 * SECOND  # serviceSyncPeriod, nodeSyncPeriod
Occasion = tuple[EventKind, str, str]
NO_NODES: Occasion = ("Warning", "UnAvailableLoadBalancer", "There are no available nodes for LoadBalancer")


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
        self._known: dict[str, Obj] = {}  # services that have been synced, as they were then
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
            self._event(new, "Normal", *update.event)
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

    def _event(self, service: Obj, kind: EventKind, reason: str, message: str) -> None:
        self._recorder.event(service, kind, reason, message)

    # --- services ---

    async def _sync(self, key: str) -> str | None:
        service = self._services.get(key)
        if service is None:
            return await self._deleted(key)
        known = self._known.get(key)
        if known is not None and known["metadata"]["uid"] != service["metadata"]["uid"]:
            error = await self._delete(known)
            if error is not None:
                return error
        self._known[key] = service
        wanted = wants_balancer(service) and not needs_cleanup(service, self._finalizer)
        error = await (self._ensure(service) if wanted else self._clean(service))
        if error is not None:
            self._event(service, "Warning", "SyncLoadBalancerFailed", f"Error syncing load balancer: {error}")
            self._causes[key] = self._ctx.kernel.cause
        elif not wanted:
            del self._known[key]
            self._causes.pop(key, None)
        return error

    async def _deleted(self, key: str) -> str | None:
        """Delete the load balancer of a service that went without its finalizer."""
        known = self._known.get(key)
        error = None if known is None else await self._delete(known)
        if error is None:
            self._known.pop(key, None)
        return error

    async def _delete(self, service: Obj) -> str | None:
        if not wants_balancer(service):
            return None
        self._event(service, "Normal", "DeletingLoadBalancer", "Deleting load balancer")
        await self._call()
        refused = self._cloud.delete_balancer(self._cluster, service)
        if refused is not None:
            error = self._error(refused)
            self._event(
                service, "Warning", "DeleteLoadBalancerFailed", f"Error deleting load balancer: {error}"
            )
            return error
        self._event(service, "Normal", "DeletedLoadBalancer", "Deleted load balancer")
        return None

    async def _clean(self, service: Obj) -> str | None:
        await self._call()
        found = self._cloud.balancer(self._cluster, service)
        if isinstance(found, Refused):
            return f"failed to check if load balancer exists before cleanup: {self._error(found)}"
        if found is not None:
            self._event(service, "Normal", "DeletingLoadBalancer", "Deleting load balancer")
            await self._call()
            refused = self._cloud.delete_balancer(self._cluster, service)
            if refused is not None:
                return f"failed to delete load balancer: {self._error(refused)}"
        if self._finalizer in (service["metadata"].get("finalizers") or ()):
            change = {"$deleteFromPrimitiveList/finalizers": [self._finalizer]}
            error = await self._patch(service, {"metadata": change})
            if error is not None:
                return f"failed to remove load balancer cleanup finalizer: {error}"
        self._event(service, "Normal", "DeletedLoadBalancer", "Deleted load balancer")
        return await self._show(service, ())

    async def _ensure(self, service: Obj) -> str | None:
        self._event(service, "Normal", "EnsuringLoadBalancer", "Ensuring load balancer")
        if self._finalizer not in (service["metadata"].get("finalizers") or ()):
            error = await self._patch(service, {"metadata": {"finalizers": [self._finalizer]}})
            if error is not None:
                return f"failed to add load balancer cleanup finalizer: {error}"
        nodes = hosts(self._nodes.list(), self._env.names)
        if not nodes:
            self._event(service, *NO_NODES)
        await self._call()
        made = self._cloud.ensure_balancer(self._cluster, service, nodes)
        if isinstance(made, Refused):
            return f"failed to ensure load balancer: {self._error(made)}"
        self._event(service, "Normal", "EnsuredLoadBalancer", "Ensured load balancer")
        return await self._show(service, made.ingress)

    async def _show(self, service: Obj, ingress: tuple[str, ...]) -> str | None:
        """Write the addresses of a load balancer into the status of its service."""
        wanted = [{"ip": address} for address in ingress]
        if get_in(service, ("status", "loadBalancer", "ingress"), []) == wanted:
            return None
        error = await self._patch(service, {"status": {"loadBalancer": {"ingress": wanted or None}}})
        return None if error is None else f"failed to update load balancer status: {error}"

    async def _patch(self, service: Obj, patch: Obj) -> str | None:
        """Patch a service by its status subresource; an absent service is no error."""
        meta = service["metadata"]
        reply = await self._client.patch(
            "services", meta["namespace"], meta["name"], patch, subresource="status"
        )
        gone = reply.reason == "NotFound" and "status" in patch
        return None if reply.ok or gone else reply.message

    async def _call(self) -> None:
        """Wait for what a call of the cloud takes."""
        duration_us = self._cloud.call_us(LOAD_BALANCERS)
        if duration_us:
            await self._ctx.sleep_us(duration_us)

    def _error(self, refused: Refused) -> str:
        """The text of a refusal; what led to it explains the work from here on."""
        if refused.cause:
            self._ctx.kernel.follow(refused.cause)
        return refused.text

    # --- nodes ---

    def _nodes_changed(self) -> None:
        found = hosts(self._nodes.list(), self._env.names)
        if found != self._hosts:
            self._hosts, self._all_due = found, True
        self._pass.put(None)

    async def _update_nodes(self) -> None:
        while True:
            await self._pass.get()
            due = sorted(self._known) if self._all_due else self._due
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
        service = self._known.get(key)
        if service is None or not wants_balancer(service):
            return True
        begun_us = self._ctx.now_us()
        done = await self._update_hosts(key, service)
        took_s = (self._ctx.now_us() - begun_us) / SECOND
        observe(self._ctx.kernel, "service_controller_update_loadbalancer_host_latency_seconds", took_s)
        return done

    async def _update_hosts(self, key: str, service: Obj) -> bool:
        nodes = hosts(self._nodes.list(), self._env.names)
        await self._call()
        refused = self._cloud.update_balancer(self._cluster, service, nodes)
        if refused is None:
            done: Occasion = ("Normal", "UpdatedLoadBalancer", "Updated load balancer with new hosts")
            self._event(service, *(done if nodes else NO_NODES))
            return True
        error = self._error(refused)
        await self._call()
        if self._cloud.balancer(self._cluster, service) is None:
            return True
        text = f"Error updating load balancer with new hosts [{' '.join(nodes)}]: {error}"
        self._event(service, "Warning", "UpdateLoadBalancerFailed", text)
        self._ctx.record(self._failed, ("service", key, error))
        return False
