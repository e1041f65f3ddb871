"""Run the zone outage repeatedly: the hash is the same under any PYTHONHASHSEED and with a
listener.

    python -m tests.bench.repeat [TIMES]          default 100

Every process has a PYTHONHASHSEED of its own and runs a share of the times; every second run in it
has a TCP server on a real socket in the same Trio program, with one client connected that says
nothing.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import trio

from sim.app.run import run_plan
from sim.scenario.compile import load

ROOT = Path(__file__).resolve().parents[2]
SCENARIO = ROOT / "scenarios" / "zone-outage.yaml"
HASH_SEEDS = (0, 1, 42, 4294967295)


async def _listen(stream: trio.SocketStream) -> None:
    await stream.receive_some()


async def _once(served: bool) -> str:
    plan = load(SCENARIO)
    async with trio.open_nursery() as nursery:
        if served:
            listeners = await nursery.start(trio.serve_tcp, _listen, 0)
            port = listeners[0].socket.getsockname()[1]
            await trio.open_tcp_stream("127.0.0.1", port)
        result = await run_plan(plan)
        nursery.cancel_scope.cancel()
    assert result.ok, [verdict for verdict in result.verdicts if not verdict.ok]
    return result.trace_sha256


def _child(times: int) -> None:
    for number in range(times):
        print(trio.run(_once, number % 2 == 1), flush=True)


def main() -> int:
    if len(sys.argv) > 2:
        _child(int(sys.argv[2]))
        return 0
    times = int(sys.argv[1]) if len(sys.argv) > 1 else 100
    shares = [len(range(first, times, len(HASH_SEEDS))) for first in range(len(HASH_SEEDS))]
    found: Counter[str] = Counter()
    for hash_seed, share in zip(HASH_SEEDS, shares, strict=True):
        command = [sys.executable, "-m", "tests.bench.repeat", "child", str(share)]
        done = subprocess.run(
            command,
            cwd=ROOT,
            env={**os.environ, "PYTHONHASHSEED": str(hash_seed)},
            check=True,
            capture_output=True,
            text=True,
        )
        found.update(done.stdout.split())
        print(
            f"PYTHONHASHSEED={hash_seed}: {share} runs, hashes {dict(Counter(done.stdout.split()))}",
            flush=True,
        )
    print(f"{found.total()} runs, {len(found)} different traces")
    return 0 if len(found) == 1 else 1


if __name__ == "__main__":
    sys.exit(main())
