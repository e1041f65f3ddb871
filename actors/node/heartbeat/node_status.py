"""What a node reports about itself: the Node object at registration, and its status.  Pure.

Mirrors  pkg/kubelet/kubelet_node_status.go, nodestatus/setters.go: order and texts of addresses,
         capacity, nodeInfo, images and conditions (v1.25).
Differs  a second address only by the option node-ip; an extended resource exists by a plug-in, by
         the machine's capacity, or by a client's patch of the status until the agent restarts;
         volume limits only as the capacity says; of what a cloud would provide only the provider's
         id, zone and region are the machine's.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from functools import lru_cache
from ipaddress import ip_address
from sys import intern
from typing import Any

from actors.node.patches import condition_order
from actors.node.runtime.containers import RUNTIME, RUNTIME_VERSION
from actors.node.runtime.image_store.names import image_id
from actors.node.runtime.machine import Machine
from actors.node.runtime.profile import NodeSpec
from actors.node.thresholds import reserved_nano
from sim.api.kinds.common.resources import is_extended
from sim.api.schema.typed_objects import NodeCondition
from sim.api.types import Obj
from sim.dataclass import dataclass
from sim.ident import RELEASE, Names
from sim.options.cloud import CLOUD, EXTERNAL, provider_id
from sim.options.node.addresses import ANY_ADDRESS, ANY_V6
from sim.options.node.agent import NodeAgentOptions
from sim.units import (
    format_quantity_milli,
    format_quantity_nano,
    quantity_milli,
    quantity_nano,
    quantity_style,
)

VERSION = RELEASE
PRESSURES = (
    ("MemoryPressure", "InsufficientMemory", "SufficientMemory", "insufficient memory available", "sufficient memory available"),
    ("DiskPressure", "DiskPressure", "NoDiskPressure", "disk pressure", "no disk pressure"),
    ("PIDPressure", "InsufficientPID", "SufficientPID", "insufficient PID available", "sufficient PID available"),
)  # fmt: skip
OWN = frozenset({*(row[0] for row in PRESSURES), "Ready"})


@dataclass(frozen=True, slots=True)
class Health:
    """What the conditions are computed from.

    errors: of the Ready condition, in upstream's order
    pressures: the conditions of pressure that are True
    """

    errors: tuple[str, ...] = ()
    pressures: tuple[str, ...] = ()


HEALTHY = Health()


def host_addresses(machine: Machine, options: NodeAgentOptions) -> tuple[str, ...]:
    """The node's addresses, the main one first: those of --node-ip, else the scenario's, else one
    made from the name.  0.0.0.0 and :: stand for one of their family.
    """
    family = options.node_ips[0] if options.node_ips in ANY_ADDRESS else ""
    if options.node_ips and not family:
        return options.node_ips
    if machine.spec.address and family != ANY_V6:
        return (machine.spec.address,)
    digest = hashlib.md5(machine.spec.name.encode(), usedforsecurity=False).digest()
    if family == ANY_V6:
        return (str(ip_address(b"\xfd" + bytes(7) + digest[:8])),)
    return (f"172.{16 + digest[0] % 16}.{digest[1]}.{1 + digest[2] % 254}",)


def default_labels(spec: NodeSpec, names: Names) -> dict[str, str]:
    """The labels that the agent sets and reconciles by itself."""
    labels = {
        names.label_hostname: spec.name,
        names.label_os: spec.os,
        names.label_arch: spec.arch,
        names.label_beta_os: spec.os,
        names.label_beta_arch: spec.arch,
    }
    for value, keys in (
        (spec.instance_type, (names.label_instance_type, names.label_beta_instance_type)),
        (spec.zone, (names.label_zone, names.label_beta_zone)),
        (spec.region, (names.label_region, names.label_beta_region)),
    ):
        if value:
            labels.update(dict.fromkeys(keys, value))
    return labels


def initial_labels(spec: NodeSpec, options: NodeAgentOptions, names: Names) -> dict[str, str]:
    """The labels of the node at registration: given ones replace default ones."""
    return {**default_labels(spec, names), **spec.labels, **options.node_labels}


# The sizes of huge pages that the kernel offers; cadvisor lists them all, also those without pages.
HUGE_PAGES: Mapping[str, tuple[str, ...]] = {
    "amd64": ("hugepages-1Gi", "hugepages-2Mi"),
    "arm64": ("hugepages-1Gi", "hugepages-2Mi", "hugepages-32Mi", "hugepages-64Ki"),
}


def stale_labels(
    held: Mapping[str, str], spec: NodeSpec, options: NodeAgentOptions, names: Names
) -> dict[str, str | None]:
    """The patch of a registered node's labels: default ones that have other values now."""
    initial = initial_labels(spec, options, names)
    keys = (
        names.label_hostname, names.label_zone, names.label_region, names.label_beta_zone, names.label_beta_region,
        names.label_instance_type, names.label_beta_instance_type, names.label_os, names.label_arch,
        names.label_beta_os, names.label_beta_arch,
    )  # fmt: skip
    return {k: initial[k] or None for k in keys if k in initial and held.get(k, "") != initial[k]}


def missing_labels(node: Obj, spec: NodeSpec, names: Names) -> dict[str, str]:
    """The labels that every status pass restores: operating system and architecture."""
    held = node["metadata"].get("labels") or {}
    return {k: v for k, v in ((names.label_os, spec.os), (names.label_arch, spec.arch)) if held.get(k) != v}


def allocatable_of(capacity: Mapping[str, str], options: NodeAgentOptions) -> dict[str, str]:
    """The capacity less reservations and hard eviction thresholds; never below zero.

    Memory is reduced by huge pages too.
    """
    result = {}
    for resource, text in capacity.items():
        held = reserved_nano(resource, text, options)
        left = max(0, quantity_nano(text) - held)
        result[resource] = _as_stored(format_quantity_nano(left, quantity_style(text)) if held else text)
    huge = sum(quantity_nano(text) for name, text in capacity.items() if name.startswith("hugepages-"))
    if huge and "memory" in result:  # huge pages are reserved, used or not
        left_nano = max(0, quantity_nano(result["memory"]) - huge)
        result["memory"] = _as_stored(format_quantity_nano(left_nano, quantity_style(result["memory"])))
    return result


def _as_stored(text: str) -> str:
    """The text as the API returns it, after its defaults have rounded it.

    Any other text would look like a change.
    """
    return format_quantity_milli(quantity_milli(text), quantity_style(text))


def capacity_of(spec: NodeSpec, options: NodeAgentOptions) -> dict[str, str]:
    """The machine's capacity, with the limit of pods, and no huge pages unless it has some."""
    capacity = {resource: _as_stored(text) for resource, text in spec.capacity.items()}
    adopted = bool(spec.allocatable)  # it keeps the amounts of its object
    sizes = HUGE_PAGES.get(spec.arch, ()) if spec.os == "linux" and not adopted else ()
    capacity |= {size: "0" for size in sizes if size not in capacity}
    pods = quantity_milli(capacity.get("pods", str(options.max_pods))) // 1000
    if options.pods_per_core:
        pods = min(pods, options.pods_per_core * quantity_milli(capacity.get("cpu", "0")) // 1000)
    return {**capacity, "pods": format_quantity_milli(pods * 1000)}


def node_info(machine: Machine) -> Obj:
    """The description of the machine and its software."""
    return {
        "machineID": machine.machine_id,
        "systemUUID": machine.system_uuid,
        "bootID": machine.boot_id,
        "kernelVersion": "5.15.0",
        "osImage": "Debian GNU/Linux 11 (bullseye)",
        "containerRuntimeVersion": f"{RUNTIME}://{RUNTIME_VERSION}",
        "kubeletVersion": machine.version or VERSION,
        "kubeProxyVersion": machine.version or VERSION,
        "operatingSystem": machine.spec.os,
        "architecture": machine.spec.arch,
    }


def images_of(images: Mapping[str, int], limit: int) -> list[Obj]:
    """The largest images first, each by its digest and by its tag."""
    rows = sorted(images.items(), key=lambda row: (-row[1], row[0]))
    shown = rows if limit < 0 else rows[:limit]
    return [{"names": [*dict.fromkeys((image_id(name), name))], "sizeBytes": size} for name, size in shown]


def conditions_of(
    health: Health, old: Sequence[NodeCondition], now: str
) -> tuple[list[NodeCondition], list[str]]:
    """All conditions, and the reasons of the events that their changes cause.

    The agent's own conditions keep their places among the others.
    """
    held = {c["type"]: c for c in old}
    made: dict[str, NodeCondition] = {}
    events = []
    for type_, bad, good, bad_text, good_text in PRESSURES:
        status = "True" if type_ in health.pressures else "False"
        before = held.get(type_)
        if before is not None and before["status"] == status:
            made[type_] = {**before, "lastHeartbeatTime": now}  # Quirk: reason and message stay
            continue
        word, text = (bad, bad_text) if status == "True" else (good, good_text)
        made[type_] = _condition(type_, status, f"KubeletHas{word}", f"kubelet has {text}", before, now)
        events.append(f"NodeHas{word}")
    if health.errors:
        message = health.errors[0] if len(health.errors) == 1 else f"[{', '.join(health.errors)}]"
        ready = _condition("Ready", "False", "KubeletNotReady", message, held.get("Ready"), now)
    else:
        ready = _condition(
            "Ready", "True", "KubeletReady", "kubelet is posting ready status", held.get("Ready"), now
        )
    before = held.get("Ready")
    if before is not None and before["status"] != ready["status"]:
        events.append("NodeReady" if ready["status"] == "True" else "NodeNotReady")
    made["Ready"] = ready
    return [*(made.pop(c["type"], c) for c in old), *made.values()], events


def _condition(
    type_: str, status: str, reason: str, message: str, before: NodeCondition | None, now: str
) -> NodeCondition:
    status_changed = before is None or before["status"] != status
    since = now if status_changed or before is None else before.get("lastTransitionTime") or now
    return {
        "type": type_,
        "status": status,
        "lastHeartbeatTime": now,
        "lastTransitionTime": since,
        "reason": intern(reason),
        "message": intern(message),
    }


def status_of(
    machine: Machine, options: NodeAgentOptions, fixed: Obj, old: Obj, health: Health, now: str
) -> tuple[Obj, list[str]]:
    """All setters applied to the status that the API holds.  fixed: the result of `fixed_status`."""
    conditions, events = conditions_of(health, old.get("conditions") or (), now)
    before = (old.get("nodeInfo") or {}).get("bootID")
    if before and before != fixed["nodeInfo"]["bootID"]:
        events.insert(0, "Rebooted")
    status = {**old, **fixed, **_with_foreign_resources(old, fixed), "conditions": conditions}
    if options.cloud_provider == EXTERNAL and old.get("addresses"):
        status["addresses"] = old["addresses"]  # a cloud controller manager has set them
    for key in ("images", "volumesInUse"):
        if not status.get(key, True):
            del status[key]
    return status, events


def _with_foreign_resources(old: Obj, fixed: Obj) -> Obj:
    """Capacity and allocatable, if clients have added resources that the machine does not have.

    Such a capacity is allocatable as a whole; an extended resource that is no longer a capacity is
    not.
    """
    ours = fixed["capacity"]
    foreign = {name: amount for name, amount in (old.get("capacity") or {}).items() if name not in ours}
    left = {
        name: amount
        for name, amount in (old.get("allocatable") or {}).items()
        if name not in ours and name not in foreign and not is_extended(name)
    }
    if not foreign and not left:
        return {}
    return {"capacity": {**ours, **foreign}, "allocatable": {**fixed["allocatable"], **foreign, **left}}


def without_extended(held: Obj, fixed: Obj) -> Obj:
    """The patch of a starting agent that withdraws extended resources.

    It withdraws those that the machine does not have.
    """
    none = {
        name: "0"
        for name, amount in (held.get("capacity") or {}).items()
        if name not in fixed["capacity"] and amount != "0" and is_extended(name)
    }
    return {"capacity": none, "allocatable": none} if none else {}


# With the options, as their identity is part of the key.
_resources: dict[tuple[Any, ...], tuple[NodeAgentOptions, Obj, Obj]] = {}
_RESOURCES_MAX = 256


def _resources_of(spec: NodeSpec, options: NodeAgentOptions) -> tuple[Obj, Obj]:
    """Capacity and allocatable, computed once for all equal machines."""
    key = (id(options), spec.os, spec.arch, *spec.capacity.items(), None, *spec.allocatable.items())
    known = _resources.get(key)
    if known is None:
        capacity = capacity_of(spec, options)
        own = {name: _as_stored(text) for name, text in spec.allocatable.items()}
        if len(_resources) >= _RESOURCES_MAX:
            _resources.clear()
        known = _resources[key] = (options, capacity, {**allocatable_of(capacity, options), **own})
    return known[1:]


def fixed_status(machine: Machine, options: NodeAgentOptions, addresses: Sequence[str]) -> Obj:
    """The parts of the status that one agent incarnation never changes, except the images."""
    capacity, allocatable = _resources_of(machine.spec, options)
    return image_list(machine, options) | {
        "addresses": [
            *({"type": "InternalIP", "address": address} for address in addresses),
            {"type": "Hostname", "address": machine.spec.name},
        ],
        "capacity": capacity,
        "allocatable": allocatable,
        "nodeInfo": node_info(machine),
        "daemonEndpoints": _endpoints(options.port),
    }


def image_list(machine: Machine, options: NodeAgentOptions) -> Obj:
    """The part of the status that lists images."""
    return {"images": images_of(machine.images, options.node_status_max_images)}


@lru_cache(maxsize=64)
def _endpoints(port: int) -> Obj:
    """The same object for all equal nodes."""
    return {"kubeletEndpoint": {"Port": port}}


def new_node(machine: Machine, options: NodeAgentOptions, names: Names, status: Obj) -> Obj:
    """The object that registration creates."""
    spec = machine.spec
    taints = [dict(taint) for taint in spec.taints] + [dict(taint) for taint in options.register_with_taints]
    node_spec: Obj = {}
    if not options.register_schedulable:
        node_spec["unschedulable"] = True
        mark = {"key": names.taint_unschedulable, "effect": "NoSchedule"}
        if not any(t["key"] == mark["key"] and t["effect"] == mark["effect"] for t in taints):
            taints.append(mark)
    if options.cloud_provider == EXTERNAL:
        taints.append({"key": names.taint_uninitialized, "value": "true", "effect": "NoSchedule"})
    if taints:
        node_spec["taints"] = taints
    known_id = spec.provider_id or options.provider_id
    if known_id or options.cloud_provider == CLOUD:
        node_spec["providerID"] = known_id or provider_id(spec.name)
    metadata: Obj = {
        "name": spec.name,
        "labels": initial_labels(spec, options, names),
    }
    annotations = {
        names.annotation_attach_detach: options.enable_controller_attach_detach,
        names.annotation_keep_volumes: options.keep_terminated_pod_volumes,
    }
    if any(annotations.values()):
        metadata["annotations"] = {key: "true" for key, wanted in annotations.items() if wanted}
    if options.cloud_provider and options.node_ips:
        given = {names.annotation_provided_node_ip: ",".join(options.node_ips)}
        metadata["annotations"] = metadata.get("annotations", {}) | given
    return {"apiVersion": "v1", "kind": "Node", "metadata": metadata, "spec": node_spec, "status": status}


def is_unknown(status: Obj) -> bool:
    """True if another client has written that the node sends no reports."""
    return any(c["type"] == "Ready" and c["status"] == "Unknown" for c in status.get("conditions") or ())


def changed(old: Obj, new: Obj) -> bool:
    """True if the status differs in more than heartbeat times and the order of conditions."""
    if any(key not in new for key in old):
        return True
    for key, value in new.items():
        if key != "conditions" and old.get(key) != value:
            return True
    held = {c["type"]: c for c in old.get("conditions") or ()}
    if len(held) != len(new["conditions"]):
        return True
    for condition in new["conditions"]:
        before = held.get(condition["type"])
        if before is None:
            return True
        if (
            before is not condition
            and before | {"lastHeartbeatTime": condition["lastHeartbeatTime"]} != condition
        ):
            return True
    return False


def only_heartbeats_differ(old: Obj, new: Obj) -> bool:
    """True if a status differs from an earlier one in heartbeat times alone.

    Returns False too where that takes a longer comparison.
    """
    before, after = old.get("conditions") or (), new.get("conditions") or ()
    if len(old) != len(new) or len(before) != len(after):
        return False
    if any(value is not old.get(key) for key, value in new.items() if key != "conditions"):
        return False
    return all(
        held is now or {**held, "lastHeartbeatTime": now.get("lastHeartbeatTime")} == now
        for held, now in zip(before, after, strict=True)
    )


def heartbeat_patch(old: Obj, now: str) -> Obj:
    """The `status_patch` of a status in which nothing has changed: new heartbeat times."""
    updated = [c["type"] for c in old["conditions"] if c["type"] in OWN and c.get("lastHeartbeatTime") != now]
    return {"conditions": [{"type": type_, "lastHeartbeatTime": now} for type_ in updated]}


def status_patch(old: Obj, new: Obj) -> Obj:
    """The strategic-merge patch of `status`.

    It holds the changes of each condition, and the whole address list.  What another client writes
    after the read stays: a heartbeat made from an old read does not make a node Ready that was
    marked Unknown.
    """
    patch: Obj = {}
    for key, value in new.items():
        if key == "addresses" and old.get(key) and old[key] != value:
            # Without old addresses the directive would stay in the list (nodeutil/node.go).
            patch[key] = [*value, {"$patch": "replace"}]
        elif key == "conditions":
            before = {c["type"]: c for c in old.get(key) or ()}
            patch[key] = [_changes(before.get(c["type"], {}), c) for c in value if before.get(c["type"]) != c]
            patch |= condition_order(old.get(key) or [], value)
        elif key in ("capacity", "allocatable"):
            patch |= {key: changes} if (changes := _amount_changes(old.get(key) or {}, value)) else {}
        elif old.get(key) != value:
            patch[key] = value
    return patch | {key: None for key in old if key not in new}


def _amount_changes(old: Obj, new: Obj) -> Obj:
    """The patch from one map of resources to the other."""
    changed = {name: amount for name, amount in new.items() if old.get(name) != amount}
    return changed | {name: None for name in old if name not in new}


def _changes(old: Obj, new: Obj) -> Obj:
    """The patch from one condition to the other, with its type."""
    changed = {key: value for key, value in new.items() if key == "type" or old.get(key) != value}
    return changed | {key: None for key in old if key not in new}
