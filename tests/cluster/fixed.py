"""A whole cluster with fixed phases, as the timing cases want it.

Leases are renewed at 0, 10, 20 …; passes over the nodes are at 2.00, 7.01, 12.02 …
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from typing import Any

from actors.controllers.manager import controller_manager_main
from actors.controllers.nodelifecycle.decide import PassCost
from actors.controllers.nodelifecycle.loop import NodeLifecycle
from actors.controllers.shared.shell import Env
from actors.controllers.table import LOOPS
from actors.node.runtime.profile import DEFAULT_PROFILE, NodeSpec, RuntimeProfile
from sim.api.types import Obj
from sim.app.cluster import Cluster
from sim.app.plain_plan import plain_nodes
from sim.kernel import Context
from sim.scenario.plan.plan import ClusterPlan, NodePlan
from sim.units import SECOND
from tests.cluster.seen import Seen

FIRST_PASS_US = 2 * SECOND
CASE_COST = PassCost(base_us=10_000, node_us=0)  # the cases' convention: "5 s + 0.01 work"


class FixedPhases(Cluster):
    """zones: nodes per zone, named node-<zone><n>; control: the other parts; static: static pods by
        node;
    cost: of a pass; the rest: of every node.
    """

    def __init__(
        self,
        zones: Mapping[str, int],
        control: ClusterPlan = ClusterPlan(),
        *,
        cost: PassCost = CASE_COST,
        static: Mapping[str, tuple[Obj, ...]] | None = None,
        profile: RuntimeProfile = DEFAULT_PROFILE,
        flags: Mapping[str, Any] | None = None,
        capacity: Mapping[str, str] | None = None,
    ) -> None:
        self._static = static or {}
        self._profile = profile
        self._cost = cost
        sizes = [(zone, number) for zone, size in zones.items() for number in range(size)]
        nodes = tuple(
            replace(
                node,
                name=f"node-{zone}{number}",
                zone=zone,
                flags=flags or {},
                capacity={**node.capacity, **(capacity or {})},
            )
            for node, (zone, number) in zip(plain_nodes(len(sizes)), sizes, strict=True)
        )
        super().__init__(replace(control, nodes=nodes), seed=1)
        self.seen = Seen(self.names)
        self.observe(self.seen.see)

    def node_spec(self, plan: NodePlan) -> NodeSpec:
        static = self._static.get(plan.name, ())
        spec = super().node_spec(plan)
        return replace(spec, lease_jitter=False, static_pods=static, profile=self._profile)

    def manager_main(self) -> Callable[[Context], Awaitable[None]]:
        async def from_the_first_pass(env: Env) -> None:
            await env.ctx.sleep_us(max(0, FIRST_PASS_US - env.ctx.kernel.now_us))
            await NodeLifecycle(env, self._cost).run()

        loops = {**LOOPS, "nodelifecycle": from_the_first_pass}
        return controller_manager_main(
            self.scheme, self.connect, self.options.controller_manager, loops=loops
        )

    async def kill(self, *nodes: str, at: str = "95s") -> None:
        """Nodes lose power at an instant; the cluster has been run up to it."""
        await self.run_until(at)
        for name in nodes:
            self.fail_node(name, "power-loss")

    def nodes_of(self, zone: str = "") -> list[str]:
        return [node.name for node in self.plan.nodes if node.zone == zone]

    def pod(self, name: str) -> Obj:
        found = self.get("pods", name)
        assert found is not None, f"no pod {name}"
        return found


def seconds(times: Mapping[str, int]) -> list[float]:
    """In order of time."""
    return sorted(at_us / SECOND for at_us in times.values())


def workload(kind: str, name: str, replicas: int = 0, **spec: Any) -> Obj:
    """A Deployment, ReplicaSet, StatefulSet or DaemonSet of pods that ask for nothing."""
    labels = {"app": name}
    count = {"replicas": replicas} if replicas else {}
    if kind == "StatefulSet":
        spec = {"serviceName": name, "podManagementPolicy": "Parallel", **spec}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [container()]}}
    return {
        "apiVersion": "apps/v1",
        "kind": kind,
        "metadata": {"name": name, "namespace": "default"},
        "spec": {**count, "selector": {"matchLabels": labels}, "template": template, **spec},
    }


def container() -> Obj:
    return {"name": "c", "image": "registry.example/c:1"}
