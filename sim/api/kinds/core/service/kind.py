"""Services.

Mirrors  kubernetes v1.25 pkg/registry/core/service/strategy.go, pkg/apis/core/v1/defaults.go.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from sim.api.kinds.common.cells import AGE, NAME, SELECTOR, age, or_none
from sim.api.kinds.common.fill import all_of, fill, present, within
from sim.api.kinds.common.load_balancers import validate_balanced_status
from sim.api.kinds.common.pods.defaults import TCP
from sim.api.kinds.core.service.addresses import prepare_service
from sim.api.kinds.core.service.quota import QUOTA
from sim.api.kinds.core.service.validation import (
    mixed_protocol_errors,
    validate_service_create,
    validate_service_update,
)
from sim.api.objects import get_in, name_of, remove_in, replace_in
from sim.api.schema.kind import (
    NOTHING,
    STATUS,
    Cells,
    Create,
    Deletion,
    Kind,
    Row,
    Strategy,
    Sub,
    Update,
)
from sim.api.selectors import format_labels
from sim.api.types import Obj
from sim.ident import Names
from sim.options.features.gates import INTERNAL_TRAFFIC, MIXED_PROTOCOLS, is_on


def _fill_defaults(obj: Obj) -> Obj:
    def port(value: Obj) -> Obj:
        value = fill(value, TCP)
        target = value.get("targetPort")
        return {**value, "targetPort": value.get("port", 0)} if target in (None, "", 0) else value

    def spec(value: Obj) -> Obj:
        value = fill(value, {"sessionAffinity": "None", "type": "ClusterIP"})
        if value["sessionAffinity"] == "None" and "sessionAffinityConfig" in value:
            value = {key: part for key, part in value.items() if key != "sessionAffinityConfig"}
        if value["sessionAffinity"] == "ClientIP":
            config = value.get("sessionAffinityConfig") or {}
            if (config.get("clientIP") or {}).get("timeoutSeconds") is None:
                value = {**value, "sessionAffinityConfig": {"clientIP": {"timeoutSeconds": 10800}}}
        if value["type"] in ("NodePort", "LoadBalancer"):
            value = fill(value, {"externalTrafficPolicy": "Cluster"})
        if value["type"] == "LoadBalancer":
            value = fill(value, {"allocateLoadBalancerNodePorts": True})
        if value["type"] != "ExternalName":
            value = present(value, {"internalTrafficPolicy": "Cluster"})
        return all_of(value, "ports", port)

    obj = within(present(obj, {"spec": {}, "status": {}}), "spec", spec)
    return within(obj, "status", lambda status: present(status, {"loadBalancer": {}}))


# --- strategy -------------------------------------------------------------------------------------

_INTERNAL = ("spec", "internalTrafficPolicy")


def _prepare_update(new: Obj, _old: Obj, _names: Names) -> Obj:
    """The Service without the state of a load balancer that it no longer has."""
    if get_in(new, ("spec", "type")) == "LoadBalancer" or not get_in(new, ("status", "loadBalancer")):
        return new
    return replace_in(new, ("status", "loadBalancer"), {})


def _drop_disabled(new: Obj, old: Obj, _: Names, gates: Collection[str]) -> Obj:
    """Drop the policy of internal traffic while that feature is off and the stored Service has
    none. A Service of another name has none either, since none is shown (storage.go:
    defaultOnReadInternalTrafficPolicy).
    """
    if get_in(new, ("spec", "type")) == "ExternalName" and get_in(new, _INTERNAL) in ("Cluster", "Local"):
        return remove_in(new, _INTERNAL)
    if is_on(gates, INTERNAL_TRAFFIC) or get_in(old, _INTERNAL) is not None:
        return new
    return remove_in(new, _INTERNAL)


def _gated_rules(gates: Collection[str]) -> tuple[Create, Mapping[str, Update]]:
    has_policy, mixed = is_on(gates, INTERNAL_TRAFFIC), is_on(gates, MIXED_PROTOCOLS)

    def create(obj: Obj) -> list[Any]:
        errors = validate_service_create(obj, has_policy)
        return errors if mixed else errors + mixed_protocol_errors(obj, NOTHING)

    def update(new: Obj, old: Obj) -> list[Any]:
        errors = validate_service_update(new, old, has_policy)
        return errors if mixed else errors + mixed_protocol_errors(new, old)

    return create, {"": update, "status": validate_balanced_status}


# --- table ----------------------------------------------------------------------------------------


def _external_ip(obj: Obj) -> str:
    spec = obj.get("spec") or {}
    if spec.get("type") == "ExternalName":
        return str(spec.get("externalName", ""))
    listed = list(spec.get("externalIPs") or ())
    if spec.get("type") == "LoadBalancer":
        ingress = get_in(obj, ("status", "loadBalancer", "ingress"), [])
        found = sorted({i.get("ip") or i.get("hostname", "") for i in ingress})
        return ",".join([*found, *listed]) or "<pending>"
    return or_none(",".join(listed))


def _cells(obj: Obj, now_us: int, _: Names) -> Cells:
    spec = obj.get("spec") or {}
    ports = []
    for port in spec.get("ports") or ():
        node = f":{port['nodePort']}" if port.get("nodePort") else ""
        ports.append(f"{port['port']}{node}/{port.get('protocol', 'TCP')}")
    ips = spec.get("clusterIPs") or [spec.get("clusterIP") or "<none>"]
    head = [name_of(obj), spec.get("type", ""), ips[0], _external_ip(obj), or_none(",".join(ports))]
    return [*head, age(obj, now_us), format_labels(spec.get("selector"))]


KIND = Kind(
    rows=(
        Row(
            "",
            "v1",
            "services",
            "Service",
            short=("svc",),
            categories=("all",),
            subs=(Sub("proxy", "cdgpu", "ServiceProxyOptions"), STATUS),
        ),
    ),
    deletion=Deletion(returns_object=True, removes="endpoints"),
    strategy=Strategy(
        status=True, zero_status={"loadBalancer": {}}, create_by_put=True, prepare_update=_prepare_update
    ),
    defaults=_fill_defaults,
    drop_disabled=_drop_disabled,
    gated_rules=_gated_rules,
    validate_create=validate_service_create,
    validate_update={"": validate_service_update, "status": validate_balanced_status},
    columns=(
        NAME,
        "Type=spec.type",
        "Cluster-IP=spec.clusterIP",
        "External-IP=spec.externalIPs",
        "Port(s)=spec.ports",
        AGE,
        SELECTOR,
    ),
    cells=_cells,
    allocate=prepare_service,
    quota=QUOTA,
)
