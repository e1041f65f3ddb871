"""Objects that run already when the run begins: a cluster that has been up before.

Turns the objects of a plan's `established` into what their controllers, the scheduler and the node agents would have made
of them: nodes that are Ready, ReplicaSets, pods on nodes, containers on machines.  It happens at the first instant, before
anything but storage and API servers has started.  Who starts then finds the cluster as after a restart of every process.

Holds: the first pod of a template has gone through admission, validation, the scheduler's choice and a status as any pod
does, request by request; the others are put into storage as that one is, as from a backup, each on the node that the
scheduler's choice gives it, with a name, uid, address and containers of its own; where a quota counts them, each pod is asked
for and charged, and quotas come before what they limit.  What is refused, or finds no node, or would
have to wait for something (`actors.node.established.settles`), is left to those whose work it is: an object that is refused
is applied as usual.  The same plan and seed give the same cluster.  `tests/cluster/faults/test_established.py` compares
with a cluster that came up by itself.
Differs  from a cluster that came up: no events and no history; everything is as old as the run; Jobs and StatefulSets with
         claims begin with their controllers.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple

from actors.apiserver.outside_time import ask
from actors.controllers import manager, resourcequota, serviceaccount, ttl
from actors.controllers.established import Child, children_of
from actors.controllers.nodelifecycle import loop as nodelifecycle
from actors.controllers.nodelifecycle.decide import NO_SCHEDULE, taints_patch, without_taints
from actors.node import established as node_side
from actors.node import requests as node_api
from actors.node.pods.status_manager import status_patch
from actors.scheduler.actor import user_of
from actors.scheduler.attempt import Attempts, Placed
from actors.scheduler.cluster import Cluster as View
from actors.scheduler.pods import PodInfo, Template, binding
from actors.scheduler.status import waits
from sim.api.admission import quota as amounts
from sim.api.generated_names import generated_name, new_uid
from sim.api.schema.resource import Resource
from sim.api.store import Item
from sim.api.types import Obj, Reply, Request, UserInfo

if TYPE_CHECKING:
    from sim.app.cluster import Cluster

# Objects between two looks at what else the program has to do (a display, an interrupt).
AT_ONCE = 200
# Writes whose revisions are kept: of what was before the run no history is left in the end, and it would be large.
HISTORY = 5_000
FIRST = ("Namespace", "ResourceQuota")  # kinds that say what others may
SPREADING = ("ReplicaSet", "StatefulSet", "ReplicationController")
OWN = ("containerStatuses", "hostIP", "podIP", "podIPs")  # of each pod's status


class Like(NamedTuple):
    """A pod that runs, and its class in the scheduler's eyes."""

    item: Item
    template: Template


class Established:
    """Brings the objects up, then calls `then`."""

    def __init__(self, cluster: Cluster, then: Callable[[], None]) -> None:
        self._cluster = cluster
        self._then = then
        self._names, self._kernel = cluster.names, cluster.kernel
        self._server = next(iter(cluster.api_servers.values()))
        self._store = cluster.storage.store
        self._view = View(self._names, whole_objects=bool(cluster.scheduler_plugins))
        self._attempts = Attempts(
            self._view, cluster.options.scheduler.percentage_of_nodes_to_score, cluster.scheduler_plugins
        )
        stream = self._kernel.stream("established")
        self._bits = stream.getrandbits
        self._draw: Callable[[int], int] = lambda count: int(stream.random() * count)
        self._nodes: list[Obj] = []
        # Objects that are applied as usual: their kind is not there yet, or they were refused for now.
        self._left: list[Obj] = []
        self._limited: dict[str, None] = {}  # namespaces with quotas
        self._forgotten = 0  # the revision at which history was forgotten last
        self._work = self._bring_up()

    def begin(self) -> None:
        """From the first instant on; nothing else happens before it is over."""
        self._kernel.call_at(0, self._go_on)

    def _go_on(self, _: Any) -> None:
        self._kernel.cause = 0
        going = sum(1 for _ in islice(self._work, AT_ONCE)) == AT_ONCE
        if not going or self._store.revision - self._forgotten > HISTORY:
            self._cluster.compact()
            self._forgotten = self._store.revision
        if going:
            self._kernel.call_at(0, self._go_on)
        else:
            self._cluster.hand_in(self._left)
            self._then()

    def _bring_up(self) -> Iterator[None]:
        """One step after the other: a node or an object each."""
        cluster = self._cluster
        for namespace in cluster.list("namespaces"):
            self._kernel.cause = 0
            self._welcome(namespace)
        registering = [name for name in cluster.nodes if cluster.options.nodes[name].register_node]
        told = {self._names.annotation_node_ttl: str(ttl.seconds_at(len(registering)))}
        for name in registering:
            self._kernel.cause = 0  # not the node before it
            self._register(name, told)
            yield
        planned = cluster.plan.established
        if any(obj["kind"] == "ResourceQuota" for obj in planned):
            ahead = [obj for kind in FIRST for obj in planned if obj["kind"] == kind]
            planned = (*ahead, *(obj for obj in planned if obj["kind"] not in FIRST))
        for obj in planned:
            yield from self._bring({**obj})

    # --- requests -----------------------------------------------------------------------------------------

    def _ask(self, user: UserInfo, manager: str, verb: str, resource: str | Resource, **more: Any) -> Reply:
        """The reply to a request of somebody's, at this instant."""
        known = self._cluster.scheme.resource(resource)
        request = Request(
            verb=verb, resource=known.plural, group=known.group, version=known.version, user=user, manager=manager,
            cause=self._kernel.cause, **more,
        )  # fmt: skip
        served = self._server.serve(request)
        return ask(self._server, request) if served is None else served[0]

    def _controller(self, client: str, verb: str, resource: str, **more: Any) -> Reply:
        own_account = self._cluster.options.controller_manager.use_service_account_credentials
        user = manager.user_of(self._names, client, own_account)
        return self._ask(user, self._names.component("controller-manager"), verb, resource, **more)

    def _agent(self, node: str, verb: str, resource: str, **more: Any) -> Reply:
        names = self._names
        return self._ask(node_api.user_of(names, node), names.node_agent, verb, resource, **more)

    def _tell(self, target: str, outcome: Reply) -> None:
        self._cluster.admin.note("establish", target, outcome)

    # --- objects ------------------------------------------------------------------------------------------

    def _register(self, name: str, told: Obj) -> None:
        """A node, without the taint that it bears until the node controller has seen it to be well, and with the
        annotations that controllers have told it."""
        cluster, names = self._cluster, self._names
        machine, options = cluster.nodes[name].machine, cluster.options.nodes[name]
        body = node_side.registered(machine, options, names, self._kernel.epoch_us)
        stored = self._agent(name, "create", "nodes", body=body)
        if stored.ok:
            unready = (names.taint_not_ready, NO_SCHEDULE)
            taints = stored.obj["spec"].get("taints") or ()
            left = without_taints(taints, [unready])
            patch = taints_patch(stored.obj, taints if left is None else left)
            patch["metadata"]["annotations"] = told
            stored = self._controller(
                nodelifecycle.CLIENT, "patch", "nodes", name=name, body=patch,
                content_type=names.media_strategic_patch,
            )  # fmt: skip
        if stored.ok:
            self._nodes.append(stored.obj)
            self._view.set_node(stored.obj)
        else:
            self._tell(f"nodes/{name}", stored)

    def _bring(self, obj: Obj) -> Iterator[None]:
        """An object as its user applies it, and what comes of it."""
        cluster = self._cluster
        resource = cluster.scheme.by_kind(obj["apiVersion"], obj["kind"])
        meta = obj["metadata"]
        self._kernel.cause = 0
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
            self._tell(f"{resource.plural}/{meta['name']}", reply)
            yield from self._follow(reply.item)

    def _welcome(self, namespace: Obj) -> None:
        """A namespace's labels matter to the scheduler; no pod is admitted without its service account."""
        name, names = namespace["metadata"]["name"], self._names
        self._view.set_namespace(name, namespace["metadata"].get("labels") or {})
        account = serviceaccount.default_account(name, names)
        self._controller(serviceaccount.CLIENT, "create", "serviceaccounts", namespace=name, body=account)

    def _count(self, quota: Obj) -> None:
        """A quota limits only once it is counted."""
        cluster, names, meta = self._cluster, self._names, quota["metadata"]
        hard = resourcequota.hard_of(quota)
        used = dict.fromkeys(hard, amounts.NOTHING)
        for resource in filter(amounts.is_counted, cluster.scheme.resources):
            counted = amounts.matching(resource, hard, names)
            for obj in cluster.list(resource.plural, meta["namespace"]) if counted else ():
                if amounts.covers(quota, resource, obj, names):
                    taken = amounts.usage(resource, obj, names, self._kernel.epoch_us)
                    used = amounts.add(used, {name: taken[name] for name in counted if name in taken})
        body = {**quota, "status": {"hard": hard, "used": amounts.texts_of(used)}}
        self._controller(
            resourcequota.CLIENT, "update", "resourcequotas", subresource="status", namespace=meta["namespace"],
            name=meta["name"], body=body,
        )  # fmt: skip
        self._limited[meta["namespace"]] = None

    def _follow(self, item: Item) -> Iterator[None]:
        """What others make of an object that has just been made."""
        obj = item.obj
        kind, meta = obj["kind"], obj["metadata"]
        self._kernel.cause = item.cause
        if kind == "Pod":
            self._start(obj)
        elif kind == "Namespace":
            self._welcome(obj)
        elif kind == "ResourceQuota":
            self._count(obj)
        elif kind == "Service":
            self._view.set_service(meta["namespace"], meta["name"], obj)
        elif kind in SPREADING:
            self._view.set_owner(kind, obj)
        for child in children_of(obj, self._nodes, self._names):
            if not (yield from self._beget(child, item)):
                return  # the others would fare alike; their controller tries again

    def _beget(self, child: Child, owner: Item) -> Generator[None, None, bool]:
        """What a controller makes of an object, until a pod of many runs: the others are copies.  False: it is refused."""
        meta = owner.obj["metadata"]
        for made in range(1, child.times + 1):
            self._kernel.cause = owner.cause
            reply = self._controller(
                child.client, "create", child.resource, namespace=meta["namespace"], body=child.body
            )
            yield
            if reply.item is None:
                self._tell(f"{child.resource} of {meta['name']}", reply)
                return False
            if child.resource != "pods":
                yield from self._follow(reply.item)
                continue
            like = self._start(reply.obj)
            if like is not None and made < child.times and meta["namespace"] not in self._limited:
                yield from self._copies(child, like, child.times - made, owner.cause)
                break
        return True

    # --- pods ---------------------------------------------------------------------------------------------

    def _start(self, pod: Obj) -> Like | None:
        """Have a pod run that has just been made, by the requests that bring it there; None: that is left to others."""
        meta, cluster = pod["metadata"], self._cluster
        if not node_side.is_settled(pod):
            return None
        info = self._view.templates.info(pod)
        node = info.node_name
        if not node and waits(pod, cluster.options.scheduler.scheduler_name):
            node = self._chosen(info)
            if not node or not self._bind(info, node).ok:
                return None
        if node not in cluster.nodes:
            return None
        held = self._store.get(cluster.scheme.key("pods", meta["namespace"], meta["name"]))
        assert held is not None
        status = status_patch(held.obj["status"], self._run(node, held.obj))
        told = self._agent(
            node, "patch", "pods", subresource="status", namespace=meta["namespace"], name=meta["name"],
            body={"metadata": {"uid": meta["uid"]}, "status": status}, content_type=self._names.media_strategic_patch,
        )  # fmt: skip
        if told.item is None:
            return None
        self._settle(info, node, told.item)
        return Like(told.item, info.template)

    def _bind(self, info: PodInfo, node: str) -> Reply:
        meta, names = info.obj["metadata"], self._names
        return self._ask(
            user_of(names), names.component("scheduler"), "create", "pods", namespace=meta["namespace"],
            name=meta["name"], subresource="binding", body=binding(info, node),
        )  # fmt: skip

    def _chosen(self, info: PodInfo) -> str:
        """The scheduler's choice; "": there is no room."""
        answer = self._attempts.place(info, list, self._draw)
        return answer.node if isinstance(answer, Placed) else ""

    def _run(self, node: str, pod: Obj) -> Obj:
        machine, options = self._cluster.nodes[node].machine, self._cluster.options.nodes[node]
        return node_side.run(machine, options, pod, self._kernel.now_us, self._kernel.epoch_us)

    def _settle(self, info: PodInfo, node: str, item: Item) -> None:
        info.node_name, info.held = node, item
        self._view.assume(info)

    def _copies(self, child: Child, like: Like, count: int, cause: int) -> Iterator[None]:
        """So many more like one that runs, put into storage as it is; those that find no room are left to wait for it."""
        obj, bits = like.item.obj, self._bits
        meta, spec = obj["metadata"], obj["spec"]
        held = {name: value for name, value in obj["status"].items() if name not in OWN}
        prefix, base = like.item.key.rpartition("/")[0], child.body["metadata"]["generateName"]
        storage = self._cluster.storage
        while count:
            made = {**meta, "name": generated_name(base, bits), "uid": new_uid(bits)}
            info = PodInfo({**obj, "metadata": made}, like.template)
            node = self._chosen(info)
            if not node:
                break
            pod = {**obj, "metadata": made, "spec": {**spec, "nodeName": node}, "status": held}
            pod["status"] = self._run(node, pod)
            storage.writer = "orrery", "create"
            item = self._store.put(f"{prefix}/{made['name']}", pod, 0, like.item.managed, cause)
            if isinstance(item, Item):
                self._settle(info, node, item)
                count -= 1
            yield
        for _ in range(count):
            self._kernel.cause = cause
            self._controller(child.client, "create", "pods", namespace=meta["namespace"], body=child.body)
            yield
