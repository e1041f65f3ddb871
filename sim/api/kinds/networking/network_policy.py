"""NetworkPolicies.

Mirrors  kubernetes v1.25 pkg/registry/networking/networkpolicy/strategy.go,
         pkg/apis/networking/validation/validation.go: ValidateNetworkPolicy;
         pkg/apis/networking/v1/defaults.go.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Collection
from typing import Any

from sim.api.go.printing import GoValue
from sim.api.kinds.common.cells import AGE, NAME, age
from sim.api.kinds.common.conditions import condition_errors
from sim.api.kinds.common.fill import all_of, present, within
from sim.api.kinds.common.pods.containers import PROTOCOLS, port_or_name
from sim.api.kinds.common.pods.defaults import TCP
from sim.api.objects import get_in, name_of, with_field
from sim.api.schema.kind import NOTHING, STATUS, Cells, Kind, Row, Strategy
from sim.api.selectors import format_selector
from sim.api.types import Obj
from sim.api.validation import text
from sim.api.validation.errors import Errors, checked, forbidden, invalid, required, unsupported
from sim.api.validation.metadata import label_selector, object_meta, object_meta_update
from sim.ident import Names
from sim.options.features.gates import POLICY_STATUS, is_on
from sim.pauses import paced


def _fill_defaults(obj: Obj) -> Obj:
    def rule(value: Obj) -> Obj:
        return all_of(value, "ports", lambda port: present(port, TCP))

    def spec(value: Obj) -> Obj:
        value = present(all_of(all_of(value, "ingress", rule), "egress", rule), {"podSelector": {}})
        types = ["Ingress", "Egress"] if value.get("egress") else ["Ingress"]
        return value if value.get("policyTypes") else {**value, "policyTypes": types}

    return within(present(obj, {"spec": {}, "status": {}}), "spec", spec)


# --- validation -----------------------------------------------------------------------------------

POLICY_TYPES = ("Ingress", "Egress")


def _validate_create(obj: Obj) -> Errors:
    return object_meta(obj["metadata"], True, text.subdomain) + _spec_errors(obj.get("spec") or {})


def _validate_update(new: Obj, old: Obj) -> Errors:
    """Quirk: the strategy checks the object itself too, so errors about it are listed twice."""
    errors = _validate_create(new) + object_meta_update(new["metadata"], old["metadata"])
    return errors + _spec_errors(new.get("spec") or {})


PEER_US = 25  # of processor time, for one peer


def _spec_errors(spec: Obj) -> Errors:
    errors = label_selector(spec.get("podSelector"), "spec.podSelector")
    for field, peers in (("ingress", "from"), ("egress", "to")):
        for i, rule in enumerate(spec.get(field) or ()):
            at = f"spec.{field}[{i}]"
            for j, port in enumerate(rule.get("ports") or ()):
                errors += _port_errors(port, f"{at}.ports[{j}]")
            for j, peer in enumerate(paced(rule.get(peers) or (), PEER_US)):
                errors += _peer_errors(peer, f"{at}.{peers}[{j}]")
    types = spec.get("policyTypes") or ()
    if len(types) > len(POLICY_TYPES):
        shown = GoValue("[]networking.PolicyType", types)
        errors.append(invalid("spec.policyTypes", shown, "may not specify more than two policyTypes"))
        return errors
    for i, each in enumerate(types):
        if each not in POLICY_TYPES:
            errors.append(unsupported(f"spec.policyTypes[{i}]", each, POLICY_TYPES))
    return errors


def _port_errors(port: Obj, at: str) -> Errors:
    errors: Errors = []
    protocol, number, end = port.get("protocol"), port.get("port"), port.get("endPort")
    if protocol is not None and protocol not in PROTOCOLS:
        errors.append(unsupported(f"{at}.protocol", protocol, ("TCP", "UDP", "SCTP")))
    where = f"{at}.endPort"
    if number is None:
        if end is not None:
            errors.append(invalid(where, end, "may not be specified when `port` is not specified"))
        return errors
    if isinstance(number, str):
        if end is not None:
            errors.append(invalid(where, end, "may not be specified when `port` is non-numeric"))
        return errors + port_or_name(number, f"{at}.port")
    errors += port_or_name(number, f"{at}.port")
    if end is not None:
        if end < number:
            errors.append(invalid(where, number, "must be greater than or equal to `port`"))
        errors += checked(where, end, text.port_number)
    return errors


def _peer_errors(peer: Obj, at: str) -> Errors:
    errors: Errors = []
    given = [key for key in ("podSelector", "namespaceSelector", "ipBlock") if peer.get(key) is not None]
    for key in ("podSelector", "namespaceSelector"):
        errors += label_selector(peer.get(key), f"{at}.{key}")
    if "ipBlock" in given:
        errors += _block_errors(peer["ipBlock"], f"{at}.ipBlock")
    if not given:
        errors.append(required(at, "must specify a peer"))
    elif len(given) > 1 and "ipBlock" in given:
        errors.append(forbidden(at, "may not specify both ipBlock and another peer"))
    return errors


def _block_errors(block: Obj, at: str) -> Errors:
    cidr = block.get("cidr") or ""
    if not cidr:
        return [required(f"{at}.cidr")]
    if not text.is_cidr(cidr):
        return [invalid(f"{at}.cidr", cidr, "not a valid CIDR")]
    errors: Errors = []
    whole = _network(cidr)
    for i, each in enumerate(block.get("except") or ()):
        where = f"{at}.except[{i}]"
        if not text.is_cidr(each):
            errors.append(invalid(where, each, "not a valid CIDR"))
            return errors  # Quirk: the ones after it are not checked
        part = _network(each)
        address = ipaddress.ip_address(each.partition("/")[0])
        if address.version != whole.version or address not in whole or whole.prefixlen >= part.prefixlen:
            errors.append(invalid(where, each, "must be a strict subset of `cidr`"))
    return errors


def _network(cidr: str) -> ipaddress.IPv4Network | ipaddress.IPv6Network:
    return ipaddress.ip_network(cidr, strict=False)


# --- table ----------------------------------------------------------------------------------------


def _cells(obj: Obj, now_us: int, _: Names) -> Cells:
    return [name_of(obj), format_selector(get_in(obj, ("spec", "podSelector"))), age(obj, now_us)]


def _with_status(obj: Obj, _: Names) -> Obj:
    """The policy with a status, which may be empty."""
    return obj if obj.get("status") else with_field(obj, "status", NOTHING)


def _with_status_on_update(new: Obj, _old: Obj, names: Names) -> Obj:
    return _with_status(new, names)


def _validate_status(new: Obj, _: Obj) -> Errors:
    return condition_errors(_conditions(new) or (), "status.conditions")


def _keep_status(new: Obj, old: Obj, _: Names, gates: Collection[str]) -> Obj:
    """The policy with the stored status.

    Quirk: while the feature is off, a status is taken from a main write unless one is stored.
    """
    if not is_on(gates, POLICY_STATUS) and not _conditions(old):
        return new
    return with_field(new, "status", old.get("status"))


def _drop_status(new: Obj, old: Obj, _: Names, gates: Collection[str]) -> Obj:
    """A write to /status can only empty the status while the feature is off."""
    if is_on(gates, POLICY_STATUS):
        return new
    return with_field(new, "status", old.get("status") if _conditions(new) else NOTHING)


def _conditions(obj: Obj) -> Any:
    return get_in(obj, ("status", "conditions"))


KIND = Kind(
    rows=(Row("networking", "v1", "networkpolicies", "NetworkPolicy", short=("netpol",), subs=(STATUS,)),),
    strategy=Strategy(
        generation="spec",
        reflected="spec",
        prepare_create=_with_status,
        prepare_update=_with_status_on_update,
        prepare_status=_with_status_on_update,
    ),
    drop_disabled=_keep_status,
    drop_disabled_status=_drop_status,
    defaults=_fill_defaults,
    validate_create=_validate_create,
    validate_update={"": _validate_update, "status": _validate_status},
    columns=(NAME, "Pod-Selector=spec.podSelector", AGE),
    cells=_cells,
    errors_in="extensions",  # the group in which the kind was introduced
)
