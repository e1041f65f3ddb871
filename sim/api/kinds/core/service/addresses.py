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
from dataclasses import dataclass, field
from ipaddress import IPv4Address, IPv4Network
from typing import Any

from sim.api.counting import Counting
from sim.api.kinds.common.errors import Errors, invalid
from sim.api.kinds.core.service.validation import cluster_ip_errors
from sim.api.store import Answer, Item, Op, Page, Range, Unavailable
from sim.api.types import Obj

NODE_PORTS = range(30000, 32768)  # --service-node-port-range
FAMILY = "IPv4"  # the cluster's only one
NEEDS_NODE_PORT = ("NodePort", "LoadBalancer")


class ServiceRefusal(Exception):
    """The Service cannot get what it needs.

    causes: (reason, field, message) of each error of the request
    failure: text if a range is exhausted, or the store does not answer; "" otherwise
    bare: True if upstream gives the failure no reason
    """

    def __init__(self, causes: list[tuple[str, str, str]], failure: str = "", bare: bool = False) -> None:
        super().__init__(failure or causes[0][2])
        self.bare = bare
        self.causes = causes
        self.failure = failure


@dataclass(frozen=True, slots=True)
class Ranges:
    """The ranges that Services get addresses and ports from.

    lax: True for a dry run, which accepts addresses in use and ports out of range
    static_band: True if the first addresses are given only when all others are in use
    counting: where allocations count; None while there is no reader of metrics
    """

    cidr: str
    bits: Callable[[int], int]
    lax: bool = False
    ports: range = NODE_PORTS
    static_band: bool = True
    counting: Counting | None = None

    def count(self, what: str, scope: str) -> None:
        """Count an allocation or a failed one (ipallocator/metrics.go); a dry run has none."""
        if self.counting is not None and not self.lax:
            self.counting.count(f"kube_apiserver_clusterip_allocator_{what}_total", (self.cidr, scope))


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
    asks_ports = _asks_ports(spec, before)
    taken = _Taken()
    if asks_ip or asks_ports:
        page = yield Range(prefix)
        if isinstance(page, Unavailable):
            what = "serviceIP" if asks_ip else "nodePort"
            raise ServiceRefusal([], failure=f"failed to allocate a {what}: {page.message}")
        assert isinstance(page, Page)
        taken = _taken(page.items, obj["metadata"].get("uid"))
        if ranges.lax:
            taken = _Taken(ports=taken.ports)
    if asks_ip:
        wanted = _take_ip(wanted, taken.ips, ranges)
        spec["clusterIP"], spec["clusterIPs"] = wanted, [wanted]
    if old is not None and spec.get("type") in NEEDS_NODE_PORT:
        _check_twice(spec)
    if asks_ports:
        _take_ports(spec, before, taken.ports, ranges)
        _take_check_port(spec, before, taken.ports, ranges)
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


def _needs_check_port(spec: Obj) -> bool:
    return spec.get("type") == "LoadBalancer" and spec.get("externalTrafficPolicy") == "Local"


def _asks_ports(spec: Obj, before: Obj) -> bool:
    if not _needs_ports(spec):
        return False
    had = _ports_of(before)
    if any(
        port.get("nodePort", 0) not in had or not port.get("nodePort") for port in spec.get("ports") or ()
    ):
        return True
    return _needs_check_port(spec) and spec.get("healthCheckNodePort", 0) != before.get("healthCheckNodePort")


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
        used = list(_ports_of(spec))
        ports = []
        for port in spec.get("ports") or ():
            number = known.get(port.get("name", ""), 0)
            if not port.get("nodePort") and number and number not in used:
                used.append(number)
                port = {**port, "nodePort": number}
            ports.append(port)
        spec["ports"] = ports
    if _needs_check_port(before) and _needs_check_port(spec) and not spec.get("healthCheckNodePort"):
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
        if _ports_of(spec) == _ports_of(before):
            spec["ports"] = [
                {k: v for k, v in port.items() if k != "nodePort"} for port in spec.get("ports") or ()
            ]
        drop("externalTrafficPolicy")
    if _needs_check_port(before) and not _needs_check_port(spec):
        drop("healthCheckNodePort")
    if before.get("type") == "LoadBalancer" != spec.get("type"):
        drop("allocateLoadBalancerNodePorts", "loadBalancerClass")


# --- addresses ------------------------------------------------------------------------------------


def _families(spec: Obj, before: Obj) -> None:
    """Fill in families and their policy, on a cluster of one family (initIPFamilyFields)."""
    headless = bool(spec.get("clusterIPs")) and spec["clusterIPs"][0] == "None"
    if before and not spec.get("ipFamilies") and _needs_ip(before) and before.get("ipFamilies"):
        spec["ipFamilies"] = before["ipFamilies"]
    policy = spec.get("ipFamilyPolicy")
    if policy is None:
        policy = before.get("ipFamilyPolicy") if _needs_ip(before) else None
    if policy is None:
        policy = "RequireDualStack" if headless and not spec.get("selector") else "SingleStack"
    spec["ipFamilyPolicy"] = policy
    _refuse(cluster_ip_errors(spec))
    many = "must be 'RequireDualStack' or 'PreferDualStack' when multiple {} are specified"
    if policy == "SingleStack":
        wrong = [
            many.format(what)
            for field, what in (("clusterIPs", "cluster IPs"), ("ipFamilies", "IP families"))
            if len(spec.get(field) or ()) > 1
        ]
        _refuse([invalid("spec.ipFamilyPolicy", policy, text) for text in wrong[:1]])
    families = list(spec.get("ipFamilies") or ())
    if headless and not spec.get("selector"):  # its families may differ from the cluster's
        families = families or [FAMILY]
        if policy != "SingleStack" and len(families) == 1:
            families.append("IPv6" if families[0] == "IPv4" else "IPv4")
        spec["ipFamilies"] = families
        return
    if not headless:
        families += [
            "IPv6" if ":" in address else "IPv4"
            for address in (spec.get("clusterIPs") or ())[len(families) :]
        ]
    errors = []
    if policy == "RequireDualStack":
        errors.append(
            invalid("spec.ipFamilyPolicy", policy, "this cluster is not configured for dual-stack services")
        )
    for i, family in enumerate(families):
        if family != FAMILY:
            errors.append(invalid(f"spec.ipFamilies[{i}]", family, "not configured on this cluster"))
    _refuse(errors)
    spec["ipFamilies"] = families or [FAMILY]


def _refuse(errors: Errors) -> None:
    if errors:
        raise ServiceRefusal([(error.reason, error.field, error.message) for error in errors])


def _ports_of(spec: Obj) -> dict[int, None]:
    return {port["nodePort"]: None for port in spec.get("ports") or () if port.get("nodePort")}


@dataclass(frozen=True, slots=True)
class _Taken:
    ips: dict[str, None] = field(default_factory=dict)
    ports: dict[int, None] = field(default_factory=dict)


def _taken(items: Iterable[Item], mine: str | None) -> _Taken:
    """The addresses and ports of all Services but one."""
    taken = _Taken()
    for item in items:
        if item.obj["metadata"].get("uid") != mine:
            other = item.obj.get("spec") or {}
            taken.ips.update(dict.fromkeys(other.get("clusterIPs") or ()))
            taken.ports.update(_ports_of(other))
            if other.get("healthCheckNodePort"):
                taken.ports[other["healthCheckNodePort"]] = None
    return taken


def _take_ip(wanted: str, taken: dict[str, None], ranges: Ranges) -> str:
    network = IPv4Network(ranges.cidr)
    if wanted:
        text = "" if ranges.lax else _problem_of(wanted, taken, network, ranges.cidr)
        ranges.count("allocation_errors" if text else "allocation", "static")
        if text:
            full = f"Invalid value: {_shown([wanted])}: failed to allocate IP {wanted}: {text}"
            raise ServiceRefusal([("FieldValueInvalid", "spec.clusterIPs", full)])
        return wanted
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


def _take_ports(spec: Obj, before: Obj, taken: dict[int, None], ranges: Ranges) -> None:
    """Allocate a node port for each port that has none; the protocols of one port share a
    number.

    Quirk: a create takes the first number asked for a port for all its protocols, and reserves the
    numbers one after the other; an update reserves only those that are new.
    """
    allocates = spec.get("type") == "NodePort" or spec.get("allocateLoadBalancerNodePorts") is not False
    had = _ports_of(before)
    asked = {
        port.get("port", 0): port["nodePort"]
        for port in reversed(spec.get("ports") or ())
        if port.get("nodePort")
    }
    held = {**taken, **_ports_of(spec)}
    given: dict[int, int] = {}
    out = []
    for index, port in enumerate(spec.get("ports") or ()):
        number, own = port.get("nodePort", 0), port.get("port", 0)
        if not before and (number or allocates):
            wanted = number if own in given else asked.get(own, 0)
            if wanted and wanted != given.get(own):
                _check_port(wanted, taken, f"spec.ports[{index}].nodePort", ranges)
            number = wanted or given.get(own, 0) or _free_port(held, ranges)
            given.setdefault(own, number)
            taken[number] = held[number] = None
            out.append({**port, "nodePort": number})
            continue
        if number and number not in had:
            _check_port(number, taken, f"spec.ports[{index}].nodePort", ranges)
        if not number and allocates:
            number = asked.get(port.get("port", 0), 0) or _free_port(held, ranges)
            asked[port.get("port", 0)] = number
            port = {**port, "nodePort": number}
            taken[number] = held[number] = None
        out.append(port)
    spec["ports"] = out


def _check_twice(spec: Obj) -> None:
    """Quirk: an update with one number twice for a protocol gets a 500, not a validation error."""
    seen: dict[tuple[str, int], None] = {}
    for port in spec.get("ports") or ():
        key = port.get("protocol", "TCP"), port.get("nodePort", 0)
        if key in seen and key[1]:
            raise ServiceRefusal([], failure=f"duplicate nodePort: {{{key[0]} {key[1]}}}", bare=True)
        seen[key] = None


def _check_port(number: int, taken: dict[int, None], where: str, ranges: Ranges) -> None:
    if not ranges.lax and number not in ranges.ports:
        valid = f"{ranges.ports[0]}-{ranges.ports[-1]}"
        text = f"provided port is not in the valid range. The range of valid ports is {valid}"
    elif number in taken:
        text = "provided port is already allocated"
    else:
        return
    raise ServiceRefusal([("FieldValueInvalid", where, f"Invalid value: {number}: {text}")])


def _take_check_port(spec: Obj, before: Obj, taken: dict[int, None], ranges: Ranges) -> None:
    if not _needs_check_port(spec) or _needs_check_port(before):
        return
    number = spec.get("healthCheckNodePort", 0)
    if not number:
        spec["healthCheckNodePort"] = _free_port({**taken, **_ports_of(spec)}, ranges)
    else:
        try:
            _check_port(number, taken, "", ranges)
        except ServiceRefusal as refusal:  # Quirk: an error of the client gets a 500
            why = refusal.causes[0][2].partition(": ")[2].partition(": ")[2]
            raise ServiceRefusal(
                [], failure=f"failed to allocate requested HealthCheck NodePort {number}: {why}"
            ) from None


def _free_port(taken: dict[int, None], ranges: Ranges) -> int:
    count = len(ranges.ports)
    start = ranges.bits(32) % count
    for step in range(count):
        number = ranges.ports[(start + step) % count]
        if number not in taken:
            return number
    raise ServiceRefusal([], failure="failed to allocate a nodePort: range is full")
