"""A pod's sandbox: what it is made with, what can go wrong, and what it lets its containers do.

Turns a worker whose pod has no sandbox into one of the machine and events.

Mirrors  pkg/kubelet/kuberuntime/kuberuntime_sandbox.go: createPodSandbox, generatePodSandboxConfig;
         pkg/kubelet/cm/pod_container_manager_linux.go: EnsureExists, of its limit of processes (v1.25).
Differs  a program that may not have more processes goes on with those that it has, one at least.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import replace
from typing import TYPE_CHECKING

from actors.node.runtime.call_deadlines import GIVEN_UP, SANDBOX_PATIENCE, call
from actors.node.sources.pod_dns import FORMING, MISSING, NO_CLUSTER_DNS, asks_cluster, misfits
from sim.api.types import Obj
from sim.units import quantity_value

if TYPE_CHECKING:
    from actors.node.pods.worker import Worker
    from actors.node.runtime.machine import Container
    from actors.node.runtime.profile import ContainerBehaviour, Override


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


def behave(worker: Worker, pod: Obj) -> None:
    """Its containers that run behave as the machine's profile says now."""
    agent, runtime, spec = worker.agent, worker.runtime, pod["spec"]
    now_us = agent.now_us
    inits = spec.get("initContainers") or ()
    for container in runtime.running(now_us) if runtime is not None else ():
        init = bool(inits) and any(one["name"] == container.name for one in inits)
        wanted = behaviour_of(worker, pod, container.name, init)
        if wanted is not container.behaviour and wanted != container.behaviour:
            container.behaviour = wanted
            agent.machine.write_log(container, now_us)
            specs = [*inits, *spec["containers"], *(spec.get("ephemeralContainers") or ())]
            limit_memory(worker, next(one for one in specs if one["name"] == container.name), container)
            if wanted.exit_after_us is not None:
                container.end(now_us + wanted.exit_after_us, wanted.exit_code)


def limit_memory(worker: Worker, spec: Obj, container: Container, by: Override | None = None) -> None:
    """What the container's program uses is known: does it end by that?"""
    limit = ((spec.get("resources") or {}).get("limits") or {}).get("memory")
    if limit:
        worker.agent.machine.limit_memory(container, quantity_value(str(limit)), worker.agent.now_us, by)


def _tell_dns(worker: Worker) -> None:
    agent, pod = worker.agent, worker.pod
    if not agent.options.cluster_dns and asks_cluster(pod["spec"]):
        meta = pod["metadata"]
        agent.node_event(MISSING, NO_CLUSTER_DNS, "Warning")
        about = f"{meta['name']}_{meta['namespace']}({worker.uid})"
        agent.event(pod, "Warning", MISSING, f'pod: "{about}". {NO_CLUSTER_DNS}')
    for text in misfits(pod, agent.options):
        agent.event(pod, "Warning", FORMING, text)
