"""What connections that are held cost a served cluster, and how long a mixed load keeps others
waiting.

python -m tests.bench.held [--idle 10000] [--watches 2000] [--seconds 180]

Idle connections and watches are opened one after the other, and memory and the time of a GET are
looked at after each kind.  Then some rows of `tests.bench.http` are mixed for some seconds, and
pods are created, read, patched and deleted.  The longest stall is the longest time for which the
server's loop did not look at its sockets, and the longest pause that of its garbage collector, both
in processor time.
"""

from __future__ import annotations

import argparse
import gc
import resource
import signal
import sys
from collections.abc import Sequence
from time import perf_counter, thread_time

import trio

from sim.statistics import quantile
from tests.bench.http import (
    SPACE,
    WATCHED,
    Connection,
    Figures,
    Load,
    Server,
    living,
    prepare,
    rows,
    run,
)
from tests.bench.serving import Server as Process
from tests.bench.serving import served
from tests.bench.timing import machine

PODS, GETS, CONNECTIONS = 300, 300, 16
MIXED = ("get-16", "patch-16", "list-500", "list-none", "watch-100")
MINUTE_S = 60


class Loop(trio.abc.Instrument):
    """The longest time between two looks at the sockets, and the longest pause of the collector."""

    def __init__(self) -> None:
        self.reset()

    def reset(self, *_: object) -> None:
        """Begin again."""
        self._began_s = self._paused_s = self.stall_s = self.pause_s = 0.0

    def after_io_wait(self, timeout: float) -> None:
        """The loop has looked."""
        self._began_s = thread_time()

    def before_io_wait(self, timeout: float) -> None:
        """The loop is about to look."""
        if self._began_s:
            self.stall_s = max(self.stall_s, thread_time() - self._began_s)

    def collected(self, phase: str, _: dict[str, int]) -> None:
        """The garbage collector begins or ends."""
        if phase == "start":
            self._paused_s = thread_time()
        else:
            self.pause_s = max(self.pause_s, thread_time() - self._paused_s)

    def report(self, *_: object) -> None:
        """Write both; the end of the server is not among them."""
        text = (
            f"longest stall {1000 * self.stall_s:.0f} ms, pause of the collector {1000 * self.pause_s:.0f} ms"
        )
        print(text, file=sys.stderr)


def serve() -> int:
    """The server, with a look at its loop once it serves."""
    from sim.app.cli.main import main as command
    from sim.app.process import garbage
    from sim.app.serving import serve as serving

    loop, collect = Loop(), garbage.collect_when_idle

    async def observed(work: object) -> None:
        trio.lowlevel.add_instrument(loop)
        gc.callbacks.append(loop.collected)
        await collect(work)  # type: ignore[arg-type]

    serving.collect_when_idle = observed  # type: ignore[attr-defined]
    signal.signal(signal.SIGUSR1, loop.reset)
    signal.signal(signal.SIGUSR2, loop.report)
    return command(sys.argv[2:])


def look(process: Process, server: Server, what: str) -> None:
    """Print memory and the times of some GETs."""
    connection = Connection(server)
    data = server.request("GET", f"/api/v1/namespaces/{SPACE}/pods/pod-000000")
    took_s, worked_s = [], server.worked_s()
    for _ in range(GETS):
        began_s = perf_counter()
        connection.ask(data)
        took_s.append(perf_counter() - began_s)
    worked_ms = 1000 * (server.worked_s() - worked_s) / GETS
    p50, p99 = (1000 * quantile(sorted(took_s), share) for share in (0.5, 0.99))
    memory = process.memory_mib()
    print(
        f"{what:20} {memory:7.1f} MiB, a GET {worked_ms:.2f} ms, p50 {p50:.2f}, p99 {p99:.2f} ms", flush=True
    )
    connection.socket.close()


def mixed(process: Process, server: Server, chosen: Sequence[Load], seconds: float) -> None:
    """All rows in turns of a second; prints the memory after each minute."""
    began_s, minute = perf_counter(), 0
    while perf_counter() < began_s + seconds:
        for load in chosen:
            run(server, load, 1.0, Figures())
        if perf_counter() > began_s + (minute + 1) * MINUTE_S:
            minute += 1
            print(f"after {minute} minutes: {process.memory_mib():.1f} MiB", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--idle", type=int, default=10_000)
    parser.add_argument("--watches", type=int, default=2_000)
    parser.add_argument("--seconds", type=float, default=180, help="of the mixed load")
    chosen = parser.parse_args()
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    print(machine())
    with served("--pace", "1", "--profile", "envtest", program=("tests.bench.held", "--server")) as process:
        server = Server("ours", "127.0.0.1", process.port, process._token, (process.process.pid,))
        prepare(server, PODS)
        look(process, server, "nothing held")
        idle = [Connection(server) for _ in range(chosen.idle)]
        look(process, server, f"{chosen.idle:,} idle")
        watches = []
        for _ in range(chosen.watches):
            watches.append(Connection(server))
            watches[-1].send(server.request("GET", f"/api/v1/namespaces/{WATCHED}/pods?watch=1"))
            while b'"ADDED"' not in watches[-1].received():
                pass
        look(process, server, f"{chosen.watches:,} watches too")
        for each in [*idle, *watches]:
            each.socket.close()
        look(process, server, "all closed")
        every = rows(PODS)
        process.process.send_signal(signal.SIGUSR1)  # 12,000 ends at once are no such load
        lives = living(server)
        rest = [every[name] for name in MIXED]
        mixed(process, server, [Load(lambda _: lives, CONNECTIONS), *rest], chosen.seconds)
        process.process.send_signal(signal.SIGUSR2)
        look(process, server, f"{chosen.seconds:.0f} s mixed")
        process.process.send_signal(signal.SIGINT)
        process.process.wait(20)
        print(process.log(), end="")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--server"]:
        sys.exit(serve())
    main()
