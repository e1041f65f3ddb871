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

from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Any

from actors.users.load import Load, LoadSpec
from sim.api.objects import controller_of, is_deleting
from sim.api.schema.resource import Resource
from sim.api.scheme.scheme import Scheme
from sim.api.types import INTERNAL_SERVER_ERROR, TOO_MANY_REQUESTS, Reply
from sim.client import Client
from sim.client.client import Propagation
from sim.dataclass import dataclass
from sim.ident import Names
from sim.kernel import Context, Kernel
from sim.kernel.streams import Drawn
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


class Admin:
    """The administrator. `do` can be called at any time; commands before the actor runs are queued."""

    def __init__(
        self, kernel: Kernel, scheme: Scheme, names: Names, client: Callable[[Context], Client]
    ) -> None:
        self._scheme = scheme
        self._names = names
        self._make_client = client
        self._kind = kernel.kind("command", "what", "target", "outcome")
        self._ctx: Context | None = None
        self._client: Client | None = None
        self._queued: list[Command] = []  # commands given before the actor runs
        self.refused: list[str] = []  # commands that failed, for the report of the run

    def main(self, ctx: Context) -> None:
        """The main function of the actor."""
        self._ctx = ctx
        self._client = self._make_client(ctx)
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
        self._ctx.spawn(self._run, command, name=type(command).__name__.lower())

    def generate(self, name: str, spec: LoadSpec) -> Callable[[], None]:
        """Start a load on the API; returns a function that stops it."""
        assert self._ctx is not None
        return Load(self._ctx, self.client, self._scheme, name, spec).stop

    async def _run(self, command: Command) -> None:
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
                for node in nodes:
                    await self._drain(node, timeout_us)

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
            kept = {key: value for key, value in current.obj.items() if key == "status"}
            reply = await self.client.update(resource, {**obj, **kept, "metadata": meta})
            if reply.reason != "Conflict":
                return reply

    async def _scale(self, resource: str, namespace: str, name: str, replicas: int) -> None:
        patch = {"spec": {"replicas": replicas}}
        known = self._served("scale", resource, name)
        if known is None:
            return
        reply = await self._persist(
            lambda: self.client.patch(known, namespace, name, patch, kind="merge", subresource="scale")
        )
        self.note("scale", f"{resource}/{name}", reply)

    async def _delete(self, command: DeleteAll) -> None:
        resource = self._served("delete", command.resource, command.name)
        if resource is None:
            return
        namespace = command.namespace if resource.namespaced else ""
        wanted = command.name, command.selector, command.drawn
        for name in await self._named("delete", resource, namespace, *wanted):
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
        known = self._scheme.named(resource)
        if known is None:
            text = f'the server doesn\'t have a resource type "{resource}"'
            self.note(what, f"{resource}/{name}" if name else resource, text)
        return known

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

        drawn: takes some of those that are not being deleted
        """
        if not selector:
            return [name]
        found = await self._persist(lambda: self.client.list(resource, namespace, label_selector=selector))
        if not found.ok:
            self.note(what, f"{resource.plural} {selector}", found)
        elif not found.items:  # no trace record, as nothing happens, but it is reported
            self._refuse(f"{resource.plural} {selector}", f"nothing matches in {namespace or 'the cluster'}")
        objects = [item.obj for item in found.items or ()]
        if drawn is None:
            return [obj["metadata"]["name"] for obj in objects]
        assert self._ctx is not None
        names = [obj["metadata"]["name"] for obj in objects if not is_deleting(obj)]
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
        found = await self._persist(lambda: self.client.get("nodes", "", node))
        if not found.ok:
            self.note(what, node, found)
            return
        left = retainted(found.obj["spec"].get("taints") or (), add, remove)
        patch = {"spec": {"taints": left or None}}
        reply = await self._persist(lambda: self.client.patch("nodes", "", node, patch, kind="strategic"))
        self.note(what, node, reply)

    async def _drain(self, node: str, timeout_us: int) -> None:
        assert self._ctx is not None
        if not (await self._cordon(node, True)).ok:
            return  # like kubectl, which does not drain a node that it could not cordon
        end_us = self._ctx.now_us() + timeout_us
        listed = await self._persist(lambda: self.client.list("pods", field_selector=f"spec.nodeName={node}"))
        if not listed.ok:
            self.note("drain", node, listed)
            return
        left = [item.obj for item in listed.items or () if self._evictable(item.obj)]
        await self._ctx.gather(
            *[lambda pod=pod: self._evict_and_wait(pod["metadata"], end_us) for pod in left]
        )
        self.note("drain", node, OK if self._ctx.now_us() < end_us else "timed out")

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
    kept = [t for t in old if (t["key"], t["effect"]) not in gone and (t["key"], "") not in gone]
    return [*add, *kept]


def _words(reply: Reply) -> str:
    """The outcome of a request: "ok", or reason and message of the error."""
    if reply.ok:
        return OK
    return ": ".join(dict.fromkeys(part for part in (reply.reason, reply.message) if part))
