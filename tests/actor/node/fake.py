"""A small API for one agent: it answers after 1 ms and keeps a log of writes."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import trio

from actors.node.agent import NO_DRIVERS, node_agent_main
from actors.node.node import Node
from actors.node.runtime.machine import Machine
from actors.node.runtime.profile import NodeSpec
from sim.api.scheme.scheme import Scheme
from sim.api.store import Item
from sim.api.types import Obj, Reply, Request, WatchEvent
from sim.client.fast.lease_renewal import OnReply, Rhythm
from sim.client.fast.read_modify_write import Leg
from sim.ident import NAMES
from sim.kernel.actor import Context, Supervisor
from sim.kernel.draws.dice import Dice
from sim.kernel.kernel import Kernel
from sim.kernel.pace import NEVER_US
from sim.options.node.agent import NodeAgentOptions, parse_node_agent
from sim.options.storage_drivers import StorageDrivers
from sim.units import SECOND, format_time

DELAY_US = 1_000
NAMES_USED = NAMES["kubernetes"]


class FakeWatch:
    def __init__(self, matches: Callable[[str, Obj], bool]) -> None:
        self.matches = matches
        self.events: list[WatchEvent] = []
        self.notify: Callable[[], None] | None = None
        self.ended = False

    def attach(self, notify: Callable[[], None]) -> None:
        self.notify = notify

    def take(self, limit: int = 1000) -> list[WatchEvent]:
        events, self.events = self.events, []
        return events

    def stop(self) -> None:
        self.ended = True

    def tell(self, _: Any) -> None:
        if self.notify is not None and not self.ended:
            self.notify()


class FakeBeat:
    """A renewal without a fast path: each one is an ordinary request."""

    def __init__(self, ctx: Context, rhythm: Rhythm, missed: Callable[[], None]) -> None:
        self.ctx = ctx
        self.missed = missed
        self.rhythm = rhythm
        self.dice = Dice(rhythm.seed)
        self.draw = 0

    def taken(self) -> None:
        """The fast path has written nothing."""

    def schedule(self, alone: bool = True) -> None:
        pause_us = self.rhythm.period_us + self.dice.below(self.rhythm.jitter_us + 1)
        self.ctx.call_later_us(pause_us, lambda _: self.missed())


class FakeCoalescedCalls:
    """The calls of a client of a server without fast paths."""

    read_us = NEVER_US

    def __init__(self, client: FakeClient) -> None:
        self.client = client

    def call(self, serve: Any, request: Callable[[], Request], on_reply: OnReply, **how: Any) -> None:
        self.client.call(request(), on_reply)

    def read_modify_write(self, read: Leg, *what: Any) -> bool:
        self.call(*read)
        return False

    def claim(self) -> bool:
        return False

    def plan(self) -> None:
        """No reply is deferred."""


class FakeApi:
    """The objects by (resource, namespace, name), and faults of the API.

    log: (time, verb, resource/name, body) of each write
    down: why every request is lost; "" if the API answers
    failing: (verb, resource) of requests that fail
    patience_us: the heartbeats' timeout of the newest incarnation
    """

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.objects: dict[tuple[str, str, str], Obj] = {}
        self.revision = 0
        self.watches: list[FakeWatch] = []
        self.log: list[tuple[int, str, str, Any]] = []
        self.down = ""
        self.failing: tuple[tuple[str, str], ...] = ()
        self.patience_us = 0
        self.uids = 0

    # --- what a test does -------------------------------------------------------------------------

    def put(self, resource: str, obj: Obj) -> Obj:
        """Store an object: a create if there is none of that name."""
        meta = obj["metadata"]
        key = (resource, meta.get("namespace", ""), meta["name"])
        known = key in self.objects
        self.revision += 1
        stamped = {**meta, "resourceVersion": str(self.revision)}
        if "uid" not in stamped:
            self.uids += 1
            stamped["uid"] = f"uid-{self.uids}"
        stamped.setdefault("creationTimestamp", self.now())
        obj = {**obj, "metadata": stamped}
        self.objects[key] = obj
        self._tell("MODIFIED" if known else "ADDED", resource, obj)
        return obj

    def remove(self, resource: str, namespace: str, name: str) -> None:
        obj = self.objects.pop((resource, namespace, name))
        self.revision += 1
        self._tell("DELETED", resource, obj)

    def bind(self, name: str, spec: Obj | None = None, **meta: Any) -> Obj:
        """A pod of one container `c`, bound to the node."""
        pod_spec = {"nodeName": "n1", "containers": [{"name": "c", "image": "img:1"}], **(spec or {})}
        metadata = {"name": name, "namespace": "default", **meta}
        return self.put("pods", {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": pod_spec,
                                 "status": {"phase": "Pending"}})  # fmt: skip

    def delete(self, name: str, grace_s: int) -> None:
        pod = self.pod(name)
        meta = {
            **pod["metadata"],
            "deletionTimestamp": self.now(grace_s),
            "deletionGracePeriodSeconds": grace_s,
        }
        self.put("pods", {**pod, "metadata": meta})

    def pod(self, name: str) -> Obj:
        return self.objects["pods", "default", name]

    def has(self, name: str) -> bool:
        return ("pods", "default", name) in self.objects

    def ready(self, name: str) -> bool:
        conditions = self.pod(name)["status"].get("conditions") or ()
        return any(c["type"] == "Ready" and c["status"] == "True" for c in conditions)

    def events(self, reason: str) -> list[tuple[int, str]]:
        return [(at, body[1]) for at, verb, _, body in self.log if verb == "event" and body[0] == reason]

    def writes(self, verb: str, resource: str) -> list[int]:
        return [at for at, v, where, _ in self.log if v == verb and where.startswith(resource)]

    def now(self, plus_s: int = 0) -> str:
        return format_time(self.kernel.epoch_us + self.kernel.now_us + plus_s * SECOND)

    # --- the client's side ------------------------------------------------------------------------

    def call(self, request: Request, on_reply: Callable[[Reply], None]) -> None:
        self.kernel.call_later(DELAY_US, lambda _: on_reply(self._answer(request)))

    def event(self, obj: Obj, event_type: str, reason: str, message: str, *, annotations: Any = None) -> None:
        self.log.append((self.kernel.now_us, "event", obj["name"], (reason, message)))

    def tidy(self) -> None:
        pass

    def _answer(self, request: Request) -> Reply:
        if self.down:
            return Reply(0, lost=self.down)
        key = (request.resource, request.namespace, request.name)
        if request.verb not in ("get", "list", "watch"):
            name = request.name or request.body["metadata"]["name"]
            self.log.append((self.kernel.now_us, request.verb, f"{request.resource}/{name}", request.body))
        if (request.verb, request.resource) in self.failing:
            return Reply(500, body={"reason": "InternalError", "message": "no"})
        if request.verb == "create":
            return self._create(request)
        if request.verb == "list":
            matches = self._selector(request)
            items = [_item(o) for k, o in self.objects.items() if matches(k[0], o)]
            return Reply(200, items=items, revision=self.revision)
        if request.verb == "watch":
            watch = FakeWatch(self._selector(request))
            self.watches.append(watch)
            return Reply(200, watch=watch)
        held = self.objects.get(key)
        if held is None:
            return Reply(404, body={"reason": "NotFound", "message": "not found"})
        if request.verb == "get":
            return Reply(200, item=_item(held))
        if request.verb == "update":
            return Reply(200, item=_item(self.put(request.resource, request.body)))
        if request.verb == "patch":
            return Reply(200, item=_item(self.put(request.resource, merged(held, request.body))))
        assert request.verb == "delete"
        if request.body["preconditions"]["uid"] != held["metadata"]["uid"]:
            return Reply(409, body={"reason": "Conflict", "message": "uid"})
        self.remove(*key)
        return Reply(200, item=_item(held))

    def _create(self, request: Request) -> Reply:
        meta = request.body["metadata"]
        if (request.resource, meta.get("namespace", ""), meta["name"]) in self.objects:
            return Reply(409, body={"reason": "AlreadyExists", "message": "exists"})
        return Reply(201, item=_item(self.put(request.resource, request.body)))

    def _selector(self, request: Request) -> Callable[[str, Obj], bool]:
        path, _, value = request.options.get("fieldSelector", "").partition("=")
        resource = request.resource
        if not path:
            return lambda kind, _: kind == resource
        part, field = path.split(".")
        return lambda kind, obj: kind == resource and obj[part].get(field) == value

    def _tell(self, type_: str, resource: str, obj: Obj) -> None:
        for watch in self.watches:
            if not watch.ended and watch.matches(resource, obj):
                watch.events.append(WatchEvent(type_, _item(obj), self.revision))
                self.kernel.call_later(DELAY_US, watch.tell)


def _item(obj: Obj) -> Item:
    meta = obj["metadata"]
    return Item(f"//{obj.get('kind', 'Pod').lower()}s/{meta.get('namespace', '')}/{meta['name']}", obj, 0, 0)


def merged(held: Any, patch: Any) -> Any:
    """As much of a strategic merge as the agent's patches need."""
    out = dict(held)
    for key, value in patch.items():
        if key.startswith("$"):
            continue
        if value is None:
            out.pop(key, None)
        elif key == "conditions":
            byname = {c["type"]: c for c in held.get(key) or ()}
            for c in value:
                if "$patch" in c:
                    del byname[c["type"]]
                    continue
                byname[c["type"]] = {
                    k: v for k, v in {**byname.get(c["type"], {}), **c}.items() if v is not None
                }
            order = [c["type"] for c in patch.get("$setElementOrder/conditions", held.get(key))]
            out[key] = [byname[t] for t in order]
        elif isinstance(value, dict) and isinstance(held.get(key), dict):
            out[key] = merged(held[key], value)
        elif key == "addresses":
            out[key] = [a for a in value if "$patch" not in a]
        else:
            out[key] = value
    return out


class FakeClient:
    """The API as one incarnation sees it, which gets no reply after its end."""

    def __init__(self, api: FakeApi, ctx: Context) -> None:
        self.api = api
        self.ctx = ctx

    def call(self, request: Request, on_reply: Callable[[Reply], None]) -> None:
        self.api.call(request, lambda reply: self.ctx.run(on_reply, reply))

    def heartbeat(self, *what: Any) -> FakeBeat:
        return FakeBeat(self.ctx, *what[-3:-1])

    def coalesced_calls(self, *what: Any, purpose: int = 0) -> FakeCoalescedCalls:
        return FakeCoalescedCalls(self)

    exchanges = coalesced_calls


class FakeClients:
    scheme = Scheme(NAMES_USED)
    has_tokens = False

    def __init__(self, api: FakeApi) -> None:
        self.api = api

    def main(self, ctx: Context, node: str, qps: int, burst: int) -> FakeClient:
        return FakeClient(self.api, ctx)

    def heartbeat(self, ctx: Context, node: str, timeout_us: int) -> FakeClient:
        self.api.patience_us = timeout_us
        return FakeClient(self.api, ctx)

    def recorder(self, ctx: Context, node: str, qps: int, burst: int) -> FakeApi:
        return self.api


@asynccontextmanager
async def one_node(
    spec: NodeSpec | None = None,
    options: NodeAgentOptions | None = None,
    seed: int = 1,
    drivers: StorageDrivers = NO_DRIVERS,
) -> AsyncIterator[tuple[Kernel, FakeApi, Node]]:
    """A kernel, an API and one registered node `n1` at 20 s."""
    kernel = Kernel(seed)
    async with trio.open_nursery() as nursery:
        supervisor = Supervisor(kernel, nursery)
        nursery.start_soon(kernel.run)
        api = FakeApi(kernel)
        machine = Machine(spec or NodeSpec("n1"))
        used = options or parse_node_agent({})
        main = node_agent_main(machine, FakeClients(api), used, NAMES_USED, drivers)
        node = Node(kernel, machine, supervisor.add("n1", main))
        await kernel.run_until(20 * SECOND)
        yield kernel, api, node
        kernel.stop()
        nursery.cancel_scope.cancel()
