"""EndpointSlices.

Mirrors  kubernetes v1.25 pkg/apis/discovery/validation/validation.go,
         pkg/apis/discovery/v1/defaults.go, pkg/registry/discovery/endpointslice/strategy.go.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

from sim.api.kinds.common.cells import AGE, NAME, age, cut_list
from sim.api.kinds.common.endpoints import identities, protocol_errors
from sim.api.kinds.common.fill import all_of, present
from sim.api.kinds.common.pods.defaults import TCP
from sim.api.objects import name_of, with_field, with_metadata
from sim.api.schema.kind import NOTHING, Cells, Kind, Row, Strategy
from sim.api.types import Obj
from sim.api.validation import text
from sim.api.validation.errors import (
    Errors,
    checked,
    duplicate,
    immutable,
    invalid,
    one_of,
    required,
    too_many,
)
from sim.api.validation.metadata import object_meta
from sim.ident import Names
from sim.options.features.gates import TERMINATING_CONDITION, TOPOLOGY_HINTS, is_on


def _fill_defaults(obj: Obj) -> Obj:
    def port(value: Obj) -> Obj:
        return present(value, {"name": "", **TCP})

    def endpoint(value: Obj) -> Obj:
        return present(value, {"conditions": {}})

    obj = present(obj, {"endpoints": None, "ports": None})
    return all_of(all_of(obj, "ports", port), "endpoints", endpoint)


def _prepare(obj: Obj, _: Names) -> Obj:
    """The slice in its stored form: without deprecatedTopology, a field of the older version that
    this one does not write.
    """
    for key in ("endpoints", "ports"):
        if obj.get(key) == []:  # an empty list is stored as null; its writer owns it all the same
            obj = {**obj, key: None}
    points = obj.get("endpoints") or ()
    if not any("deprecatedTopology" in point for point in points):
        return obj
    return {**obj, "endpoints": [with_field(point, "deprecatedTopology", None) for point in points]}


# --- validation -----------------------------------------------------------------------------------

_ENDPOINTS_MAX, _ADDRESSES_MAX, _PORTS_MAX, _HINTS_MAX = 1000, 100, 20000, 8

_ADDRESS_TYPES = ("FQDN", "IPv4", "IPv6")


def _validate_create(obj: Obj) -> Errors:
    return object_meta(obj["metadata"], True, text.subdomain) + _slice_errors(obj)


def _validate_update(new: Obj, old: Obj) -> Errors:
    errors = object_meta(new["metadata"], True, text.subdomain)
    same_type = new.get("addressType") == old.get("addressType")
    changed = any(new.get(field) is not old.get(field) for field in ("endpoints", "ports"))
    if changed or not same_type:
        errors += _slice_errors(new, identities(old.get("endpoints") or ()) if same_type else frozenset())
    return errors + immutable("addressType", new.get("addressType"), old.get("addressType"))


def _slice_errors(obj: Obj, valid: frozenset[int] = frozenset()) -> Errors:
    kind = obj.get("addressType", "")
    errors: Errors = []
    errors += one_of("addressType", kind, _ADDRESS_TYPES)
    errors += _endpoint_errors(obj.get("endpoints") or (), kind, valid)
    return errors + _port_errors(obj.get("ports") or ())


def _endpoint_errors(given: Any, kind: str, valid: frozenset[int]) -> Errors:
    if len(given) > _ENDPOINTS_MAX:
        return [too_many("endpoints", len(given), _ENDPOINTS_MAX)]
    errors: Errors = []
    for i, endpoint in enumerate(given):
        if id(endpoint) in valid:
            continue
        at = f"endpoints[{i}]"
        addresses = endpoint.get("addresses") or ()
        if not addresses:
            errors.append(required(f"{at}.addresses", "must contain at least 1 address"))
        elif len(addresses) > _ADDRESSES_MAX:
            errors.append(too_many(f"{at}.addresses", len(addresses), _ADDRESSES_MAX))
        for j, address in enumerate(addresses):
            errors += _address_errors(address, kind, f"{at}.addresses[{j}]")
        errors += checked(f"{at}.nodeName", endpoint.get("nodeName"), text.subdomain)
        errors += checked(f"{at}.hostname", endpoint.get("hostname"), text.label)
        errors += _hint_errors((endpoint.get("hints") or {}).get("forZones") or (), f"{at}.hints.forZones")
    return errors


def _address_errors(address: str, kind: str, at: str) -> Errors:
    if kind == "FQDN":
        if not address:
            return [required(at)]
        errors = [invalid(at, address, problem) for problem in text.subdomain(address.removesuffix("."))]
        if not errors and "." not in address.removesuffix("."):
            detail = "should be a domain with at least two segments separated by dots"
            errors.append(invalid(at, address, detail))
        return errors
    if kind not in ("IPv4", "IPv6"):
        return []
    parsed = text.parse_ip(address)
    if parsed is None or text.is_version_4(parsed) != (kind == "IPv4"):
        problems = ["must be a valid IP address"] if parsed is None else text.non_special_ip(address)
        return [invalid(at, address, p) for p in (f"must be a valid {kind} address", *problems)]
    return checked(at, address, text.non_special_ip)


def _hint_errors(zones: Any, field: str) -> Errors:
    if len(zones) > _HINTS_MAX:
        return [too_many(field, len(zones), _HINTS_MAX)]
    errors: Errors = []
    seen: dict[str, None] = {}
    for i, zone in enumerate(zones):
        at, name = f"{field}[{i}].name", zone.get("name", "")
        if name in seen:
            errors.append(duplicate(at, name))
        seen[name] = None
        errors += checked(at, name, text.label_value)
    return errors


def _port_errors(given: Any) -> Errors:
    if len(given) > _PORTS_MAX:
        return [too_many("ports", len(given), _PORTS_MAX)]
    errors: Errors = []
    names: dict[str, None] = {}
    for i, port in enumerate(given):
        at, name = f"ports[{i}]", port.get("name") or ""
        errors += checked(f"{at}.name", name or None, text.label)
        if name in names:
            errors.append(duplicate(f"{at}.name", name))
        names[name] = None
        errors += protocol_errors(port, at)
    return errors


# --- table ----------------------------------------------------------------------------------------


def _cells(obj: Obj, now_us: int, _: Names) -> Cells:
    ports = [
        str(p["port"]) if p.get("port") is not None else p.get("name", "*") for p in obj.get("ports") or ()
    ]
    addresses = [a for e in obj.get("endpoints") or () for a in e.get("addresses") or ()]
    shown = [cut_list(ports, 3) or "<unset>", cut_list(addresses, 3) or "<unset>"]
    return [name_of(obj), obj.get("addressType", ""), *shown, age(obj, now_us)]


def _drop_disabled(new: Obj, old: Obj, _: Names, gates: Collection[str]) -> Obj:
    """The slice without conditions of terminating endpoints, or without hints, where their feature
    is off and the stored slice has none.
    """
    points, had = new.get("endpoints") or (), old.get("endpoints") or ()
    conditions = () if is_on(gates, TERMINATING_CONDITION) else _unused(had, ("serving", "terminating"))
    drops_hints = not is_on(gates, TOPOLOGY_HINTS) and all(point.get("hints") is None for point in had)
    if not points or not (conditions or drops_hints):
        return new
    kept = []
    for point in points:
        left = {k: v for k, v in (point.get("conditions") or NOTHING).items() if k not in conditions}
        point = {**point, "conditions": left}
        kept.append(with_field(point, "hints", None) if drops_hints else point)
    return {**new, "endpoints": kept}


def _unused(points: Iterable[Obj], conditions: tuple[str, ...]) -> tuple[str, ...]:
    """The conditions, if no endpoint has any of them; none otherwise."""
    found = (point.get("conditions") or NOTHING for point in points)
    return () if any(each.get(name) is not None for each in found for name in conditions) else conditions


def _prepare_update(new: Obj, old: Obj, names: Names) -> Obj:
    """Quirk: the generation counts topology that is dropped afterwards."""
    if any(point.get("deprecatedTopology") for point in new.get("endpoints") or ()):
        new = with_metadata(new, generation=old["metadata"].get("generation", 0) + 1)
    return _prepare(new, names)


KIND = Kind(
    rows=(Row("discovery", "v1", "endpointslices", "EndpointSlice", stored_version="v1beta1"),),
    strategy=Strategy(generation="all", prepare_create=_prepare, prepare_update=_prepare_update),
    defaults=_fill_defaults,
    drop_disabled=_drop_disabled,
    validate_create=_validate_create,
    validate_update={"": _validate_update},
    columns=(NAME, "AddressType=addressType", "Ports=ports", "Endpoints=endpoints", AGE),
    cells=_cells,
)
