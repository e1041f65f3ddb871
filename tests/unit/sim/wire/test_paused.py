"""Limits of each kind of connection in a process that is stopped for longer than they are.

Trio's time passes only by pauses here, so that a limit that counts them ends its work.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.lowlevel
import yaml
from trio.testing import MockClock, wait_all_tasks_blocked
from trio_websocket import wrap_client_stream

from sim.api.audit.delivery import Batching
from sim.api.audit.settings import WebhookSettings
from sim.app.audit.posting import TIMEOUT_S
from sim.app.audit.webhook import END_S, Webhook
from sim.ident import NAMES
from sim.wire import frames, websocket
from sim.wire.clients import Clients
from sim.wire.http.fronts.line import GRACE_S, Line
from sim.wire.sockets_server import CLOSE_S, Peer

PAUSE_S = 100.0
assert max(GRACE_S, END_S, TIMEOUT_S, CLOSE_S, websocket.HANDSHAKE_S, websocket.CLOSE_S) < PAUSE_S


@pytest.fixture
def clock() -> MockClock:
    return MockClock()


async def pause(clock: MockClock, seconds: float = PAUSE_S) -> None:
    """Stop the process for a while."""
    await wait_all_tasks_blocked()
    clock.jump(seconds)
    await wait_all_tasks_blocked()


class Gated:
    """A stream or pipe that takes bytes once it is open.  sent: what it took"""

    def __init__(self) -> None:
        self.sent: list[Any] = []
        self.open = trio.Event()
        self.socket = self
        self.closed = False
        self.kept = b""

    async def send_all(self, data: Any) -> None:
        await self.send(bytes(data))

    async def send(self, data: Any) -> None:
        await self.open.wait()
        self.sent.append(data)

    async def receive(self) -> list[bytes]:
        raise frames.FrameError("no frame")

    def close(self) -> None:
        self.closed = True

    def send_now(self, data: bytes) -> bool:
        self.kept = data
        return False

    async def flush(self) -> None:
        await self.send(bytes(self.kept))


async def test_answer_that_is_sent_while_the_server_ends_outlives_a_pause(clock: MockClock) -> None:
    stream: Any = Gated()
    line = Line(stream, lambda *_: None)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(line.write, b"answer")
        await wait_all_tasks_blocked()
        line.limit_sending(GRACE_S)
        await pause(clock)
        stream.open.set()
    assert stream.sent == [b"answer"]
    assert not stream.closed
    line.release()


async def test_answer_that_is_sent_while_the_server_ends_has_a_limit() -> None:
    stream: Any = Gated()
    line = Line(stream, lambda *_: None)
    line.limit_sending(0.0)
    await line.write(b"answer")
    assert stream.closed


async def test_handshake_of_a_websocket_outlives_a_pause(clock: MockClock) -> None:
    ours, theirs = trio.testing.memory_stream_pair()
    stream: Any = ours
    async with trio.open_nursery() as nursery:
        accepted: list[websocket.WebSocketPipe] = []

        async def accept() -> None:
            accepted.append(await websocket.accept(nursery, stream))

        nursery.start_soon(accept)
        await pause(clock)
        await wrap_client_stream(nursery, theirs, "x", "/")
        await wait_all_tasks_blocked()
        assert len(accepted) == 1
        nursery.cancel_scope.cancel()


class Closing:
    """A WebSocket that its peer has to confirm the end of."""

    def __init__(self) -> None:
        self.confirmed, self.ended = trio.Event(), False

    async def aclose(self) -> None:
        await self.confirmed.wait()
        self.ended = True


async def test_end_of_a_websocket_outlives_a_pause(clock: MockClock) -> None:
    connection: Any = Closing()
    stream: Any = trio.testing.memory_stream_pair()[0]
    async with trio.open_nursery() as nursery:
        nursery.start_soon(websocket.WebSocketPipe(connection, stream).aclose)
        await pause(clock)
        connection.confirmed.set()
    assert connection.ended


async def test_refusal_of_a_malformed_websocket_outlives_a_pause(clock: MockClock) -> None:
    stream: Any = Gated()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(websocket.refuse, stream)
        await pause(clock)
        stream.open.set()
    assert stream.sent == [websocket.REFUSAL]


async def test_fault_that_is_reported_to_a_socket_peer_outlives_a_pause(clock: MockClock) -> None:
    server: Any = None
    peer, pipe = Peer(server, 1), Gated()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(peer.run, pipe)
        await pause(clock)
        pipe.open.set()
    assert pipe.sent == [[frames.fault("no frame")]]


@pytest.mark.parametrize("at_end", [False, True])
async def test_batch_of_the_audit_webhook_outlives_a_pause(
    clock: MockClock, tmp_path: Path, caplog: pytest.LogCaptureFixture, at_end: bool
) -> None:
    asked, answer = trio.Event(), trio.Event()
    taken: list[Any] = []

    async def take(stream: trio.SocketStream) -> None:
        held = b""
        while not held.rstrip().endswith(b"}"):
            held += await stream.receive_some()
        asked.set()
        await answer.wait()
        taken.append(json.loads(held.partition(b"\r\n\r\n")[2])["items"])
        await stream.send_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")

    [listener] = await trio.open_tcp_listeners(0, host="127.0.0.1")
    url = f"http://127.0.0.1:{listener.socket.getsockname()[1]}"
    config = {
        "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "c"}}],
        "clusters": [{"name": "c", "cluster": {"server": url}}],
    }
    (tmp_path / "config").write_text(yaml.safe_dump(config))
    batching = Batching(mode="batch", batch_max=10 if at_end else 1, wait_us=1 << 50)
    webhook = Webhook(WebhookSettings(str(tmp_path / "config"), batching=batching), NAMES["kubernetes"])
    scope, ended = trio.CancelScope(), trio.Event()

    async def run() -> None:
        with scope:
            await webhook.run()
        ended.set()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(trio.serve_listeners, take, [listener])
        nursery.start_soon(run)
        webhook.put({"auditID": "a"})
        await wait_all_tasks_blocked()
        if at_end:
            scope.cancel()
        await asked.wait()
        await pause(clock)
        assert not ended.is_set()
        answer.set()
        while not taken:
            await trio.lowlevel.checkpoint()
        await wait_all_tasks_blocked()
        scope.cancel()
        await ended.wait()
        nursery.cancel_scope.cancel()
    assert [[event["auditID"] for event in batch] for batch in taken] == [["a"]]
    assert not caplog.records


class Resting:
    """A kernel.  rests: reasons why its time rests"""

    rests = 0

    def rest(self) -> None:
        self.rests += 1

    def resume(self) -> None:
        self.rests -= 1


async def test_clients_have_their_time_to_react_again_after_a_pause(clock: MockClock) -> None:
    kernel: Any = Resting()
    clients = Clients(kernel)
    clients.reaction_s = 10.0
    async with trio.open_nursery() as nursery:
        nursery.start_soon(clients.keep_reacting)
        clients.worked()
        await pause(clock)
        assert kernel.rests == 1
        await pause(clock, 10.0)
        assert kernel.rests == 0
        nursery.cancel_scope.cancel()
