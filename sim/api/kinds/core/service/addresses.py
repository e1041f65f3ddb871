"""Addresses and ports of Services.

Turns a requested Service and all other Services into one with cluster IPs, families and node ports.

Holds: no two Services share a cluster IP; a Service keeps what it has while its type needs it.

Mirrors  kubernetes v1.25 pkg/registry/core/service/{storage/alloc,strategy}.go, ipallocator,
         portallocator.
Differs  allocated values are read from the Services, not from a bitmap beside them, so nothing can
         leak and nothing needs repair; one family (IPv4) per cluster.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable
from dataclasses import field
from ipaddress import IPv4Address, IPv4Network
from typing import Any

from sim.api.kinds.core.service.ports import (
    NEEDS_NODE_PORT,
    NODE_PORTS,
    PortOperation,
    asks_ports,
    needs_check_port,
    ports_of,
    take_ports,
)
from sim.api.kinds.core.service.refusal import ServiceRefusal
from sim.api.kinds.core.service.validation import cluster_ip_errors
from sim.api.store import Answer, Item, Op, Page, Range, Unavailable
from sim.api.types import Obj
from sim.api.validation.errors import Errors, invalid
from sim.dataclass import dataclass

FAMILY = "IPv4"  # the cluster's only one


@dataclass(frozen=True, slots=True)
class Ranges:
    """The ranges that Services get addresses and ports from.

    dry: True for a dry run, which reserves nothing: it looks for no free address or port, and does
        not ask whether an address is in use
    static_band: True if the first addresses are given only when all others are in use
    counted: takes the family and the labels of an allocation that counts
    """

    cidr: str
    bits: Callable[[int], int]
    dry: bool = False
    ports: range = NODE_PORTS
    static_band: bool = True
    counted: Callable[[str, str, str], None] = lambda family, cidr, scope: None

    def count(self, what: str, scope: str) -> None:
        """Count an allocation or a failed one (ipallocator/metrics.go); a dry run has none."""
        if not self.dry:
            self.counted(f"kube_apiserver_clusterip_allocator_{what}_total", self.cidr, scope)


def prepare_service(prefix: str, obj: Obj, old: Obj | None, ranges: Ranges) -> Generator[Op, Answer, Obj]:
    """The Service with all that its type needs, and without what its former type needed."""
    spec: Obj = dict(obj.get("spec") or {})
    before: Obj = (old or {}).get("spec") or {}
    if old is not None:
        keep_allocated(spec, before)
    sync_addresses(spec, before)
    if _needs_ip(spec):
        _families(spec, before)
    wanted = next(iter(spec.get("clusterIPs") or ()), "")
    # Validation refuses a changed address, so it is not allocated here.
    asks_ip = _needs_ip(spec) and wanted != "None" and not _has_ip(before)
    asks = asks_ports(spec, before)
    taken = _Taken()
    if (asks_ip and not ranges.dry) or asks:
        page = yield Range(prefix)
        if isinstance(page, Unavailable):
            what = "serviceIP" if asks_ip else "nodePort"
            raise ServiceRefusal([], failure=f"failed to allocate a {what}: {page.message}")
        assert isinstance(page, Page)
        taken = _taken(page.items)
    if asks_ip:
        wanted = _take_ip(wanted, taken.ips, ranges)
        spec["clusterIP"], spec["clusterIPs"] = wanted, [wanted]
    operation = PortOperation(ranges.ports, ranges.bits, taken.ports, ranges.dry)
    take_ports(spec, None if old is None else before, operation)
    if old is None:
        return {**obj, "spec": spec}
    _drop_by_type(spec, before)
    if before.get("type") == "LoadBalancer" != spec.get("type"):
        return {**obj, "spec": spec, "status": {"loadBalancer": {}}}
    return {**obj, "spec": spec}


# --- what the type needs --------------------------------------------------------------------------


def _needs_ip(spec: Obj) -> bool:
    return bool(spec.get("type") != "ExternalName")


def _has_ip(before: Obj) -> bool:
    return bool(before) and _needs_ip(before) and bool(before.get("clusterIPs"))


def _needs_ports(spec: Obj) -> bool:
    return spec.get("type") in NEEDS_NODE_PORT


# --- what stays and what goes ---------------------------------------------------------------------


def keep_allocated(spec: Obj, before: Obj) -> None:
    """Keep allocated fields that an update leaves empty (patchAllocatedValues)."""
    if _needs_ip(before) and _needs_ip(spec):
        if not spec.get("clusterIP") and before.get("clusterIP"):
            spec["clusterIP"] = before["clusterIP"]
        if not spec.get("clusterIPs") and before.get("clusterIPs"):
            spec["clusterIPs"] = before["clusterIPs"]
    if _needs_ports(before) and _needs_ports(spec):
        known = {port.get("name", ""): port.get("nodePort", 0) for port in before.get("ports") or ()}
        used = ports_of(spec)
        ports = []
        for port in spec.get("ports") or ():
            number = known.get(port.get("name", ""), 0)
            if not port.get("nodePort") and number and number not in used:
                port = {**port, "nodePort": number}
            ports.append(port)
        spec["ports"] = ports
    if needs_check_port(before) and needs_check_port(spec) and not spec.get("healthCheckNodePort"):
        spec["healthCheckNodePort"] = before.get("healthCheckNodePort", 0)


def sync_addresses(spec: Obj, before: Obj) -> None:
    """Set clusterIP and clusterIPs by each other if only one is given or changed
    (normalizeClusterIPs).
    """
    first, listed = spec.get("clusterIP", ""), spec.get("clusterIPs") or []
    if not before:
        if first and not listed:
            spec["clusterIPs"] = [first]
        return
    had = before.get("clusterIPs") or []
    if first == before.get("clusterIP", ""):
        spec["clusterIPs"] = listed or had
    elif listed == had:
        spec["clusterIPs"] = [first] if first else []
    for name in ("clusterIP", "clusterIPs"):
        if name in spec and not spec[name]:
            del spec[name]


def _drop_by_type(spec: Obj, before: Obj) -> None:
    """Drop unchanged fields that lose their meaning by a change of type
    (dropTypeDependentFields).
    """

    def drop(*names: str) -> None:
        for name in names:
            if name in spec and spec[name] == before.get(name):
                del spec[name]

    if _needs_ip(before) and not _needs_ip(spec):
        if spec.get("clusterIPs") == before.get("clusterIPs"):
            drop("clusterIP", "clusterIPs")
        drop("ipFamilies", "ipFamilyPolicy")
        drop("internalTrafficPolicy")
    if _needs_ports(before) and not _needs_ports(spec):
        if ports_of(spec) == ports_of(before):
            spec["ports"] = [
                {k: v for k, v in port.items() if k != "nodePort"} for port in spec.get("ports") or ()
            ]
        drop("externalTrafficPolicy")
    if needs_check_port(before) and not needs_check_port(spec):
        drop("healthCheckNodePort")
    if before.get("type") == "LoadBalancer" != spec.get("type"):
        drop("allocateLoadBalancerNodePorts", "loadBalancerClass")


# --- addresses ------------------------------------------------------------------------------------


def _families(spec: Obj, before: Obj) -> None:
    """Fill in families and their policy, on a cluster of one family (initIPFamilyFields)."""
    if _keeps_preference(spec, before):
        return
    headless = spec.get("clusterIP") == "None" and not spec.get("selector")
    policy = spec.get("ipFamilyPolicy")
    if policy is None:
        policy = before.get("ipFamilyPolicy")
    if policy is None:
        policy = "RequireDualStack" if headless else "SingleStack"
    spec["ipFamilyPolicy"] = policy
    _refuse(cluster_ip_errors(spec))
    _refuse(_policy_errors(spec, before, policy) + _infer(spec))
    families: list[str] = spec.get("ipFamilies") or [FAMILY]
    if headless:  # its families may differ from the cluster's
        if policy != "SingleStack" and len(families) == 1:
            families = [*families, "IPv6" if families[0] == "IPv4" else "IPv4"]
        spec["ipFamilies"] = families
        return
    errors: Errors = []
    if policy == "RequireDualStack":
        errors.append(
            invalid("spec.ipFamilyPolicy", policy, "this cluster is not configured for dual-stack services")
        )
    for i, family in enumerate(families):
        if family != FAMILY:
            errors.append(invalid(f"spec.ipFamilies[{i}]", family, "not configured on this cluster"))
    _refuse(errors)
    spec["ipFamilies"] = families


def _keeps_preference(spec: Obj, before: Obj) -> bool:
    """True if an update leaves policy, addresses and families of a PreferDualStack Service
    unchanged, which then keeps them (isMatchingPreferDualStackClusterIPFields).
    """
    if not before or spec.get("type") != before.get("type"):
        return False
    if spec.get("ipFamilyPolicy") != "PreferDualStack":
        return False
    if before.get("ipFamilyPolicy") not in (None, "PreferDualStack"):
        return False
    return _same(spec, before, "clusterIPs") and _same(spec, before, "ipFamilies")


def _same(spec: Obj, before: Obj, name: str) -> bool:
    return (spec.get(name) or []) == (before.get(name) or [])


def _policy_errors(spec: Obj, before: Obj, policy: str) -> Errors:
    """Contradictions between the policy and the number of addresses and families; an update to
    SingleStack gives up the second of each.
    """
    errors: Errors = []
    for name, one, many in (
        ("clusterIPs", "cluster IP", "cluster IPs"),
        ("ipFamilies", "IP family", "IP families"),
    ):
        values = spec.get(name) or []
        if before and policy == "SingleStack" and len(values) > 1 and _same(spec, before, name):
            values = spec[name] = values[:1]
        elif before and policy != "SingleStack" and 0 < len(values) < len(before.get(name) or ()):
            text = f"must be 'SingleStack' to release the secondary {one}"
            errors.append(invalid("spec.ipFamilyPolicy", policy, text))
        if policy == "SingleStack" and len(values) == 2:
            text = f"must be 'RequireDualStack' or 'PreferDualStack' when multiple {many} are specified"
            errors.append(invalid("spec.ipFamilyPolicy", policy, text))
    return errors


def _infer(spec: Obj) -> Errors:
    """Take the families of a Service from its addresses, where it names none."""
    errors: Errors = []
    addresses, families = spec.get("clusterIPs") or [], list(spec.get("ipFamilies") or ())
    for i, address in enumerate(addresses):
        if address == "None":
            break
        family = "IPv6" if ":" in address else "IPv4"
        if i < len(families):
            continue
        if family == FAMILY:
            families.append(family)
        else:
            text = f"{family} is not configured on this cluster"
            errors.append(invalid(f"spec.clusterIPs[{i}]", addresses, text))
    if families:
        spec["ipFamilies"] = families
    return errors


def _refuse(errors: Errors) -> None:
    if errors:
        raise ServiceRefusal([(error.reason, error.field, error.message) for error in errors])


@dataclass(frozen=True, slots=True)
class _Taken:
    ips: dict[str, None] = field(default_factory=dict)
    ports: dict[int, None] = field(default_factory=dict)


def _taken(items: Iterable[Item]) -> _Taken:
    """The addresses and ports of all Services."""
    taken = _Taken()
    for item in items:
        other = item.obj.get("spec") or {}
        taken.ips.update(dict.fromkeys(other.get("clusterIPs") or ()))
        taken.ports.update(ports_of(other))
        if other.get("healthCheckNodePort"):
            taken.ports[other["healthCheckNodePort"]] = None
    return taken


def _take_ip(wanted: str, taken: dict[str, None], ranges: Ranges) -> str:
    network = IPv4Network(ranges.cidr)
    if wanted:
        text = _problem_of(wanted, {} if ranges.dry else taken, network, ranges.cidr)
        ranges.count("allocation_errors" if text else "allocation", "static")
        if text:
            full = f"Invalid value: {_shown([wanted])}: failed to allocate IP {wanted}: {text}"
            raise ServiceRefusal([("FieldValueInvalid", "spec.clusterIPs", full)])
        return wanted
    if ranges.dry:  # Quirk: no free address is looked for
        return str(network.network_address)
    size = network.num_addresses - 2  # without network and broadcast
    first = int(network.network_address) + 1
    offset = _static_addresses(network.num_addresses) if ranges.static_band else 0
    for low, count in ((offset, size - offset), (0, offset)):
        start = ranges.bits(32) % count if count else 0
        for step in range(count):
            address = str(IPv4Address(first + low + (start + step) % count))
            if address not in taken:
                ranges.count("allocation", "dynamic")
                return address
    ranges.count("allocation_errors", "dynamic")
    raise ServiceRefusal([], failure="failed to allocate a serviceIP: range is full")


def _static_addresses(size: int) -> int:
    """How many addresses of a network are left to Services that name theirs
    (calculateRangeOffset).
    """
    return 0 if size <= 16 else min(max(16, size // 16), 256)


def _shown(values: list[Any]) -> str:
    return "[]string{" + ", ".join(f'"{value}"' for value in values) + "}"


def _problem_of(wanted: str, taken: dict[str, None], network: IPv4Network, cidr: str) -> str:
    try:
        inside = IPv4Address(wanted) in network
    except ValueError:
        return ""  # validation reports it
    if not inside or IPv4Address(wanted) in (network.network_address, network.broadcast_address):
        return f"the provided IP ({wanted}) is not in the valid range. The range of valid IPs is {cidr}"
    return "provided IP is already allocated" if wanted in taken else ""
