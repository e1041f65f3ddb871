"""What the cluster's DNS answers, as pure functions over Services and EndpointSlices.

Mirrors  kubernetes/dns docs/specification.md (1.1.0) and the plugin `kubernetes` of CoreDNS 1.9 as
         kubeadm configures it (`pods insecure`, TTL 30): a headless Service without an address does
         not exist; a name of a pod exists for every address in a namespace that exists.
Differs  nothing outside of the cluster's domain is known: such names get SERVFAIL, as from a server
         that reaches no other one; an external name is answered without the records it leads to.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from ipaddress import ip_address
from typing import NamedTuple

from actors.node.programs.network.services import cluster_ips, is_ready
from sim.api.types import Obj

TTL_S = 30
NOERROR, NXDOMAIN, SERVFAIL = "NOERROR", "NXDOMAIN", "SERVFAIL"
SCHEMA_VERSION = "1.1.0"
_REVERSE = (".in-addr.arpa", ".ip6.arpa")


class Record(NamedTuple):
    """One record of an answer, its value as `dig` shows it."""

    name: str
    kind: str
    value: str


class Answer(NamedTuple):
    """What a server answers: a code and records."""

    code: str
    records: tuple[Record, ...] = ()


class Zone(NamedTuple):
    """What the answers depend on.

    domain: the cluster's; service: by namespace and name; slices: those of a Service
    services: all; namespace: True if a namespace exists
    """

    domain: str
    service: Callable[[str, str], Obj | None]
    services: Callable[[], Iterable[Obj]]
    slices: Callable[[Obj], Sequence[Obj]]
    namespace: Callable[[str], bool]


class _Found(NamedTuple):
    """An address behind a name, with its ports: (name, protocol, number)."""

    host: str
    target: str
    ports: tuple[tuple[str, str, int], ...]


def answer(zone: Zone, name: str, kind: str) -> Answer:
    """The answer to a question.  kind: A, AAAA, SRV, CNAME, PTR, TXT …"""
    asked = name.rstrip(".")
    lower = asked.lower()
    if lower.endswith(_REVERSE):
        return _reverse(zone, asked, kind)
    suffix = f".{zone.domain.lower()}"
    if lower != suffix[1:] and not lower.endswith(suffix):
        return Answer(SERVFAIL)
    labels = lower.removesuffix(suffix).split(".") if lower != suffix[1:] else []
    if not labels or labels in (["svc"], ["pod"]):
        return Answer(NOERROR)
    if labels == ["dns-version"]:
        records = (Record(asked, "TXT", f'"{SCHEMA_VERSION}"'),) if kind == "TXT" else ()
        return Answer(NOERROR, records)
    if labels[-1] == "pod":
        return _of_pod(zone, asked, labels[:-1], kind)
    if labels[-1] != "svc" or not zone.namespace(labels[-2]):
        return Answer(NXDOMAIN)
    return _of_service(zone, asked, labels[:-1], kind)


def _of_pod(zone: Zone, asked: str, labels: Sequence[str], kind: str) -> Answer:
    if not labels or not zone.namespace(labels[-1]) or len(labels) > len(("ADDRESS", "NAMESPACE")):
        return Answer(NXDOMAIN)
    if len(labels) == 1:
        return Answer(NOERROR)
    dashed = labels[0]
    host = (
        dashed.replace("-", ".")
        if dashed.count("-") == 3 and "--" not in dashed
        else dashed.replace("-", ":")
    )
    try:
        parsed = ip_address(host)
    except ValueError:
        return Answer(NXDOMAIN)
    return Answer(NOERROR, _addresses(asked, [str(parsed)], kind))


def _of_service(zone: Zone, asked: str, labels: Sequence[str], kind: str) -> Answer:
    """labels: [_PORT, _PROTOCOL, | HOST,] SERVICE, NAMESPACE"""
    *front, namespace = labels
    if not front:
        return Answer(NOERROR)
    *front, name = front
    service = zone.service(namespace, name)
    if service is None:
        return Answer(NXDOMAIN)
    if service["spec"].get("type") == "ExternalName":
        if front:
            return Answer(NXDOMAIN)
        target = f"{service['spec']['externalName'].rstrip('.')}."
        return Answer(NOERROR, (Record(asked, "CNAME", target),) if kind in ("A", "AAAA", "CNAME") else ())
    base = f"{name}.{namespace}.svc.{zone.domain}."
    headless = service["spec"].get("clusterIP") == "None"
    by_port = len(front) == len(("_PORT", "_PROTOCOL")) and all(label.startswith("_") for label in front)
    if front and not by_port and len(front) > 1:
        return Answer(NXDOMAIN)
    wanted = "" if by_port or not front else front[0]
    found = _endpoints(zone, service, base) if headless or wanted else _virtual(service, base)
    if wanted:
        found = [one for one in found if one.target.partition(".")[0] == wanted]
    if by_port:
        port_name, protocol = front[0][1:], front[1][1:]
        found = [
            one._replace(ports=tuple(port for port in one.ports if _is_port(port, port_name, protocol)))
            for one in found
        ]
        found = [one for one in found if one.ports]
    if not found:
        return Answer(NXDOMAIN)
    if kind == "SRV":
        return Answer(NOERROR, _services(asked, found))
    return Answer(NOERROR, _addresses(asked, [one.host for one in found], kind))


def _is_port(port: tuple[str, str, int], name: str, protocol: str) -> bool:
    return (port[0].lower() == name or name == "*") and (port[1].lower() == protocol or protocol == "*")


def _virtual(service: Obj, base: str) -> list[_Found]:
    ports = tuple(
        (one.get("name") or "", one.get("protocol") or "TCP", int(one["port"]))
        for one in service["spec"].get("ports") or ()
    )
    return [_Found(host, base, ports) for host in cluster_ips(service)]


def _endpoints(zone: Zone, service: Obj, base: str) -> list[_Found]:
    """The ready endpoints of a Service with their names, each once."""
    found: dict[tuple[str, str], _Found] = {}
    for one in zone.slices(service):
        ports = tuple(
            (port.get("name") or "", port.get("protocol") or "TCP", int(port["port"]))
            for port in one.get("ports") or ()
            if port.get("port")
        )
        for endpoint in one.get("endpoints") or ():
            if not is_ready(endpoint):
                continue
            for host in endpoint["addresses"]:
                label = endpoint.get("hostname") or host.replace(".", "-").replace(":", "-")
                target = f"{label}.{base}"
                known = found.get((host, target))
                both = ports if known is None else tuple(dict.fromkeys((*known.ports, *ports)))
                found[host, target] = _Found(host, target, both)
    return [found[key] for key in sorted(found)]


def _addresses(asked: str, hosts: Iterable[str], kind: str) -> tuple[Record, ...]:
    if kind not in ("A", "AAAA"):
        return ()
    six = kind == "AAAA"
    return tuple(Record(asked, kind, host) for host in dict.fromkeys(hosts) if (":" in host) is six)


def _services(asked: str, found: Sequence[_Found]) -> tuple[Record, ...]:
    """SRV records: weights share 100 among the targets (CoreDNS plugin/backend_lookup.go)."""
    rows = [(one.target, number) for one in found for _, _, number in one.ports]
    weight = max(1, 100 // len(rows)) if rows else 0
    return tuple(
        Record(asked, "SRV", f"0 {weight} {number} {target}") for target, number in dict.fromkeys(rows)
    )


def _reverse(zone: Zone, asked: str, kind: str) -> Answer:
    parts = asked.lower().split(".")[:-2]
    text = ".".join(reversed(parts))
    if asked.lower().endswith(".ip6.arpa"):
        digits = "".join(reversed(parts))
        text = ":".join(digits[at : at + 4] for at in range(0, 32, 4))
    try:
        host = str(ip_address(text))
    except ValueError:
        return Answer(NXDOMAIN)
    names = []
    for service in zone.services():
        base = f"{service['metadata']['name']}.{service['metadata']['namespace']}.svc.{zone.domain}."
        if host in cluster_ips(service):
            return Answer(NOERROR, (Record(asked, "PTR", base),) if kind == "PTR" else ())
        names += [one.target for one in _endpoints(zone, service, base) if one.host == host]
    if not names:
        return Answer(NXDOMAIN)
    return Answer(NOERROR, tuple(Record(asked, "PTR", name) for name in names) if kind == "PTR" else ())
