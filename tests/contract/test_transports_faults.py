"""Sockets between two kernels, each on a clock of its own: what a client sees when connections
fail, lag or lie.
"""

from __future__ import annotations

import json
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trio
import trio_websocket

from actors.apiserver.options import ApiServerOptions
from sim.api.store import Item
from sim.api.types import Reply, Request, UserInfo, WatchEvent
from sim.client import Client, Informers
from sim.client.fast.lease_renewal import Rhythm
from sim.kernel import NEVER_US, Context, Kernel, Operation, Supervisor
from sim.wire import frames
from sim.wire.received_watch import BACKLOG_MAX, ReceivedWatch
from sim.wire.sockets import StreamPipe, address_of, dial_stream, listen, parse_address
from sim.wire.sockets_client import SocketClients
from sim.wire.sockets_server import SocketServer
from tests.actor.apiserver.cluster import ADMIN, SCHEME, Plane, lease, request

PACE = 20  # virtual seconds a second


class World:
    """An API server in one kernel, its clients in another."""

    def __init__(self, plane: Plane, nursery: trio.Nursery) -> None:
        self.plane = plane
        self.nursery = nursery
        self.server = SocketServer(plane.kernel, plane.server)
        self.kernel = Kernel(2)
        self.supervisor = Supervisor(self.kernel, nursery)
        self.clients = SocketClients(self.kernel, nursery)
        self.url = ""
        self.serving = trio.CancelScope()

    async def serve(self, url: str = "tcp://127.0.0.1:0") -> None:
        listeners = await listen(url)
        self.url = address_of(listeners[0])
        self.serving = trio.CancelScope()

        async def run() -> None:
            with self.serving:
                await self.server.serve(listeners)
            for listener in listeners:
                await listener.aclose()

        self.nursery.start_soon(run)

    def actor(self, name: str, main: Callable[[Context], Any]) -> None:
        self.supervisor.add(name, main)
        self.kernel.kick()

    def client(self, ctx: Context, **more: Any) -> Client:
        return Client(ctx, SCHEME, [self.clients.transport(ctx, self.url)], ADMIN, **more)

    async def do(self, job: Callable[[Client], Awaitable[Any]]) -> Any:
        """Run a job as an actor on a client, and wait for its result in real time."""
        box: list[Any] = []
        done = trio.Event()

        async def main(ctx: Context) -> None:
            box.append(await job(self.client(ctx, qps=0)))
            done.set()
            await ctx.forever()

        self.actor(f"job-{len(self.supervisor.actors)}", main)
        with trio.fail_after(30):
            await done.wait()
        return box[0]


@asynccontextmanager
async def world(replay: list[Operation] | None = None) -> AsyncIterator[World]:
    async with trio.open_nursery() as nursery:
        kernel = Kernel(1, replay=replay)
        nursery.start_soon(kernel.run)
        made = World(Plane(kernel, Supervisor(kernel, nursery), 1, ApiServerOptions()), nursery)
        await made.serve()
        nursery.start_soon(made.kernel.run)
        await kernel.run_until(1_000_000)
        for each in (kernel, made.kernel):
            each.set_rate(PACE)
            each.set_goal(NEVER_US)
        yield made
        kernel.stop()
        made.kernel.stop()
        nursery.cancel_scope.cancel()


async def until(true: Callable[[], object]) -> None:
    """Wait, in real time, for something that sockets bring about."""
    with trio.fail_after(30):
        while not true():  # noqa: ASYNC110 - no event is set when a socket has brought it about
            await trio.sleep(0.002)


async def watch(client: Client) -> Reply:
    return await client.ask(client.request("watch", "leases", "default"))


async def test_objects_are_written_read_listed_and_watched_from_another_kernel() -> None:
    async def job(client: Client) -> Any:
        made = await client.create("leases", "default", lease("a", holderIdentity="x"))
        informers = Informers(client.ctx, client)
        leases = informers.selected("leases", "default")
        seen: list[tuple[str, str]] = []
        leases.on(
            add=lambda obj: seen.append(("add", obj["spec"]["holderIdentity"])),
            update=lambda old, new: seen.append(("update", new["spec"]["holderIdentity"])),
            delete=lambda obj: seen.append(("delete", obj["spec"]["holderIdentity"])),
        )
        await informers.start_and_sync()
        changed = {**made.obj, "spec": {"holderIdentity": "y"}}
        assert (await client.update("leases", changed)).ok
        assert (await client.update("leases", changed)).reason == "Conflict"
        assert (await client.delete("leases", "default", "a")).ok
        while len(seen) < 3:
            await client.ctx.sleep_us(10_000)
        return made, seen

    async with world() as w:
        made, seen = await w.do(job)
        assert seen == [("add", "x"), ("update", "y"), ("delete", "y")]
        stored = w.plane.storage.store.get_at(made.item.key, made.item.rev)
        assert made.obj == stored.obj and "managedFields" not in made.obj["metadata"]
        assert (made.item.rev, made.item.created) == (stored.rev, stored.created)


async def test_address_without_server_refuses_connections_until_a_server_starts() -> None:
    async with world() as w:
        w.serving.cancel()
        await trio.testing.wait_all_tasks_blocked()
        assert (await w.do(lambda client: client.list("leases", "default"))).lost == "ConnectionRefused"
        await w.serve(w.url)
        assert (await w.do(lambda client: client.list("leases", "default"))).ok


async def test_a_connection_lost_resets_its_requests_and_ends_its_watches() -> None:
    async with world() as w:
        held: list[Any] = []
        w.plane.server.handle = lambda request, respond: held.append(request)  # type: ignore[method-assign]
        answers: list[Reply] = []

        def main(ctx: Context) -> None:
            transport = w.clients.transport(ctx, w.url)
            transport.send(request("get", "leases", "default", "a"), answers.append)

        w.actor("asks", main)
        await until(lambda: held)
        del w.plane.server.handle  # type: ignore[method-assign]
        opened = await w.do(watch)
        ended: list[bool] = []
        w.kernel.gate.handle("attach", lambda _, done: done(opened.watch.attach(lambda: ended.append(True))))
        await w.kernel.gate.submit("attach", None)
        w.serving.cancel()
        await until(lambda: answers and ended)
        assert answers[0].lost == "ConnectionReset" and opened.watch.ended


async def test_an_api_server_process_that_is_down_refuses_over_an_open_connection() -> None:
    async with world() as w:
        assert (await w.do(lambda client: client.list("leases", "default"))).ok
        opened = await w.do(watch)
        w.plane.supervisor["apiserver-0"].crash()
        w.plane.kernel.kick()
        await until(lambda: opened.watch.ended)
        assert (await w.do(lambda client: client.list("leases", "default"))).lost == "ConnectionRefused"
        w.plane.supervisor["apiserver-0"].start()
        assert (await w.do(lambda client: client.list("leases", "default"))).ok


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (frames.framed(b"\xc1"), "not a message"),
        (frames.framed(frames.stop(1))[:4] + b"garbage", "not a message"),
        (b"GET / HTTP/1.1\r\n\r\n", "at most"),
        (2 * frames.framed(frames.ask(1, request("list", "leases"))), "still open"),
    ],
)
async def test_peer_with_invalid_bytes_is_reported_and_cut_off_without_other_effects(
    data: bytes, says: str
) -> None:
    async with world() as w:
        opened = await w.do(watch)
        stream = await dial_stream(w.url)
        async with stream:
            await stream.send_all(data)
            told: list[bytes] = []
            pipe = StreamPipe(stream, frames.FROM_SERVER_MAX)
            with trio.fail_after(30):
                while bodies := await pipe.receive():
                    told += bodies
        last = frames.read_from_server(told[-1])
        assert isinstance(last, frames.Fault) and says in last.message
        await until(lambda: len(w.server.peers) == 1)
        assert not opened.watch.ended and (await w.do(lambda client: client.list("leases"))).ok


class Endless:
    """An endpoint with one watch that always has more to say."""

    name = "endless"

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.item = Item("//x//y", {"data": "x" * 100_000}, 1, 1)
        self.taken = 0
        self.stopped = False
        self.ended = False
        self.notify: Callable[[], None] = lambda: None

    def handle(self, request: Request, respond: Callable[[Reply], None]) -> None:
        respond(Reply(200, watch=self))

    def attach(self, notify: Callable[[], None]) -> None:
        self.notify = notify
        self._more(None)

    def _more(self, _: Any) -> None:
        if not self.stopped:
            self.waiting = 20
            self.notify()
            self.kernel.call_later(20_000, self._more)

    def take(self, limit: int = 1000) -> list[WatchEvent]:
        count, self.waiting = self.waiting, 0
        self.taken += count
        return [WatchEvent("ADDED", self.item, 1)] * count

    def stop(self) -> None:
        self.stopped = True


async def test_watch_with_a_full_connection_is_not_read_until_there_is_room() -> None:
    async with world() as w:
        endless = Endless(w.plane.kernel)
        server = SocketServer(w.plane.kernel, endless)
        listeners = await listen("tcp://127.0.0.1:0")
        w.nursery.start_soon(server.serve, listeners)
        stream = await dial_stream(address_of(listeners[0]))
        async with stream:
            await stream.send_all(frames.framed(frames.ask(1, request("watch", "leases"))))
            await until(lambda: server.peers and server.peers[1].outbox.full)
            await trio.sleep(0.02)
            taken = endless.taken
            await trio.sleep(0.05)
            assert endless.taken == taken and server.peers[1].outbox.size < 100 << 20
            got = 0
            with trio.fail_after(30):
                while endless.taken == taken:
                    got += len(await stream.receive_some(1 << 20))
            assert got > 10 << 20
        await until(lambda: endless.stopped)


async def test_client_that_does_not_read_its_events_alone_loses_the_watch() -> None:
    async with world() as w:
        opened, other = await w.do(watch), await w.do(watch)
        assert isinstance(opened.watch, ReceivedWatch) and isinstance(other.watch, ReceivedWatch)
        w.kernel.gate.handle(
            "flood",
            lambda _, done: done(
                opened.watch.arrive([WatchEvent("BOOKMARK", None, n) for n in range(BACKLOG_MAX + 1)], False)
            ),
        )
        await w.kernel.gate.submit("flood", None)
        assert len(opened.watch.take(2 * BACKLOG_MAX)) == BACKLOG_MAX + 1
        assert opened.watch.ended and not other.watch.ended
        session = w.server._sessions[1]
        await until(lambda: len(session._watches) == 1)


async def test_the_watches_of_a_dead_actor_are_closed_at_the_server() -> None:
    async with world() as w:
        await w.do(watch)
        session = w.server._sessions[1]
        assert len(session._watches) == 1
        w.supervisor["job-0"].crash()
        await until(lambda: not session._watches)


async def test_what_a_reply_leads_to_is_caused_by_what_led_to_the_request() -> None:
    async with world() as w:
        causes: list[int] = []

        def main(ctx: Context) -> None:
            asked = ctx.kernel.cause = ctx.record(ctx.kernel.kind("asked"), ())
            client = w.client(ctx)
            client.call(client.request("list", "leases"), lambda _: causes.extend([asked, ctx.kernel.cause]))

        w.actor("asks", main)
        await until(lambda: causes)
        assert causes[0] == causes[1] > 0


async def test_a_request_longer_than_a_frame_is_refused_without_harm() -> None:
    body = lease("a", holderIdentity="x" * frames.ASK_MAX)
    async with world() as w:
        assert (await w.do(lambda client: client.create("leases", "default", body))).code == 413
        assert (await w.do(lambda client: client.list("leases", "default"))).ok


async def test_every_heartbeat_is_an_ordinary_request_without_a_fast_path() -> None:
    async with world() as w:
        missed: list[int] = []

        async def job(client: Client) -> None:
            rhythm = Rhythm(100_000, 0, 1)
            where = ("leases", "default", "a", ("spec", "renewTime"))
            beat = client.heartbeat(*where, rhythm, missed_one, lambda _: pytest.fail("no lane was open"))
            beat.schedule()
            await client.ctx.sleep_us(200_000)

        def missed_one() -> None:
            missed.append(w.kernel.now_us)

        await w.do(job)
        assert len(missed) == 1


async def test_both_sides_can_be_replayed_from_their_journals_without_sockets() -> None:
    done: list[bool] = []

    def reader(clients: SocketClients, url: str) -> Callable[[Context], Awaitable[None]]:
        async def main(ctx: Context) -> None:
            client = Client(ctx, SCHEME, [clients.transport(ctx, url)], UserInfo("u"), qps=0)
            informers = Informers(ctx, client)
            kind = ctx.kernel.kind("seen", "name", "revision")

            def note(obj: Any) -> None:
                ctx.record(kind, (obj["metadata"]["name"], obj["metadata"]["resourceVersion"]))

            informers["leases"].on(add=note, update=lambda _, new: note(new), delete=note)
            await informers.start_and_sync()
            for n in range(5):
                made = await client.create("leases", "default", lease(f"l{n}"))
                await client.delete("leases", "default", made.obj["metadata"]["name"])
            done.append(True)
            await ctx.forever()

        return main

    async with world() as w:
        w.actor("reader", reader(w.clients, w.url))
        await until(lambda: done)
        w.plane.kernel.stop()
        w.kernel.stop()
        await trio.testing.wait_all_tasks_blocked()
        ends = [(k.now_us, k.gate.journal, k.trace.sha256()) for k in (w.plane.kernel, w.kernel)]
    (server_us, server_journal, server_hash), (client_us, client_journal, client_hash) = ends
    assert len(client_journal) > 20

    async with trio.open_nursery() as nursery:
        kernel = Kernel(1, replay=server_journal)
        nursery.start_soon(kernel.run)
        plane = Plane(kernel, Supervisor(kernel, nursery), 1, ApiServerOptions())
        SocketServer(kernel, plane.server)
        await kernel.run_until(server_us)
        assert kernel.trace.sha256() == server_hash
        other = Kernel(2, replay=client_journal)
        nursery.start_soon(other.run)
        supervisor = Supervisor(other, nursery)
        clients = SocketClients(other, None)
        supervisor.add("reader", reader(clients, w.url))
        await other.run_until(client_us)
        assert other.trace.sha256() == client_hash
        kernel.stop()
        other.stop()
        nursery.cancel_scope.cancel()


@pytest.mark.slow
async def test_a_client_in_a_process_of_its_own_reads_writes_and_watches() -> None:
    async with world() as w:
        assert (await w.do(lambda client: client.create("leases", "default", lease("ours")))).ok
        command = [sys.executable, "-m", "tests.contract.peer", w.url]
        done = await trio.run_process(command, capture_stdout=True)
        assert json.loads(done.stdout) == [["add", "ours"], ["add", "theirs"], ["delete", "theirs"]]
        await until(lambda: len(w.server.peers) == 1)


# --- WebSocket ------------------------------------------------------------------------------------


@asynccontextmanager
async def websocket_world() -> AsyncIterator[World]:
    async with world() as w:
        w.serving.cancel()
        listeners = await listen("ws://127.0.0.1:0")
        w.url = address_of(listeners[0], "ws")
        w.nursery.start_soon(lambda: w.server.serve(listeners, websockets=True))
        yield w


@pytest.mark.parametrize(
    ("message", "code"), [("text", 1003), (b"x" * (frames.ASK_MAX + 1), 1009), (b"\xc1", 1000)]
)
async def test_a_websocket_message_that_is_none_of_ours_closes_the_connection(
    message: str | bytes, code: int
) -> None:
    async with websocket_world() as w:
        opened = await w.do(watch)
        stream = await dial_stream(w.url)
        async with stream, trio.open_nursery() as nursery:
            connection = await trio_websocket.wrap_client_stream(nursery, stream, "api", "/")
            with trio.fail_after(30), pytest.raises(trio_websocket.ConnectionClosed) as closed:
                await connection.send_message(message)
                while True:
                    await connection.get_message()
        assert closed.value.reason is not None and closed.value.reason.code == code
        await until(lambda: len(w.server.peers) == 1)
        assert not opened.watch.ended


async def test_a_server_that_does_not_speak_websocket_refuses() -> None:
    async with world() as w:
        w.url = w.url.replace("tcp://", "ws://")
        assert (await w.do(lambda client: client.list("leases"))).lost == "ConnectionRefused"


HANDSHAKE = (
    b"GET / HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n"
)


@pytest.mark.parametrize(
    "opening",
    [
        b"NONSENSE\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a\r\n\r\n",
        HANDSHAKE + b"Sec-WebSocket-Protocol: \xbe\r\n\r\n",
        HANDSHAKE + b"Sec-WebSocket-Extensions: \xbe\r\n\r\n",
    ],
)
async def test_malformed_websocket_opening_gets_400_and_others_are_served(opening: bytes) -> None:
    async with websocket_world() as w:
        stream = await dial_stream(w.url)
        answer = b""
        async with stream:
            await stream.send_all(opening)
            await stream.send_eof()
            with trio.fail_after(30):
                while data := await stream.receive_some():
                    answer += data
        assert answer.startswith(b"HTTP/1.1 400")
        assert (await w.do(lambda client: client.list("leases"))).ok


async def test_exception_of_one_connection_is_logged_and_ends_no_other(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with world() as w:
        receive, failing = StreamPipe.receive, [True]

        async def receive_once_broken(pipe: StreamPipe) -> list[bytes]:
            bodies = await receive(pipe)
            if failing:
                failing.clear()
                raise ZeroDivisionError("division by nothing")
            return bodies

        monkeypatch.setattr(StreamPipe, "receive", receive_once_broken)
        stream = await dial_stream(w.url)
        async with stream:
            await stream.send_all(frames.framed(b"anything"))
            with trio.fail_after(30):
                assert await stream.receive_some() == b""
        assert [record.message.count("division by nothing") for record in caplog.records] == [1]
        assert (await w.do(lambda client: client.list("leases"))).ok


# --- addresses ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "url", ["", "127.0.0.1:80", "http://a:1", "tcp://a", "tcp://:1", "unix://", "ws:///x", "tcp://a:x"]
)
def test_what_is_no_address_is_a_value_error(url: str) -> None:
    with pytest.raises(ValueError):
        parse_address(url)


async def test_a_unix_socket_left_behind_is_taken_over_and_a_served_one_is_not(tmp_path: Path) -> None:
    url = f"unix://{tmp_path}/api"
    (first,) = await listen(url)
    with pytest.raises(OSError):
        await listen(url)
    await first.aclose()
    assert (tmp_path / "api").exists()
    (second,) = await listen(url)
    assert address_of(second) == url
    await (await dial_stream(url)).aclose()
    await second.aclose()
