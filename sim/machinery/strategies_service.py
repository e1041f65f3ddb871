"""Addresses and ports of Services.

Turns a Service as asked for into one with cluster IPs, families and node ports, given all other Services.

Holds: no two Services share a cluster IP; what a Service has, it keeps while its type needs it.

Mirrors  kubernetes v1.25 pkg/registry/core/service/{storage/alloc,strategy}.go, ipallocator, portallocator.
Differs  what is taken is read from the Services themselves, not from a bitmap kept beside them, so nothing can leak
         and nothing needs repair; one family (IPv4) per cluster.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from ipaddress import IPv4Address, IPv4Network
from typing import Any

from sim.machinery.api import Obj
from sim.machinery.scheme import Resource
from sim.machinery.store import Answer, Op, Page, Range

NODE_PORT_LOW, NODE_PORT_HIGH = 30000, 32767
NEEDS_NODE_PORT = ("NodePort", "LoadBalancer")


class ServiceRefusal(Exception):
    """causes: (reason, field, message); full: a range has no address or port left."""

    def __init__(self, causes: list[tuple[str, str, str]], full: str = "") -> None:
        super().__init__(full or causes[0][2])
        self.causes = causes
        self.full = full


def prepare_service(
    resource: Resource, obj: Obj, old: Obj | None, cidr: str, bits: Callable[[int], int]
) -> Generator[Op, Answer, Obj]:
    """The Service with everything allocated that its type needs."""
    spec = dict(obj.get("spec") or {})
    before: Obj = (old or {}).get("spec") or {}
    kind = spec.get("type", "ClusterIP")
    if old is not None:
        _keep(spec, before, kind)
    if kind == "ExternalName":
        for field in ("clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy"):
            spec.pop(field, None)
        return {**obj, "spec": spec}
    wanted = spec.get("clusterIP") or next(iter(spec.get("clusterIPs") or ()), "")
    if wanted != "None":
        spec.setdefault("ipFamilyPolicy", "SingleStack")
        spec.setdefault("ipFamilies", ["IPv4"])
    else:
        selects = bool(spec.get("selector"))
        spec.setdefault("ipFamilyPolicy", "SingleStack" if selects else "RequireDualStack")
        spec.setdefault("ipFamilies", ["IPv4"] if selects else ["IPv4", "IPv6"])
    needs_ip = wanted != "None" and (not wanted or wanted != before.get("clusterIP"))
    needs_port = kind in NEEDS_NODE_PORT and any(
        port.get("nodePort", 0) not in _ports_of(before) or not port.get("nodePort")
        for port in spec.get("ports") or ()
    )
    ips: dict[str, None] = {}
    ports: dict[int, None] = {}
    if needs_ip or needs_port:
        page = yield Range(resource.prefix)
        assert isinstance(page, Page)
        mine = obj["metadata"].get("uid")
        for item in page.items:
            if item.obj["metadata"].get("uid") != mine:
                other = item.obj.get("spec") or {}
                ips.update(dict.fromkeys(other.get("clusterIPs") or ()))
                ports.update(_ports_of(other))
    if needs_ip:
        wanted = _take_ip(wanted, ips, cidr, bits)
    spec["clusterIP"], spec["clusterIPs"] = wanted, [wanted]
    if needs_port:
        spec["ports"] = _take_ports(spec.get("ports") or [], ports, bits)
    return {**obj, "spec": spec}


def _keep(spec: Obj, before: Obj, kind: str) -> None:
    """An update that leaves allocated fields empty keeps what there was; a change of type clears it."""
    was = before.get("type", "ClusterIP")
    if kind != "ExternalName" and was != "ExternalName":
        for field in ("clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy"):
            if not spec.get(field) and field in before:
                spec[field] = before[field]
    if kind in NEEDS_NODE_PORT and was in NEEDS_NODE_PORT:
        known = {port.get("name", ""): port.get("nodePort") for port in before.get("ports") or ()}
        spec["ports"] = [
            {**port, "nodePort": known[port.get("name", "")]}
            if not port.get("nodePort") and known.get(port.get("name", ""))
            else port
            for port in spec.get("ports") or ()
        ]
    elif was in NEEDS_NODE_PORT and kind not in NEEDS_NODE_PORT:
        old_ports = _ports_of(before)
        spec["ports"] = [
            {k: v for k, v in port.items() if k != "nodePort"} if port.get("nodePort") in old_ports else port
            for port in spec.get("ports") or ()
        ]
        if spec.get("externalTrafficPolicy") == before.get("externalTrafficPolicy"):
            spec.pop("externalTrafficPolicy", None)


def _ports_of(spec: Obj) -> dict[int, None]:
    return {port["nodePort"]: None for port in spec.get("ports") or () if port.get("nodePort")}


def _take_ip(wanted: str, taken: dict[str, None], cidr: str, bits: Callable[[int], int]) -> str:
    network = IPv4Network(cidr)
    if wanted:
        text = _problem_of(wanted, taken, network, cidr)
        if text:
            full = f"Invalid value: {_shown([wanted])}: failed to allocate IP {wanted}: {text}"
            raise ServiceRefusal([("FieldValueInvalid", "spec.clusterIPs", full)])
        return wanted
    size = network.num_addresses - 2  # without network and broadcast
    first = int(network.network_address) + 1
    # allocator.go: static addresses live below the offset, random ones start above it
    offset = 0 if size < 16 else min(max(16, size // 16), 256)
    for low, count in ((offset, size - offset), (0, offset)):
        start = bits(32) % count if count else 0
        for step in range(count):
            address = str(IPv4Address(first + low + (start + step) % count))
            if address not in taken:
                return address
    raise ServiceRefusal([], full="failed to allocate a serviceIP: range is full")


def _shown(values: list[Any]) -> str:
    return "[]string{" + ", ".join(f'"{value}"' for value in values) + "}"


def _problem_of(wanted: str, taken: dict[str, None], network: IPv4Network, cidr: str) -> str:
    try:
        inside = IPv4Address(wanted) in network
    except ValueError:
        return ""  # validation says so
    if not inside or IPv4Address(wanted) in (network.network_address, network.broadcast_address):
        return f"the provided IP ({wanted}) is not in the valid range. The range of valid IPs is {cidr}"
    return "provided IP is already allocated" if wanted in taken else ""


def _take_ports(asked: list[Obj], taken: dict[int, None], bits: Callable[[int], int]) -> list[Obj]:
    out = []
    given: dict[tuple[int, int], int] = {}  # one number may serve several protocols of one port
    causes = []
    for index, port in enumerate(asked):
        number = port.get("nodePort", 0)
        if number:
            text = ""
            if not NODE_PORT_LOW <= number <= NODE_PORT_HIGH:
                text = f"provided port is not in the valid range. The range of valid ports is {NODE_PORT_LOW}-{NODE_PORT_HIGH}"
            elif number in taken:
                text = "provided port is already allocated"
            if text:
                where = f"spec.ports[{index}].nodePort"
                causes.append(("FieldValueInvalid", where, f"Invalid value: {number}: {text}"))
            out.append(port)
            continue
        number = given.get((port.get("port", 0), 0), 0) or _free_port(taken, bits)
        taken[number] = None
        given[port.get("port", 0), 0] = number
        out.append({**port, "nodePort": number})
    if causes:
        raise ServiceRefusal(causes)
    return out


def _free_port(taken: dict[int, None], bits: Callable[[int], int]) -> int:
    count = NODE_PORT_HIGH - NODE_PORT_LOW + 1
    start = bits(32) % count
    for step in range(count):
        number = NODE_PORT_LOW + (start + step) % count
        if number not in taken:
            return number
    raise ServiceRefusal([], full="failed to allocate a nodePort: range is full")
