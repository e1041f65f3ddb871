"""What a served cluster of 4,000 pods takes in writes, and whether its memory stays flat.

python -m tests.bench.serving [REQUESTS]

Eight clients replace ConfigMaps of their own, each on one connection, through TLS, while the
cluster runs at the pace of the clock.  Printed: writes per second, what each took of the server's
processor, the latencies' quantiles, and the server's memory along the way.
"""

from __future__ import annotations

import http.client
import json
import signal
import ssl
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from os import sysconf
from pathlib import Path
from time import perf_counter
from typing import Any

import yaml

from sim.statistics import quantile
from tests.bench.timing import machine

CLIENTS = 8
PODS, NODES = 4_000, 80
REQUESTS = 50_000
PARTS = 5  # memory is looked at that many times
MIB = 1 << 20
MAPS = "/api/v1/namespaces/default/configmaps"
JSON = {"Content-Type": "application/json"}


class Server:
    """An `orrery serve` of its own process.  log: what it wrote to its standard error."""

    def __init__(self, process: subprocess.Popen[str], port: int, token: str, log: Path) -> None:
        self.process, self.port, self._token, self._log = process, port, token, log

    def connect(self, timeout_s: float = 120) -> http.client.HTTPSConnection:
        """A new connection."""
        context = ssl._create_unverified_context()
        return http.client.HTTPSConnection("127.0.0.1", self.port, context=context, timeout=timeout_s)

    def headers(self, more: Mapping[str, str] | None = None) -> dict[str, str]:
        return {"Authorization": f"Bearer {self._token}", **(more or {})}

    def log(self) -> str:
        return self._log.read_text(errors="replace")

    def memory_mib(self) -> float:
        """Resident memory."""
        lines = Path(f"/proc/{self.process.pid}/status").read_text().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS:")) / 1024

    def worked_s(self) -> float:
        """Processor seconds that it has used."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / sysconf("SC_CLK_TCK")

    def descriptors(self) -> int:
        """How many it has open."""
        return len(list(Path(f"/proc/{self.process.pid}/fd").iterdir()))


@contextmanager
def served(*arguments: str, program: Sequence[str] = ("sim.app.cli.main",)) -> Iterator[Server]:
    """A server that is ended afterwards.

    program: the module that serves, and its own arguments
    """
    with tempfile.TemporaryDirectory() as folder:
        config, log = Path(folder, "config"), Path(folder, "log")
        command = [sys.executable, "-m", *program, "serve", *arguments]
        command += ["--naming", "kubernetes", "--port", "0", "--client-config", str(config)]
        with log.open("w") as errors:
            process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True)
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            assert line, log.read_text()
            token = yaml.safe_load(config.read_text())["users"][0]["user"]["token"]
            yield Server(process, int(line.rsplit(":", 1)[1]), token, log)
        finally:
            process.send_signal(signal.SIGINT)
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            if process.stdout is not None:
                process.stdout.close()


def ask(
    connection: http.client.HTTPSConnection,
    server: Server,
    method: str,
    path: str,
    body: Any = None,
) -> tuple[int, bytes]:
    """One request with a JSON body, and its answer."""
    text = None if body is None else json.dumps(body)
    connection.request(method, path, text, server.headers(JSON if body is not None else None))
    response = connection.getresponse()
    return response.status, response.read()


def deployment(pods: int) -> dict[str, Any]:
    labels = {"app": "web"}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    spec = {"replicas": pods, "selector": {"matchLabels": labels}, "template": template}
    return {"metadata": {"name": "web"}, "spec": spec}


def running(connection: http.client.HTTPSConnection, server: Server) -> int:
    _, text = ask(connection, server, "GET", "/apis/apps/v1/namespaces/default/deployments/web")
    return int(json.loads(text)["status"].get("readyReplicas", 0))


def write(server: Server, name: str, count: int, took_s: list[float]) -> None:
    """Replace one ConfigMap so many times."""
    connection = server.connect()
    assert ask(connection, server, "POST", MAPS, {"metadata": {"name": name}})[0] in (201, 409)
    for turn in range(count):
        began_s = perf_counter()
        body = {"metadata": {"name": name}, "data": {"turn": str(turn)}}
        code, _ = ask(connection, server, "PUT", f"{MAPS}/{name}", body)
        took_s.append(perf_counter() - began_s)
        assert code == 200
    connection.close()


def measure(server: Server, requests: int) -> None:
    for part in range(PARTS):
        took_s: list[float] = []
        began_s, worked_s = perf_counter(), server.worked_s()
        writers = [
            threading.Thread(target=write, args=(server, f"w{n}", requests // PARTS // CLIENTS, took_s))
            for n in range(CLIENTS)
        ]
        for writer in writers:
            writer.start()
        for writer in writers:
            writer.join()
        rate = len(took_s) / (perf_counter() - began_s)
        each_ms = 1000 * (server.worked_s() - worked_s) / len(took_s)
        p50, p99, most = (1000 * quantile(sorted(took_s), share) for share in (0.5, 0.99, 1.0))
        print(
            f"{(part + 1) * requests // PARTS:7,} writes: {rate:5.0f}/s, {each_ms:5.2f} ms of the server each, p50 {p50:5.1f} ms, p99 {p99:6.1f} ms, "
            f"most {most:6.1f} ms; {server.memory_mib():6.1f} MiB, {server.descriptors()} descriptors",
            flush=True,
        )


def main() -> None:
    requests = int(sys.argv[1]) if len(sys.argv) > 1 else REQUESTS
    print(machine())
    with served("--nodes", str(NODES), "--pace", "1") as server:
        connection = server.connect()
        assert (
            ask(connection, server, "POST", "/apis/apps/v1/namespaces/default/deployments", deployment(PODS))[
                0
            ]
            == 201
        )
        began_s = perf_counter()
        while running(connection, server) < PODS and perf_counter() - began_s < 240:
            threading.Event().wait(1)
        print(f"{running(connection, server):,} pods run after {perf_counter() - began_s:.0f} s")
        connection.close()
        measure(server, requests)
        print(server.log())


if __name__ == "__main__":
    main()
