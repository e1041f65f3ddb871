"""A thousand nodes: filled with 30,000 pods, then one virtual hour in which nothing happens.

python -m tests.bench.big [NODES [PODS]] [--profile]
"""

from __future__ import annotations

import gc
import resource
import sys
from dataclasses import replace
from time import process_time

import trio

from sim.app.cluster import Cluster, plain_nodes, rare_collection
from sim.machinery.store import Change
from sim.scenario.plan import ClusterPlan
from sim.units import SECOND
from tests.bench.timing import machine, profiled, wants_profile

DEPLOYMENTS = 10
BOOT_US = 10 * SECOND


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


class Running:
    """Counts the pods that have come to run."""

    def __init__(self) -> None:
        self.count = 0

    def see(self, change: Change) -> None:
        if change.item.key.startswith("//pods/") and change.prev is not None:
            phase = (change.item.obj.get("status") or {}).get("phase")
            before = (change.prev.obj.get("status") or {}).get("phase")
            self.count += phase == "Running" and before != "Running"


class Collector:
    """The time that Python's cyclic garbage collector takes."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self._began = 0.0
        gc.callbacks.append(self._told)

    def _told(self, phase: str, info: dict[str, int]) -> None:
        if phase == "start":
            self._began = process_time()
        else:
            self.seconds += process_time() - self._began


async def measure(nodes: int, pods: int) -> None:
    plan = ClusterPlan(
        nodes=tuple(replace(node, capacity={**node.capacity, "cpu": "32"}) for node in plain_nodes(nodes)),
        boot_us=BOOT_US,
    )
    collector = Collector()
    with rare_collection():
        began = process_time()
        async with Cluster(plan, seed=1) as cluster:
            running = Running()
            cluster.observe(running.see)
            await cluster.run_for("30s")
            started = process_time()
            print(f"{nodes} nodes started: {started - began:.2f} s", flush=True)
            cluster.apply(*(deployment(f"app-{n}", pods // DEPLOYMENTS) for n in range(DEPLOYMENTS)))
            assert await cluster.run_while(lambda: running.count < pods, "3h", "10s")
            await cluster.run_for("1m")
            filled = process_time()
            virtual = cluster.kernel.now_us / SECOND
            steps = cluster.kernel.steps
            each = (filled - started) / pods * 1e6
            print(
                f"{pods} pods running: {filled - started:.2f} s, {each:.0f} us a pod, "
                f"{virtual:.0f} virtual s, {steps:,} events",
                flush=True,
            )
            gc.freeze()  # what lives now lives on
            await cluster.run_for("1h")
            idle = process_time() - filled
            print(f"one hour idle: {idle:.2f} s, {cluster.kernel.steps - steps:,} events")
            peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
            print(f"peak memory {peak:.0f} MiB, garbage collector {collector.seconds:.2f} s in all")


def main() -> None:
    numbers = [int(word) for word in sys.argv[1:] if word.isdigit()]
    nodes = numbers[0] if numbers else 1_000
    pods = numbers[1] if len(numbers) > 1 else 30 * nodes
    print(machine())
    if wants_profile():
        profiled(lambda: trio.run(measure, nodes, pods))
    else:
        trio.run(measure, nodes, pods)


if __name__ == "__main__":
    main()
