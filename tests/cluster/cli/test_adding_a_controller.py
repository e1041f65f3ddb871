"""The worked example of CONTRIBUTING, "Add a controller": it counts the pods of each namespace.

`decide` is what a new folder of `actors/controllers` would hold in `decide.py`, `start` what it
would hold in `loop.py`; `loops=` below takes the place of the line in
`actors/controllers/table.py`, and `role` that of the line in
`sim/api/auth/bootstrap_policy/policy.txt`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from actors.controllers.manager import controller_manager_main
from actors.controllers.shared.shell import Env, run_workers
from actors.controllers.table import LOOPS
from sim.api.types import Obj
from sim.app.cluster import Cluster
from sim.kernel import Context

ANNOTATION = "example.com/pods"
WORKERS = 2


def decide(namespace: Obj, pod_count: int) -> Obj | None:
    """The merge patch that writes the number of pods to a namespace; None if the namespace has it."""
    annotations = namespace["metadata"].get("annotations") or {}
    if annotations.get(ANNOTATION) == str(pod_count):
        return None
    return {"metadata": {"annotations": {ANNOTATION: str(pod_count)}}}


async def start(env: Env) -> None:
    """The shell: informers fill a queue with names of namespaces, workers send the patches."""
    client = env.client("pod-counter")
    pods, namespaces = env.informers["pods"], env.informers["namespaces"]
    queue = env.queue("podcount")

    def pod_changed(pod: Obj) -> None:
        queue.add(pod["metadata"]["namespace"])

    async def sync(key: str) -> str | None:
        namespace = namespaces.get(key)
        if namespace is None:
            return None
        pod_count = sum(pod["metadata"]["namespace"] == key for pod in pods.list())
        patch = decide(namespace, pod_count)
        if patch is None:
            return None
        reply = await client.patch("namespaces", "", key, patch)
        return None if reply.ok else reply.message

    pods.on(pod_changed, lambda old, pod: None, pod_changed)
    namespaces.on(lambda namespace: queue.add(namespace["metadata"]["name"]))
    await env.informers.start_and_sync()
    run_workers(env, queue, sync, WORKERS)


class ClusterWithPodCount(Cluster):
    """A cluster with the example in its controller managers."""

    def manager_main(self) -> Callable[[Context], Awaitable[None]]:
        """The main function of a controller manager with one more row in its table of controllers."""
        return controller_manager_main(
            self.scheme,
            self.connect,
            self.options.controller_manager,
            loops={**LOOPS, "podcount": start},
            root_ca=self.root_ca,
        )


def deployment(replicas: int) -> Obj:
    labels = {"app": "web"}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "web", "image": "web:1"}]}}
    spec = {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}, "spec": spec}


def role() -> list[Obj]:
    """The role of the controller, bound to the service account that is named after its client."""
    group = "rbac.authorization.orch.io"
    rules = [{"apiGroups": [""], "resources": ["namespaces"], "verbs": ["patch"]}]
    name = {"name": "pod-counter"}
    version = f"{group}/v1"
    account = {"kind": "ServiceAccount", **name, "namespace": "orch-system"}
    return [
        {"apiVersion": version, "kind": "ClusterRole", "metadata": name, "rules": rules},
        {
            "apiVersion": version,
            "kind": "ClusterRoleBinding",
            "metadata": name,
            "roleRef": {"apiGroup": group, "kind": "ClusterRole", **name},
            "subjects": [account],
        },
    ]


def counted(cluster: Cluster) -> str | None:
    namespace = cluster.get("namespaces", "default", "")
    assert namespace is not None
    count: str | None = (namespace["metadata"].get("annotations") or {}).get(ANNOTATION)
    return count


def test_decision_is_a_patch_only_if_the_count_differs() -> None:
    namespace = {"metadata": {"name": "default", "annotations": {ANNOTATION: "2"}}}
    assert decide(namespace, 2) is None
    assert decide(namespace, 3) == {"metadata": {"annotations": {ANNOTATION: "3"}}}


async def test_added_controller_counts_pods_and_continues_after_a_crash() -> None:
    async with ClusterWithPodCount(nodes=2, seed=1) as cluster:
        cluster.apply(*role(), deployment(3))
        await cluster.run_for("1m")
        assert counted(cluster) == "3"
        manager = cluster.supervisor.actors["controller-manager-0"]
        manager.crash()
        cluster.apply(deployment(1))
        await cluster.run_for("10s")
        assert counted(cluster) == "3"
        manager.start()
        await cluster.run_for("1m")
        assert counted(cluster) == "1"
