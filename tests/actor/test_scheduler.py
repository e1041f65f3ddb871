"""The scheduler against a real API server and store on the virtual clock."""

from contextlib import asynccontextmanager
from functools import partial
from itertools import pairwise

import trio

from actors.apiserver.server import ApiServer, ApiServerOptions
from actors.scheduler import scheduler_main
from actors.storage import Storage
from sim.api.scheme.scheme import Scheme
from sim.api.types import Reply, Request, UserInfo
from sim.client import Channel
from sim.ident import NAMES
from sim.kernel import Kernel, Supervisor
from sim.options.scheduler import parse_scheduler
from sim.units import SECOND

N = NAMES["orch"]
ADMIN = UserInfo("admin", (N.group_masters,))


class Rig:
    """A control plane without controllers or nodes; the test speaks to its API server between two
    instants.
    """

    def __init__(self, nursery, plugins=(), **flags):
        self.kernel = Kernel(seed=3)
        self.scheme = Scheme(N)
        self.supervisor = Supervisor(self.kernel, nursery)
        self.storage = Storage(self.kernel)
        options = ApiServerOptions(disabled_admission=("ServiceAccount",))
        self.server = ApiServer("api-0", self.kernel, self.storage, self.scheme, options)
        self.supervisor.add("storage", self.storage.main)
        self.supervisor.add("api-0", self.server.main)
        self.flags, self.plugins = flags, plugins
        nursery.start_soon(self.kernel.run)

    def add_scheduler(self, name):
        def connect(ctx):
            return [Channel(ctx, name, {"api-0": self.server}, "api-0")]

        options = parse_scheduler(self.flags, names=N)
        return self.supervisor.add(name, scheduler_main(options, self.scheme, N, connect, self.plugins))

    async def run_s(self, seconds):
        await self.kernel.run_until(self.kernel.now_us + int(seconds * SECOND))

    async def ask(self, verb, resource, namespace="", name="", **more):
        known = self.scheme.resource(resource)
        replies = []
        request = Request(
            verb=verb,
            resource=known.plural,
            group=known.group,
            version=known.version,
            namespace=namespace,
            name=name,
            user=ADMIN,
            **more,
        )
        self.kernel.call_later(0, lambda _: self.server.handle(request, replies.append))
        while not replies:
            await self.run_s(0.001)
        return replies[0]

    async def create(self, resource, obj, namespace=""):
        reply = await self.ask("create", resource, namespace, body=obj)
        assert reply.ok, reply.message
        return reply.obj

    async def node(self, name, cpu="4", **labels):
        allocatable = {"cpu": cpu, "memory": "8Gi", "pods": "110"}
        obj = {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": name, "labels": {N.label_hostname: name, **labels}},
            "status": {"allocatable": allocatable, "capacity": allocatable},
        }
        await self.create("nodes", obj)
        # Admission taints a node until a controller has seen it; there is none here.
        await self.change("nodes", name, {"spec": {"taints": None}})

    async def pod(self, name, cpu="1", **spec):
        requests = {"requests": {"cpu": cpu}}
        container = {"name": "c", "image": "i:1", "resources": requests}
        obj = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "namespace": "default", **spec.pop("metadata", {})},
            "spec": {"containers": [container], "terminationGracePeriodSeconds": 0, **spec},
        }
        return await self.create("pods", obj, "default")

    async def priority_class(self, name, value, **more):
        obj = {"apiVersion": N.api_version("scheduling", "v1"), "kind": "PriorityClass", **more}
        await self.create("priorityclasses", {**obj, "metadata": {"name": name}, "value": value})

    async def change(self, resource, name, body, namespace="", subresource=""):
        kind = N.media_merge_patch
        more = {"subresource": subresource, "body": body, "content_type": kind}
        reply = await self.ask("patch", resource, namespace, name, **more)
        assert reply.ok, reply.message

    async def let_go(self, name):
        """Take away what holds a pod that is being deleted."""
        await self.change("pods", name, {"metadata": {"finalizers": None}}, "default")

    async def bind(self, name, node):
        body = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name, "namespace": "default"}}
        body["target"] = {"kind": "Node", "name": node}
        await self.ask("create", "pods", "default", name, subresource="binding", body=body)

    async def get(self, name):
        return (await self.ask("get", "pods", "default", name)).obj

    async def node_of(self, name):
        return (await self.get(name))["spec"].get("nodeName")

    async def events(self, reason):
        reply = await self.ask("list", "events", "default")
        return [item.obj for item in reply.items if item.obj["reason"] == reason]

    async def lease(self):
        return (await self.ask("get", "leases", N.system_namespace, N.lease_scheduler)).obj


@asynccontextmanager
async def a_rig(*schedulers, **flags):
    async with trio.open_nursery() as nursery:
        rig = Rig(nursery, **flags)
        for name in schedulers or ("scheduler-0",):
            rig.add_scheduler(name)
        await rig.run_s(1)
        yield rig
        rig.kernel.stop()
        nursery.cancel_scope.cancel()


def condition_of(pod):
    return next(c for c in pod["status"]["conditions"] if c["type"] == "PodScheduled")


async def test_pod_is_bound_and_an_event_names_its_node():
    async with a_rig() as rig:
        await rig.node("n1")
        await rig.pod("web")
        await rig.run_s(1)
        assert await rig.node_of("web") == "n1"
        event = (await rig.events("Scheduled"))[0]
        assert (event["action"], event["type"]) == ("Binding", "Normal")
        assert event["message"] == "Successfully assigned default/web to n1"


async def test_a_pod_that_fits_nowhere_says_why_in_its_condition_and_an_event():
    async with a_rig() as rig:
        await rig.node("n1")
        await rig.node("n2", cpu="2", disk="ssd")
        await rig.pod("big", cpu="3", nodeSelector={"disk": "ssd"})
        await rig.run_s(1)
        condition = condition_of(await rig.get("big"))
        assert (condition["status"], condition["reason"]) == ("False", "Unschedulable")
        assert condition["message"] == (
            "0/2 nodes are available: 1 Insufficient cpu, 1 node(s) didn't match Pod's node affinity/selector. "
            "preemption: 0/2 nodes are available: 1 No preemption victims found for incoming pod, "
            "1 Preemption is not helpful for scheduling."
        )
        assert len(await rig.events("FailedScheduling")) == 1


async def test_without_any_event_the_next_try_comes_after_five_minutes():
    async with a_rig() as rig:
        tries = []
        kind = rig.kernel.kind("schedule", "pod", "node", "message")
        rig.kernel.trace.listen(kind, lambda _, at_us, __, ___: tries.append(at_us))
        await rig.node("n1")
        await rig.pod("big", cpu="5")
        await rig.run_s(340)
        assert len(tries) == 2
        assert 300 * SECOND < tries[1] - tries[0] <= 331 * SECOND


async def test_a_new_node_lets_a_waiting_pod_be_scheduled_at_once():
    async with a_rig() as rig:
        await rig.node("n1")
        await rig.pod("big", cpu="5")
        await rig.run_s(20)
        assert await rig.node_of("big") is None
        await rig.node("n2", cpu="8")
        await rig.run_s(1.5)
        assert await rig.node_of("big") == "n2"


async def test_a_pod_of_higher_priority_takes_the_place_of_a_lower_one():
    async with a_rig() as rig:
        await rig.priority_class("high", 1000)
        await rig.node("n1", cpu="2")
        await rig.pod("low", cpu="1500m", metadata={"finalizers": ["x.io/hold"]})
        await rig.run_s(1)
        await rig.pod("high", cpu="1500m", priorityClassName="high")
        await rig.run_s(2)
        high, low = await rig.get("high"), await rig.get("low")
        assert high["status"]["nominatedNodeName"] == "n1"
        assert condition_of(high)["message"] == "0/1 nodes are available: 1 Insufficient cpu."
        assert "deletionTimestamp" in low["metadata"]
        assert len(await rig.events("Preempted")) == 1
        await rig.let_go("low")
        await rig.run_s(12)
        assert await rig.node_of("high") == "n1"


async def test_room_is_kept_no_longer_for_a_pod_that_was_deleted_slowly():
    """With a finalizer it is seen as being deleted first, and leaves the queue; only then is it
    gone.
    """
    async with a_rig() as rig:
        await rig.priority_class("high", 1000)
        await rig.node("n1", cpu="2")
        await rig.pod("low", cpu="2", metadata={"finalizers": ["x.io/hold"]})
        await rig.run_s(1)
        await rig.pod("high", cpu="2", priorityClassName="high", metadata={"finalizers": ["x.io/hold"]})
        await rig.run_s(1)
        assert (await rig.get("high"))["status"]["nominatedNodeName"] == "n1"
        await rig.ask("delete", "pods", "default", "high")
        await rig.run_s(2)
        assert (await rig.events("FailedScheduling"))[-1]["message"] == (
            "skip schedule deleting pod: default/high"
        )
        for name in ("high", "low"):
            await rig.let_go(name)
        await rig.pod("next", cpu="2")
        await rig.run_s(1)
        assert await rig.node_of("next") == "n1"


async def test_bindings_are_limited_to_the_clients_rate():
    async with a_rig() as rig:
        for index in range(4):
            await rig.node(f"n{index}", cpu="64")
        for index in range(250):
            await rig.pod(f"p{index}", cpu="10m")
        began_us = rig.kernel.now_us
        bound = 0
        while bound < 250:
            await rig.run_s(0.5)
            reply = await rig.ask("list", "pods", "default")
            bound = sum(bool(item.obj["spec"].get("nodeName")) for item in reply.items)
        # 100 at once, the rest at 50 a second, counted from the first pod
        assert rig.kernel.now_us > 3 * SECOND
        assert rig.kernel.now_us - began_us < 5 * SECOND


async def test_standby_takes_over_when_the_leader_crashes():
    async with a_rig("scheduler-0", "scheduler-1") as rig:
        await rig.node("n1")
        leader = (await rig.lease())["spec"]["holderIdentity"].partition("_")[0]
        rig.supervisor[leader].crash("test")
        await rig.pod("web")
        await rig.run_s(12)
        assert await rig.node_of("web") is None
        await rig.run_s(12)
        assert await rig.node_of("web") == "n1"


async def test_a_pod_bound_by_another_is_left_where_it_is():
    async with a_rig() as rig:
        await rig.pod("web")
        await rig.run_s(1)
        assert condition_of(await rig.get("web"))["message"] == "no nodes available to schedule pods"
        await rig.node("n1")
        await rig.bind("web", "elsewhere")
        await rig.run_s(20)
        assert await rig.node_of("web") == "elsewhere"


async def test_refused_bind_is_reported_and_the_pod_tried_again():
    async with a_rig() as rig:
        handle, refused = rig.server.handle, []

        def refuse_once(request, respond):
            if request.subresource == "binding" and not refused:
                refused.append(request)
                respond(Reply(409, body={"reason": "Conflict", "message": "taken"}))
            else:
                handle(request, respond)

        rig.server.handle, rig.server.serve = refuse_once, lambda request: None
        await rig.node("n1", cpu="1")
        await rig.pod("web")
        await rig.run_s(0.5)
        condition = condition_of(await rig.get("web"))
        assert condition["reason"] == "SchedulerError"
        assert condition["message"] == 'binding rejected: running Bind plugin "DefaultBinder": taken'
        await rig.run_s(5)
        assert await rig.node_of("web") == "n1"


async def test_pod_with_a_refused_bind_is_retried_without_a_node_event_as_cause():
    async with a_rig() as rig:
        chosen = []
        kind = rig.kernel.kind("schedule", "pod", "node", "message")
        rig.kernel.trace.listen(
            kind, lambda _, at_us, cause, values: chosen.append((values[1], cause)) if values[1] else None
        )
        handle = rig.server.handle
        rig.server.serve = lambda request: None

        def refuse(request, respond):
            if request.subresource == "binding" and len(chosen) == 1:
                respond(Reply(409, body={"message": "taken", "reason": "Conflict"}))
            else:
                handle(request, respond)

        rig.server.handle = refuse
        await rig.node("n1")
        await rig.pod("a")
        await rig.run_s(0.1)
        await rig.change("nodes", "n1", {"metadata": {"labels": {"x": "y"}}})
        await rig.run_s(20)
        assert chosen == [("n1", chosen[0][1])] * 2 and await rig.node_of("a") == "n1"


async def test_refused_bind_keeps_the_assumption_of_a_recreated_pod():
    """The name is the same, the pod another: its own bind is still on its way."""
    async with a_rig() as rig:
        handle, held = rig.server.handle, []

        def hold_binds(request, respond):
            if request.subresource == "binding":
                held.append((request, respond))
            else:
                handle(request, respond)

        rig.server.handle, rig.server.serve = hold_binds, lambda request: None
        await rig.node("n1", cpu="1")
        await rig.pod("web-0")
        await rig.run_s(0.5)
        await rig.ask("delete", "pods", "default", "web-0")
        await rig.pod("web-0")
        await rig.run_s(0.5)
        first, second = held
        rig.kernel.call_later(0, lambda _: handle(*first))
        await rig.run_s(0.5)
        await rig.pod("other")
        await rig.run_s(1)
        assert "Insufficient cpu" in condition_of(await rig.get("other"))["message"]
        rig.kernel.call_later(0, lambda _: handle(*second))
        await rig.run_s(1)
        assert await rig.node_of("web-0") == "n1"
        assert await rig.node_of("other") is None


async def test_failed_bind_is_reported_for_a_pod_that_is_deleted_or_bound_by_then():
    """As upstream: the event and the patch come whether or not there is anything left to queue."""
    async with a_rig() as rig:
        handle, held = rig.server.handle, []

        def hold_binds(request, respond):
            if request.subresource == "binding" and request.user is not ADMIN:
                held.append(respond)
            else:
                handle(request, respond)

        rig.server.handle, rig.server.serve = hold_binds, lambda request: None
        await rig.node("n1")
        for name in ("gone", "placed"):
            await rig.pod(name)
            await rig.run_s(0.5)
        await rig.ask("delete", "pods", "default", "gone")
        await rig.bind("placed", "elsewhere")
        await rig.run_s(0.5)
        rig.server.handle = handle
        for respond in held:
            rig.kernel.call_later(0, lambda _, respond=respond: respond(Reply(409, body={"message": "no"})))
        await rig.run_s(20)
        text = 'binding rejected: running Bind plugin "DefaultBinder": no'
        told = [event["involvedObject"]["name"] for event in await rig.events("FailedScheduling")]
        assert told == ["gone", "placed"]
        placed = await rig.get("placed")
        assert placed["spec"]["nodeName"] == "elsewhere"
        assert condition_of(placed)["message"] == text


def lose(rig, resource, verb=""):
    """Let no request about this resource reach the server; the instants at which they were sent."""
    handle, sent_us = rig.server.handle, []

    def handled(request, respond):
        if request.resource == resource and verb in ("", request.verb) and request.user is not ADMIN:
            sent_us.append(rig.kernel.now_us)
            respond(Reply(0, lost="ConnectionRefused"))
        else:
            handle(request, respond)

    rig.server.handle, rig.server.serve = handled, lambda request: None
    rig.server.coalesced_path = lambda asked: None
    return sent_us


def hold(rig, verb, subresource, name):
    """Let the scheduler's requests of this kind wait; what this answers carries them out, or gives
    them a reply.
    """
    handle, held = rig.server.handle, []

    def handled(request, respond):
        theirs = request.user is not ADMIN and request.name == name
        if theirs and (request.verb, request.subresource) == (verb, subresource):
            held.append((request, respond))
        else:
            handle(request, respond)

    def let_through(reply=None):
        for request, respond in held:
            answer = partial(handle, request, respond) if reply is None else partial(respond, reply)
            rig.kernel.call_later(0, lambda _, answer=answer: answer())
        held.clear()

    rig.server.handle, rig.server.serve = handled, lambda request: None
    rig.server.coalesced_path = lambda asked: None
    return let_through


async def test_a_bind_refused_to_a_pod_that_has_its_node_by_then_brings_no_other_a_try():
    """Upstream's cache has nothing to forget of it: only what was assumed makes room."""
    async with a_rig() as rig:
        await rig.node("n1", cpu="2")
        await rig.pod("big", cpu="3")
        let_through = hold(rig, "create", "binding", "placed")
        await rig.pod("placed")
        await rig.run_s(5)
        await rig.bind("placed", "elsewhere")
        await rig.run_s(0.5)
        let_through()
        await rig.run_s(20)
        told = [event["involvedObject"]["name"] for event in await rig.events("FailedScheduling")]
        assert told == ["big", "placed"]


async def test_a_pod_about_to_be_bound_waits_for_no_room_though_its_status_comes_to_say_so():
    """Otherwise it would count twice on its node."""
    async with a_rig() as rig:
        await rig.priority_class("high", 9)
        await rig.node("n1", cpu="2")
        await rig.pod("low", cpu="2", metadata={"finalizers": ["x.io/hold"]})
        await rig.run_s(1)
        statuses, bindings = hold(rig, "patch", "status", "high"), hold(rig, "create", "binding", "high")
        await rig.pod("high", priorityClassName="high")
        await rig.run_s(2)
        await rig.let_go("low")
        await rig.run_s(0.5)
        statuses()
        await rig.run_s(0.5)
        assert (await rig.get("high"))["status"]["nominatedNodeName"] == "n1"
        await rig.pod("peer", priorityClassName="high")
        await rig.run_s(0.5)
        assert await rig.node_of("peer") == "n1"
        bindings()
        await rig.run_s(0.5)
        assert await rig.node_of("high") == "n1"


async def test_a_pod_waits_for_room_until_its_status_says_that_it_does_not():
    """Another of higher priority wanted the room, but could not write so, and is gone."""
    async with a_rig() as rig:
        await rig.priority_class("meek", 9, preemptionPolicy="Never")
        for name, value in (("high", 9), ("higher", 99)):
            await rig.priority_class(name, value)
        await rig.node("n1", cpu="2")
        await rig.pod("low", cpu="2", metadata={"finalizers": ["x.io/hold"]})
        await rig.run_s(1)
        await rig.pod("tried-first", cpu="2", priorityClassName="meek")
        await rig.run_s(1)
        await rig.pod("waits", cpu="2", priorityClassName="high")
        await rig.run_s(1)
        lose(rig, "pods", "patch")
        await rig.pod("first", cpu="2", priorityClassName="higher")
        await rig.run_s(1)
        await rig.ask("delete", "pods", "default", "first")
        await rig.let_go("low")
        await rig.run_s(20)
        assert await rig.node_of("waits") == "n1"
        assert await rig.node_of("tried-first") is None


async def test_an_event_that_finds_no_server_is_sent_again_up_to_eleven_times():
    async with a_rig() as rig:
        sent_us = lose(rig, "events")
        await rig.node("n1")
        await rig.pod("web")
        await rig.run_s(150)
        assert len(sent_us) == 12
        assert all(10 * SECOND <= b - a < 12.6 * SECOND for a, b in pairwise(sent_us))
        await rig.pod("late")
        await rig.run_s(2)
        rig.server.handle = type(rig.server).handle.__get__(rig.server)
        await rig.run_s(20)
        assert [event["involvedObject"]["name"] for event in await rig.events("Scheduled")] == ["late"]


async def test_a_status_that_finds_no_server_is_written_up_to_four_times():
    async with a_rig() as rig:
        sent_us = lose(rig, "pods", "patch")
        await rig.pod("web")
        await rig.run_s(5)
        gaps_ms = [(b - a) // 1_000 for a, b in pairwise(sent_us)]
        assert [gap - pause in range(5) for gap, pause in zip(gaps_ms, (10, 50, 250), strict=True)] == [
            True
        ] * 3


async def test_each_preempted_pod_gets_an_event():
    """Two that want its place, before it is seen that it ends: two events, no series."""
    async with a_rig() as rig:
        for name, value in (("high", 1000), ("higher", 2000)):
            await rig.priority_class(name, value)
        await rig.node("n1", cpu="1")
        await rig.pod("low", metadata={"finalizers": ["x.io/hold"]})
        await rig.run_s(1)
        handle = rig.server.handle

        def answer_deletes(request, respond):
            if request.verb == "delete":
                respond(Reply(200, body={}))
            else:
                handle(request, respond)

        rig.server.handle, rig.server.serve = answer_deletes, lambda request: None
        for name in ("high", "higher"):
            await rig.pod(name, priorityClassName=name)
            await rig.run_s(0.5)
        told = [event["related"]["name"] for event in await rig.events("Preempted")]
        assert sorted(told) == ["high", "higher"]
