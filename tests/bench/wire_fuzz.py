"""A served cluster under mutated HTTP/1.1, HTTP/2, WebSocket and TLS bytes, and under more
connections than descriptors.

python -m tests.bench.wire_fuzz [--connections 5000] [--seed 1] [--front hypercorn]
python -m tests.bench.wire_fuzz --crowd 5000 --descriptors 256

The first form opens connections.  Each sends a mutated sample, some of them slowly, and ends in one
of three ways, while a bystander gets /version on a connection that it keeps and on new ones.  The
second form sends requests on connections of their own to a server with that limit of descriptors.
Of these the client closes none but the oldest of OPEN_MAX.

Both fail if the server ends, or if the bystander or a request is not served.  Also if a request
that is hidden in the body of another has an effect, if descriptors are left, if the log has a
traceback, or if the journal has no end after SIGTERM.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import socket
import ssl
import struct
import subprocess
import sys
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from time import monotonic

import trio
import yaml

HOST = "127.0.0.1"
PARALLEL = 16
OPEN_MAX = 500  # connections that the crowd keeps
ANSWER_S = 20.0  # for a request that has to be served, on a busy machine
PATIENCE_S = 0.3  # of a hostile client that waits for an answer
SLOW_S, SLOW_SHARE = 0.05, 0.1  # between two parts, and of how many clients
END_S = 20.0
GONE = (trio.BrokenResourceError, trio.ClosedResourceError, OSError)


# --- the server -----------------------------------------------------------------------------------


@dataclass
class Server:
    """A running `orrery serve`."""

    process: subprocess.Popen[str]
    folder: Path
    port: int
    token: str

    @property
    def descriptors(self) -> int:
        """The number of descriptors that the process has open; 0 if the system does not report it."""
        folder = Path(f"/proc/{self.process.pid}/fd")
        return len(os.listdir(folder)) if folder.exists() else 0

    @property
    def log(self) -> list[str]:
        return (self.folder / "log").read_text().splitlines()

    def end(self, number: signal.Signals) -> str:
        """Send a signal.  Returns what is wrong with the way in which the server ended."""
        self.process.send_signal(number)
        try:
            status = self.process.wait(END_S)
        except subprocess.TimeoutExpired:
            return f"still running {END_S:.0f} s after {number.name}"
        if status:
            return f"exit status {status}"
        command = [sys.executable, "-m", "sim.app.cli.main", "replay", str(self.folder / "journal"), "--json"]
        replayed = subprocess.run(command, capture_output=True, text=True, check=False)
        return (
            "" if json.loads(replayed.stdout).get("as_served") else "the journal has no end, or another one"
        )


@contextmanager
def serving(
    descriptors: int | None = None, *options: str, program: Sequence[str] = ("sim.app.cli.main",)
) -> Iterator[Server]:
    """Run a server without nodes.

    descriptors: the limit that it starts with, soft and hard
    program: the module that serves, and its own arguments
    """

    with TemporaryDirectory() as name:
        folder = Path(name)
        limited = [] if descriptors is None else ["sh", "-c", f'ulimit -n {descriptors} && exec "$@"', "sh"]
        serve = [sys.executable, "-m", *program, "serve", "--port", "0", "--naming", "kubernetes"]
        files = ["--client-config", str(folder / "config"), "--journal", str(folder / "journal")]
        with (
            (folder / "log").open("w") as log,
            subprocess.Popen([*limited, *serve, *files, *options], stdout=subprocess.PIPE, stderr=log, text=True) as process,
        ):  # fmt: skip
            try:
                assert process.stdout is not None
                line = process.stdout.readline()
                assert line, (folder / "log").read_text()
                config = yaml.safe_load((folder / "config").read_text())
                yield Server(
                    process, folder, int(line.rsplit(":", 1)[1]), config["users"][0]["user"]["token"]
                )
            finally:
                process.kill()


def trusting() -> ssl.SSLContext:
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


async def connect(port: int) -> trio.SocketStream:
    return await trio.open_tcp_stream(HOST, port)


async def encrypted(port: int, context: ssl.SSLContext) -> trio.SSLStream[trio.SocketStream]:
    """Connect with TLS.  Raises one of GONE."""
    stream = trio.SSLStream(await connect(port), context, server_hostname=HOST, https_compatible=True)
    try:
        await stream.do_handshake()
    except trio.BrokenResourceError:
        await trio.aclose_forcefully(stream)
        raise
    return stream


async def get(stream: trio.abc.Stream, target: str = "/version") -> int:
    """Send one GET; returns its code, or 0 if no whole answer came."""
    with trio.move_on_after(ANSWER_S), suppress(*GONE):
        await stream.send_all(f"GET {target} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
        answer = b""
        while data := await stream.receive_some(65536):
            answer += data
            head, end, body = answer.partition(b"\r\n\r\n")
            if end:
                fields = dict(line.lower().split(b": ", 1) for line in head.split(b"\r\n")[1:])
                if len(body) >= int(fields[b"content-length"]):
                    return int(head.split()[1])
    return 0


# --- samples --------------------------------------------------------------------------------------

HANDSHAKE = (
    b"GET /api/v1/namespaces?watch=1&timeoutSeconds=1 HTTP/1.1\r\nHost: x\r\nOrigin: http://x\r\n"
    b"Authorization: Bearer TOKEN\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n"
)
FRAME = b"\x81\x85\x01\x02\x03\x04ignored"
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"


def h2_frame(kind: int, flags: int, stream: int, body: bytes) -> bytes:
    return len(body).to_bytes(3, "big") + bytes([kind, flags]) + stream.to_bytes(4, "big") + body


def h2_headers(path: bytes) -> bytes:
    """A HEADERS frame of a GET: static entries for method and scheme, literals for path and
    authority.
    """
    block = b"\x82\x87" + b"\x04" + bytes([len(path)]) + path + b"\x01\x01x"
    return h2_frame(1, 0x5, 1, block)


# Each of these ended the server, or was answered with an empty 500, before each connection had a
# guard of its own.
NAMED = {
    "an upgrade to h2c with settings that are no base64": (
        b"GET /version HTTP/1.1\r\nHost: x\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\n"
        b"HTTP2-Settings: /////w\r\n\r\n"
    ),
    "an HTTP/2 path that is no ASCII": PREFACE + h2_frame(4, 0, 0, b"") + h2_headers(b"/\xbe"),
    "a WebSocket protocol that is no ASCII": HANDSHAKE + b"Sec-WebSocket-Protocol: \xbe\r\n\r\n",
    "a WebSocket extension that is no ASCII": HANDSHAKE + b"Sec-WebSocket-Extensions: \xbe\r\n\r\n",
    "a WebSocket extension with a number that is none": HANDSHAKE
    + b"Sec-WebSocket-Extensions: permessage-deflate; server_max_window_bits=x\r\n\r\n",
    "a WebSocket frame right behind the handshake": HANDSHAKE + b"\r\n" + FRAME,
    "a target that is a query": b"GET ? HTTP/1.1\r\nHost: x\r\n\r\n",
    "a target that is a name": b"GET version HTTP/1.1\r\nHost: x\r\n\r\n",
    "a URL with half an address": b"GET http://[::1 HTTP/1.1\r\nHost: x\r\n\r\n",
}
HTTP_1 = [
    b"GET /version HTTP/1.1\r\nHost: x\r\nAccept: application/json\r\n\r\n" * 2,
    b"GET /api/v1/namespaces?limit=1&timeout=5s HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer TOKEN\r\n\r\n",
    b"GET /api/v1/pods?watch=1&timeoutSeconds=1 HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer TOKEN\r\n\r\n",
    b"POST /api/v1/namespaces/default/configmaps HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer TOKEN\r\n"
    b"Content-Type: application/json\r\nContent-Length: 26\r\n\r\n" + b'{"metadata":{"name":"aa"}}',
    b"POST /api/v1/namespaces/default/configmaps HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer TOKEN\r\n"
    b"Expect: 100-continue\r\nTransfer-Encoding: chunked\r\n\r\n1a\r\n" + b'{"metadata":{"name":"bb"}}' + b"\r\n0\r\n\r\n",
    b"HEAD http://x:1/healthz?verbose HTTP/1.0\r\nConnection: keep-alive\r\n\r\n",
    b"CONNECT x:443 HTTP/1.1\r\nHost: x\r\n\r\n",
    b"OPTIONS * HTTP/1.1\r\nHost: x\r\n\r\n",
]  # fmt: skip
# A request within the body of another one, which a server that reads the length otherwise than its
# proxy would carry out.
_MAPS = b"/api/v1/namespaces/default/configmaps HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer TOKEN\r\n"
_INNER = b"POST " + _MAPS + b"Content-Length: 30\r\n\r\n" + b'{"metadata":{"name":"hidden"}}'
_CHUNK = b"%x\r\n%b\r\n" % (len(_INNER), _INNER)
HIDDEN = [
    b"POST " + _MAPS + head + b"\r\n\r\n" + body
    for head, body in (
        (b"Content-Length: %d\r\nTransfer-Encoding: chunked" % (len(_INNER) + 5), b"0\r\n\r\n" + _INNER),
        (b"Transfer-Encoding: chunked\r\nContent-Length: 5", b"0\r\n\r\n" + _INNER),
        (b"Content-Length: 0\r\nContent-Length: %d" % len(_INNER), _INNER),
        (b"Content-Length : %d" % len(_INNER), _INNER),
        (b"A: b\r\n Content-Length: %d" % len(_INNER), _INNER),
        (b"A: b\nContent-Length: %d" % len(_INNER), _INNER),
        (b"Content-Length: %d\rA: b" % len(_INNER), _INNER),
        (b"Content-Length: +%d" % len(_INNER), _INNER),
        (b"Transfer-Encoding: xchunked", b"0\r\n\r\n" + _INNER),
        (b"Transfer-Encoding: chunked, identity", b"0\r\n\r\n" + _INNER),
        (b"Transfer-Encoding: chunked", b"0;\n" + _INNER),
        (b"Transfer-Encoding: chunked", b"1\r\n{\n0\r\n\r\n" + _INNER),
        (b"Transfer-Encoding: chunked", b"-1\r\n\r\n" + _INNER),
        (b"Transfer-Encoding: chunked", b"10000000000000000\r\n" + _INNER),
        (b"Transfer-Encoding: chunked", b"1\r\n{\r\r\n0\r\n\r\n" + _INNER),
    )
]
HTTP_2 = [
    PREFACE + h2_frame(4, 0, 0, b"\0\x03\0\0\0\x64") + h2_headers(b"/version"),
    PREFACE
    + h2_frame(4, 0, 0, b"")
    + h2_headers(b"/")
    + h2_frame(6, 0, 0, b"12345678")
    + h2_frame(7, 0, 0, b"\0" * 8),
]
WEBSOCKET = [
    HANDSHAKE + b"\r\n",
    HANDSHAKE + b"Sec-WebSocket-Protocol: a, b\r\nSec-WebSocket-Extensions: permessage-deflate\r\n\r\n" + FRAME,
]  # fmt: skip


def client_hello() -> bytes:
    """The first flight of a TLS client."""
    outgoing = ssl.MemoryBIO()
    with suppress(ssl.SSLWantReadError):
        trusting().wrap_bio(ssl.MemoryBIO(), outgoing, server_hostname="localhost").do_handshake()
    return outgoing.read()


def mutated(random: Random, sample: bytes, others: list[bytes]) -> bytes:
    """A sample with one to four changes."""
    made = bytearray(sample)
    for _ in range(random.randint(1, 4)):
        at = random.randint(0, len(made))
        end = min(len(made), at + random.randint(1, 40))
        match random.randrange(7):
            case 0:
                made[at:end] = b""
            case 1:
                made[at:at] = random.randbytes(random.randint(1, 20))
            case 2:
                made[at:at] = made[at:end] * random.randint(1, 50)
            case 3:
                del made[at:]
            case 4:
                other = random.choice(others)
                begin = random.randint(0, len(other))
                made[at:end] = other[begin : begin + 60]
            case 5:
                made[at:end] = random.choice(
                    [b"\r\n", b"\0", b"\xbe", b": ", b"99999999999999999999", b"%", b"[", b"\xff" * 9]
                )
            case _ if made:
                made[at % len(made)] ^= 1 << random.randrange(8)
    return bytes(made)


@dataclass(frozen=True)
class Attempt:
    """What one hostile connection does.  ending: shut (its sending side), reset, or wait (for an
    answer, for a moment); slow: with a pause between its parts
    """

    data: bytes
    is_raw: bool  # sent without TLS
    cuts: tuple[int, ...]
    ending: str
    slow: bool = False


def attempts(count: int, seed: int, token: str) -> Iterator[Attempt]:
    """The named inputs in each ending, then mutated ones."""
    random = Random(seed)
    endings = ("shut", "reset", "wait")
    named = [*NAMED.values(), *HIDDEN]
    for data in named:
        for ending in endings:
            yield Attempt(data.replace(b"TOKEN", token.encode()), False, (), ending)
    hello = client_hello()
    hidden = [each.replace(b"hidden", b"random") for each in HIDDEN]  # a mutant may be two requests
    kinds = [[*HTTP_1, *NAMED.values(), *hidden], HTTP_2, WEBSOCKET, [hello]]
    everything = [sample for kind in kinds for sample in kind]
    for _ in range(count - len(named) * len(endings)):
        kind = random.choices(kinds, (4, 2, 3, 2))[0]
        data = mutated(random, random.choice(kind), everything).replace(b"TOKEN", token.encode())
        cuts = tuple(sorted(random.randint(0, len(data)) for _ in range(random.randrange(3))))
        is_raw, ending = kind[0] is hello or random.random() < 0.05, random.choice(endings)
        yield Attempt(data, is_raw, cuts, ending, random.random() < SLOW_SHARE)


# --- clients --------------------------------------------------------------------------------------


@dataclass
class Outcome:
    """What was seen.  codes: of answers to hostile connections; failures: why the run is not as it
    should be
    """

    codes: Counter[str] = field(default_factory=Counter)
    served_s: list[float] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        times = sorted(self.served_s) or [0.0]
        p50, p99 = times[len(times) // 2], times[len(times) * 99 // 100]
        answers = ", ".join(f"{code} {count}" for code, count in sorted(self.codes.items()))
        lines = [f"answers: {answers}", f"served: {len(self.served_s)}, median {p50:.4f} s, p99 {p99:.4f} s"]
        return "\n".join([*lines, *(f"FAILED: {failure}" for failure in self.failures)])


async def hostile(port: int, context: ssl.SSLContext, attempt: Attempt) -> str:
    """Carry out one attempt.  Returns the code of the first answer, or what came instead."""
    transport: trio.SocketStream | None = None
    with suppress(*GONE), trio.move_on_after(ANSWER_S):
        transport = await connect(port)
        stream: trio.abc.Stream = transport
        if not attempt.is_raw:
            stream = trio.SSLStream(transport, context, server_hostname=HOST, https_compatible=True)
        for begin, end in zip((0, *attempt.cuts), (*attempt.cuts, len(attempt.data)), strict=True):
            await stream.send_all(attempt.data[begin:end])
            if attempt.slow:
                await trio.sleep(SLOW_S)
        if attempt.ending == "shut":
            await transport.send_eof()
        answer = b""
        if attempt.ending != "reset":
            with trio.move_on_after(ANSWER_S if attempt.ending == "shut" else PATIENCE_S):
                answer = bytes(await stream.receive_some(65536))
        else:
            transport.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        transport.socket.close()
        return (
            answer[9:12].decode("latin1")
            if answer.startswith(b"HTTP/1.1")
            else "bytes"
            if answer
            else "nothing"
        )
    if transport is not None:
        transport.socket.close()
    return "closed"


async def stand_by(server: Server, outcome: Outcome, over: trio.Event, pause_s: float = 0.0) -> None:
    """Be served until the attempts are over, and once more: on a connection that is kept, and on
    new ones.

    pause_s: between two turns
    """
    context = trusting()
    kept = await encrypted(server.port, context)
    last = False
    while not last:
        last = over.is_set()
        for stream in (kept, await encrypted(server.port, context)):
            begun_s = monotonic()
            code = await get(stream)
            outcome.served_s.append(monotonic() - begun_s)
            if code != 200:
                outcome.failures.append(f"the bystander got {code}")
                return
            if stream is not kept:
                await trio.aclose_forcefully(stream)
        with trio.move_on_after(pause_s):
            await over.wait()
    await trio.aclose_forcefully(kept)


async def fuzz(server: Server, connections: int, seed: int, *, strict: bool = True) -> Outcome:
    """Send mutated samples.  Returns what was seen.

    strict: a hidden request must not be carried out
    """
    outcome, context, over = Outcome(), trusting(), trio.Event()
    before = server.descriptors
    waiting = attempts(connections, seed, server.token)

    async def work() -> None:
        for attempt in waiting:
            outcome.codes[await hostile(server.port, context, attempt)] += 1

    async def work_all() -> None:
        async with trio.open_nursery() as workers:
            for _ in range(PARALLEL):
                workers.start_soon(work)
        over.set()

    try:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(work_all)
            nursery.start_soon(stand_by, server, outcome, over)
    except* GONE as gone:
        outcome.failures.append(f"the bystander was not served: {gone.exceptions[0]!r}")
    if strict and server.process.poll() is None and await finds_hidden(server):
        outcome.failures.append("a hidden request was carried out")
    await settle(server, before, outcome)
    return outcome


async def finds_hidden(server: Server) -> bool:
    """True if a request that was hidden in another one has had its effect."""
    stream = await encrypted(server.port, trusting())
    path = "/api/v1/namespaces/default/configmaps/hidden"
    request = f"GET {path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {server.token}\r\n\r\n"
    await stream.send_all(request.encode())
    answer = bytes(await stream.receive_some(65536))
    await trio.aclose_forcefully(stream)
    assert answer[9:12] in (b"200", b"404"), answer
    return answer[9:12] == b"200"


async def settle(server: Server, descriptors: int, outcome: Outcome) -> None:
    """Wait for the server to free what clients have closed."""
    with trio.move_on_after(ANSWER_S):
        while server.process.poll() is None and server.descriptors > descriptors:  # noqa: ASYNC110 (another process)
            await trio.sleep(0.02)
    if server.process.poll() is not None:
        outcome.failures.append(f"the server ended: {server.process.returncode}")
    elif server.descriptors > descriptors:
        outcome.failures.append(f"{server.descriptors} descriptors, {descriptors} before")


async def crowd(server: Server, connections: int, keep: int = OPEN_MAX) -> Outcome:
    """Send a request on each of many connections.  keep: how many the client leaves open"""
    outcome, context = Outcome(), trusting()
    before = server.descriptors
    kept: deque[trio.SSLStream[trio.SocketStream]] = deque()
    waiting = iter(range(connections))

    async def work() -> None:
        for _ in waiting:
            begun_s = monotonic()
            try:
                stream = await encrypted(server.port, context)
            except GONE as gone:
                outcome.failures.append(f"a connection failed: {gone!r}")
                return
            kept.append(stream)
            code = await get(stream)
            outcome.served_s.append(monotonic() - begun_s)
            if code != 200:
                outcome.failures.append(f"a request got {code}")
                return
            if len(kept) > keep:
                await trio.aclose_forcefully(kept.popleft())

    async with trio.open_nursery() as workers:
        for _ in range(PARALLEL):
            workers.start_soon(work)
    for stream in kept:
        await trio.aclose_forcefully(stream)
    await settle(server, before, outcome)
    return outcome


def judged(server: Server, outcome: Outcome, number: signal.Signals = signal.SIGTERM) -> Outcome:
    """End the server by a signal, and add what is wrong with its log and its end."""
    if server.process.poll() is None and (fault := server.end(number)):
        outcome.failures.append(fault)
    traces = [line for line in server.log if line.startswith("Traceback")]
    if traces:
        outcome.failures.append(f"{len(traces)} tracebacks in the log")
    return outcome


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--connections", type=int, default=5000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--crowd", type=int, metavar="N", help="N requests on connections of their own instead"
    )
    parser.add_argument("--descriptors", type=int, metavar="N", help="the server's limit (ulimit -n)")
    parser.add_argument("--front", choices=("direct", "hypercorn"), default="direct")
    chosen = parser.parse_args()
    direct = chosen.front == "direct"
    program = ("sim.app.cli.main",) if direct else ("tests.bench.hypercorn_front",)
    with serving(chosen.descriptors, program=program) as server:
        if chosen.crowd is not None:
            outcome = trio.run(crowd, server, chosen.crowd)
        else:
            outcome = trio.run(partial(fuzz, server, chosen.connections, chosen.seed, strict=direct))
        judged(server, outcome)
        print(outcome)
        print(*Counter(line[:200] for line in server.log).most_common(20), sep="\n")
    return bool(outcome.failures)


if __name__ == "__main__":
    sys.exit(main())
