"""What an agent has made of its machine by the time that all is quiet: a node that is registered and Ready, pods that run.

Turns a machine into the node that its agent registers, and a bound pod into one whose containers run on the machine,
with the status that the agent tells.

Holds: the agent that starts later finds nothing to change: what is stored is what it would generate from the machine.
Differs  a pod that would wait for something on its way (`settles` says for what) is left to the agent.
"""

from __future__ import annotations

from actors.node.heartbeat.node_status import WELL, fixed_status, host_address, new_node, status_of
from actors.node.pods.pod_status import View, generate
from actors.node.pods.prober import probe_specs
from actors.node.pods.status_manager import outgoing
from actors.node.runtime.machine import Machine
from actors.node.sources.references import variables_of, volumes_of
from sim.api.types import Obj
from sim.ident import Names
from sim.options.node_agent import NodeAgentOptions
from sim.units import format_time

CLAIMS = ("persistentVolumeClaim", "ephemeral")


def registered(machine: Machine, options: NodeAgentOptions, names: Names, wall_us: int) -> Obj:
    """The node as it registers itself on a machine that is well."""
    fixed = fixed_status(machine, options, host_address(machine, options))
    status, _ = status_of(machine, options, fixed, {}, WELL, format_time(wall_us))
    return new_node(machine, options, names, status)


def settles(pod: Obj) -> bool:
    """Whether nothing but its containers has to start: no init containers, hooks, claims, objects to mount, or probes
    that say when it is ready."""
    spec = pod["spec"]
    if spec.get("initContainers") or volumes_of(spec):
        return False
    if any(kind != "Liveness" for kind, _, _ in probe_specs(spec["containers"])):
        return False
    if any(claim in volume for volume in spec.get("volumes") or () for claim in CLAIMS):
        return False
    return not any(variables_of(c) or "lifecycle" in c for c in spec["containers"])


def run(machine: Machine, options: NodeAgentOptions, pod: Obj, now_us: int, wall_us: int) -> Obj:
    """Have its containers run since now; its status as the agent tells it.  wall_us: what the clocks are ahead of `now_us`."""
    meta, spec, profile = pod["metadata"], pod["spec"], machine.spec.profile
    address = host_address(machine, options)
    runtime = machine.run_sandbox(
        meta["uid"],
        meta["namespace"],
        meta["name"],
        machine.spec.pod_cidr,
        address if spec.get("hostNetwork") else "",
    )
    for container in spec["containers"]:
        name, image = container["name"], container["image"]
        if not profile.warm:
            machine.images.setdefault(image, profile.image_bytes)
        machine.start(runtime, name, image, profile.behaviour(pod, name, False), now_us)
    held = pod.get("status") or {}
    return outgoing(generate(pod, held, View(now_us, wall_us.__add__, address, runtime)), held, running=True)
