"""A served cluster that is stopped for seconds, and one that strangers send half requests to.

python -m tests.bench.pauses [PAUSES]

Six clients replace ConfigMaps of their own, each on one connection, while the server is stopped
(SIGSTOP) for 1 to 5 s again and again. Then 1,000 connections without credentials announce bodies
that they do not send, at a server for 60 connections, and 100 more send 3 MB each. Exit status 1 if
a request ends without an answer, or with another one than its own, if a client of the second part
waits longer than ANSWER_S, or if the strangers cost more than MEMORY_MIB_MAX.
"""

from __future__ import annotations

import json
import signal
import socket
import ssl
import sys
import threading
from dataclasses import dataclass, field
from http.client import HTTPException
from random import Random
from time import perf_counter, sleep

from tests.bench.serving import MAPS, Server, ask, served
from tests.bench.timing import machine

CLIENTS, PAUSES = 6, 8
PAUSE_S = (1.0, 5.0)
CONNECTIONS_MAX, STALLED, LARGE, LARGE_BYTES = 60, 1000, 100, 3_000_000
NEW_EVERY = 50  # strangers between two new clients
ANSWER_S, MEMORY_MIB_MAX = 5.0, 60.0


@dataclass(slots=True)
class Found:
    """What clients saw. answers: right ones; wrong: others, in words; longest_s: of any answer"""

    answers: int = 0
    wrong: list[str] = field(default_factory=list)
    longest_s: float = 0.0


def write(server: Server, name: str, ended: threading.Event, found: Found) -> None:
    """Replace one ConfigMap until the end; each answer and the last stored value must be its own."""
    connection = server.connect()
    ask(connection, server, "POST", MAPS, {"metadata": {"name": name}})
    turn = 0
    while not ended.is_set():
        turn += 1
        body = {"metadata": {"name": name}, "data": {"turn": str(turn)}}
        began_s = perf_counter()
        try:
            code, text = ask(connection, server, "PUT", f"{MAPS}/{name}", body)
        except (HTTPException, OSError) as error:
            found.wrong.append(f"{name} {turn}: {error!r}")
            connection.close()
            continue
        found.longest_s = max(found.longest_s, perf_counter() - began_s)
        if code == 200 and json.loads(text)["data"] == body["data"]:
            found.answers += 1
        else:
            found.wrong.append(f"{name} {turn}: {code} {text[:200]!r}")
    connection.close()


def with_writers(server: Server, found: Found, meanwhile: list[str]) -> threading.Event:
    """Start the writers named; returns what ends them."""
    ended = threading.Event()
    for name in meanwhile:
        threading.Thread(target=write, args=(server, name, ended, found)).start()
    return ended


def finish(ended: threading.Event) -> None:
    ended.set()
    for thread in threading.enumerate():
        if thread is not threading.current_thread():
            thread.join()


def pauses(count: int) -> Found:
    """The first part."""
    found, random = Found(), Random(1)
    with served() as server:
        ended = with_writers(server, found, [f"w{n}" for n in range(CLIENTS)])
        for _ in range(count):
            sleep(random.uniform(0.2, 0.6))
            server.process.send_signal(signal.SIGSTOP)
            sleep(random.uniform(*PAUSE_S))
            server.process.send_signal(signal.SIGCONT)
        sleep(0.5)
        finish(ended)
    return found


def half_request(server: Server, length: int) -> ssl.SSLSocket:
    """A connection without credentials that has announced a body."""
    context = ssl._create_unverified_context()
    raw = socket.create_connection(("127.0.0.1", server.port), timeout=ANSWER_S)
    stream = context.wrap_socket(raw)
    stream.sendall(f"POST /version HTTP/1.1\r\nHost: x\r\nContent-Length: {length}\r\n\r\n".encode())
    return stream


def strangers() -> tuple[Found, int, float]:
    """The second part: what a client saw, strangers without an answer, and memory in MiB."""
    found, unanswered = Found(), 0
    with served("--max-connections", str(CONNECTIONS_MAX)) as server:
        ended = with_writers(server, found, ["bystander"])
        sleep(0.5)
        before_mib = server.memory_mib()
        kept: list[ssl.SSLSocket] = []
        for _ in range(STALLED):
            kept.append(stream := half_request(server, 100))
            unanswered += b" 403 Forbidden" not in stream.recv(4096)
            if len(kept) % NEW_EVERY == 0 and ask(server.connect(ANSWER_S), server, "GET", MAPS)[0] != 200:
                found.wrong.append("a new client was not served")
        most_mib = server.memory_mib()
        for stream in kept:
            stream.close()
        kept = []
        for _ in range(LARGE):
            kept.append(stream := half_request(server, LARGE_BYTES + 1))
            try:
                stream.sendall(LARGE_BYTES * b" ")
            except OSError:
                found.wrong.append("a large body was not taken")
            most_mib = max(most_mib, server.memory_mib())
        finish(ended)
        for stream in kept:
            stream.close()
    return found, unanswered, most_mib - before_mib


def main() -> int:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else PAUSES
    print(machine())
    stopped = pauses(count)
    print(f"{count} pauses: {stopped.answers} requests answered, {len(stopped.wrong)} lost")
    found, unanswered, mib = strangers()
    print(f"{STALLED} half requests at {CONNECTIONS_MAX} connections: {unanswered} without an answer")
    print(
        f"meanwhile {found.answers} requests answered, {len(found.wrong)} not, longest {found.longest_s:.2f} s"
    )
    print(f"memory of {LARGE} bodies of {LARGE_BYTES:,} bytes without credentials: {mib:.1f} MiB")
    for line in [*stopped.wrong[:10], *found.wrong[:10]]:
        print(line)
    good = not (stopped.wrong or found.wrong or unanswered)
    return 0 if good and mib <= MEMORY_MIB_MAX and found.longest_s <= ANSWER_S else 1


if __name__ == "__main__":
    sys.exit(main())
