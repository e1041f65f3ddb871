"""ResourceQuota controller: recounts usage when something is freed or a quota changes.

Turns quotas and the objects of their namespaces into the status of the quotas. The API server adds
new usage at once (`verbs_quota`); this controller finds usage that has ended.

Custom resources are found every 30 s; a quota from before then counts them from its next recount
on.

Holds: a recount uses only complete lists, of kinds with a first list that has arrived.

Mirrors  kubernetes v1.25
         pkg/controller/resourcequota/{resource_quota_controller.go,resource_quota_monitor.go}.
Differs  only kinds that some quota counts are watched (upstream: all countable kinds).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from actors.controllers.shared.aggregated_resources import delegated_among, discover
from actors.controllers.shared.pod_owners import NAMESPACE_INDEX, index_by_namespace
from actors.controllers.shared.shell import Env, run_workers
from sim.api.admission import quota as amounts
from sim.api.aggregation.delegation import Delegated, delegated_of
from sim.api.crd.served import Served
from sim.api.objects import key_of
from sim.api.schema.quota_use import NOTHING, Amounts, amounts_of, texts_of
from sim.api.schema.resource import Resource
from sim.api.types import Obj
from sim.client import Informer
from sim.client.cache.derived import Digests
from sim.units import SECOND

CLIENT = "resourcequota-controller"
DISCOVERY_US = 30 * SECOND


async def start(env: Env) -> None:
    """Run the ResourceQuota controller until its process ends."""
    loop = QuotaLoop(env)
    await env.informers.start_and_sync()
    for queue in (loop.queue, loop.priority_queue):
        run_workers(env, queue, loop.sync, env.options.concurrent_resource_quota_syncs)
    env.ctx.spawn(loop.recount_all, name="resourcequota-resync")


def hard_of(quota: Obj) -> Obj:
    """The limits in the quota's spec."""
    return (quota.get("spec") or {}).get("hard") or {}


class QuotaLoop:
    """Shell of the controller: watched kinds, queues, and the recount of one quota."""

    def __init__(self, env: Env) -> None:
        self.env = env
        self.client = env.client(CLIENT)
        self.queue = env.queue("resourcequota_primary")
        self.priority_queue = env.queue("resourcequota_priority")
        self.quotas = env.informers["resourcequotas"]
        self._counted = _counted(env)
        self._custom: dict[str, Resource] = {}  # by group resource
        self._definitions = env.informers["customresourcedefinitions"]
        self._started_us = env.ctx.now_us()
        self._discovers = False  # a discovery is due
        self._watched: dict[Resource, Informer] = {}
        self._shares = amounts.Shares(env.names)
        self._shared: dict[tuple[str, Resource], tuple[Obj, Digests[amounts.Share | None]]] = {}
        index_by_namespace(self.quotas)
        self.quotas.on(add=self._added, update=self._updated, delete=self._deleted)
        self._api_services = env.informers["apiservices"]
        self._elsewhere: list[Resource] = []  # of other servers
        for informer, discover_later in (
            (self._definitions, self._discover_later),
            (self._api_services, self._service_changed),
        ):
            informer.on(add=discover_later, update=partial(_newer, discover_later), delete=discover_later)

    async def recount_all(self) -> None:
        """Queue all quotas once per sync period until the process ends."""
        while True:
            for quota in self.quotas.list():
                self.queue.add(key_of(quota))
            await self.env.ctx.sleep_us(self.env.options.resource_quota_sync_period_us)

    # --- custom resources -------------------------------------------------------------------------

    def _discover_later(self, _: Obj) -> None:
        """Have the next discovery find what a changed definition serves; others would find nothing."""
        if not self._discovers:
            self._discovers = True
            since_us = self.env.ctx.now_us() - self._started_us
            self.env.ctx.call_later_us(DISCOVERY_US - since_us % DISCOVERY_US, self._discover)

    def _service_changed(self, obj: Obj) -> None:
        if delegated_of(obj) is not None:
            self._discover_later(obj)

    def _discover(self, _: object) -> None:
        """Find the custom resources that are served now, and those of other servers."""
        self._discovers = False
        found = delegated_among(self._api_services.list())
        if found:
            self.env.ctx.spawn(self._discover_elsewhere, found, name="resourcequota-discovery")
            self._discover_later({})
        else:
            self._elsewhere = []
            self._count_found()

    async def _discover_elsewhere(self, found: Sequence[Delegated]) -> None:
        """Count the resources of other servers.

        Quirk: while a server is away, its resources are not counted, and keep their last numbers.
        """
        known = {each.group_resource for each in self.env.scheme.resources}
        now, _ = await discover(self.client, found, known)
        before = {(each.group_resource, each.version): each for each in self._elsewhere}
        self._elsewhere = [before.get((each.group_resource, each.version), each) for each in now]
        self._count_found()

    def _count_found(self) -> None:
        """Count the resources that were found, and no more those that were not."""
        served = [*Served(self._definitions.list()).preferred(), *self._elsewhere]
        wanted = {one.group_resource: one for one in served if amounts.is_counted(one)}
        for name, known in list(self._custom.items()):
            if name not in wanted or wanted[name].version != known.version:
                del self._custom[name], self._counted[known]
                informer = self._watched.pop(known, None)
                if informer is not None:
                    informer.stop()
        for name, resource in wanted.items():
            if name not in self._custom:
                self._custom[name] = resource
                self._counted[resource] = partial(self.env.informers.custom, resource)
        for quota in self.quotas.list():
            self._watch(quota, recounts=False)  # Quirk: no quota is counted again for this

    # --- events -----------------------------------------------------------------------------------

    def _added(self, quota: Obj) -> None:
        """Queue a quota; one that was never counted goes to the priority queue."""
        hard, status = hard_of(quota), quota.get("status") or {}
        self._watch(quota)
        known = status.get("used") or {}
        fresh = amounts_of(status.get("hard")) != amounts_of(hard) or any(
            name not in known for resource in self._counted for name in self._names(resource, hard)
        )
        (self.priority_queue if fresh else self.queue).add(key_of(quota))

    def _updated(self, old: Obj, new: Obj) -> None:
        if amounts_of(hard_of(old)) != amounts_of(hard_of(new)):
            self._added(new)

    def _deleted(self, quota: Obj) -> None:
        self.queue.add(key_of(quota))

    def _names(self, resource: Resource, hard: Obj) -> list[str]:
        return amounts.matching(resource, hard, self.env.names)

    def _watch(self, quota: Obj, recounts: bool = True) -> None:
        """Watch the kinds that this quota counts.  recounts: True to count all quotas afterwards"""
        for resource, made in self._counted.items():
            if resource in self._watched or not self._names(resource, hard_of(quota)):
                continue
            informer = self._watched[resource] = made()
            index_by_namespace(informer)
            _Monitor(self, resource, informer)
            informer.start()
            if recounts:
                informer.when_synced(self._queue_all)

    def _queue_all(self) -> None:
        for quota in self.quotas.list():
            self.queue.add(key_of(quota))

    def replenish(self, resource: Resource, namespace: str) -> None:
        """Queue the quotas of a namespace that count this kind, after an object used less."""
        for quota in self.quotas.by_index("namespace", namespace):
            if self._names(resource, (quota.get("status") or {}).get("hard") or {}):
                self.queue.add(key_of(quota))

    # --- a sync -----------------------------------------------------------------------------------

    async def sync(self, key: str) -> str | None:
        """Recount one quota; returns an error text or None."""
        quota = self.quotas.get(key)
        if quota is None:
            self._shared = {of: known for of, known in self._shared.items() if of[0] != key}
            return None
        hard, status = hard_of(quota), quota.get("status") or {}
        used = {k: v for k, v in amounts_of(status.get("used")).items() if k in hard}
        for resource in self._counted:
            names = self._names(resource, hard)
            if not names:
                continue
            informer = self._watched.get(resource)
            if informer is None or not informer.synced:
                return None  # the key is queued again when the list has arrived
            used |= self._usage(quota, resource, informer, names)
        before = status.get("used")
        clean = "hard" in status and before is not None
        same = clean and amounts_of(status["hard"]) == amounts_of(hard)
        if same and _numbers(amounts_of(before)) == _numbers(used):
            return None
        counted = {"hard": hard, **({"used": texts_of(used)} if used else {})}
        written = {**quota, "status": {**{k: v for k, v in status.items() if k != "used"}, **counted}}
        reply = await self.client.update("resourcequotas", written, subresource="status")
        return None if reply.ok else reply.message

    def _usage(self, quota: Obj, resource: Resource, informer: Informer, names: list[str]) -> Amounts:
        key, spec = key_of(quota), quota["spec"]
        known = self._shared.get((key, resource))
        if known is None or known[0] is not spec:

            def share(obj: Obj) -> amounts.Share | None:
                return self._shares.of(resource, obj) if amounts.in_scopes(spec, resource, obj) else None

            known = self._shared[key, resource] = spec, Digests(informer, NAMESPACE_INDEX, share)
        shares = known[1].of(quota["metadata"]["namespace"])
        used = amounts.total(filter(None, shares), self.env.ctx.wall_us())
        return {name: used.get(name, NOTHING) for name in names}


def _newer(take: Callable[[Obj], None], _: Obj, new: Obj) -> None:
    """As an update handler: take the new object."""
    take(new)


class _Monitor:
    """Handlers on one kind that notify the loop when an object uses less."""

    def __init__(self, loop: QuotaLoop, resource: Resource, informer: Informer) -> None:
        self._loop = loop
        self._resource = resource
        self._frees = None if resource.behavior.quota is None else resource.behavior.quota.frees
        informer.on(update=None if self._frees is None else self._updated, delete=self._freed)

    def _freed(self, obj: Obj) -> None:
        self._loop.replenish(self._resource, obj["metadata"].get("namespace", ""))

    def _updated(self, old: Obj, new: Obj) -> None:
        """Quirk: a Service that frees ports without changing its type is found by the full recount."""
        if self._frees is not None and self._frees(old, new, self._loop.env.ctx.wall_us()):
            self._freed(new)


def _numbers(given: Amounts) -> dict[str, int]:
    return {name: amount[0] for name, amount in given.items()}


def _counted(env: Env) -> dict[Resource, Callable[[], Informer]]:
    """The fixed kinds that quotas can count, with what makes their informers."""
    scheme = env.scheme
    found: dict[str, tuple[Resource, str]] = {}
    for resource in scheme.resources:
        if amounts.is_counted(resource):
            plain = scheme.resource(resource.plural) is resource
            name = resource.plural if plain else resource.group_resource
            found.setdefault(resource.group_resource, (resource, name))
    return {resource: partial(env.informers.__getitem__, name) for resource, name in found.values()}
