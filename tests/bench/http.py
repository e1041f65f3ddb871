"""What requests over HTTP cost: a served cluster alone, or beside another server in turns.

python -m tests.bench.http [--beside URL --token T --pid PID] [--rows get-1,post-16] [--json F]

Each row keeps connections with TLS and HTTP/1.1 busy for some seconds, in several turns, in which
the servers alternate.  A row prints the requests a second (of `watch`: events that watchers get),
the processor time of each in milliseconds, as the system counts it for the server's processes, and
the median and the 99th percentile of the times from a request to its answer.

The client is one thread with prepared bytes and non-blocking sockets, so that little of the machine
is its own.  Pods have 4.3 KB, and a scheduler that does not exist.
"""

from __future__ import annotations

import argparse
import json
import selectors
import ssl
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from os import sysconf
from pathlib import Path
from socket import IPPROTO_TCP, TCP_NODELAY, create_connection
from time import perf_counter
from typing import Any
from urllib.parse import urlsplit

from sim.statistics import quantile
from tests.bench.serving import served
from tests.bench.timing import machine

SPACE, NEW, WATCHED = "bench", "bench-new", "bench-watched"
PODS = 1_500
POD_BYTES = 4_300
TURNS, TURN_S = 3, 2.0
READ_BYTES = 1 << 18
BETWEEN = 32  # pods that are created between two requests for one: more than there are connections
END, CHUNKED = b"0\r\n\r\n", 1 << 60  # of chunks; their length
TICK_S = 1 / sysconf("SC_CLK_TCK")


# --- a client -------------------------------------------------------------------------------------


class Connection:
    """One connection, of which the answers are cut out but not looked at.

    began_s: when the request was sent that is not answered
    """

    def __init__(self, server: Server) -> None:
        address = create_connection((server.host, server.port), 60)
        address.setsockopt(IPPROTO_TCP, TCP_NODELAY, 1)
        context = ssl._create_unverified_context()
        context.set_alpn_protocols(["http/1.1"])
        self.socket = context.wrap_socket(address, server_hostname=server.host)
        self._parts: list[bytes] = []  # of an answer
        self._code = self._missing = 0  # once its head has come; bytes of its body
        self._tail = b""
        self.began_s = 0.0

    def send(self, data: bytes) -> None:
        """Begin a request."""
        self.began_s = perf_counter()
        self.socket.sendall(data)

    def received(self) -> bytes:
        """What can be read now; b"" if that is nothing."""
        try:
            data = self.socket.recv(READ_BYTES)
        except ssl.SSLWantReadError:
            return b""
        if not data:
            raise ConnectionError("the server has closed a connection")
        return data

    def answered(self) -> tuple[int, bytes] | None:
        """The code and the body (or its chunks) of the answer once it is complete."""
        data = self.received()
        self._parts.append(data)
        if not self._code:
            head, mark, data = b"".join(self._parts).partition(b"\r\n\r\n")
            if not mark:
                return None
            size = head.lower().partition(b"\r\ncontent-length:")[2].split(b"\r\n")[0]
            self._code, self._parts, self._missing = int(head[9:12]), [data], int(size) if size else CHUNKED
        self._tail = (self._tail + data)[-len(END) :]
        if self._missing != CHUNKED:
            self._missing -= len(data)
        if self._missing and self._tail != END:
            return None
        code, body = self._code, b"".join(self._parts)
        self._code, self._parts, self._missing, self._tail = 0, [], 0, b""
        return code, body

    def ask(self, data: bytes) -> tuple[int, bytes]:
        """One request and its answer."""
        self.send(data)
        while (answer := self.answered()) is None:
            pass
        return answer


@dataclass
class Server:
    """A server under test.  pids: its processes, of which the processor time counts"""

    name: str
    host: str
    port: int
    token: str
    pids: Sequence[int]

    def request(self, method: str, path: str, body: bytes = b"", media: str = "application/json") -> bytes:
        """The bytes of a request."""
        lines = [
            f"{method} {path} HTTP/1.1",
            f"Host: {self.host}:{self.port}",
            "User-Agent: bench/1.0",
            f"Authorization: Bearer {self.token}",
            "Accept: application/json",
        ]
        if body:
            lines += [f"Content-Type: {media}", f"Content-Length: {len(body)}"]
        return "\r\n".join([*lines, "", ""]).encode() + body

    def worked_s(self) -> float:
        """Processor seconds of its processes."""
        total = 0
        for pid in self.pids:
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            total += int(fields[11]) + int(fields[12])
        return total * TICK_S


# --- what is asked for ----------------------------------------------------------------------------


def pod(name: str, space: str) -> dict[str, Any]:
    """A pod of about POD_BYTES once it is stored and padded."""
    values = [{"name": f"VARIABLE_{n}", "value": f"value {n}"} for n in range(8)]
    container = {
        "name": "main",
        "image": "registry.example/team/app:1.2.3",
        "env": values,
        "ports": [{"name": "http", "containerPort": 8080, "protocol": "TCP"}],
        "resources": {
            "requests": {"cpu": "10m", "memory": "16Mi"},
            "limits": {"cpu": "1", "memory": "64Mi"},
        },
    }
    spec = {
        "schedulerName": "none",
        "automountServiceAccountToken": False,
        "containers": [container, {**container, "name": "side"}],
    }
    annotations = {"example.com/text": "x" * 300}
    metadata = {"name": name, "namespace": space, "labels": {"app": "web"}, "annotations": annotations}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def prepare(server: Server, pods: int) -> None:
    """Namespaces, and pods of the size that is wanted."""
    connection = Connection(server)

    def make(path: str, value: Any) -> None:
        code, text = connection.ask(server.request("POST", path, json.dumps(value).encode()))
        assert code in (201, 409), (path, text)

    for space in (SPACE, NEW, WATCHED):
        make("/api/v1/namespaces", {"metadata": {"name": space}})
        make(f"/api/v1/namespaces/{space}/serviceaccounts", {"metadata": {"name": "default"}})
    path = f"/api/v1/namespaces/{SPACE}/pods"
    make(path, pod("size", SPACE))
    _, text = connection.ask(server.request("GET", f"{path}/size"))
    connection.ask(server.request("DELETE", f"{path}/size"))
    Load.padding = max(0, POD_BYTES - len(text))
    for space, count in ((SPACE, pods), (WATCHED, 1)):
        for number in range(count):
            made = pod(f"pod-{number:06}", space)
            made["metadata"]["annotations"]["example.com/text"] += "x" * Load.padding
            make(f"/api/v1/namespaces/{space}/pods", made)
    connection.socket.close()


@dataclass
class Load:
    """One row.  requests: bytes of one request after the other; watchers: connections that watch"""

    requests: Callable[[Server], Iterator[bytes]]
    connections: int
    watchers: int = 0
    padding = 0
    numbers = iter(range(1 << 40))


def reading(path: str) -> Callable[[Server], Iterator[bytes]]:
    """One GET again and again."""

    def requests(server: Server) -> Iterator[bytes]:
        data = server.request("GET", path)
        while True:
            yield data

    return requests


def posting(server: Server) -> Iterator[bytes]:
    """New pods."""
    made = pod("pod-NUMBER", NEW)
    made["metadata"]["annotations"]["example.com/text"] += "x" * Load.padding
    text = json.dumps(made).encode()
    begin = perf_counter()
    for number in Load.numbers:
        named = text.replace(b"NUMBER", b"%d-%012d" % (begin, number), 1)
        yield server.request("POST", f"/api/v1/namespaces/{NEW}/pods", named)


def living(server: Server) -> Iterator[bytes]:
    """Pods that are created and, as others have been created since, read, patched and deleted."""
    path, label = f"/api/v1/namespaces/{NEW}/pods", b'{"metadata":{"labels":{"turn":"1"}}}'
    named: deque[str] = deque()
    for made in posting(server):
        yield made
        named.append(json.loads(made.partition(b"\r\n\r\n")[2])["metadata"]["name"])
        if len(named) > 3 * BETWEEN:
            yield server.request("GET", f"{path}/{named[-BETWEEN]}")
            yield server.request(
                "PATCH", f"{path}/{named[-2 * BETWEEN]}", label, "application/merge-patch+json"
            )
            yield server.request("DELETE", f"{path}/{named.popleft()}")


def patching(space: str, pods: int) -> Callable[[Server], Iterator[bytes]]:
    """Another label of one pod after the other."""

    def requests(server: Server) -> Iterator[bytes]:
        begin = perf_counter()
        for number in Load.numbers:
            body = b'{"metadata":{"labels":{"turn":"%d-%d"}}}' % (begin, number)
            path = f"/api/v1/namespaces/{space}/pods/pod-{number % pods:06}"
            yield server.request("PATCH", path, body, "application/merge-patch+json")

    return requests


def rows(pods: int) -> dict[str, Load]:
    """All rows by name."""
    listed = f"/api/v1/namespaces/{SPACE}/pods"
    one = reading(f"{listed}/pod-000000")
    return {
        "get-1": Load(one, 1),
        "get-16": Load(one, 16),
        "post-16": Load(posting, 16),
        "patch-1": Load(patching(SPACE, pods), 1),
        "patch-16": Load(patching(SPACE, pods), 16),
        "list-500": Load(reading(f"{listed}?limit=500"), 1),
        "list-all": Load(reading(listed), 1),
        "list-none": Load(reading(f"{listed}?labelSelector=app%3Dnone"), 1),
        "watch-20": Load(patching(WATCHED, 1), 1, 20),
        "watch-100": Load(patching(WATCHED, 1), 1, 100),
    }


# --- measuring ------------------------------------------------------------------------------------


@dataclass
class Figures:
    """What was seen of one server in one row.  took_s: of each request, or each event of a watch"""

    spent_s: float = 0.0
    worked_s: float = 0.0
    took_s: list[float] = field(default_factory=list)

    @property
    def shown(self) -> dict[str, float]:
        count, ordered = len(self.took_s), sorted(self.took_s)
        return {
            "per_s": round(count / self.spent_s, 1),
            "cpu_ms": round(1000 * self.worked_s / count, 3),
            "p50_ms": round(1000 * quantile(ordered, 0.5), 2),
            "p99_ms": round(1000 * quantile(ordered, 0.99), 2),
        }


def run(server: Server, load: Load, seconds: float, into: Figures) -> None:
    """Keep the connections of a row busy for some seconds."""
    requests = load.requests(server)
    with ExitStack() as stack:
        chooser = stack.enter_context(selectors.DefaultSelector())
        opened = [Connection(server) for _ in range(load.connections + load.watchers)]
        writers, watchers = opened[: load.connections], opened[load.connections :]
        for each in watchers:
            stream = f"/api/v1/namespaces/{WATCHED}/pods?watch=1"
            each.send(server.request("GET", stream))
            while b'"ADDED"' not in each.received():
                pass
        for each in opened:
            stack.callback(each.socket.close)
            each.socket.setblocking(False)
            chooser.register(each.socket, selectors.EVENT_READ, (each, each in watchers))
        ended_s = perf_counter() + seconds
        worked_s, began_s, open_requests = server.worked_s(), perf_counter(), 0
        for each in writers:
            each.send(next(requests))
            open_requests += 1
        while open_requests:
            for key, _ in chooser.select(60):
                connection, is_watcher = key.data
                now_s = perf_counter()
                if is_watcher:
                    events = connection.received().count(b'"MODIFIED"')
                    into.took_s += events * [now_s - writers[0].began_s]
                elif (answer := connection.answered()) is not None:
                    assert answer[0] < 300, answer
                    if not load.watchers:
                        into.took_s.append(now_s - connection.began_s)
                    open_requests -= 1
                    if now_s < ended_s:
                        connection.send(next(requests))
                        open_requests += 1
        into.spent_s += perf_counter() - began_s
        into.worked_s += server.worked_s() - worked_s


def compare(servers: Sequence[Server], chosen: dict[str, Load], turns: int, seconds: float) -> Any:
    """The figures of each row and server."""
    found: dict[str, dict[str, dict[str, float]]] = {}
    for name, load in chosen.items():
        figures = {server.name: Figures() for server in servers}
        for server in servers:
            run(server, load, seconds / 4, Figures())  # to become warm
        for _ in range(turns):
            for server in servers:
                run(server, load, seconds, figures[server.name])
        found[name] = {key: each.shown for key, each in figures.items()}
        for key, shown in found[name].items():
            values = "  ".join(f"{value:9.2f} {title}" for title, value in shown.items())
            print(f"{name:10} {key:7} {values}", flush=True)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--beside", metavar="URL", help="another server, such as https://127.0.0.1:6443")
    parser.add_argument("--token", default="", help="of an administrator of the other server")
    parser.add_argument("--pid", type=int, action="append", default=[], help="a process of the other server")
    parser.add_argument("--rows", help="some rows, separated by commas")
    parser.add_argument("--pods", type=int, default=PODS)
    parser.add_argument("--turns", type=int, default=TURNS)
    parser.add_argument("--seconds", type=float, default=TURN_S, help="of one turn")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures to a file as well")
    chosen = parser.parse_args()
    every = rows(chosen.pods)
    wanted = {name: every[name] for name in (chosen.rows.split(",") if chosen.rows else every)}
    print(machine())
    with served("--pace", "1", "--profile", "envtest") as ours:
        servers = [Server("ours", "127.0.0.1", ours.port, ours._token, (ours.process.pid,))]
        if chosen.beside:
            url = urlsplit(chosen.beside)
            assert url.hostname and url.port
            servers.append(Server("beside", url.hostname, url.port, chosen.token, chosen.pid))
        for server in servers:
            prepare(server, chosen.pods)
        found = compare(servers, wanted, chosen.turns, chosen.seconds)
        print(ours.log(), end="")
    if chosen.json is not None:
        chosen.json.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
