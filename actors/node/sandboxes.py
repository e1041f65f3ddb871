"""A pod's sandbox: what it is made with, what can go wrong, and what it lets its containers do.

Turns a worker whose pod has no sandbox into one of the machine and events.

Mirrors  pkg/kubelet/kuberuntime/kuberuntime_sandbox.go: createPodSandbox, generatePodSandboxConfig;
         pkg/kubelet/cm/pod_container_manager_linux.go: EnsureExists, of its limit of processes (v1.25).
Differs  a program that may not have more processes goes on with those that it has, one at least.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from actors.node.calls import GIVEN_UP, SANDBOX_PATIENCE, call
from actors.node.pod_dns import FORMING, MISSING, NO_CLUSTER_DNS, asks_cluster, misfits

if TYPE_CHECKING:
    from actors.node.profile import ContainerBehaviour
    from actors.node.worker import Worker

Obj = dict[str, Any]


def make_sandbox(worker: Worker) -> Generator[int, None, str]:
    """A new one; "" or what went wrong."""
    agent, pod = worker.agent, worker.pod
    _tell_dns(worker)
    made = yield from call(worker, agent.spec.profile.sandbox_us, SANDBOX_PATIENCE)
    meta = pod["metadata"]
    host_ip = agent.host_ip if pod["spec"].get("hostNetwork") else ""
    # A network error is one which no check has told of yet.
    if problem := GIVEN_UP if not made else "" if host_ip else agent.machine.network_error:
        message = f"Failed to create pod sandbox: {problem}"
        if worker.wanted:  # else there is no need for one any more
            agent.event(pod, "Warning", "FailedCreatePodSandBox", message)
        return message
    worker.runtime = agent.machine.run_sandbox(
        worker.uid, meta["namespace"], meta["name"], agent.pod_cidr, host_ip
    )
    return ""


def behaviour_of(worker: Worker, pod: Obj, name: str, init: bool) -> ContainerBehaviour:
    """How a container's program behaves, with as many processes as its pod may have beside those of the others."""
    agent, runtime = worker.agent, worker.runtime
    found = agent.spec.profile.behaviour(pod, name, init)
    limit = agent.options.pod_max_pids
    if limit <= 0 or found.processes == 1 or runtime is None:
        return found  # nearly always
    others = [one for one in runtime.running(agent.now_us) if one.name != name]
    room = limit - sum(one.behaviour.processes for one in others)
    return replace(found, processes=max(1, min(found.processes, room)))


def _tell_dns(worker: Worker) -> None:
    agent, pod = worker.agent, worker.pod
    if not agent.options.cluster_dns and asks_cluster(pod["spec"]):
        meta = pod["metadata"]
        agent.node_event(MISSING, NO_CLUSTER_DNS, "Warning")
        about = f"{meta['name']}_{meta['namespace']}({worker.uid})"
        agent.event(pod, "Warning", MISSING, f'pod: "{about}". {NO_CLUSTER_DNS}')
    for text in misfits(pod, agent.options):
        agent.event(pod, "Warning", FORMING, text)
