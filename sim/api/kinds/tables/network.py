"""Rows of Ingresses, IngressClasses, NetworkPolicies, PodTemplates and RuntimeClasses (`core` for all others).

Mirrors  kubernetes v1.25 pkg/printers/internalversion/printers.go.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sim.api.kinds.tables.pods import age
from sim.api.objects import get_in, name_of
from sim.api.selectors import format_labels, format_selector
from sim.ident import Names

Obj = dict[str, Any]
Cells = list[Any]

_NAME, _AGE = "Name=metadata.name", "Age=metadata.creationTimestamp"
COLUMNS: dict[tuple[str, str], tuple[str, ...]] = {
    ("", "PodTemplate"): (_NAME, "Containers", "Images", "Pod Labels"),
    ("networking", "Ingress"): (_NAME, "Class=spec.ingressClassName", "Hosts", "Address", "Ports", _AGE),
    ("networking", "IngressClass"): (
        _NAME,
        "Controller=spec.controller",
        "Parameters=spec.parameters",
        _AGE,
    ),
    ("networking", "NetworkPolicy"): (_NAME, "Pod-Selector=spec.podSelector", _AGE),
    ("node", "RuntimeClass"): (_NAME, "Handler=handler", _AGE),
}
HOSTS_SHOWN = 3


def _pod_template(obj: Obj, now_us: int, _: Names) -> Cells:
    template = obj.get("template") or {}
    found = get_in(template, ("spec", "containers"), [])
    names, images = ",".join(c["name"] for c in found), ",".join(c.get("image", "") for c in found)
    return [name_of(obj), names, images, format_labels(get_in(template, ("metadata", "labels")))]


def _ingress(obj: Obj, now_us: int, _: Names) -> Cells:
    spec = obj.get("spec") or {}
    hosts = [rule["host"] for rule in spec.get("rules") or () if rule.get("host")]
    shown = ",".join(hosts[:HOSTS_SHOWN]) or "*"
    if len(hosts) > HOSTS_SHOWN:
        shown += f" + {len(hosts) - HOSTS_SHOWN} more..."
    points = get_in(obj, ("status", "loadBalancer", "ingress"), [])
    address = ",".join(point.get("ip") or point.get("hostname") or "" for point in points)
    ports = "80, 443" if spec.get("tls") else "80"
    klass = spec.get("ingressClassName")
    return [
        name_of(obj),
        "<none>" if klass is None else klass,
        shown,
        address,
        ports,
        age(obj, now_us),
    ]


def _ingress_class(obj: Obj, now_us: int, _: Names) -> Cells:
    spec = obj.get("spec") or {}
    given, shown = spec.get("parameters"), "<none>"
    if given is not None:
        group = f".{given['apiGroup']}" if given.get("apiGroup") else ""
        shown = f"{given.get('kind', '')}{group}/{given.get('name', '')}"
    return [name_of(obj), spec.get("controller", ""), shown, age(obj, now_us)]


def _network_policy(obj: Obj, now_us: int, _: Names) -> Cells:
    return [name_of(obj), format_selector(get_in(obj, ("spec", "podSelector"))), age(obj, now_us)]


def _runtime_class(obj: Obj, now_us: int, _: Names) -> Cells:
    return [name_of(obj), obj.get("handler", ""), age(obj, now_us)]


PRINTERS: dict[tuple[str, str], Callable[[Obj, int, Names], Cells]] = {
    ("", "PodTemplate"): _pod_template,
    ("networking", "Ingress"): _ingress,
    ("networking", "IngressClass"): _ingress_class,
    ("networking", "NetworkPolicy"): _network_policy,
    ("node", "RuntimeClass"): _runtime_class,
}
