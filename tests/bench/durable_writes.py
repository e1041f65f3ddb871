"""What an API server that runs alone takes in writes that are on the disk, and how long reads take
beside them.

python -m tests.bench.durable_writes [--writers 8] [--count 2000] [--memory] [--sync-ms MS]

Writers replace ConfigMaps of their own, each on one connection, while one client reads a ConfigMap
that has no writer, and another lists them. Printed: writes per second, what each took of the
server's processor, and quantiles of the latencies in milliseconds. With --sync-ms a sync takes that
long in place of what the disk takes, which varies.
"""

from __future__ import annotations

import argparse
import tempfile
import threading
from os import sysconf
from pathlib import Path
from time import perf_counter

import httpx

from sim.statistics import quantile
from tests.bench.timing import machine
from tests.cluster.daemons.running import api_server, client_of, config_of

SLOW = "import os, time; os.fdatasync = lambda _: time.sleep({ms} / 1000)"
MAPS = "/api/v1/namespaces/default/configmaps"
PAUSE_S = 0.01  # between two reads


def write(client: httpx.Client, name: str, count: int, took_s: list[float]) -> None:
    """Replace one ConfigMap so many times."""
    for turn in range(count):
        began_s = perf_counter()
        answer = client.put(f"{MAPS}/{name}", json={"metadata": {"name": name}, "data": {"turn": str(turn)}})
        took_s.append(perf_counter() - began_s)
        assert answer.status_code == 200, answer.text


def read(client: httpx.Client, path: str, until: threading.Event, took_s: list[float]) -> None:
    """Read until the writers have ended."""
    while not until.wait(PAUSE_S):
        began_s = perf_counter()
        assert client.get(path).status_code == 200
        took_s.append(perf_counter() - began_s)


def worked_s(pid: int) -> float:
    """Processor seconds that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / sysconf("SC_CLK_TCK")


def measure(folder: Path, writers: int, count: int, *words: str, first: str = "") -> None:
    """Write and read at once, and print what it took."""
    with api_server(folder, *words, first=first) as (process, url):
        config = config_of(folder, url, "admin")
        clients = [client_of(config) for _ in range(writers + 2)]
        names = [f"map-{number}" for number in range(writers)]
        for name in (*names, "read"):
            assert clients[0].post(MAPS, json={"metadata": {"name": name}}).status_code == 201
        until, wrote, got, listed = threading.Event(), list[float](), list[float](), list[float]()
        readers = [
            threading.Thread(target=read, args=(clients[-1], f"{MAPS}/read", until, got)),
            threading.Thread(target=read, args=(clients[-2], MAPS, until, listed)),
        ]
        threads = [
            threading.Thread(target=write, args=(client, name, count // writers, wrote))
            for client, name in zip(clients, names, strict=False)
        ]
        began_s, before_s = perf_counter(), worked_s(process.pid)
        for thread in (*readers, *threads):
            thread.start()
        for thread in threads:
            thread.join()
        took_s, used_s = perf_counter() - began_s, worked_s(process.pid) - before_s
        until.set()
        for thread in readers:
            thread.join()
    rate, each_ms = len(wrote) / took_s, 1000 * used_s / len(wrote)
    print(f"{len(wrote)} writes of {writers} clients: {rate:.0f}/s, {each_ms:.2f} ms of the processor each")
    for what, found in (("PUT", wrote), ("GET", got), ("LIST", listed)):
        p50, p99 = (1000 * quantile(sorted(found), share) for share in (0.5, 0.99))
        print(f"  {what:4} p50 {p50:6.1f} p99 {p99:6.1f}")


def main() -> None:
    """Run from the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--writers", type=int, default=8)
    parser.add_argument("--count", type=int, default=2_000)
    parser.add_argument("--memory", action="store_true", help="keep nothing on the disk")
    parser.add_argument("--sync-ms", type=float, default=0)
    arguments = parser.parse_args()
    print(machine())
    with tempfile.TemporaryDirectory() as folder:
        words = () if arguments.memory else (f"--data-dir={folder}/data",)
        first = SLOW.format(ms=arguments.sync_ms) if arguments.sync_ms else ""
        measure(Path(folder), arguments.writers, arguments.count, *words, first=first)


if __name__ == "__main__":
    main()
