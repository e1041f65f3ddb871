"""What a connection meets at an endpoint: the truth of machines, and not what the API says of pods.

Turns an address and a port into an answer, a refusal, or silence: a machine without power, or
behind a link that is cut, is silent, and so is an address that no pod has. A container that has
ended, or does not serve yet, refuses; one that hangs is silent.

Differs  a program that got SIGTERM serves until it ends; of several pods of a host's network
         the first one answers.
"""

from __future__ import annotations

from actors.node.programs.network.services import Endpoint
from actors.node.runtime.containers import Container, PodRuntime
from actors.users.requests import Reach
from sim.api.types import Obj
from sim.app.parts.ports import BuiltCluster


def goes(cluster: BuiltCluster, source: str, target: str) -> bool:
    """True if packets go from one node to another and back."""
    nodes, network = cluster.nodes, cluster.kernel.network
    if target not in nodes or not nodes[target].machine.powered:
        return False
    return source == target or (network.link(source, target).up and network.link(target, source).up)


def reached(cluster: BuiltCluster, source: str, endpoint: Endpoint) -> tuple[Reach, Container | None]:
    """What a connection from a node meets, and the container that answers or hangs."""
    if not goes(cluster, source, endpoint.node):
        return Reach.SILENT, None
    pods = cluster.nodes[endpoint.node].machine.pods.values()
    pod = next((one for one in pods if one.ready and one.ip == endpoint.host), None)
    if pod is None:
        return Reach.SILENT, None
    item = cluster.storage.store.get(cluster.scheme.key("pods", *pod.key.split("/")))
    spec = None if item is None or item.obj["metadata"]["uid"] != pod.uid else item.obj["spec"]
    container = serving(pod, spec, endpoint.port, cluster.kernel.now_us)
    return answer_of(container, cluster.kernel.now_us), container


def serving(pod: PodRuntime, spec: Obj | None, port: int, now_us: int) -> Container | None:
    """The container behind a port: the one that declares it, else the first; None if it never ran.

    spec: of the pod, None if the API has it no more
    """
    containers: list[Obj] = [] if spec is None else spec["containers"]
    for one in containers:
        if any(declared.get("containerPort") == port for declared in one.get("ports") or ()):
            return pod.newest(one["name"])
    if containers:
        return pod.newest(containers[0]["name"])
    return next(iter(pod.running(now_us)), None)


def answer_of(container: Container | None, now_us: int) -> Reach:
    """What a connection to a container's port meets now."""
    if container is None or not container.running(now_us):
        return Reach.REFUSES
    if container.healthy(now_us):
        return Reach.ANSWERS
    starts = (
        container.unhealthy is None and now_us - container.started_us < container.behaviour.healthy_after_us
    )
    return Reach.REFUSES if starts else Reach.SILENT
