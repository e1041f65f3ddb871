"""Namespace controller: empties a namespace that is being deleted, then finalizes it.

Turns a namespace's deletionTimestamp into deletes of everything in it, conditions that say what
remains, and the removal of its finalizer.

Holds: a namespace is finalized only after a list of each resource was empty; each attempt deletes
every namespaced resource once.

Mirrors  kubernetes v1.25 pkg/controller/namespace/{namespace_controller,
         deletion/namespaced_resources_deleter}.go.
Differs  Resources are processed in the order of the scheme (upstream: any order).  Discovery is one
         list of the APIServices, and the documents of those that other servers answer: a group
         version fails while its server is unavailable.
"""

from __future__ import annotations

from collections.abc import Sequence

from actors.controllers.namespace.decide import (
    Leftover,
    conditions_of,
    leftover,
    pods_estimate_s,
    unavailable_groups,
    with_conditions,
)
from actors.controllers.shared.aggregated_resources import delegated_among, discover
from actors.controllers.shared.shell import Env
from sim.api.aggregation.delegation import discovery_failure
from sim.api.crd.served import Served
from sim.api.schema.resource import Resource
from sim.api.types import Obj, Reply
from sim.client import ItemExponential, MaxOf, SharedBucket, WorkQueue
from sim.client.cache.informer import RESYNC_MIN_US
from sim.units import MINUTE, MS, SECOND, format_time

CLIENT = "namespace-controller"
QPS_FACTOR, BURST_FACTOR = 20, 100  # startNamespaceController
GRACE_US = 5 * SECOND  # namespaceDeletionGracePeriod: until all API servers know of the deletion
RETRY_BASE_US, RETRY_MAX_US = 5 * MS, 1 * MINUTE  # nsControllerRateLimiter
CONFLICT_TRIES = 100  # upstream's retryOnConflictError has no bound; more would be a bug of the API
UNSUPPORTED = ("NotFound", "MethodNotAllowed")  # the server has no such operation


async def start(env: Env) -> None:
    """Run the namespace controller until its process ends."""
    await NamespaceDeleter(env).run()


class NamespaceDeleter:
    """Shell of the controller: handlers, queue, and the deletion of one namespace."""

    def __init__(self, env: Env) -> None:
        self._env = env
        qps, burst = env.options.api_qps * QPS_FACTOR, env.options.api_burst * BURST_FACTOR
        self._typed = env.client(CLIENT, qps, burst)
        self._metadata = env.client(CLIENT, qps, burst)
        self._namespaces = env.informers["namespaces"]
        self._definitions = env.informers["customresourcedefinitions"]
        limiter = MaxOf(ItemExponential(RETRY_BASE_US, RETRY_MAX_US), SharedBucket(10, 100))
        self._queue = WorkQueue(env.ctx, "namespace", limiter)
        # For each resource the version that its group prefers.
        preferred = {r.group_resource: r for r in reversed(env.scheme.resources)}
        self._resources = [
            resource
            for resource in env.scheme.resources
            if resource.namespaced
            and "delete" in resource.verbs
            and "list" in resource.verbs
            and preferred[resource.group_resource] is resource
        ]

    async def run(self) -> None:
        """Start the handlers, the workers and the resync."""
        self._namespaces.on(add=self._queue_deleted, update=lambda _, new: self._queue_deleted(new))
        await self._env.informers.start_and_sync()
        for index in range(self._env.options.concurrent_namespace_syncs):
            self._env.ctx.spawn(self._work, name=f"namespace-{index}")
        self._resync_later()

    def _queue_deleted(self, namespace: Obj) -> None:
        if "deletionTimestamp" in namespace["metadata"]:
            self._queue.add_after_us(namespace["metadata"]["name"], GRACE_US)

    def _resync(self, _: object) -> None:
        for namespace in self._namespaces.list():
            self._queue_deleted(namespace)
        self._resync_later()

    def _resync_later(self) -> None:
        period_us = self._env.options.namespace_sync_period_us
        if period_us:
            self._env.ctx.call_later_us(max(period_us, RESYNC_MIN_US), self._resync)

    async def _work(self) -> None:
        failed = self._env.ctx.kernel.kind("sync-error", "queue", "key", "error")
        while True:
            name = await self._queue.get()
            estimate_s, error = (0, "") if self._namespaces.get(name) is None else await self._delete(name)
            if error:
                self._env.ctx.record(failed, (self._queue.name, name, error))
                self._queue.add_rate_limited(name)
            elif estimate_s:
                self._queue.add_after_us(name, (estimate_s // 2 + 1) * SECOND)
            else:
                self._queue.forget(name)
            self._queue.done(name)

    async def _delete(self, name: str) -> tuple[int, str]:
        """Make one attempt; returns (estimated seconds until the rest is gone, error text or "")."""
        reply = await self._typed.get("namespaces", "", name)
        if reply.ok and "deletionTimestamp" in reply.obj["metadata"]:
            reply = await self._set_terminating(reply.obj)
        if not reply.ok:
            return 0, "" if reply.reason == "NotFound" else reply.message
        namespace = reply.obj
        if "deletionTimestamp" not in namespace["metadata"] or not namespace["spec"].get("finalizers"):
            return 0, ""
        found = await self._metadata.list("apiservices")
        if not found.ok:
            return 0, found.message
        custom = [r for r in Served(self._definitions.list()).preferred() if r.namespaced]
        own = (*self._resources, *custom)
        elsewhere, failing = await self._discover([item.obj for item in found.items or ()], own)
        left = [await self._delete_resource(namespace, resource) for resource in (*own, *elsewhere)]
        now = format_time(self._env.ctx.wall_us())
        changed = with_conditions(namespace, conditions_of(left, failing), now)
        if changed is not None:
            await self._typed.update("namespaces", changed, subresource="status")
        errors = [entry.error for entry in left if entry.error]
        if failing:
            errors.insert(0, discovery_failure(failing))
        estimate_s = max(entry.estimate_s for entry in left)
        if errors or estimate_s:
            return estimate_s, "; ".join(errors)
        reply = await self._finalize(namespace)
        return 0, "" if reply.ok or reply.reason == "NotFound" else reply.message

    async def _discover(
        self, api_services: Sequence[Obj], own: Sequence[Resource]
    ) -> tuple[list[Resource], list[str]]:
        """The resources of other servers, and the group versions that discovery cannot read."""
        unavailable = unavailable_groups(api_services)
        known = {resource.group_resource for resource in own}
        wanted = [each for each in delegated_among(api_services) if each.group_version not in unavailable]
        found, failing = await discover(self._metadata, wanted, known)
        deletable = [each for each in found if each.namespaced and "delete" in each.verbs]
        return deletable, [*unavailable, *failing]

    async def _set_terminating(self, namespace: Obj) -> Reply:
        """Set the phase Terminating; after a conflict, retry on the newest object."""
        reply = Reply(200, body=namespace)
        for _ in range(CONFLICT_TRIES):
            current = reply.obj
            if (
                current["status"].get("phase") == "Terminating"
                or "deletionTimestamp" not in current["metadata"]
            ):
                break
            changed = {**current, "status": {**current["status"], "phase": "Terminating"}}
            reply = await self._typed.update("namespaces", changed, subresource="status")
            if reply.reason != "Conflict":
                break
            reply = await self._read_again(namespace)
            if not reply.ok:
                break
        return reply

    async def _finalize(self, namespace: Obj) -> Reply:
        """Remove the controller's finalizer from the spec; after a conflict, retry on the newest
        object.

        Quirk: the first attempt uses the object as it was before its conditions were written.
        """
        reply = Reply(200, body=namespace)
        for _ in range(CONFLICT_TRIES):
            spec = reply.obj["spec"]
            others = {*(spec.get("finalizers") or ())} - {self._env.names.finalizer_namespace}
            changed = {**reply.obj, "spec": {**spec, "finalizers": sorted(others)}}
            reply = await self._typed.update("namespaces", changed, subresource="finalize")
            if reply.reason != "Conflict":
                break
            reply = await self._read_again(namespace)
            if not reply.ok:
                break
        return reply

    async def _read_again(self, namespace: Obj) -> Reply:
        """Read the namespace; returns an error if it was recreated with another uid."""
        meta = namespace["metadata"]
        reply = await self._typed.get("namespaces", "", meta["name"])
        if reply.ok and reply.obj["metadata"]["uid"] != meta["uid"]:
            return Reply(0, lost="namespace uid has changed across retries")
        return reply

    async def _delete_resource(self, namespace: Obj, resource: Resource) -> Leftover:
        """Delete all objects of one resource and list what remains."""
        name = namespace["metadata"]["name"]
        label = f"{resource.plural}.{resource.group}"
        estimate_s = 0
        if resource.kind == "Pod" and not resource.group:
            reply = await self._typed.list(resource, name)
            if not reply.ok:
                return Leftover(label, error=reply.message)
            deleted_at = namespace["metadata"]["deletionTimestamp"]
            pods = [item.obj for item in reply.items or ()]
            estimate_s = pods_estimate_s(pods, deleted_at, self._env.ctx.wall_us())
        error = await self._delete_all(resource, name)
        if error:
            return Leftover(label, estimate_s=estimate_s, error=error)
        if "list" not in resource.verbs:
            return Leftover(label, estimate_s=estimate_s)
        reply = await self._metadata.list(resource, name)
        if not reply.ok:
            error = "" if reply.reason in UNSUPPORTED else reply.message
            return Leftover(label, estimate_s=estimate_s, error=error)
        gvr = f"{resource.group}/{resource.version}, Resource={resource.plural}"
        return leftover(label, [item.obj for item in reply.items or ()], estimate_s, name, gvr)

    async def _delete_all(self, resource: Resource, namespace: str) -> str:
        """Delete all objects of one resource; returns an error text, "" if all requests succeeded."""
        if "deletecollection" in resource.verbs:
            reply = await self._metadata.delete_collection(resource, namespace, policy="Background")
            if reply.reason not in UNSUPPORTED:
                return "" if reply.ok else reply.message
        if "list" not in resource.verbs:
            return ""
        listed = await self._metadata.list(resource, namespace)
        if not listed.ok:
            return "" if listed.reason in UNSUPPORTED else listed.message
        for item in listed.items or ():
            reply = await self._metadata.delete(
                resource, namespace, item.obj["metadata"]["name"], policy="Background"
            )
            if not reply.ok and reply.reason not in UNSUPPORTED:
                return reply.message
        return ""
