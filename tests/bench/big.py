"""A thousand nodes: filled with 30,000 pods, then one virtual hour in which nothing happens.

python -m tests.bench.big [NODES [PODS]] [--established] [--hour] [--day] [--zone] [--fast]
                          [--profile] [--without=PATH,...]

--established: the pods run already when the run begins, and every process takes them up within two
virtual minutes; else their controllers, the scheduler and the agents bring them up.  --hour (as
without any of these three), --day: one such hour, or 24; --zone: one of three zones loses power,
and 30 virtual minutes pass; each after the one before.  --fast: the clients of controllers and
scheduler may send 1,000 requests a second, not 20 and 50, so that filling takes less virtual time,
and fewer renewals of leases with it.  --without: switch off these fast paths (`FastPaths`), "all"
of them.
"""

from __future__ import annotations

import resource
import sys
from collections.abc import Sequence
from dataclasses import replace
from time import process_time

import trio

from sim.api.store import Change
from sim.app.cluster import Cluster
from sim.app.plain_plan import plain_nodes
from sim.app.process.garbage import no_collection
from sim.app.process.large_pages import resident_mib
from sim.kernel.fast import PLAIN, FastPaths
from sim.kernel.tasks import ALONE_S
from sim.scenario.plan.plan import ClusterPlan, ComponentPlan
from sim.units import SECOND
from tests.bench.timing import machine, profiled, wants_profile

DEPLOYMENTS = 10
BOOT_US = 10 * SECOND
# agents come up within 10 s, and ask for each pod's status at their five requests a second
TAKEN_UP = "2m"
ZONES = ("a", "b", "c")
FAST = {"orch-api-qps": 1000, "orch-api-burst": 1000}
TAINTS_PER_SECOND = 10  # fast enough that a zone of thousands is tainted within minutes


def deployment(name: str, replicas: int) -> dict[str, object]:
    container = {
        "name": "app",
        "image": "registry.example/app:1",
        "resources": {"requests": {"cpu": "100m", "memory": "64Mi"}},
    }
    labels = {"app": name}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": [container]}},
        },
    }


def deployments(pods: int) -> tuple[dict[str, object], ...]:
    return tuple(deployment(f"app-{n}", pods // DEPLOYMENTS) for n in range(DEPLOYMENTS))


class Running:
    """Counts the pods that have come to run."""

    def __init__(self) -> None:
        self.count = 0

    def see(self, change: Change) -> None:
        if change.prev is not None:
            phase = (change.item.obj.get("status") or {}).get("phase")
            before = (change.prev.obj.get("status") or {}).get("phase")
            self.count += phase == "Running" and before != "Running"


class Clock:
    """Processor seconds, kernel events and memory of each part of a run."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._lap()

    def _lap(self) -> None:
        self._began, self._steps = process_time(), self._cluster.kernel.steps

    def tell(self, what: str, each: int = 0) -> None:
        """Print what the part since the last call has cost; `each`: a pod of so many."""
        seconds = process_time() - self._began
        share = f", {seconds / each * 1e6:.0f} us a pod" if each else ""
        kernel = self._cluster.kernel
        print(
            f"{what}: {seconds:.2f} s{share}, {kernel.steps - self._steps:,} events, "
            f"at {kernel.now_us // SECOND} virtual s; memory {resident_mib():.0f} MiB",
            flush=True,
        )
        self._lap()

    def end(self) -> None:
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        print(f"peak memory {peak:.0f} MiB")


def planned(nodes: int, words: Sequence[str]) -> ClusterPlan:
    """The cluster; with three zones and nodes tainted fast where a zone is to be lost."""
    made = tuple(replace(node, capacity={**node.capacity, "cpu": "32"}) for node in plain_nodes(nodes))
    flags: dict[str, int] = FAST if "--fast" in words else {}
    controllers = flags
    if "--zone" in words:
        made = tuple(replace(node, zone=ZONES[at % len(ZONES)]) for at, node in enumerate(made))
        controllers = {**flags, "node-eviction-rate": TAINTS_PER_SECOND}
    return ClusterPlan(
        nodes=made,
        controller_manager=ComponentPlan(flags=controllers),
        scheduler=ComponentPlan(flags=flags),
        boot_us=BOOT_US,
    )


async def fill(cluster: Cluster, clock: Clock, pods: int) -> None:
    """Have so many pods come to run."""
    running = Running()
    unobserve = cluster.observe(running.see, ["pods"])
    await cluster.run_for("30s")
    clock.tell(f"{len(cluster.nodes)} nodes started")
    cluster.apply(*deployments(pods))
    assert await cluster.run_while(lambda: running.count < pods, "5h", "10s")
    await cluster.run_for("1m")
    clock.tell(f"{pods} pods running", pods)
    unobserve()


async def take_up(cluster: Cluster, clock: Clock, pods: int) -> None:
    """Have so many pods run from the beginning on."""
    await cluster.run_for(0)
    clock.tell(f"{pods} pods established", pods)
    await cluster.run_for(TAKEN_UP)
    assert cluster.counts()["running"] == pods
    clock.tell("taken up", pods)


def fast_paths(words: Sequence[str]) -> FastPaths:
    """All fast paths, but those that are switched off."""
    names = [name for word in words if word.startswith("--without=") for name in word[10:].split(",")]
    return PLAIN if names == ["all"] else replace(FastPaths(), **dict.fromkeys(names, False))


async def measure(nodes: int, pods: int, words: Sequence[str]) -> None:
    plan = planned(nodes, words)
    if "--established" in words:
        plan = replace(plan, established=deployments(pods))
    with no_collection():
        async with Cluster(plan, seed=1, fast=fast_paths(words)) as cluster:
            cluster.kernel.slice_s = ALONE_S
            clock = Clock(cluster)
            await (take_up if plan.established else fill)(cluster, clock, pods)
            if "--hour" in words or not {"--day", "--zone"}.intersection(words):
                await cluster.run_for("1h")
                clock.tell("one hour idle")
            if "--day" in words:
                await cluster.run_for("24h")
                clock.tell("24 hours idle")
            if "--zone" in words:
                for node in plan.nodes:
                    if node.zone == ZONES[0]:
                        cluster.fail_node(node.name, "power-loss")
                await cluster.run_for("30m")
                clock.tell(f"30 minutes after the loss of {len(plan.nodes[:: len(ZONES)])} nodes")
            clock.end()


def sizes(words: Sequence[str]) -> tuple[int, int]:
    """Nodes and pods: the numbers among the words, 1,000 and 30 times as many unless they are
    given.
    """
    numbers = [int(word) for word in words if word.isdigit()]
    nodes = numbers[0] if numbers else 1_000
    return nodes, numbers[1] if len(numbers) > 1 else 30 * nodes


def main() -> None:
    words = sys.argv[1:]
    nodes, pods = sizes(words)
    print(machine())
    if wants_profile():
        profiled(lambda: trio.run(measure, nodes, pods, words))
    else:
        trio.run(measure, nodes, pods, words)


if __name__ == "__main__":
    main()
