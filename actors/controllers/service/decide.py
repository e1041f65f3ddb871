"""Pure decisions of the service controller: which services get a load balancer,
with which nodes, and when.

Mirrors  kubernetes v1.25 staging/src/k8s.io/cloud-provider/controllers/service/controller.go
         (wantsLoadBalancer, needsCleanup, needsUpdate, nodePredicates, shouldSyncNode),
         cloud-provider/service/helpers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

from sim.api.objects import annotations_of, condition_status, labels_of
from sim.api.types import Obj
from sim.ident import Names

AUTOSCALER_TAINT = "ToBeDeletedByClusterAutoscaler"


class Update(NamedTuple):
    """What an update of a service means.  event: reason and message, if upstream emits one"""

    needed: bool
    event: tuple[str, str] | None = None


NO_UPDATE = Update(False)


def wants_balancer(service: Obj) -> bool:
    """True if a service is to have a load balancer of this controller."""
    spec = service["spec"]
    return spec.get("type") == "LoadBalancer" and spec.get("loadBalancerClass") is None


def needs_cleanup(service: Obj, finalizer: str) -> bool:
    """True if a service holds the finalizer of a load balancer that it no longer wants."""
    meta = service["metadata"]
    if finalizer not in (meta.get("finalizers") or ()):
        return False
    return "deletionTimestamp" in meta or service["spec"].get("type") != "LoadBalancer"


# Fields of the spec that are compared, in upstream's order, with the event of a change.
def _shown(value: object) -> str:
    """A value as Go prints it with %v."""
    if value is None:
        return ""
    return f"[{' '.join(map(str, value))}]" if isinstance(value, list | tuple) else str(value)


def _arrow(reason: str, old: object, new: object) -> tuple[str, str]:
    return reason, f"{_shown(old)} -> {_shown(new)}"


def needs_update(old: Obj, new: Obj) -> Update:
    """Whether a changed service has to be synced."""
    wanted, wants = wants_balancer(old), wants_balancer(new)
    was, now = old["spec"], new["spec"]
    if not wanted and not wants:
        return NO_UPDATE
    if wanted != wants:
        return Update(True, _arrow("Type", was.get("type"), now.get("type")))
    for check in _CHECKS:
        found = check(was, now)
        if found.needed:
            return found
    if annotations_of(old) != annotations_of(new):
        return Update(True)
    if old["metadata"]["uid"] != new["metadata"]["uid"]:
        return Update(True, _arrow("UID", old["metadata"]["uid"], new["metadata"]["uid"]))
    for field, reason in _LATE_FIELDS:
        if was.get(field) != now.get(field):
            return Update(True, _arrow(reason, was.get(field), now.get(field)))
    before, after = (len(spec.get("ipFamilies") or ()) for spec in (was, now))
    if before != after:
        return Update(True, ("IPFamilies", f"Count: {before} -> {after}"))
    return NO_UPDATE


_LATE_FIELDS = (
    ("externalTrafficPolicy", "ExternalTrafficPolicy"),
    ("healthCheckNodePort", "HealthCheckNodePort"),
)
_PORT_FIELDS = ("name", "protocol", "port", "nodePort", "appProtocol")


def _source_ranges(was: Obj, now: Obj) -> Update:
    field = "loadBalancerSourceRanges"
    old, new = was.get(field) or [], now.get(field) or []
    return Update(True, _arrow("LoadBalancerSourceRanges", old, new)) if old != new else NO_UPDATE


def _ports(was: Obj, now: Obj) -> Update:
    old, new = ([[p.get(f) for f in _PORT_FIELDS] for p in spec.get("ports") or ()] for spec in (was, now))
    return Update(old != new)


def _affinity(was: Obj, now: Obj) -> Update:
    fields = ("sessionAffinity", "sessionAffinityConfig")
    return Update(any(was.get(field) != now.get(field) for field in fields))


def _balancer_ip(was: Obj, now: Obj) -> Update:
    old, new = was.get("loadBalancerIP"), now.get("loadBalancerIP")
    return Update(True, _arrow("LoadbalancerIP", old, new)) if old != new else NO_UPDATE


def _external_ips(was: Obj, now: Obj) -> Update:
    old, new = (spec.get("externalIPs") or [] for spec in (was, now))
    if len(old) != len(new):
        return Update(True, ("ExternalIP", f"Count: {len(old)} -> {len(new)}"))
    added = next((after for before, after in zip(old, new, strict=True) if before != after), None)
    return NO_UPDATE if added is None else Update(True, ("ExternalIP", f"Added: {added}"))


_CHECKS: tuple[Callable[[Obj, Obj], Update], ...] = (
    _source_ranges,
    _ports,
    _affinity,
    _balancer_ip,
    _external_ips,
)


def takes_traffic(node: Obj, names: Names) -> bool:
    """True if a node is put behind load balancers."""
    if names.label_exclude_balancers in labels_of(node):
        return False
    if any(taint["key"] == AUTOSCALER_TAINT for taint in node["spec"].get("taints") or ()):
        return False
    if not (node.get("status") or {}).get("conditions"):
        return False
    return condition_status(node, "Ready") in ("True", "")


def hosts(nodes: Iterable[Obj], names: Names) -> tuple[str, ...]:
    """The names of the nodes behind load balancers, in order."""
    return tuple(sorted(node["metadata"]["name"] for node in nodes if takes_traffic(node, names)))


def changes_traffic(old: Obj, new: Obj) -> bool:
    """True if a changed node may change the nodes behind load balancers."""
    return (
        old["spec"].get("unschedulable", False) != new["spec"].get("unschedulable", False)
        or labels_of(old) != labels_of(new)
        or condition_status(old, "Ready") != condition_status(new, "Ready")
    )
