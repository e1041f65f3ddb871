"""A Deployment's pods come and go, alone and with what looks at all of them: what each pod costs.

python -m tests.bench.workloads [PODS [KIND ...]]

KIND: plain, service, budget, quota, autoscaler; all of them unless some are named.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace
from time import process_time
from typing import Any

import trio

from actors.users.admin import DeleteAll
from sim.app.cluster import Cluster
from sim.app.process.garbage import no_collection
from sim.kernel.tasks import ALONE_S
from tests.bench.big import Running, deployment, planned
from tests.bench.timing import machine

PODS_A_NODE = 30
NAME = "app"


def beside(kind: str, pods: int) -> list[dict[str, Any]]:
    """What is there before the Deployment."""
    metadata = {"name": NAME, "namespace": "default"}
    labels = {"app": NAME}
    target = {"type": "Utilization", "averageUtilization": 80}
    rows: dict[str, tuple[str, str, dict[str, Any]]] = {
        "service": ("v1", "Service", {"selector": labels, "ports": [{"port": 80}]}),
        "budget": (
            "policy/v1",
            "PodDisruptionBudget",
            {"selector": {"matchLabels": labels}, "maxUnavailable": "10%"},
        ),
        "quota": ("v1", "ResourceQuota", {"hard": {"pods": str(2 * pods), "requests.cpu": str(pods)}}),
        "autoscaler": (
            "autoscaling/v2",
            "HorizontalPodAutoscaler",
            {
                "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": NAME},
                "minReplicas": pods,
                "maxReplicas": pods,
                "metrics": [{"type": "Resource", "resource": {"name": "cpu", "target": target}}],
            },
        ),
    }
    if kind == "plain":
        return []
    api_version, name, spec = rows[kind]
    return [{"apiVersion": api_version, "kind": name, "metadata": metadata, "spec": spec}]


async def measure(kind: str, pods: int) -> None:
    plan = replace(planned(max(20, pods // PODS_A_NODE), ()), metrics=kind == "autoscaler")
    with no_collection():
        async with Cluster(plan, seed=1) as cluster:
            cluster.kernel.slice_s = ALONE_S
            await cluster.run_for("30s")
            running = Running()
            unobserve = cluster.observe(running.see, ["pods"])
            began = process_time()
            cluster.apply(*beside(kind, pods), deployment(NAME, pods))
            assert await cluster.run_while(lambda: running.count < pods, "2h", "10s")
            unobserve()
            await cluster.run_for("1m")
            came, began = process_time() - began, process_time()
            cluster.admin.do(DeleteAll("deployments", "default", NAME))
            cluster.kernel.kick()
            assert await cluster.run_while(lambda: cluster.counts()["pods"] > 0, "2h", "10s")
            gone = process_time() - began
    print(
        f"{kind}: {came / pods * 1e3:.2f} ms a pod that comes, {gone / pods * 1e3:.2f} ms one that goes",
        flush=True,
    )


def main(words: Sequence[str]) -> None:
    pods = int(words[0]) if words and words[0].isdigit() else 1_000
    kinds = [word for word in words if not word.isdigit()]
    print(machine())
    for kind in kinds or ("plain", "service", "budget", "quota", "autoscaler"):
        trio.run(measure, kind, pods)


if __name__ == "__main__":
    main(sys.argv[1:])
