"""Validation of Services.

Mirrors  kubernetes v1.25 pkg/apis/core/validation/validation.go: ValidateService and its update.
"""

from __future__ import annotations

from typing import Any

from sim.api.go.printing import GoValue
from sim.api.kinds.common.pods.containers import PROTOCOLS, port_or_name
from sim.api.types import Obj
from sim.api.validation import text
from sim.api.validation.errors import (
    IMMUTABLE,
    Errors,
    among,
    checked,
    duplicate,
    forbidden,
    invalid,
    one_of,
    required,
    unsupported,
)
from sim.api.validation.metadata import labels, object_meta, object_meta_update
from sim.ident import NAMES

_TYPES = ("ClusterIP", "ExternalName", "LoadBalancer", "NodePort")

_FAMILIES = ("IPv4", "IPv6")

_POLICIES = ("PreferDualStack", "RequireDualStack", "SingleStack")

_KUBELET_PORT = 10250  # ports.KubeletPort

_AFFINITY_SECONDS_MAX = 86400

_RANGES_ANNOTATIONS = tuple(f"service.beta.{n.domain}/load-balancer-source-ranges" for n in NAMES.values())


def validate_service_create(obj: Obj, internal_policy: bool = True) -> Errors:
    """Errors of a new Service.  internal_policy: True if ServiceInternalTrafficPolicy is on"""
    errors = object_meta(obj["metadata"], True, text.label_1035)
    return errors + _service_errors(obj, obj.get("spec") or {}, internal_policy)


def mixed_protocol_errors(obj: Obj, old: Obj) -> Errors:
    """Errors of a load balancer's Service that begins to have ports of several protocols, while
    MixedProtocolLBService is off.
    """
    spec = obj.get("spec") or {}
    if spec.get("type") != "LoadBalancer" or not _mixes(spec) or _mixes(old.get("spec") or {}):
        return []
    detail = "may not contain more than 1 protocol when type is 'LoadBalancer'"
    return [invalid("spec.ports", GoValue("[]core.ServicePort", spec["ports"]), detail)]


def _mixes(spec: Obj) -> bool:
    return len({port.get("protocol") for port in spec.get("ports") or ()}) > 1


def _service_errors(obj: Obj, spec: Obj, internal_policy: bool) -> Errors:
    kind = spec.get("type", "")
    errors: Errors = []
    if not spec.get("ports") and not _is_headless(spec) and kind != "ExternalName":
        errors.append(required("spec.ports"))
    errors += _by_type(spec, kind)
    errors += _ports(spec.get("ports") or ())
    errors += labels(spec.get("selector"), "spec.selector")
    errors += _affinity(spec)
    errors += cluster_ip_errors(spec)
    for i, address in enumerate(spec.get("externalIPs") or ()):
        at = f"spec.externalIPs[{i}]"
        problems = text.ip(address) or text.non_special_ip(address)
        errors += [invalid(at, address, problem) for problem in problems]
    errors += one_of("spec.type", kind, _TYPES)
    errors += _node_ports(spec.get("ports") or (), kind) + _repeated_ports(spec.get("ports") or ())
    errors += _load_balancer(obj, spec, kind)
    return errors + _traffic(spec, kind, internal_policy)


def _by_type(spec: Obj, kind: str) -> Errors:
    errors: Errors = []
    if kind == "LoadBalancer":
        for i, port in enumerate(spec.get("ports") or ()):
            if port.get("port") == _KUBELET_PORT:
                detail = f"may not expose port {_KUBELET_PORT} externally since it is used by kubelet"
                errors.append(invalid(f"spec.ports[{i}]", _KUBELET_PORT, detail))
    if kind in ("LoadBalancer", "NodePort") and _is_headless(spec):
        errors.append(invalid("spec.clusterIPs[0]", "None", f"may not be set to 'None' for {kind} services"))
    if kind != "ExternalName":
        return errors
    for key in ("clusterIPs", "ipFamilies", "ipFamilyPolicy"):
        if spec.get(key) if key != "ipFamilyPolicy" else spec.get(key) is not None:
            errors.append(forbidden(f"spec.{key}", "may not be set for ExternalName services"))
    name = (spec.get("externalName") or "").removesuffix(".")
    if not name:
        return [*errors, required("spec.externalName")]
    return errors + checked("spec.externalName", name, text.subdomain)


def _is_headless(spec: Obj) -> bool:
    # A manifest of a scenario is validated before one field is set by the other.
    return (spec.get("clusterIPs") or [spec.get("clusterIP")]) == ["None"]


def _ports(ports: Any) -> Errors:
    errors: Errors = []
    names: dict[str, None] = {}
    for i, port in enumerate(ports):
        at = f"spec.ports[{i}]"
        name, protocol = port.get("name", ""), port.get("protocol", "")
        if not name:
            if len(ports) > 1:
                errors.append(required(f"{at}.name"))
        else:
            errors += checked(f"{at}.name", name, text.label)
            if name in names:
                errors.append(duplicate(f"{at}.name", name))
            names[name] = None
        errors += checked(f"{at}.port", port.get("port", 0), text.port_number)
        errors += one_of(f"{at}.protocol", protocol, PROTOCOLS)
        errors += port_or_name(port.get("targetPort"), f"{at}.targetPort")
        application = port.get("appProtocol")
        if application is not None:
            problems = text.qualified_name(application)
            errors += [invalid(f"{at}.appProtocol", application, problem) for problem in problems]
    return errors


def _repeated_ports(ports: Any) -> Errors:
    """Errors of repeated pairs of protocol and number."""
    errors: Errors = []
    seen: dict[tuple[Any, ...], None] = {}
    for i, port in enumerate(ports):
        key = (port.get("protocol", ""), port.get("port", 0))
        if key in seen:
            shown = GoValue("core.ServicePort", {"protocol": key[0], "port": key[1]})
            errors.append(duplicate(f"spec.ports[{i}]", shown))
        seen[key] = None
    return errors


def _node_ports(ports: Any, kind: str) -> Errors:
    errors: Errors = []
    if kind == "ClusterIP":
        for i, port in enumerate(ports):
            if port.get("nodePort"):
                detail = "may not be used when `type` is 'ClusterIP'"
                errors.append(forbidden(f"spec.ports[{i}].nodePort", detail))
    seen: dict[tuple[str, int], None] = {}
    for i, port in enumerate(ports):
        if not port.get("nodePort"):
            continue
        key = (port.get("protocol", ""), port["nodePort"])
        if key in seen:
            errors.append(duplicate(f"spec.ports[{i}].nodePort", port["nodePort"]))
        seen[key] = None
    return errors


def _affinity(spec: Obj) -> Errors:
    affinity, config = spec.get("sessionAffinity", ""), spec.get("sessionAffinityConfig")
    errors: Errors = []
    errors += one_of("spec.sessionAffinity", affinity, ("ClientIP", "None"))
    field = "spec.sessionAffinityConfig"
    if affinity == "ClientIP":
        client = None if config is None else config.get("clientIP")
        seconds = None if client is None else client.get("timeoutSeconds")
        if seconds is None:
            missing = "" if config is None else ".clientIP" if client is None else ".clientIP.timeoutSeconds"
            errors.append(required(field + missing, "when session affinity type is ClientIP"))
        elif not 0 < seconds <= _AFFINITY_SECONDS_MAX:
            detail = f"must be greater than 0 and less than {_AFFINITY_SECONDS_MAX}"
            errors.append(invalid(f"{field}.clientIP.timeoutSeconds", seconds, detail))
    elif affinity == "None" and config is not None:
        errors.append(forbidden(field, "must not be set when session affinity is None"))
    return errors


def cluster_ip_errors(spec: Obj) -> Errors:
    """Errors of clusterIPs, ipFamilies and ipFamilyPolicy, alone and together."""
    if spec.get("type") == "ExternalName":
        return []
    first, addresses = spec.get("clusterIP", ""), spec.get("clusterIPs") or []
    families, policy = spec.get("ipFamilies") or [], spec.get("ipFamilyPolicy")
    errors: Errors = []
    if first and not addresses:
        errors.append(required("spec.clusterIPs"))
    elif first and addresses[0] != first:
        errors.append(invalid("spec.clusterIPs", addresses, "first value must match `clusterIP`"))
    elif not first and addresses:
        errors.append(
            invalid("spec.clusterIPs", addresses, "must be empty when `clusterIP` is not specified")
        )
    for i, family in enumerate(families):
        if family not in _FAMILIES:
            errors.append(unsupported(f"spec.ipFamilies[{i}]", family, _FAMILIES))
        if family in families[:i]:
            errors.append(duplicate(f"spec.ipFamilies[{i}]", family))
    errors += among("spec.ipFamilyPolicy", policy, _POLICIES)
    bad = _address_errors(addresses)
    errors += bad
    if len(addresses) > 2:
        errors.append(invalid("spec.clusterIPs", addresses, "may only hold up to 2 values"))
    if bad or addresses == ["None"]:
        return errors
    if len(addresses) > 1 and len(dict.fromkeys(":" in address for address in addresses)) == 1:
        detail = "may specify no more than one IP for each IP family"
        errors.append(invalid("spec.clusterIPs", addresses, detail))
    for i, (address, family) in enumerate(zip(addresses, families, strict=False)):
        if family in _FAMILIES and (":" in address) != (family == "IPv6"):
            detail = f"expected an {family} value as indicated by `ipFamilies[{i}]`"
            errors.append(invalid(f"spec.clusterIPs[{i}]", address, detail))
    return errors


def _address_errors(addresses: list[str]) -> Errors:
    errors: Errors = []
    for i, address in enumerate(addresses):
        if i == 0 and address == "None":
            if len(addresses) > 1:
                detail = "'None' must be the first and only value"
                errors.append(invalid("spec.clusterIPs", addresses, detail))
            continue
        errors += checked(f"spec.clusterIPs[{i}]", address, text.ip)
    return errors


def _load_balancer(obj: Obj, spec: Obj, kind: str) -> Errors:
    errors: Errors = []
    annotations = obj["metadata"].get("annotations") or {}
    ranges = spec.get("loadBalancerSourceRanges")
    given = next((key for key in _RANGES_ANNOTATIONS if key in annotations), "")
    if ranges or given:
        # Quirk: this path starts with a capital.
        field = "spec.LoadBalancerSourceRanges" if ranges else f"metadata.annotations[{given}]"
        if kind != "LoadBalancer":
            errors.append(forbidden(field, _BALANCERS_ONLY))
        noted = annotations.get(given, "").strip()
        for item in ranges or (noted.split(",") if noted else ()):
            if not text.is_cidr(item.strip()):
                shown: Any = "[" + " ".join(ranges) + "]" if ranges else annotations[given]
                detail = "must be a list of IP ranges. For example, 10.240.0.0/24,10.250.0.0/24 "
                errors.append(invalid(field, shown, detail))
                break
    if kind != "LoadBalancer":
        if spec.get("allocateLoadBalancerNodePorts") is not None:
            errors.append(forbidden("spec.allocateLoadBalancerNodePorts", _BALANCERS_ONLY))
    elif spec.get("allocateLoadBalancerNodePorts") is None:
        errors.append(required("allocateLoadBalancerNodePorts"))
    return errors + _class_errors(spec)


_BALANCERS_ONLY = "may only be used when `type` is 'LoadBalancer'"


def _class_errors(spec: Obj) -> Errors:
    """Errors of the class of a load balancer (validateLoadBalancerClassField)."""
    name = spec.get("loadBalancerClass")
    if name is None:
        return []
    if spec.get("type") != "LoadBalancer":
        return [forbidden("spec.loadBalancerClass", _BALANCERS_ONLY)]
    return checked("spec.loadBalancerClass", name, text.qualified_name)


def _traffic(spec: Obj, kind: str, internal_policy: bool) -> Errors:
    errors: Errors = []
    policy = spec.get("externalTrafficPolicy") or ""
    if policy:
        if kind not in ("NodePort", "LoadBalancer"):
            detail = "may only be set when `type` is 'NodePort' or 'LoadBalancer'"
            errors.append(invalid("spec.externalTrafficPolicy", policy, detail))
        elif policy not in ("Cluster", "Local"):
            errors.append(unsupported("spec.externalTrafficPolicy", policy, ("Cluster", "Local")))
    elif kind in ("NodePort", "LoadBalancer"):
        errors.append(required("spec.externalTrafficPolicy"))
    check = spec.get("healthCheckNodePort", 0)
    if not (kind == "LoadBalancer" and policy == "Local"):
        if check:
            detail = "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'"
            errors.append(invalid("spec.healthCheckNodePort", check, detail))
    elif not check:
        errors.append(required("spec.healthCheckNodePort"))
    else:
        errors += checked("spec.healthCheckNodePort", check, text.port_number)
    internal = spec.get("internalTrafficPolicy")
    if internal is None:
        if internal_policy and kind in ("NodePort", "LoadBalancer", "ClusterIP"):
            errors.append(required("spec.internalTrafficPolicy"))
    elif internal not in ("Cluster", "Local"):
        errors.append(unsupported("spec.internalTrafficPolicy", internal, ("Cluster", "Local")))
    return errors


def validate_service_update(new: Obj, old: Obj, internal_policy: bool = True) -> Errors:
    """Errors of a changed Service; `internal_policy` as for a new one."""
    errors = object_meta_update(new["metadata"], old["metadata"])
    spec, before = new.get("spec") or {}, old.get("spec") or {}
    if spec is before and new["metadata"] is old["metadata"]:
        return errors
    errors += _addresses_update(spec, before)
    if before.get("type") == spec.get("type") == "LoadBalancer":
        name = spec.get("loadBalancerClass")
        if name != before.get("loadBalancerClass"):
            errors.append(invalid("spec.loadBalancerClass", name, "may not change once set"))
    errors += _class_errors(spec)  # Quirk: the rules of a new Service find the same error again.
    port, had = spec.get("healthCheckNodePort", 0), before.get("healthCheckNodePort", 0)
    was_local = before.get("type") == "LoadBalancer" and before.get("externalTrafficPolicy") == "Local"
    is_local = spec.get("type") == "LoadBalancer" and spec.get("externalTrafficPolicy") == "Local"
    if was_local and is_local and port != had:
        errors.append(forbidden("spec.healthCheckNodePort", IMMUTABLE))
    return errors + validate_service_create(new, internal_policy)


def _addresses_update(spec: Obj, before: Obj) -> Errors:
    """Errors of changed addresses and families; a second one may be added or removed."""
    if "ExternalName" in (spec.get("type"), before.get("type")):
        return []
    headless = _is_headless(spec), _is_headless(before)
    if all(headless):
        return []
    new, old = spec.get("clusterIPs") or [], before.get("clusterIPs") or []
    errors = _changed(new, old, "clusterIPs", new, spec)
    if headless[0] != headless[1]:
        return errors
    return errors + _changed(
        spec.get("ipFamilies") or [], before.get("ipFamilies") or [], "ipFamilies", new, spec
    )


def _changed(new: list[str], old: list[str], name: str, addresses: list[str], spec: Obj) -> Errors:
    """Errors of a list with a fixed first value.

    Quirk: an error about families that grow or shrink shows the addresses.
    """
    at, fixed, errors = f"spec.{name}", "may not change once set", []
    families = name == "ipFamilies"
    if len(new) == len(old):
        return [
            invalid(f"{at}[{0 if families else i}]", _shown_list(new, families), fixed)
            for i, (value, was) in enumerate(zip(new, old, strict=True))
            if value != was
        ]
    if len(new) < len(old) and not addresses:
        what = "primary ipFamily" if families else "primary clusterIP"
        errors.append(invalid(f"{at}[0]", _shown_list(new, families), f"{what} can not be unset"))
    if new and old and new[0] != old[0]:
        errors.append(invalid(f"{at}[0]", addresses, fixed))
    if len(new) == 1 < len(old) and spec.get("ipFamilyPolicy") != "SingleStack":
        what = "ipFamily" if families else "clusterIP"
        detail = f"must be set to 'SingleStack' when releasing the secondary {what}"
        errors.append(invalid("spec.ipFamilyPolicy", spec.get("ipFamilyPolicy"), detail))
    return errors


def _shown_list(values: list[str], families: bool) -> GoValue:
    return GoValue("[]core.IPFamily" if families else "[]string", values or None)
