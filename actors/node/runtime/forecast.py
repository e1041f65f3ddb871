"""What a machine has left of memory, disk and process numbers, at any time from now on.  Pure.

Turns the containers of a machine, its images and the use from outside of the pods (a fault) into
the capacity and the available amount of each resource.  Every use is a straight line between
turning points, so the instant at which a resource becomes short is computed and not polled for.

Holds: the use from outside stays when pods end: the eviction of a pod gives back what the pod used.

Mirrors  what the summary API gives to pkg/kubelet/eviction/helpers.go: makeSignalObservations
         (v1.25).
Differs  statistics are never stale; inodes follow from the file system's size by ext4's ratio;
         images have a file system of their own if the profile says so; no swap.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from actors.node.runtime.containers import Container, PodRuntime
from actors.node.runtime.machine import Machine
from actors.node.runtime.ramps import Most, Ramp
from sim.units import quantity_value

# Resource -> the eviction signal that watches it.
SIGNALS = {
    "memory": "memory.available",
    "nodefs": "nodefs.available",
    "nodefs-inodes": "nodefs.inodesFree",
    "imagefs": "imagefs.available",
    "imagefs-inodes": "imagefs.inodesFree",
    "pid": "pid.available",
}
BYTES_PER_INODE = 16384  # mke2fs.conf: inode_ratio
PID_MAX = 32768  # Linux include/linux/threads.h: PID_MAX_DEFAULT


def memory_of(container: Container, at_us: int) -> int:
    """The working set of a container, which grows in a straight line to its size."""
    behaviour = container.behaviour
    if not behaviour.memory_bytes or not container.running(at_us):
        return 0
    ramp = Ramp(behaviour.memory_from, behaviour.memory_bytes, 0, behaviour.memory_ramp_us)
    return ramp.at(at_us - container.started_us)


def log_bytes_of(machine: Machine, container: Container, at_us: int) -> int:
    """The size of a container's log files, which stay until the container is removed."""
    fixed, output = container.behaviour.log_bytes, machine.output_of(container)
    if output is not None:
        fixed += output.whole
    log = machine.log_of(container)
    if log is None:
        return fixed
    return fixed + log.whole(at_us if container.exit_us is None else min(at_us, container.exit_us))


def node_bytes_of(machine: Machine, container: Container, pod: PodRuntime, at_us: int) -> int:
    """A container's use of the node's file system: its log, and local volumes.

    Every instance writes the same files into a volume, which stays until the pod ends.
    """
    behaviour, logs = container.behaviour, log_bytes_of(machine, container, at_us)
    if not behaviour.volume_bytes or not pod.ready or pod.newest(container.name) is not container:
        return logs
    return logs + behaviour.volume_bytes


def capacity(machine: Machine, resource: str) -> int:
    """The whole amount of a resource."""
    if resource == "pid":
        return PID_MAX
    capacities = machine.spec.capacity
    if resource == "memory":
        return quantity_value(capacities.get("memory", "0"))
    size = machine.spec.profile.image_disk_bytes
    if resource.startswith("nodefs") or not size:
        size = quantity_value(capacities.get("ephemeral-storage", "0"))
    return size // BYTES_PER_INODE if resource.endswith("inodes") else size


def pods_use(machine: Machine, resource: str, at_us: int) -> int:
    """The use of a resource that `shared` returned by containers, and on a disk by images."""
    containers = [(c, pod) for pod in machine.pods.values() for c in pod.containers]
    written = [programs.use() for programs in machine.programs.values()]
    if resource == "memory":
        return sum(memory_of(c, at_us) for c, _ in containers) + sum(one[2] for one in written)
    if resource == "pid":
        return sum(c.behaviour.processes for c, _ in containers if c.running(at_us))
    if resource == "nodefs-inodes":
        return sum(c.behaviour.inodes for c, _ in containers) + sum(one[1] for one in written)
    if resource == "imagefs-inodes":
        return 0
    on_images = sum(c.behaviour.layer_bytes for c, _ in containers) + sum(machine.images.values())
    on_images += sum(one[3] for one in written)
    if resource == "imagefs":
        return on_images
    on_node = sum(node_bytes_of(machine, c, pod, at_us) for c, pod in containers)
    on_node += sum(one[0] for one in written)
    return on_node if machine.spec.profile.image_disk_bytes else on_node + on_images


def pods_use_most(machine: Machine, resource: str, now_us: int) -> int:
    """The largest use of the present containers in the future; for logs until the next rotation."""
    if resource != "memory":
        used = pods_use(machine, resource, now_us)
        return (
            max(used, pods_use(machine, resource, machine.rotation_us))
            if machine.rotation_us > now_us
            else used
        )
    running = [c for pod in machine.pods.values() for c in pod.running(now_us)]
    in_memory = sum(programs.use()[2] for programs in machine.programs.values())
    return sum(c.behaviour.memory_bytes for c in running) + in_memory


def least_available(machine: Machine, resource: str, now_us: int) -> int:
    """The smallest amount that will be available unless something new starts."""
    resource = machine.shared(resource)
    outside = machine.outside.get(resource)
    outside_use = max(outside.at(now_us), outside.end) if outside is not None else 0
    return capacity(machine, resource) - pods_use_most(machine, resource, now_us) - outside_use


def available(machine: Machine, resource: str, at_us: int) -> int:
    """The available amount at an instant if nothing changes until then; never below zero."""
    resource = machine.shared(resource)
    outside = machine.outside.get(resource)
    used = pods_use(machine, resource, at_us) + (outside.at(at_us) if outside is not None else 0)
    return max(0, capacity(machine, resource) - used)


def free_memory(machine: Machine, at_us: int) -> int:
    """What is left of memory at an instant if nothing changes until then; negative beyond it."""
    outside = machine.outside.get("memory")
    used = pods_use(machine, "memory", at_us) + (outside.at(at_us) if outside is not None else 0)
    return capacity(machine, "memory") - used


def pressed(machine: Machine, resource: str, wanted: int, now_us: int, ramp_us: int) -> Ramp:
    """The use from outside that leaves `wanted` after `ramp_us`, given what containers use now."""
    outside = machine.outside.get(resource)
    used = pods_use(machine, resource, now_us)
    now = outside.at(now_us) if outside is not None else 0
    return Ramp(now, max(0, capacity(machine, resource) - used - wanted), now_us, now_us + ramp_us)


def turns(machine: Machine, now_us: int) -> list[int]:
    """The instants from now on at which a use stops being one straight line, in order."""
    # No turn is needed where another ramp of `Most` becomes the largest: the available amount bends
    # down there, never up.
    outside = (one.ramps if isinstance(one, Most) else (one,) for one in machine.outside.values())
    found = {ramp.until_us: None for ramps in outside for ramp in ramps}
    found[machine.rotation_us] = None
    for pod in machine.pods.values():
        for container in pod.running(now_us):
            if container.exit_us is not None:
                found[container.exit_us] = None
            if container.behaviour.memory_ramp_us:
                found[container.started_us + container.behaviour.memory_ramp_us] = None
    return sorted(at_us for at_us in found if at_us > now_us)


def first_below(
    amount: Callable[[int], int], floor: int, turning_us: Iterable[int], now_us: int
) -> int | None:
    """The first instant from now on at which the amount is below the floor; None if there is none."""
    if amount(now_us) < floor:
        return now_us
    since_us = now_us
    for turn_us in turning_us:
        # an end gives back its use at once, so the instant before counts too
        for until_us in (turn_us - 1, turn_us):
            if until_us > since_us:
                if amount(until_us) < floor:
                    return _crossing(amount, floor, since_us, until_us)
                since_us = until_us
    return None


def _crossing(amount: Callable[[int], int], floor: int, above_us: int, below_us: int) -> int:
    """The first instant below the floor, between one that is not and one that is."""
    while below_us - above_us > 1:
        middle_us = (above_us + below_us) // 2
        if amount(middle_us) < floor:
            below_us = middle_us
        else:
            above_us = middle_us
    return below_us
