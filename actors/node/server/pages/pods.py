"""/pods and /runningpods of an agent.

Mirrors  kubernetes v1.25 pkg/kubelet/server/server.go: getPods, getRunningPods, encodePods;
         pkg/kubelet/container/runtime.go: ToAPIPod.
"""

from __future__ import annotations

from actors.node.agent import NodeAgent
from actors.node.server.exchange import JSON, AgentResponse, json
from actors.node.server.pages.figures import by_name
from sim.api.types import Obj
from sim.units import format_micro_time


def known_pods(agent: NodeAgent) -> AgentResponse:
    """The pods that the agent has of its sources; mirrors are not among them."""
    return _list([_shown(agent, one.pod, one.status, one.uid) for one in by_name(agent)])


def _shown(agent: NodeAgent, pod: Obj, status: Obj, uid: str) -> Obj:
    """A pod with the annotations of its source; a static pod has its live status."""
    names, meta = agent.names, pod["metadata"]
    annotations = dict(meta.get("annotations") or {})
    if names.annotation_config_source not in annotations:
        created = str(meta.get("creationTimestamp") or format_micro_time(agent.ctx.said_us(agent.began_us)))
        seen = created.partition(".")[0].removesuffix("Z")
        annotations |= {
            names.annotation_config_seen: f"{seen}.000000000Z",
            names.annotation_config_source: "api",
        }
    shown = {key: value for key, value in pod.items() if key not in ("kind", "apiVersion")}
    shown["metadata"] = {**meta, "annotations": annotations}
    return {**shown, "status": status} if agent.is_static(uid) else shown


def running_pods(agent: NodeAgent) -> AgentResponse:
    """What the runtime runs, with names and images only."""
    found = []
    for uid, runtime in agent.machine.pods.items():
        running = runtime.running(agent.now_us)
        if not running:
            continue
        namespace, _, name = runtime.key.partition("/")
        containers = [{"name": one.name, "image": one.image, "resources": {}} for one in running]
        meta = {"name": name, "namespace": namespace, "uid": uid, "creationTimestamp": None}
        found.append({"metadata": meta, "spec": {"containers": containers}, "status": {}})
    return _list(found)


def _list(pods: list[Obj]) -> AgentResponse:
    """Quirk: a list without items has null in their place."""
    made = json({"kind": "PodList", "apiVersion": "v1", "metadata": {}, "items": pods or None})
    return AgentResponse(200, made.body + b"\n", JSON)
