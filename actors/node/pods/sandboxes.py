"""The sandbox of a pod: how it is made, what can go wrong, and how its containers behave in it.

Turns a pod without a sandbox into a sandbox of the machine, and events.

Mirrors  pkg/kubelet/kuberuntime/kuberuntime_sandbox.go: createPodSandbox, generatePodSandboxConfig;
         pkg/kubelet/cm/pod_container_manager_linux.go: EnsureExists, for the limit of processes
         (v1.25).
Differs  a program that may not start more processes continues with those that it has, at least one.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import replace
from hashlib import sha256
from ipaddress import ip_network

from actors.node.durations import CGROUPS
from actors.node.pods.ports import PodWorker
from actors.node.runtime.call_deadlines import GIVEN_UP, SANDBOX_TIMEOUTS, call
from actors.node.runtime.containers import Container
from actors.node.runtime.machine import BAD_SANDBOXES
from actors.node.runtime.profile import DEFAULT_CIDR, ContainerBehaviour, Override
from actors.node.sources.pod_dns import FORMING, MISSING, NO_CLUSTER_DNS, excess_warnings, uses_cluster_dns
from sim.api.types import Obj
from sim.kernel.causes import caused_by
from sim.units import quantity_milli, quantity_value

RPC_ERROR = "rpc error: code = Unknown desc = "


def make_sandbox(worker: PodWorker) -> Generator[int, None, str]:
    """Make a new sandbox; "" or what went wrong."""
    agent, pod = worker.agent, worker.pod
    _warn_of_dns(worker)
    made = yield from call(worker, "run_podsandbox", agent.spec.profile.sandbox_us, SANDBOX_TIMEOUTS)
    meta = pod["metadata"]
    if worker.runtime is None and agent.options.cgroups_per_qos:
        agent.durations.add(0, CGROUPS, "create")
    host_ip = agent.host_ips[0] if pod["spec"].get("hostNetwork") else ""
    if problem := GIVEN_UP if not made else "" if host_ip else _no_network(worker):
        message = f"Failed to create pod sandbox: {problem}"
        if worker.wanted:  # else the sandbox is not needed any more
            kernel = agent.ctx.kernel
            with caused_by(kernel, agent.machine.fault_record(BAD_SANDBOXES)):
                agent.event(pod, "Warning", "FailedCreatePodSandBox", message)
        return message
    worker.runtime = agent.machine.run_sandbox(
        worker.uid, meta["namespace"], meta["name"], agent.pod_cidr, host_ip
    )
    return ""


def _no_network(worker: PodWorker) -> str:
    """Why a sandbox gets no network; "" if it does.

    Mirrors  containerd pkg/cri/server/sandbox_run.go; containernetworking/plugins
             plugins/ipam/host-local/backend/allocator/allocator.go: Get; projectcalico/calico
             cni-plugin/pkg/plugin (a node without a range).
    """
    agent, pod, cidr = worker.agent, worker.pod, worker.agent.pod_cidr
    machine = agent.machine
    if machine.errors.network:  # one that no check has shown yet
        return machine.errors.network
    if problem := next(filter(None, [one(pod) for one in machine.errors.sandboxes]), ""):
        return f"{RPC_ERROR}{problem}"
    if not cidr:
        problem = f'plugin type="calico" failed (add): no podCidr for node {machine.spec.name}'
    elif cidr in (machine.spec.pod_cidr, DEFAULT_CIDR) or machine.has_address(worker.uid, cidr):
        return ""
    else:
        among = ip_network(cidr)
        full = f"no IP addresses available in range set: {among[1]}-{among[-2]}"
        problem = f'plugin type="bridge" failed (add): failed to allocate for range 0: {full}'
    sandbox = sha256(f"{worker.uid}/{agent.now_us}".encode()).hexdigest()
    return f'{RPC_ERROR}failed to setup network for sandbox "{sandbox}": {problem}'


def behaviour_of(
    worker: PodWorker, pod: Obj, name: str, init: bool, *, runs: bool = False
) -> ContainerBehaviour:
    """The behaviour of a container's program, with as many processes as its pod's limit leaves.

    runs: True if its programs are simulated
    """
    agent, runtime = worker.agent, worker.runtime
    found = agent.spec.profile.behaviour(pod, name, init, runs=runs)
    if found.cpu_milli and agent.options.cpu_cfs_quota:
        found = _within_cpu_limit(found, pod, name)
    limit = agent.options.pod_max_pids
    if limit <= 0 or found.processes == 1 or runtime is None:
        return found  # the usual case
    others = [one for one in runtime.running(agent.now_us) if one.name != name]
    room = limit - sum(one.behaviour.processes for one in others)
    return replace(found, processes=max(1, min(found.processes, room)))


def _within_cpu_limit(found: ContainerBehaviour, pod: Obj, name: str) -> ContainerBehaviour:
    """The behaviour of a container that uses no more CPU than its limit."""
    specs = (*(pod["spec"].get("initContainers") or ()), *pod["spec"]["containers"])
    one: Obj = next((one for one in specs if one["name"] == name), {})
    limit = ((one.get("resources") or {}).get("limits") or {}).get("cpu")
    if limit is None or (most := quantity_milli(limit)) >= found.cpu_milli:
        return found
    return replace(found, cpu_milli=most)


def apply_behaviour(worker: PodWorker, pod: Obj) -> None:
    """Apply the machine's present profile to the pod's running containers."""
    agent, runtime, spec = worker.agent, worker.runtime, pod["spec"]
    now_us = agent.now_us
    inits = spec.get("initContainers") or ()
    for container in runtime.running(now_us) if runtime is not None else ():
        init = bool(inits) and any(one["name"] == container.name for one in inits)
        runs = agent.machine.running_program(container) is not None
        wanted = behaviour_of(worker, pod, container.name, init, runs=runs)
        if wanted is not container.behaviour and wanted != container.behaviour:
            if wanted.cpu_milli != container.behaviour.cpu_milli:
                agent.machine.cpu.note(container, now_us)
            container.behaviour = wanted
            agent.machine.write_log(container, now_us)
            specs = [*inits, *spec["containers"], *(spec.get("ephemeralContainers") or ())]
            limit_memory(worker, next(one for one in specs if one["name"] == container.name), container)
            if wanted.exit_after_us is not None:
                agent.machine.plan_end(container, now_us + wanted.exit_after_us, wanted.exit_code)


def limit_memory(worker: PodWorker, spec: Obj, container: Container, fault: Override | None = None) -> None:
    """Plan the end of a container that will use more memory than its limit."""
    limit = ((spec.get("resources") or {}).get("limits") or {}).get("memory")
    if limit:
        agent, most = worker.agent, quantity_value(str(limit))
        if agent.options.swaps(agent.options.feature_gates):
            most += agent.spec.swap_bytes
        agent.machine.limit_memory(container, most, agent.now_us, fault)


def _warn_of_dns(worker: PodWorker) -> None:
    """Record events about DNS settings that are missing or too long."""
    agent, pod = worker.agent, worker.pod
    if not agent.options.cluster_dns and uses_cluster_dns(pod["spec"]):
        meta = pod["metadata"]
        agent.node_event(MISSING, NO_CLUSTER_DNS, "Warning")
        about = f"{meta['name']}_{meta['namespace']}({worker.uid})"
        agent.event(pod, "Warning", MISSING, f'pod: "{about}". {NO_CLUSTER_DNS}')
    for text in excess_warnings(pod, agent.options):
        agent.event(pod, "Warning", FORMING, text)
