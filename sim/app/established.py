"""Established clusters: objects that run already when the run begins.

Turns the objects of a plan's `established` into what their controllers, the scheduler and the node
agents would have made of them: Ready nodes, ReplicaSets, pods on nodes, containers on machines. It
happens at the first instant, before any process but the storage and the API servers has started.
The processes that start then find the cluster as after a restart of every process.

Holds: the first pod of a template goes through admission, validation, the scheduler's choice and a
    status update by ordinary requests. The other pods of the template are copies of it that are
    written to the storage, as from a backup, each on the node that the scheduler chooses for it and
    with its own name, uid, address and containers. If a quota counts the pods, each is created by a
    request and charged; quotas come before the objects that they limit. An object that is refused
    is applied as usual; a pod without a node, or that waits for something
    (`actors.node.established.settles`), is left to the scheduler and the agents. The same plan and
    seed give the same cluster. `tests/cluster/faults/test_established.py` compares with a cluster
    that started empty.
Differs  from a cluster that started empty: there are no events and no history; everything is as old
         as the run; Jobs and StatefulSets with claims begin with their controllers.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from itertools import islice
from typing import Any, NamedTuple

from actors.apiserver.outside_time import ask
from actors.controllers import manager, resourcequota, serviceaccount, ttl
from actors.controllers.established import Child, children_of
from actors.controllers.nodelifecycle import loop as nodelifecycle
from actors.controllers.nodelifecycle.decide import NO_SCHEDULE, taints_patch, without_taints
from actors.controllers.persistentvolume_binder import loop as persistentvolume_binder
from actors.controllers.persistentvolume_binder.established import bindings
from actors.controllers.shared.accounts import account as new_account
from actors.node import established as node_side
from actors.node import requests as node_api
from actors.node.pods.status_manager import status_patch
from actors.node.volumes.registration import csi_node
from actors.scheduler.actor import user_of
from actors.scheduler.attempt import Attempts, Placed
from actors.scheduler.cluster import Cluster as View
from actors.scheduler.pods import PodInfo, Template, binding
from actors.scheduler.status import waits
from sim.api.admission import quota as amounts
from sim.api.generated_names import generated_name, new_uid
from sim.api.objects import controller_of
from sim.api.schema.quota_use import NOTHING, add, texts_of
from sim.api.schema.resource import Resource
from sim.api.store import Item
from sim.api.types import Obj, Reply, Request, UserInfo, Verb
from sim.app.parts.ports import BuiltCluster
from sim.units import Virtual

# Objects in one kernel event; between two events the program serves its display and interrupts.
AT_ONCE = 200
# Writes before the history is compacted. The run begins without history, and it would be large.
HISTORY = 5_000
FIRST = ("Namespace", "ResourceQuota")  # kinds that restrict other objects
VOLUMES_AND_CLAIMS = ("PersistentVolume", "PersistentVolumeClaim")
SPREADING = ("ReplicaSet", "StatefulSet", "ReplicationController")
CLAIM = "persistentVolumeClaim"  # a source of volumes
OWN = ("containerStatuses", "hostIP", "podIP", "podIPs")  # of each pod's status


class Like(NamedTuple):
    """A pod that runs, and its template in the scheduler."""

    item: Item
    template: Template


class Established:
    """Creates the objects of an established cluster, then calls `then`."""

    def __init__(self, cluster: BuiltCluster, then: Callable[[], None]) -> None:
        self._cluster = cluster
        self._then = then
        self._names, self._kernel = cluster.names, cluster.kernel
        self._server = next(iter(cluster.api_servers.values()))
        self._store = cluster.storage.store
        self._view = View(self._names, whole_objects=bool(cluster.scheduler_plugins))
        options = cluster.options.scheduler
        # Pods of other profiles are left to the scheduler.
        self._attempts = Attempts(
            self._view,
            options.percentage_of_nodes_to_score,
            cluster.scheduler_plugins,
            spec=options.profiles[0],
        )
        stream = self._kernel.stream("established")
        self._bits = stream.getrandbits
        self._draw: Callable[[int], int] = lambda count: int(stream.random() * count)
        self._nodes: list[Obj] = []
        # Objects that are applied as usual: their kind does not exist yet, or they were refused.
        self._left: list[Obj] = []
        self._limited: dict[str, None] = {}  # namespaces with quotas
        # The nodes of pods that are still to come, by their workload.
        self._places = {workload: [*nodes] for workload, nodes in cluster.plan.places.items()}
        self._forgotten = 0  # the revision of the last compaction
        self._work = self._bring_up()

    def begin(self) -> None:
        """Begin at the first instant; nothing else happens before the work is done."""
        self._kernel.call_at(Virtual(0), self._go_on)

    def _go_on(self, _: Any) -> None:
        self._kernel.follow(0)
        going = sum(1 for _ in islice(self._work, AT_ONCE)) == AT_ONCE
        if not going or self._store.revision - self._forgotten > HISTORY:
            self._cluster.compact()
            self._forgotten = self._store.revision
        if going:
            self._kernel.call_at(Virtual(0), self._go_on)
        else:
            self._cluster.hand_in(self._left)
            self._then()

    def _bring_up(self) -> Iterator[None]:
        """Create nodes, then objects; each step of the iterator is one of them."""
        cluster = self._cluster
        for namespace in cluster.list("namespaces"):
            self._kernel.follow(0)
            self._welcome(namespace)
        registering = [name for name in cluster.nodes if cluster.options.nodes[name].register_node]
        annotations = {self._names.annotation_node_ttl: str(ttl.seconds_at(len(registering)))}
        for name in registering:
            self._kernel.follow(0)  # the node before it is no cause
            self._register(name, annotations)
            yield
        planned = cluster.plan.established
        if any(obj["kind"] == "ResourceQuota" for obj in planned):
            ahead = [obj for kind in FIRST for obj in planned if obj["kind"] == kind]
            planned = (*ahead, *(obj for obj in planned if obj["kind"] not in FIRST))
        for obj in planned:
            yield from self._bring({**obj})

    # --- requests ---------------------------------------------------------------------------------

    def _ask(self, user: UserInfo, manager: str, verb: Verb, resource: str | Resource, **more: Any) -> Reply:
        """The reply to a request of a user, at this instant."""
        entry = self._cluster.scheme.resource(resource)
        request = Request(
            verb=verb, resource=entry.plural, group=entry.group, version=entry.version, user=user, manager=manager,
            cause=self._kernel.cause, **more,
        )  # fmt: skip
        served = self._server.serve(request)
        return ask(self._server, request, audited=False) if served is None else served[0]

    def _controller(self, client: str, verb: Verb, resource: str, **more: Any) -> Reply:
        own_account = self._cluster.options.controller_manager.use_service_account_credentials
        user = manager.user_of(self._names, client, own_account)
        return self._ask(user, self._names.component("controller-manager"), verb, resource, **more)

    def _agent(self, node: str, verb: Verb, resource: str, **more: Any) -> Reply:
        names = self._names
        return self._ask(node_api.user_of(names, node), names.node_agent, verb, resource, **more)

    def _note(self, target: str, outcome: Reply) -> None:
        self._cluster.admin.note("establish", target, outcome)

    # --- objects ----------------------------------------------------------------------------------

    def _register(self, name: str, annotations: Obj) -> None:
        """Create a Ready node: without its initial taint, with the annotations of controllers."""
        cluster, names = self._cluster, self._names
        machine, options = cluster.nodes[name].machine, cluster.options.nodes[name]
        body = node_side.registered(machine, options, names, self._kernel.epoch_us)
        stored = self._agent(name, "create", "nodes", body=body)
        if stored.ok:
            unready = (names.taint_not_ready, NO_SCHEDULE)
            taints = stored.obj["spec"].get("taints") or ()
            left = without_taints(taints, [unready])
            patch = taints_patch(stored.obj, taints if left is None else left)
            patch["metadata"]["annotations"] = annotations
            stored = self._controller(
                nodelifecycle.CLIENT, "patch", "nodes", name=name, body=patch,
                content_type=names.media_strategic_patch,
            )  # fmt: skip
        if stored.ok:
            self._nodes.append(stored.obj)
            self._view.set_node(stored.obj)
            drivers = csi_node(stored.obj, cluster.storage_drivers, names)
            self._agent(name, "create", "csinodes", body=drivers)
        else:
            self._note(f"nodes/{name}", stored)

    def _bring(self, obj: Obj) -> Iterator[None]:
        """Create an object as its user applies it, and what controllers make of it."""
        cluster = self._cluster
        resource = cluster.scheme.by_kind(obj["apiVersion"], obj["kind"])
        meta = obj["metadata"]
        self._kernel.follow(0)
        if resource is None:
            self._left.append(obj)
            return
        namespace = meta.get("namespace", self._names.default_namespace) if resource.namespaced else ""
        whole = {**obj, "metadata": {**meta, "namespace": namespace}} if namespace else obj
        reply = self._ask(cluster.admin_user, "orrery", "create", resource, namespace=namespace, body=whole)
        yield
        if reply.item is None:
            self._left.append(obj)
        else:
            self._note(f"{resource.plural}/{meta['name']}", reply)
            yield from self._follow(reply.item)

    def _welcome(self, namespace: Obj) -> None:
        """Give the scheduler the labels of a namespace, and create the default service account."""
        name, names = namespace["metadata"]["name"], self._names
        self._view.set_namespace(name, namespace["metadata"].get("labels") or {})
        account = new_account(name, names.default_service_account)
        self._controller(serviceaccount.CLIENT, "create", "serviceaccounts", namespace=name, body=account)

    def _count(self, quota: Obj) -> None:
        """Write the status of a quota; a quota without a status limits nothing."""
        cluster, names, meta = self._cluster, self._names, quota["metadata"]
        hard = resourcequota.hard_of(quota)
        used = dict.fromkeys(hard, NOTHING)
        for resource in filter(amounts.is_counted, cluster.scheme.resources):
            counted = amounts.matching(resource, hard, names)
            for obj in cluster.list(resource.plural, meta["namespace"]) if counted else ():
                if amounts.covers(quota, resource, obj, names):
                    taken = amounts.usage(resource, obj, names, self._kernel.epoch_us)
                    used = add(used, {name: taken[name] for name in counted if name in taken})
        body = {**quota, "status": {"hard": hard, "used": texts_of(used)}}
        self._controller(
            resourcequota.CLIENT, "update", "resourcequotas", subresource="status", namespace=meta["namespace"],
            name=meta["name"], body=body,
        )  # fmt: skip
        self._limited[meta["namespace"]] = None

    def _bind_claim(self, obj: Obj) -> None:
        """Bind a claim and a volume that name each other, as soon as both are there."""
        spec, get, key = obj["spec"], self._store.get, self._cluster.scheme.key
        claim: Obj | None = obj
        volume: Obj | None = obj
        if obj["kind"] == "PersistentVolume":
            of_claim = spec.get("claimRef") or {}
            result = get(
                key("persistentvolumeclaims", of_claim.get("namespace", ""), of_claim.get("name", ""))
            )
            claim = None if result is None else result.obj
        else:
            result = get(key("persistentvolumes", "", spec.get("volumeName") or ""))
            volume = None if result is None else result.obj
        for write in bindings(claim, volume, self._names) if claim and volume else ():
            reply = self._controller(persistentvolume_binder.CLIENT, "update", **write)
            if not reply.ok:
                self._note(f"{write['resource']}/{write['name']}", reply)

    def _follow(self, item: Item) -> Iterator[None]:
        """Do what the scheduler, the agents and the controllers do with a new object."""
        obj = item.obj
        kind, meta = obj["kind"], obj["metadata"]
        self._kernel.follow(item.cause)
        if kind == "Pod":
            self._start(obj)
        elif kind == "Namespace":
            self._welcome(obj)
        elif kind == "ResourceQuota":
            self._count(obj)
        elif kind in VOLUMES_AND_CLAIMS:
            self._bind_claim(obj)
        elif kind == "Service":
            self._view.set_service(meta["namespace"], meta["name"], obj)
        elif kind in SPREADING:
            self._view.set_owner(kind, obj)
        for child in children_of(obj, self._nodes, self._names):
            if not (yield from self._beget(child, item)):
                return  # the others would be refused too; their controller tries again

    def _beget(self, child: Child, owner: Item) -> Generator[None, None, bool]:
        """Create the children of an object; returns False if one is refused.

        As soon as one pod of a template runs, the others are copied from it.
        """
        meta, places = owner.obj["metadata"], self._places_of(owner.obj)
        for new in range(1, child.times + 1):
            self._kernel.follow(owner.cause)
            reply = self._controller(
                child.client, "create", child.resource, namespace=meta["namespace"], body=child.body
            )
            yield
            if reply.item is None:
                self._note(f"{child.resource} of {meta['name']}", reply)
                return False
            if child.resource != "pods":
                yield from self._follow(reply.item)
                continue
            like = self._start(reply.obj, places)
            if like is not None and new < child.times and meta["namespace"] not in self._limited:
                yield from self._copies(child, like, child.times - new, owner.cause, places)
                break
        return True

    def _places_of(self, owner: Obj) -> list[str]:
        """The nodes of the next pods of an owner, which takes those of its Deployment."""
        above = controller_of(owner)
        named = owner if above is None else {**above, "metadata": {"name": above["name"]}}
        resource = self._cluster.scheme.by_kind(named["apiVersion"], named["kind"])
        plural = "" if resource is None else resource.plural
        return self._places.get(f"{plural}/{owner['metadata']['namespace']}/{named['metadata']['name']}", [])

    # --- pods -------------------------------------------------------------------------------------

    def _start(self, pod: Obj, places: list[str] | None = None) -> Like | None:
        """Make a new pod run by ordinary requests; None if it is left to the scheduler and agents.

        places: nodes of which the pod takes the first, wherever the scheduler would place it
        """
        meta, cluster = pod["metadata"], self._cluster
        info = self._view.templates.info(pod)
        node = info.node_name
        if not node and places and self._has_volumes(info):
            node = places.pop(0)
            if not self._bind(info, node).ok:
                return None
            self._settle(info, node, self._held(meta))
        if not node_side.is_settled(pod) or info.volumes:
            return None
        if not node and waits(pod, (self._attempts.profile.spec.name,)):
            node = self._chosen(info)
            if not node or not self._bind(info, node).ok:
                return None
        if node not in cluster.nodes or not node_side.has_images(cluster.nodes[node].machine, pod):
            return None
        current = self._held(meta)
        status = status_patch(current.obj["status"], self._run(node, current.obj))
        updated = self._agent(
            node, "patch", "pods", subresource="status", namespace=meta["namespace"], name=meta["name"],
            body={"metadata": {"uid": meta["uid"]}, "status": status}, content_type=self._names.media_strategic_patch,
        )  # fmt: skip
        if updated.item is None:
            return None
        self._settle(info, node, updated.item)
        return Like(updated.item, info.template)

    def _has_volumes(self, info: PodInfo) -> bool:
        """True if the claims of a pod have volumes, so that no choice of a node has to come first."""
        namespace = info.obj["metadata"]["namespace"]
        claims = [each["persistentVolumeClaim"]["claimName"] for each in info.volumes if CLAIM in each]
        if len(claims) != len(info.volumes):
            return False
        key = self._cluster.scheme.key
        result = [self._store.get(key("persistentvolumeclaims", namespace, claim)) for claim in claims]
        return all(claim is not None and claim.obj["spec"].get("volumeName") for claim in result)

    def _held(self, meta: Obj) -> Item:
        current = self._store.get(self._cluster.scheme.key("pods", meta["namespace"], meta["name"]))
        assert current is not None
        return current

    def _bind(self, info: PodInfo, node: str) -> Reply:
        meta, names = info.obj["metadata"], self._names
        return self._ask(
            user_of(names), names.component("scheduler"), "create", "pods", namespace=meta["namespace"],
            name=meta["name"], subresource="binding", body=binding(info, node),
        )  # fmt: skip

    def _chosen(self, info: PodInfo) -> str:
        """The node that the scheduler chooses; "" if there is no room."""
        answer = self._attempts.place(info, list, self._draw)
        return answer.node if isinstance(answer, Placed) else ""

    def _run(self, node: str, pod: Obj) -> Obj:
        machine, options = self._cluster.nodes[node].machine, self._cluster.options.nodes[node]
        return node_side.run(machine, options, pod, self._kernel.now_us, self._kernel.epoch_us)

    def _settle(self, info: PodInfo, node: str, item: Item) -> None:
        info.node_name, info.held = node, item
        self._view.assume(info)

    def _copies(self, child: Child, like: Like, count: int, cause: int, places: list[str]) -> Iterator[None]:
        """Copy a running pod into the storage; without a node, create a pending pod."""
        obj, bits = like.item.obj, self._bits
        meta, spec = obj["metadata"], obj["spec"]
        current = {name: value for name, value in obj["status"].items() if name not in OWN}
        prefix, base = like.item.key.rpartition("/")[0], child.body["metadata"]["generateName"]
        storage = self._cluster.storage
        while count:
            new = {**meta, "name": generated_name(base, bits), "uid": new_uid(bits)}
            info = PodInfo({**obj, "metadata": new}, like.template)
            node = places.pop(0) if places else self._chosen(info)
            if not node:
                break
            pod = {**obj, "metadata": new, "spec": {**spec, "nodeName": node}, "status": current}
            pod["status"] = self._run(node, pod)
            storage.writer = "orrery", "create"
            item = self._store.put(f"{prefix}/{new['name']}", pod, 0, like.item.managed, cause)
            if isinstance(item, Item):
                self._settle(info, node, item)
                count -= 1
            yield
        for _ in range(count):
            self._kernel.follow(cause)
            self._controller(child.client, "create", "pods", namespace=meta["namespace"], body=child.body)
            yield
