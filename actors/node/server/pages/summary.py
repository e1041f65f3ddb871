"""/stats/summary: what a node, its pods and their containers use, as JSON.

Mirrors  kubernetes v1.25 pkg/kubelet/server/stats/{handler,summary}.go; kubelet
         pkg/apis/stats/v1alpha1/types.go.
Differs  of networks the bytes of simulated programs count.
"""

from __future__ import annotations

from typing import Any

from actors.node.agent import NodeAgent
from actors.node.programs.traffic import Traffic
from actors.node.runtime.forecast import PID_MAX
from actors.node.server.exchange import AgentRequest, AgentResponse, json
from actors.node.server.pages.figures import ContainerFigures, Disk, Figures, PodFigures
from sim.api.types import Obj
from sim.units import format_time

INTERFACE = "eth0"
# Used, working set and resident: all of a working set is in memory.
_NO_FAULTS = {"pageFaults": 0, "majorPageFaults": 0}


def summary_answer(agent: NodeAgent, figures: Figures, request: AgentRequest) -> AgentResponse:
    """The answer to a request."""
    given = request.all("only_cpu_and_memory")
    return json(summary(agent, figures, only_usage=given == ("true",)), indent=1)


def summary(agent: NodeAgent, figures: Figures, *, only_usage: bool = False) -> Obj:
    """The document.  only_usage: leave out everything but CPU and memory"""
    said = _Said(agent)
    pods = figures.pods()
    node_ns, node_milli = figures.node_cpu_ns(pods), sum(pod.cpu_milli for pod in pods)
    left, used = figures.node_memory()
    own: dict[str, Any] = {
        "nodeName": agent.spec.name,
        "systemContainers": [*_groups(agent, said), _system(said, pods, node_ns)],
        "startTime": said.began,
        "cpu": said.cpu(node_milli, node_ns),
        "memory": said.memory(used, left),
    }
    if not only_usage:
        own |= {
            "network": said.network(figures.node_network()),
            "fs": said.disk(figures.disk("nodefs")),
            "runtime": {"imageFs": said.disk(figures.images_disk())},
            "rlimit": {"time": said.now, "maxpid": PID_MAX, "curproc": figures.processes()},
        }
    return {"node": own, "pods": [_pod(figures, said, pod, only_usage) for pod in pods]}


def _groups(agent: NodeAgent, said: _Said) -> list[Obj]:
    """The control groups that options name; simulated daemons use nothing.

    Mirrors  kubernetes v1.25 pkg/kubelet/server/stats/summary_sys_containers.go.
    """
    options = agent.options
    groups = {
        agent.names.node_agent: options.agent_cgroups,
        "runtime": options.runtime_cgroups,
        "misc": options.system_cgroups,
    }
    return [
        {"name": name, "startTime": said.began, "cpu": said.cpu(0, 0), "memory": said.memory(0, None)}
        for name, group in groups.items()
        if group
    ]


class _Said:
    """Values as the document has them at one instant."""

    def __init__(self, agent: NodeAgent) -> None:
        self._agent = agent
        self.now, self.began = format_time(agent.ctx.said_us(agent.now_us)), self.at(agent.began_us)

    def at(self, at_us: int) -> str:
        """An instant."""
        return format_time(self._agent.ctx.said_us(at_us))

    def cpu(self, milli: int, spent_ns: int) -> Obj:
        """The use of processors."""
        return {"time": self.now, "usageNanoCores": milli * 1_000_000, "usageCoreNanoSeconds": spent_ns}

    def memory(self, used: int, left: int | None) -> Obj:
        """The use of memory.  left: None without a limit"""
        own = {"usageBytes": used, "workingSetBytes": used, "rssBytes": used, **_NO_FAULTS}
        return {"time": self.now, **({} if left is None else {"availableBytes": left}), **own}

    def disk(self, disk: Disk, used: int | None = None) -> Obj:
        """A file system.  used: by a part of what is on it"""
        return {
            "time": self.now,
            "availableBytes": disk.available,
            "capacityBytes": disk.capacity,
            "usedBytes": disk.used if used is None else used,
            "inodesFree": disk.inodes_free,
            "inodes": disk.inodes,
            "inodesUsed": disk.inodes_used,
        }

    def network(self, traffic: Traffic) -> Obj:
        """An interface, which is the only one."""
        counts = {"rxBytes": traffic.received, "rxErrors": 0, "txBytes": traffic.sent, "txErrors": 0}
        own = {"name": INTERFACE, **counts}
        return {"time": self.now, **own, "interfaces": [own]}


def _system(said: _Said, pods: list[PodFigures], node_ns: int) -> Obj:
    """The control group of all pods."""
    used = sum(pod.memory for pod in pods)
    cpu = said.cpu(sum(pod.cpu_milli for pod in pods), node_ns)
    return {"name": "pods", "startTime": said.began, "cpu": cpu, "memory": said.memory(used, None)}


def _pod(figures: Figures, said: _Said, pod: PodFigures, only_usage: bool) -> Obj:
    meta, status = pod.worker.pod["metadata"], pod.worker.status
    shown: dict[str, Any] = {
        "podRef": {key: meta[key] for key in ("name", "namespace", "uid")},
        "startTime": status.get("startTime") or meta.get("creationTimestamp"),
        "containers": [_container(figures, said, one, only_usage) for one in pod.containers],
        "cpu": said.cpu(pod.cpu_milli, pod.cpu_ns),
        "memory": said.memory(pod.memory, None),
    }
    if only_usage:
        return shown
    network = figures.network(pod)
    if network is not None:
        shown["network"] = said.network(network)
    volumes = list(figures.volumes(pod))
    if volumes:
        shown["volume"] = [
            {
                **said.disk(one.disk),
                "name": one.name,
                **({"pvcRef": {"name": one.claim, "namespace": meta["namespace"]}} if one.claim else {}),
            }
            for one in volumes
        ]
    disk = figures.disk("nodefs")
    local = sum(one.logs + one.layer for one in pod.containers)
    local += sum(one.disk.used for one in volumes if not one.claim)
    inodes = sum(one.inodes for one in pod.containers)
    shown["ephemeral-storage"] = {**said.disk(disk, local), "inodesUsed": inodes}
    shown["process_stats"] = {"process_count": pod.processes}
    return shown


def _container(figures: Figures, said: _Said, one: ContainerFigures, only_usage: bool) -> Obj:
    left = max(0, one.memory_limit - one.memory) if one.memory_limit else None
    shown: dict[str, Any] = {
        "name": one.container.name,
        "startTime": said.at(one.container.started_us),
        "cpu": said.cpu(one.cpu_milli, one.cpu_ns),
        "memory": said.memory(one.memory, left),
    }
    if only_usage:
        return shown
    shown["rootfs"] = {**said.disk(figures.disk("imagefs"), one.layer), "inodesUsed": one.inodes}
    shown["logs"] = said.disk(figures.disk("nodefs"), one.logs)
    return shown
