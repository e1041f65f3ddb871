"""An administrator: applies, scales, deletes, patches, cordons and drains as kubectl does.

Turns commands (plain values) into API requests of an actor of its own. Each command is a task, so
it can fail, wait and retry as a real one. Every outcome is a trace record.

Mirrors  kubectl v1.25 pkg/cmd/{apply,scale,delete,patch}, pkg/drain: pods are evicted one by one, a
         429 is retried every 5 s, pods of daemon sets and mirror pods stay.
Differs  apply creates a missing object and otherwise replaces spec, data and labels (no three-way
         merge); a command without a server, or with an error 5xx or 429, is retried every second
         for a minute, as a person would.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

from actors.users.load import Load, LoadSpec
from sim.api.auth.users import user_named
from sim.api.objects import controller_of, is_deleting, is_ready
from sim.api.schema.resource import Resource
from sim.api.scheme.scheme import Scheme
from sim.api.types import INTERNAL_SERVER_ERROR, TOO_MANY_REQUESTS, Reply, Transport, UserInfo
from sim.client import Client
from sim.client.client import Propagation
from sim.dataclass import dataclass
from sim.ident import Names
from sim.kernel import Context, Kernel
from sim.kernel.draws.streams import Drawn
from sim.units import MS, SECOND, format_duration, format_micro_time

Obj = Mapping[str, Any]
EVICT_RETRY_US = 5 * SECOND  # kubectl pkg/drain/drain.go: evictPods sleeps 5 s after a 429
GONE_POLL_US = 1 * SECOND  # kubectl pkg/drain/default.go: waitForDelete polls each second
RETRY_US = 1 * SECOND
TRIES = 60
COMMANDS_MAX = 1_000
REFUSED_MAX = 100
EVICT_US = 600 * SECOND
OK = "ok"


@dataclass(frozen=True, slots=True)
class ApplyAll:
    """Create or replace objects, in order."""

    objects: Sequence[Obj]


@dataclass(frozen=True, slots=True)
class ScaleTo:
    """Set the replicas of an object through its scale subresource."""

    resource: str
    namespace: str
    name: str
    replicas: int


@dataclass(frozen=True, slots=True)
class DeleteAll:
    """Delete one object by name, or those that a label selector matches: all, or a draw of them."""

    resource: str
    namespace: str
    name: str = ""
    selector: str = ""
    grace_s: int | None = None
    policy: Propagation = ""
    drawn: Drawn | None = None


@dataclass(frozen=True, slots=True)
class PatchAll:
    """Send a merge patch for one object by name, or for all that a label selector matches."""

    resource: str
    namespace: str
    name: str
    selector: str
    merge: Mapping[str, Any]
    subresource: str = ""


@dataclass(frozen=True, slots=True)
class EvictAll:
    """Evict one pod by name, or those that a label selector matches (all, or a draw of them),
    retrying for ten minutes as drain.
    """

    namespace: str
    name: str = ""
    selector: str = ""
    drawn: Drawn | None = None


@dataclass(frozen=True, slots=True)
class SeizeLease:
    """Write another holder into the leader election lease `name` of a namespace."""

    namespace: str
    name: str
    holder: str


@dataclass(frozen=True, slots=True)
class Cordon:
    """Mark nodes as unschedulable (`on`) or schedulable."""

    nodes: Sequence[str]
    on: bool = True


@dataclass(frozen=True, slots=True)
class Taint:
    """Add taints {key, value, effect} to nodes and remove others.

    An added taint replaces one of the same key and effect. A removed one without effect matches any
    effect.
    """

    nodes: Sequence[str]
    add: Sequence[Mapping[str, str]] = ()
    remove: Sequence[Mapping[str, str]] = ()


@dataclass(frozen=True, slots=True)
class Drain:
    """Cordon nodes and evict their pods, one node after the other, each within the timeout."""

    nodes: Sequence[str]
    timeout_us: int


Command = ApplyAll | ScaleTo | DeleteAll | PatchAll | EvictAll | SeizeLease | Cordon | Taint | Drain


class Orders:
    """Commands, and what else belongs to them: their end is awaited together.

    then: called once when all are done, with what has failed first, "" for nothing
    """

    def __init__(self, then: Callable[[str], object]) -> None:
        self._then = then
        self._open = 0
        self._problem = ""

    def begun(self) -> None:
        """One more is under way."""
        self._open += 1

    def failed(self, problem: str) -> None:
        """Something that is not waited for has failed."""
        self._problem = self._problem or problem

    def done(self, problem: str = "") -> None:
        """One is done."""
        self._open -= 1
        self._problem = self._problem or problem
        if not self._open:
            self._then(self._problem)


class Admin:
    """The administrator. `do` can be called at any time; commands before the actor runs are queued."""

    def __init__(
        self,
        kernel: Kernel,
        scheme: Scheme,
        names: Names,
        connect: Callable[[Context], Sequence[Transport]],
        user: UserInfo,
    ) -> None:
        """connect: connects a process to the API servers; user: the administrator"""
        self._scheme = scheme
        self._names = names
        self._connect, self._user = connect, user
        self._kind = kernel.kind("command", "what", "target", "outcome")
        self._ctx: Context | None = None
        self._client: Client | None = None
        self._queued: list[Command] = []  # commands given before the actor runs
        self._orders: Orders | None = None  # what commands belong to that are given now
        self.refused: list[str] = []  # commands that failed, for the report of the run

    def main(self, ctx: Context) -> None:
        """The main function of the actor."""
        self._ctx = ctx
        self._client = self._client_of(ctx, self._user, 0)
        queued, self._queued = self._queued, []
        for command in queued:
            self.do(command)

    def seize_lease(self, namespace: str, name: str, holder: str) -> None:
        """Begin to write another holder into the lease of a leader."""
        self.do(SeizeLease(namespace, name, holder))

    def do(self, command: Command) -> None:
        """Start a command."""
        if self._ctx is None or not self._ctx.alive:
            assert len(self._queued) < COMMANDS_MAX
            self._queued.append(command)
            return
        name, orders = type(command).__name__.lower(), self._orders
        if orders is None:
            self._ctx.spawn(self._run, command, name=name)
        else:
            orders.begun()
            self._ctx.spawn(self._carry_out, command, orders, name=name)

    @contextmanager
    def ordered(self, orders: Orders) -> Iterator[None]:
        """Commands that are given in this context belong to these orders."""
        self._orders = orders
        yield
        self._orders = None

    def pending(self) -> Callable[[], None]:
        """Something besides commands is under way; the result is called when it is done."""
        orders = self._orders
        if orders is None:
            return lambda: None
        orders.begun()
        return orders.done

    async def _carry_out(self, command: Command, orders: Orders) -> None:
        orders.done(await self._run(command))

    def generate(self, name: str, spec: LoadSpec) -> Callable[[], None]:
        """Start a load on the API; returns a function that stops it."""
        ctx = self._ctx
        assert ctx is not None
        user = user_named(self._names, spec.user, spec.groups) if spec.user else self._user
        clients = [self._client_of(ctx, user, number) for number in range(spec.clients)]
        return Load(ctx, clients, self._scheme, name, spec, self._forbidden).stop

    def _client_of(self, ctx: Context, user: UserInfo, number: int) -> Client:
        """One of the clients of a user, of which each prefers the next server."""
        servers = self._connect(ctx)
        first = number % len(servers)
        return Client(
            ctx, self._scheme, [*servers[first:], *servers[:first]], user, qps=0, burst=0, agent="orrery"
        )

    def _forbidden(self, name: str, reply: Reply) -> None:
        self._refuse(f"load {name}", _words(reply))

    async def _run(self, command: Command) -> str:
        """Carry a command out; returns what has failed, as far as that is known."""
        match command:
            case ApplyAll(objects):
                for obj in objects:
                    await self._apply(obj)
            case ScaleTo(resource, namespace, name, replicas):
                await self._scale(resource, namespace, name, replicas)
            case DeleteAll():
                await self._delete(command)
            case PatchAll():
                await self._patch(command)
            case EvictAll():
                await self._evict_all(command)
            case SeizeLease(namespace, name, holder):
                await self._seize(namespace, name, holder)
            case Cordon(nodes, on):
                for node in nodes:
                    await self._cordon(node, on)
            case Taint(nodes, add, remove):
                for node in nodes:
                    await self._taint(node, add, remove)
            case Drain(nodes, timeout_us):
                outcomes = [await self._drain(node, timeout_us) for node in nodes]
                return next((f"drain: {outcome}" for outcome in outcomes if outcome != OK), "")
        return ""

    @property
    def client(self) -> Client:
        """The client of the running actor."""
        assert self._client is not None
        return self._client

    def note(self, what: str, target: str, reply: Reply | str) -> None:
        """Record the outcome of a command, and report it if the command failed."""
        outcome = reply if isinstance(reply, str) else _words(reply)
        self._record(what, target, outcome)
        if outcome != OK:
            self._refuse(f"{what} {target}", outcome)
            if self._orders is not None:
                self._orders.failed(f"{what}: {outcome}")

    def _record(self, what: str, target: str, outcome: str) -> None:
        assert self._ctx is not None
        self._ctx.record(self._kind, (what, target, outcome))

    def _refuse(self, what: str, outcome: str) -> None:
        assert self._ctx is not None
        if len(self.refused) < REFUSED_MAX:
            at = format_duration(self._ctx.kernel.now_us // MS * MS)
            self.refused.append(f"{what} at {at}: {outcome}")

    async def _sleep(self, us: int) -> None:
        assert self._ctx is not None
        await self._ctx.sleep_us(us)

    async def _apply(self, obj: Obj) -> None:
        resource = await self._kind_of(obj)
        meta = obj["metadata"]
        if resource is None:
            self.note(
                "apply", f"{obj['kind']}/{meta['name']}", f"no kind {obj['kind']} in {obj['apiVersion']}"
            )
            return
        namespace = meta.get("namespace", "default") if resource.namespaced else ""
        whole = {**obj, "metadata": {**meta, "namespace": namespace}} if resource.namespaced else dict(obj)

        async def put() -> Reply:
            reply = await self.client.create(resource, namespace, whole)
            if reply.reason not in ("AlreadyExists", "Forbidden"):
                return reply
            # No object can be created in a terminating namespace, but existing ones can be changed.
            replaced = await self._replace(resource, namespace, whole)
            return reply if replaced.reason == "NotFound" else replaced

        # The namespace or its service account may not exist yet, so the create is retried.
        reply = await self._persist(put, ("NotFound", "Forbidden"))
        self.note("apply", f"{resource.plural}/{meta['name']}", reply)

    async def _kind_of(self, obj: Obj) -> Resource | None:
        """The resource of an object; waits for a custom resource definition that comes later."""
        group = obj["apiVersion"].rpartition("/")[0]
        fixed = any(resource.group == group for resource in self._scheme.resources)
        for _ in range(TRIES):
            resource = self._scheme.by_kind(obj["apiVersion"], obj["kind"])
            if resource is not None or fixed:
                return resource
            await self._sleep(RETRY_US)
        return None

    async def _persist(
        self,
        send: Callable[[], Awaitable[Reply]],
        passing: tuple[str, ...] = (),
        code: int = TOO_MANY_REQUESTS,
    ) -> Reply:
        """Send a request until its reply is final; lost requests, 5xx and this code are retried.

        passing: reasons of errors that are retried too
        """
        reply = await send()
        for _ in range(TRIES):
            if not (
                reply.lost
                or reply.code == code
                or reply.code >= INTERNAL_SERVER_ERROR
                or reply.reason in passing
            ):
                break
            await self._sleep(RETRY_US)
            reply = await send()
        return reply

    async def _replace(self, resource: Resource, namespace: str, obj: dict[str, Any]) -> Reply:
        while True:
            current = await self.client.get(resource, namespace, obj["metadata"]["name"])
            if not current.ok:
                return current
            meta = {
                **current.obj["metadata"],
                **{k: v for k, v in obj["metadata"].items() if k in ("labels", "annotations", "finalizers")},
            }
            stored = {key: value for key, value in current.obj.items() if key == "status"}
            reply = await self.client.update(resource, {**obj, **stored, "metadata": meta})
            if reply.reason != "Conflict":
                return reply

    async def _scale(self, resource: str, namespace: str, name: str, replicas: int) -> None:
        patch = {"spec": {"replicas": replicas}}
        entry = self._served("scale", resource, name)
        if entry is None:
            return
        reply = await self._persist(
            lambda: self.client.patch(entry, namespace, name, patch, kind="merge", subresource="scale")
        )
        self.note("scale", f"{resource}/{name}", reply)

    async def _delete(self, command: DeleteAll) -> None:
        resource = self._served("delete", command.resource, command.name)
        if resource is None:
            return
        namespace = command.namespace if resource.namespaced else ""
        target = command.name, command.selector, command.drawn
        for name in await self._named("delete", resource, namespace, *target):
            reply = await self._persist(
                partial(
                    self.client.delete,
                    resource,
                    namespace,
                    name,
                    grace_s=command.grace_s,
                    policy=command.policy,
                )
            )
            self.note("delete", f"{command.resource}/{name}", reply)

    async def _patch(self, command: PatchAll) -> None:
        resource = self._served("patch", command.resource, command.name)
        if resource is None:
            return
        namespace = command.namespace if resource.namespaced else ""
        for name in await self._named("patch", resource, namespace, command.name, command.selector):
            send = partial(self.client.patch, resource, namespace, name, command.merge, kind="merge")
            reply = await self._persist(partial(send, subresource=command.subresource))
            self.note("patch", f"{command.resource}/{name}", reply)

    def _served(self, what: str, resource: str, name: str) -> Resource | None:
        """The resource of this name; reports an error if it does not exist."""
        entry = self._scheme.named(resource)
        if entry is None:
            text = f'the server doesn\'t have a resource type "{resource}"'
            self.note(what, f"{resource}/{name}" if name else resource, text)
        return entry

    async def _named(
        self,
        what: str,
        resource: Resource,
        namespace: str,
        name: str,
        selector: str,
        drawn: Drawn | None = None,
    ) -> list[str]:
        """The given name, or the names of the objects that the selector matches.

        drawn: takes some of those that are not being deleted, or of these that are ready
        """
        if not selector:
            return [name]
        result = await self._persist(lambda: self.client.list(resource, namespace, label_selector=selector))
        if not result.ok:
            self.note(what, f"{resource.plural} {selector}", result)
        elif not result.items:  # no trace record, as nothing happens, but it is reported
            self._refuse(f"{resource.plural} {selector}", f"nothing matches in {namespace or 'the cluster'}")
        objects = [item.obj for item in result.items or ()]
        if drawn is None:
            return [obj["metadata"]["name"] for obj in objects]
        assert self._ctx is not None
        names = [
            obj["metadata"]["name"]
            for obj in objects
            if not (is_deleting(obj) or (drawn.healthy and not is_ready(obj)))
        ]
        return drawn.of(names, self._ctx.kernel.stream(drawn.stream))

    async def _evict_all(self, command: EvictAll) -> None:
        namespace, selector = command.namespace, command.selector
        assert self._ctx is not None
        pods = self._scheme.resource("pods")
        end_us = self._ctx.now_us() + EVICT_US

        async def evict(found: str) -> None:
            reply = await self._evict({"namespace": namespace, "name": found}, end_us)
            gone = bool(selector) and reply.reason == "NotFound"  # since it was listed
            if not (reply.ok or gone):
                self._refuse(f"evict pods/{found}", _words(reply))

        named = await self._named("evict", pods, namespace, command.name, selector, command.drawn)
        await self._ctx.gather(*[lambda found=found: evict(found) for found in named])

    async def _seize(self, namespace: str, name: str, holder: str) -> None:
        now = format_micro_time(self._wall_us())
        patch = {"spec": {"holderIdentity": holder, "acquireTime": now, "renewTime": now}}
        reply = await self._persist(lambda: self.client.patch("leases", namespace, name, patch, kind="merge"))
        self.note("seize", f"leases/{name}", reply)

    def _wall_us(self) -> int:
        assert self._ctx is not None
        return self._ctx.wall_us()

    async def _cordon(self, node: str, on: bool) -> Reply:
        patch = {"spec": {"unschedulable": on or None}}
        reply = await self._persist(lambda: self.client.patch("nodes", "", node, patch, kind="strategic"))
        self.note("cordon" if on else "uncordon", node, reply)
        return reply

    async def _taint(
        self, node: str, add: Sequence[Mapping[str, str]], remove: Sequence[Mapping[str, str]]
    ) -> None:
        """Read the list of taints, change it, and write it, as kubectl taint does."""
        what = "taint" if add else "untaint"
        result = await self._persist(lambda: self.client.get("nodes", "", node))
        if not result.ok:
            self.note(what, node, result)
            return
        left = retainted(result.obj["spec"].get("taints") or (), add, remove)
        patch = {"spec": {"taints": left or None}}
        reply = await self._persist(lambda: self.client.patch("nodes", "", node, patch, kind="strategic"))
        self.note(what, node, reply)

    async def _drain(self, node: str, timeout_us: int) -> str:
        """Drain a node; returns the outcome."""
        assert self._ctx is not None
        cordoned = await self._cordon(node, True)
        if not cordoned.ok:
            return _words(cordoned)  # kubectl does not drain a node that it could not cordon
        end_us = self._ctx.now_us() + timeout_us
        listed = await self._persist(lambda: self.client.list("pods", field_selector=f"spec.nodeName={node}"))
        if not listed.ok:
            self.note("drain", node, listed)
            return _words(listed)
        left = [item.obj for item in listed.items or () if self._evictable(item.obj)]
        await self._ctx.gather(
            *[lambda pod=pod: self._evict_and_wait(pod["metadata"], end_us) for pod in left]
        )
        outcome = OK if self._ctx.now_us() < end_us else "timed out"
        self.note("drain", node, outcome)
        return outcome

    def _evictable(self, pod: Obj) -> bool:
        owner = controller_of(dict(pod))
        if owner is not None and owner["kind"] == "DaemonSet":
            return False
        return self._names.annotation_mirror_pod not in (pod["metadata"].get("annotations") or {})

    async def _evict(self, meta: Obj, end_us: int) -> Reply:
        """Request an eviction until it is granted or finally rejected; returns the last reply."""
        assert self._ctx is not None
        body = {
            "apiVersion": self._names.api_version("policy", "v1"),
            "kind": "Eviction",
            "metadata": {"name": meta["name"], "namespace": meta["namespace"]},
        }
        while True:
            reply = await self._persist(
                lambda: self.client.create(
                    "pods", meta["namespace"], body, name=meta["name"], subresource="eviction"
                ),
                code=0,
            )
            self._record("evict", f"pods/{meta['name']}", _words(reply))
            if reply.code != TOO_MANY_REQUESTS or self._ctx.now_us() + EVICT_RETRY_US >= end_us:
                return reply
            await self._sleep(EVICT_RETRY_US)

    async def _evict_and_wait(self, meta: Obj, end_us: int) -> None:
        """Evict a pod and wait until it is gone."""
        assert self._ctx is not None
        await self._evict(meta, end_us)
        while self._ctx.now_us() < end_us:
            current = await self.client.get("pods", meta["namespace"], meta["name"])
            if current.reason == "NotFound" or (current.ok and current.obj["metadata"]["uid"] != meta["uid"]):
                return
            await self._sleep(GONE_POLL_US)


def retainted(
    old: Sequence[Mapping[str, str]], add: Sequence[Mapping[str, str]], remove: Sequence[Mapping[str, str]]
) -> list[Mapping[str, str]]:
    """The taints after adding some (in front, as kubectl does) and removing others."""
    gone = {(taint["key"], taint.get("effect", "")): None for taint in (*add, *remove)}
    stored = [t for t in old if (t["key"], t["effect"]) not in gone and (t["key"], "") not in gone]
    return [*add, *stored]


def _words(reply: Reply) -> str:
    """The outcome of a request: "ok", or reason and message of the error."""
    if reply.ok:
        return OK
    return ": ".join(dict.fromkeys(part for part in (reply.reason, reply.message) if part))
