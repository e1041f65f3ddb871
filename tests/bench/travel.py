"""What a continuation from an instant costs: forks, memory and its first touches, labs, hunts.

python -m tests.bench.travel [NODES ...]   forks of a cluster at rest (default 6 90 1000)
python -m tests.bench.travel --hunt N      N drawn trials on six nodes, from the start and shared
python -m tests.bench.travel --checkpoints [NODES ...]   orrery run --checkpoints, and forks from it
python -m tests.bench.travel --shrink N M  N failures on M nodes made smaller, likewise

Times are processor time where two are compared, since the machine may do other things.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from random import Random
from statistics import median
from time import perf_counter, process_time
from typing import Any

import trio

from orrery import Lab
from sim.app.cluster import Cluster
from sim.app.hunt.drawing import Drawing
from sim.app.hunt.ground import Ground, ground_of
from sim.app.hunt.judging import TRIALS, trial
from sim.app.hunt.reducing import EXPLAINED, Explanation, explained, smallest
from sim.app.process.garbage import no_collection
from sim.app.study.outcome import perform
from sim.app.travel import sharing
from sim.app.travel.loop import renew
from sim.kernel.tasks import ALONE_S
from sim.scenario.writing import scenario_text
from sim.units import SECOND, Virtual
from tests.bench.timing import machine
from tests.cluster.scenario import WEB

FORKS = 20
MINUTE = 60 * SECOND


def private_mib() -> float:
    """The memory that only this process has."""
    lines = Path("/proc/self/smaps_rollup").read_text().splitlines()
    return sum(int(line.split()[1]) for line in lines if line.startswith("Private_")) / 1024


def ended(child: int) -> None:
    """Wait for the end of a process."""
    os.waitpid(child, 0)


def in_copy(work: Callable[[], str]) -> str:
    """What `work` says in a copy of this process, which it ends."""
    reads, writes = os.pipe()
    if not os.fork():
        renew()
        os.write(writes, work().encode())
        os._exit(0)
    os.close(writes)
    with os.fdopen(reads) as file:
        text = file.read()
    os.wait()
    return text


async def forks(nodes: int) -> None:
    async with Cluster(nodes=nodes, seed=1) as cluster:
        cluster.kernel.slice_s = ALONE_S
        await cluster.run_until(MINUTE)
        times_ms = []
        for _ in range(FORKS):
            began = perf_counter()
            child = os.fork()
            if not child:
                os._exit(0)
            times_ms.append((perf_counter() - began) * 1000)
            ended(child)
        rest_mib = float(in_copy(lambda: f"{private_mib():.1f}"))
        reads, writes = os.pipe()
        child = os.fork()
        if child:
            ended(child)
        else:
            renew()
        began_s = process_time()
        await cluster.run_until(2 * MINUTE)
        took_ms = (process_time() - began_s) * 1000
        if not child:
            os.write(writes, f"{took_ms:.0f} {private_mib():.1f}".encode())
            os._exit(0)
        copy_ms, copy_mib = os.read(reads, 99).decode().split()
    print(
        f"{nodes} nodes: fork {median(times_ms):.2f} ms; a copy has {rest_mib} MiB of its own, {copy_mib} after a "
        f"virtual minute, which takes {copy_ms} ms of processor time ({took_ms:.0f} in the original)"
    )


def labs(nodes: int) -> None:
    with Lab(nodes=nodes, seed=1, checkpoints="1m") as lab:
        began = perf_counter()
        lab.run("10m")
        ran, began = perf_counter() - began, perf_counter()
        lab.fork().close()
        forked, began = perf_counter() - began, perf_counter()
        lab.at("7m30s").close()
        at, began = perf_counter() - began, perf_counter()
        lab._repeated(lab._journal).close()
    again = perf_counter() - began
    print(
        f"a lab of {nodes} nodes: ten minutes with ten checkpoints {ran:.2f} s; fork {forked * 1000:.0f} ms, "
        f"at('7m30s') {at * 1000:.0f} ms, by repeating {again:.2f} s"
    )


def processors_s() -> float:
    """The processor time of this process and of those that it has ended."""
    return sum(os.times()[:4])


def ground(nodes: int, *expectations: dict[str, Any]) -> Ground:
    """Some nodes for ten minutes."""
    group = {"count": nodes, "zones": ["a", "b", "c"]}
    spec: dict[str, Any] = {"duration": "10m", "cluster": {"nodes": [group]}}
    head = {"apiVersion": "orrery.dev/v1", "kind": "Scenario", "metadata": {"name": "hunted"}}
    return ground_of({**head, "spec": {**spec, "objects": [WEB], "expect": expectations}})


def shrinks(count: int, nodes: int) -> None:
    of, random = ground(nodes, {"name": "nodes stay", "never": "nodes have Ready=Unknown"}), Random(1)
    drawing, failures = Drawing(of), list[tuple[dict[str, Any], str]]()
    while len(failures) < count:
        document = drawing.fresh(random, most=True)
        outcome = perform(explained(document))
        assert isinstance(outcome, Explanation)
        failures += [(document, cause) for cause in outcome.keys if cause.endswith("> nodes stay")][:1]
    results = []
    for forks in (False, True):
        sharing.FORKS = forks
        began, before_s = perf_counter(), processors_s()
        with EXPLAINED:
            results.append([smallest(one, cause, lambda jobs: map(perform, jobs)) for one, cause in failures])
        used_s, runs = processors_s() - before_s, sum(one.runs for one in results[-1])
        how = f"{EXPLAINED.shared} shared" if forks else "from the start"
        print(
            f"{count} failures made smaller by {runs} candidates, {how}: {used_s:.1f} s of processors, "
            f"{runs / used_s:.2f} candidates for each of them; {perf_counter() - began:.1f} s"
        )
    assert results[0] == results[1]


def hunts(count: int) -> None:
    of = ground(6)
    drawing, random = Drawing(of), Random(1)
    documents = [drawing.fresh(random) for _ in range(count)]
    hashes = []
    for rest_us in (0, of.hunt.from_us - 1):
        began, before_s = perf_counter(), processors_s()
        with TRIALS:
            found = [trial(one, folder=of.folder, rest_us=Virtual(rest_us)).run().sha256 for one in documents]
        hashes.append(found)
        used = processors_s() - before_s
        took = perf_counter() - began
        print(
            f"{count} trials, rest at {rest_us / SECOND:.0f} s: {used:.1f} s of processors, "
            f"{count / used:.2f} runs for each of them; {took:.1f} s"
        )
    assert hashes[0] == hashes[1]


def held(nodes: int) -> None:
    def timed(*words: object) -> str:
        began, before_s = perf_counter(), processors_s()
        subprocess.run([*command, *map(str, words)], check=True, capture_output=True)
        return f"{processors_s() - before_s:.1f} ({perf_counter() - began:.1f}) s"

    command = [sys.executable, "-m", "orrery"]
    with tempfile.TemporaryDirectory() as folder:
        file, steps, trace = (Path(folder, name) for name in ("s.yaml", "steps.yaml", "held.trace"))
        document = ground(nodes).document
        file.write_text(scenario_text({**document, "spec": {**document["spec"], "expect": []}}))
        steps.write_text("- {crash: {actor: scheduler-0}}\n")
        plain = timed("run", file, "--trace", trace, "--no-report")
        every = timed("run", file, "--trace", trace, "--no-report", "--checkpoints", "1m", "--hold", "0s")
        future = ("fork", trace, "7m30s", "--with", steps, "--no-report")
        again = timed(*future)
        words = [*command, "run", str(file), "--trace", str(trace), "--no-report", "--checkpoints", "1m"]
        with subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as holds:
            assert holds.stderr is not None
            says = holds.stderr.readline().partition(", for ")[0]
            near = timed(*future)
            holds.terminate()
    print(
        f"{nodes} nodes, ten minutes, processor time (real time): {plain}, with checkpoints {every}; {says}; "
        f"fork at 7m30s by repeating {again}, from a checkpoint {near} of the command itself"
    )


def main() -> None:
    print(machine())
    if sys.argv[1:2] == ["--checkpoints"]:
        for nodes in [int(word) for word in sys.argv[2:]] or [90, 1000]:
            held(nodes)
        return
    if sys.argv[1:2] in (["--hunt"], ["--shrink"]):
        numbers = [int(word) for word in sys.argv[2:]]
        (hunts if sys.argv[1] == "--hunt" else shrinks)(*numbers)
        return
    for nodes in [int(word) for word in sys.argv[1:]] or [6, 90, 1000]:
        with no_collection():
            trio.run(forks, nodes)
        labs(nodes)


if __name__ == "__main__":
    main()
