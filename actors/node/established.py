"""What an agent has made of its machine in the steady state: a node that is registered and Ready,
and pods that run.

Turns a machine into the Node object that its agent registers, and a bound pod into containers that
run on the machine and the status that the agent reports of them.

Holds: the agent that starts later finds nothing to change, because the stored objects are those
that it generates from the machine.
Differs  a pod that waits for more than its containers (see `is_settled`) is left to the agent.
"""

from __future__ import annotations

from actors.node.heartbeat.node_status import HEALTHY, fixed_status, host_addresses, new_node, status_of
from actors.node.pods.pod_status import View, generate
from actors.node.pods.prober import probe_specs
from actors.node.pods.status_manager import outgoing
from actors.node.runtime.interpreter import has_programs
from actors.node.runtime.machine import Machine
from actors.node.runtime.profile import DEFAULT_CIDR
from actors.node.runtime.programs import words_of
from actors.node.sources.mount_paths import expands_paths
from actors.node.sources.references import variables_of, volumes_of
from actors.node.volumes.specs import managed_volumes
from sim.api.types import Obj
from sim.ident import Names
from sim.options.features.gates import enabled
from sim.options.node.agent import NodeAgentOptions
from sim.units import format_time


def registered(machine: Machine, options: NodeAgentOptions, names: Names, wall_us: int) -> Obj:
    """The Node object that the agent of a healthy machine registers."""
    fixed = fixed_status(machine, options, host_addresses(machine, options))
    if machine.spec.devices and enabled(options.feature_gates, "DevicePlugins"):
        devices = {one.resource: str(len(one.ids)) for one in machine.spec.devices}
        fixed = {**fixed, **{key: {**fixed[key], **devices} for key in ("capacity", "allocatable")}}
        machine.allocations.plugins_ready = True
    status, _ = status_of(machine, options, fixed, {}, HEALTHY, format_time(wall_us))
    return new_node(machine, options, names, status)


def is_settled(pod: Obj) -> bool:
    """True if only the pod's containers have to start.

    Pods with init containers, hooks, claims, mounted objects, probes that decide about readiness,
    or programs that are simulated take longer.
    """
    spec = pod["spec"]
    if spec.get("initContainers") or volumes_of(spec) or managed_volumes(spec):
        return False
    if any(kind != "Liveness" for kind, _, _ in probe_specs(spec["containers"])):
        return False
    return not any(
        variables_of(c) or "lifecycle" in c or expands_paths(c) or (words_of(c) and has_programs(c))
        for c in spec["containers"]
    )


def has_images(machine: Machine, pod: Obj) -> bool:
    """True if the machine can have the images of the pod's containers."""
    profile = machine.spec.profile
    return all(profile.pull_error(container["image"]) is None for container in pod["spec"]["containers"])


def run(machine: Machine, options: NodeAgentOptions, pod: Obj, now_us: int, wall_us: int) -> Obj:
    """Start the pod's containers on the machine now; returns the status that the agent reports.

    wall_us: the offset of the wall clock from `now_us`
    """
    meta, spec, profile = pod["metadata"], pod["spec"], machine.spec.profile
    addresses = host_addresses(machine, options)
    runtime = machine.run_sandbox(
        meta["uid"],
        meta["namespace"],
        meta["name"],
        machine.spec.pod_cidr or DEFAULT_CIDR,
        addresses[0] if spec.get("hostNetwork") else "",
    )
    for container in spec["containers"]:
        name, image = container["name"], container["image"]
        if not profile.warm:
            machine.images.setdefault(image, profile.image_bytes)
        machine.start(runtime, name, image, profile.behaviour(pod, name, False), now_us)
    held = pod.get("status") or {}
    view = View(now_us, wall_us.__add__, addresses, runtime)
    return outgoing(generate(pod, held, view), held, running=True)
