"""Namespace controller: empties a namespace that is being deleted, then finalizes it.

Turns a namespace's deletionTimestamp into attempts to delete everything in it and to remove its
finalizer, and carries out the steps of each attempt.

Holds: nothing is decided here; the steps are those of `sync`.

Mirrors  kubernetes v1.25 pkg/controller/namespace/namespace_controller.go.
"""

from __future__ import annotations

from typing import assert_never

from actors.controllers.namespace.sync import (
    Action,
    List,
    ListPods,
    Outcome,
    ReadDocument,
    Remove,
    RemoveAll,
    Seen,
    empty_namespace,
)
from actors.controllers.shared.aggregated_resources import read_document
from actors.controllers.shared.shell import Env
from actors.controllers.shared.steps import Answer, Get, Update, carry_out
from sim.api.crd.served import Served
from sim.api.schema.resource import Resource
from sim.api.types import Obj, Reply
from sim.client import ItemExponential, MaxOf, SharedBucket, WorkQueue
from sim.client.cache.informer import RESYNC_MIN_US
from sim.units import MINUTE, MS, SECOND

CLIENT = "namespace-controller"
QPS_FACTOR, BURST_FACTOR = 20, 100  # startNamespaceController
GRACE_US = 5 * SECOND  # namespaceDeletionGracePeriod: until all API servers know of the deletion
RETRY_BASE_US, RETRY_MAX_US = 5 * MS, 1 * MINUTE  # nsControllerRateLimiter


async def start(env: Env) -> None:
    """Run the namespace controller until its process ends."""
    await NamespaceDeleter(env).run()


class NamespaceDeleter:
    """Shell of the controller: handlers, queue, and the attempts to empty one namespace."""

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
            error, wait_us = await self._delete(name)
            if error:
                self._env.ctx.record(failed, (self._queue.name, name, error))
                self._queue.add_rate_limited(name)
            elif wait_us is not None:
                self._queue.add_after_us(name, wait_us)
            else:
                self._queue.forget(name)
            self._queue.done(name)

    async def _delete(self, name: str) -> Outcome:
        """Make one attempt to empty a namespace."""
        if self._namespaces.get(name) is None:
            return Outcome()
        seen = Seen(self._env.names.finalizer_namespace, self._namespaced)
        return await carry_out(empty_namespace(name, seen), self._answer)

    def _namespaced(self) -> list[Resource]:
        """The namespaced resources of the scheme and those of the present definitions."""
        custom = Served(self._definitions.list()).preferred()
        return [*self._resources, *(each for each in custom if each.namespaced)]

    async def _answer(self, action: Action) -> Answer:
        reply = await self._do(action)
        return Answer(reply, self._env.ctx.wall_us())

    async def _do(self, action: Action) -> Reply:
        match action:
            case Get(resource, namespace, name):
                return await self._typed.get(resource, namespace, name)
            case Update(resource, obj, subresource):
                return await self._typed.update(resource, obj, subresource=subresource)
            case ListPods(pods, namespace):
                return await self._typed.list(pods, namespace)
            case List(listed, namespace):
                return await self._metadata.list(listed, namespace)
            case ReadDocument(delegated):
                return await read_document(self._metadata, delegated)
            case RemoveAll(removed, namespace):
                return await self._metadata.delete_collection(removed, namespace, policy="Background")
            case Remove(removed, namespace, name):
                return await self._metadata.delete(removed, namespace, name, policy="Background")
            case _:
                assert_never(action)
