"""Client, informers, queue and election against a small endpoint, on the virtual clock."""

from collections.abc import Callable
from itertools import pairwise

import trio

from sim.api.scheme.scheme import Scheme
from sim.api.store import Item
from sim.api.types import Reply, UserInfo, WatchEvent
from sim.client import Channel, Client, ElectionOptions, EventRecorder, Informers, LeaderElector, WorkQueue
from sim.ident import NAMES
from sim.kernel import Kernel, Rule, Supervisor
from sim.units import format_time

SCHEME = Scheme(NAMES["orch"])
USER = UserInfo("tester")


class FakeWatch:
    def __init__(self) -> None:
        self.queue: list[WatchEvent] = []
        self.notify: Callable[[], None] = lambda: None
        self.ended = False

    def attach(self, notify: Callable[[], None]) -> None:
        self.notify = notify

    def take(self, limit: int = 1000) -> list[WatchEvent]:
        events, self.queue = self.queue[:limit], self.queue[limit:]
        return events

    def stop(self) -> None:
        self.ended = True


class FakeServer:
    """Objects by name of one resource at a time; every write is sent to all watches."""

    def __init__(self, name: str = "api") -> None:
        self.name = name
        self.rev = 10
        self.items: dict[str, Item] = {}
        self.watches: list[FakeWatch] = []
        self.requests: list[str] = []

    def put(self, name: str, **more: object) -> Item:
        self.rev += 1
        kind = "MODIFIED" if name in self.items else "ADDED"
        meta = {"name": name, "resourceVersion": str(self.rev)}
        item = self.items[name] = Item(f"//nodes//{name}", {"metadata": meta, **more}, self.rev, self.rev)
        self.tell(WatchEvent(kind, item, self.rev))
        return item

    def tell(self, event: WatchEvent) -> None:
        for watch in self.watches:
            if not watch.ended:
                watch.queue.append(event)
                watch.notify()

    def handle(self, request, respond) -> None:
        self.requests.append(request.verb)
        item = self.items.get(request.name or (request.body or {}).get("metadata", {}).get("name", ""))
        if request.verb == "list":
            respond(Reply(200, items=list(self.items.values()), revision=self.rev))
        elif request.verb == "watch":
            self.watches.append(FakeWatch())
            respond(Reply(200, watch=self.watches[-1]))
        elif request.verb == "get":
            respond(Reply(200, item=item) if item else Reply(404, body={"reason": "NotFound"}))
        else:
            meta = request.body["metadata"]
            if item and meta["resourceVersion"] != str(item.rev):
                respond(Reply(409, body={"reason": "Conflict"}))
            else:
                respond(Reply(200, item=self.put(meta["name"], spec=request.body.get("spec"))))


def actors(run_s: int, mains: dict, faults: Callable[[Kernel, Supervisor], None] | None = None) -> Kernel:
    async def go() -> Kernel:
        kernel = Kernel(seed=3)
        async with trio.open_nursery() as nursery:
            supervisor = Supervisor(kernel, nursery)
            nursery.start_soon(kernel.run)
            for name, main in mains.items():
                supervisor.add(name, main)
            if faults is not None:
                faults(kernel, supervisor)
            await kernel.run_until(run_s * 1_000_000)
            kernel.stop()
            nursery.cancel_scope.cancel()
        return kernel

    return trio.run(go)


def client(ctx, servers, **more) -> Client:
    channels = [Channel(ctx, ctx.name, servers, name) for name in more.pop("targets", ["api"])]
    return Client(ctx, SCHEME, channels, USER, **more)


def test_requests_beyond_the_burst_wait_for_tokens():
    server, at = FakeServer(), []

    async def main(ctx):
        api = client(ctx, {"api": server}, qps=1, burst=2)
        for _ in range(4):
            await api.get("nodes", "", "a")
            at.append(ctx.now_us() // 1_000_000)

    actors(10, {"c": main})
    assert at == [0, 0, 1, 2]


def test_a_refused_request_goes_to_the_next_server_and_stays_there():
    server, replies = FakeServer("b"), []

    async def main(ctx):
        api = client(ctx, {"b": server}, targets=["a", "b"])
        replies.extend([(await api.list("nodes")).code, (await api.list("nodes")).code])

    actors(2, {"c": main})
    assert replies == [200, 200] and server.requests == ["list", "list"]


def test_with_no_server_the_reply_says_refused():
    replies = []

    async def main(ctx):
        replies.append((await client(ctx, {}).list("nodes")).reason)

    actors(2, {"c": main})
    assert replies == ["ConnectionRefused"]


def test_a_cut_link_gives_a_timeout_when_the_client_has_one():
    seen = []

    async def main(ctx):
        api = client(ctx, {"api": FakeServer()}, timeout_us=5_000_000)
        ctx.kernel.network.impose(Rule("cut", None, None, cut=True))
        seen.append(((await api.list("nodes")).reason, ctx.now_us()))

    actors(60, {"c": main})
    assert seen == [("Timeout", 5_000_000)]


def views(lazy: bool) -> list:
    server, seen = FakeServer(), []
    server.put("a")

    async def main(ctx):
        informers = Informers(ctx, client(ctx, {"api": server}))
        nodes = informers["nodes"]
        if not lazy:
            nodes.on(add=lambda obj: None)
        await informers.start_and_sync()
        first = nodes.get("a")
        for step in range(40):
            if step % 10 == 0:
                server.put(f"n{step}")
            await ctx.sleep_us(150)
            seen.append((step, [obj["metadata"]["name"] for obj in nodes.list()]))
        assert nodes.get("a") is first

    actors(2, {"c": main})
    return seen


def test_a_lazy_informer_shows_at_every_instant_what_an_eager_one_shows():
    assert views(lazy=True) == views(lazy=False)
    assert len(views(lazy=True)[-1][1]) == 4


def test_watch_continues_after_a_short_cut_and_lists_again_after_a_long_one():
    server, names = FakeServer(), []

    async def main(ctx):
        informers = Informers(ctx, client(ctx, {"api": server}))
        informers["nodes"].on(
            add=lambda obj: names.append((obj["metadata"]["name"], ctx.now_us() // 1_000_000))
        )
        await informers.start_and_sync()
        network = ctx.kernel.network
        await ctx.sleep_us(1_000_000)
        for name, cut_s in (("short", 20), ("long", 60)):
            network.impose(Rule("cut", None, None, cut=True))
            server.put(name)
            await ctx.sleep_us(cut_s * 1_000_000)
            network.lift("cut")
            await ctx.sleep_us(40_000_000)

    actors(300, {"c": main})
    assert names[0] == ("short", 21)
    assert names[1][0] == "long" and 120 <= names[1][1] <= 170
    assert server.requests.count("list") >= 2


def test_key_added_during_its_processing_is_queued_once_and_the_earlier_time_wins():
    log = []

    async def main(ctx):
        queue = WorkQueue(ctx, "q")
        queue.add_after_us("late", 9_000_000)
        queue.add_after_us("late", 4_000_000)
        queue.add("a")
        queue.add("a")
        key = await queue.get()
        queue.add("a")
        queue.add("a")
        assert len(queue) == 0
        queue.done(key)
        for _ in range(2):
            key = await queue.get()
            log.append((key, ctx.now_us()))
            queue.done(key)

    actors(20, {"c": main})
    assert log == [("a", 0), ("late", 4_000_000)]


def test_cause_of_a_key_is_the_last_listed_object_but_the_first_watched_one():
    causes = []

    async def main(ctx):
        queue = WorkQueue(ctx, "q")

        def tell(*told: int) -> None:
            for ctx.kernel.cause in told:
                queue.add("a")

        async def work() -> None:
            for _ in range(2):
                key = await queue.get()
                causes.append(ctx.kernel.cause)
                queue.done(key)

        if ctx.name == "finds":
            tell(7, 9, 8)
        ctx.spawn(work)
        await ctx.sleep_us(1_000_000)
        tell(11, 12)

    actors(3, {"finds": main})
    actors(3, {"waits": main})  # where nothing was listed
    assert causes == [9, 11, 11]


def test_key_that_would_be_put_back_wakes_no_worker_and_keeps_its_times():
    """Of a hundred rounds in five milliseconds each and then ten a second, as the limiter gives
    them.
    """
    until_us = 3_000_000

    def rounds(*, asked: bool) -> tuple[list, int]:
        log, woken = [], 0

        async def main(ctx):
            nonlocal woken
            queue = WorkQueue(ctx, "q")
            if asked:
                queue.returns = lambda key: key == "stubborn" and ctx.now_us() < until_us
            queue.add("stubborn")
            queue.add_after_us("other", 1_234_567)
            while len(log) < 3:
                key = await queue.get()
                woken += 1
                if key == "stubborn" and ctx.now_us() < until_us:
                    queue.add_rate_limited(key)
                    queue.forget(key)
                else:
                    log.append((key, ctx.now_us()))
                    if key == "other":
                        queue.add_rate_limited("third")  # from the same bucket
                queue.done(key)

        actors(20, {"c": main})
        return log, woken

    (each, woken), (asked, rarely) = rounds(asked=False), rounds(asked=True)
    assert each == asked and [key for key, _ in asked] == ["other", "third", "stubborn"]
    assert woken > 110 and rarely == 4  # the first time, before it was put back, too


def elect(release: bool) -> tuple[list, FakeServer]:
    server, led = FakeServer(), []

    def candidate(options: ElectionOptions):
        async def main(ctx):
            elector = LeaderElector(ctx, client(ctx, {"api": server}), ("ns", "lock"), ctx.name, options)

            async def lead():
                led.append((ctx.name, ctx.now_us()))
                if release and ctx.name == "a":
                    await ctx.sleep_us(30_000_000)
                    elector.stop()
                await ctx.forever()

            if ctx.name == "b":
                await ctx.sleep_us(1_000_000)
            await elector.run(lead)

        return main

    def faults(kernel, supervisor):
        if not release:
            kernel.call_at(30_000_000, lambda _: supervisor["a"].crash())

    options = ElectionOptions(release_on_cancel=release)
    actors(90, {"a": candidate(options), "b": candidate(options)}, faults)
    return led, server


def test_after_a_crash_the_standby_takes_over_within_the_bounds():
    led, server = elect(release=False)
    assert [name for name, _ in led] == ["a", "b"]
    assert 13_000_000 <= led[1][1] - 30_000_000 <= 23_800_000
    assert server.items["lock"].obj["spec"]["leaseTransitions"] == 1


def test_after_a_release_the_standby_takes_over_at_its_next_poll():
    led, _ = elect(release=True)
    assert 0 <= led[1][1] - 30_000_000 <= 4_400_000


def test_two_events_of_one_object_at_one_instant_are_both_stored():
    server = FakeServer()
    pod = {"kind": "Pod", "apiVersion": "v1", "metadata": {"name": "p", "namespace": "d"}}

    async def main(ctx):
        recorder = EventRecorder(ctx, client(ctx, {"api": server}), "kubelet")
        recorder.event(pod, "Normal", "Created", "Created container")
        recorder.event(pod, "Normal", "Started", "Started container")

    actors(2, {"c": main})
    assert len(server.items) == 2


def test_event_has_the_time_of_a_clock_that_was_set_back():
    bodies = []

    class Keeping(FakeServer):
        def handle(self, request, respond) -> None:
            bodies.append(request.body)
            super().handle(request, respond)

    server, told = Keeping(), []
    pod = {"kind": "Pod", "apiVersion": "v1", "metadata": {"name": "p", "namespace": "d"}}

    async def main(ctx):
        recorder = EventRecorder(ctx, client(ctx, {"api": server}), "kubelet")
        for text, offset_us in (("before", 0), ("after", -3_600_000_000)):
            ctx.clock.set(ctx.kernel.now_us, offset_us=offset_us)
            recorder.event(pod, "Normal", "Created", text)
            told.append(format_time(ctx.wall_us()))
            await ctx.sleep_us(1_000_000)

    actors(5, {"c": main})
    assert [body["firstTimestamp"] for body in bodies] == told
    assert told[1] < told[0] and bodies[0]["metadata"]["name"] < bodies[1]["metadata"]["name"]


def test_event_without_server_is_sent_twelve_times_after_a_random_first_pause():
    sent: dict[str, list[int]] = {}
    pod = {"kind": "Pod", "apiVersion": "v1", "metadata": {"name": "p", "namespace": "d"}}

    class Resetting(FakeServer):
        def handle(self, request, respond) -> None:
            sent.setdefault(request.body["source"]["host"], []).append(kernels[0].now_us)
            respond(Reply(0, lost="ConnectionReset"))

    server, kernels = Resetting(), []

    def told_by(host):
        async def main(ctx):
            kernels.append(ctx.kernel)
            EventRecorder(ctx, client(ctx, {"api": server}), "kubelet", host).event(pod, "Normal", "A", "b")

        return main

    actors(300, {name: told_by(name) for name in ("a", "b", "c")})
    firsts = []
    for times in sent.values():
        first, *others = (after - before for before, after in pairwise(times))
        firsts.append(first)
        assert len(others) == 10 and all(abs(pause - 10_000_000) < 10_000 for pause in others)
    assert all(0 < first < 10_000_000 for first in firsts)
    assert max(firsts) - min(firsts) > 100_000
