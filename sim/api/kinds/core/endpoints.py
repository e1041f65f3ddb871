"""Endpoints.

Mirrors  kubernetes v1.25 pkg/apis/core/validation/validation.go: ValidateEndpoints;
         pkg/apis/core/v1/defaults.go.
"""

from __future__ import annotations

from typing import Any

from sim.api.kinds.common.cells import AGE, NAME, age, cut_list, or_none
from sim.api.kinds.common.endpoints import identities, protocol_errors
from sim.api.kinds.common.fill import all_of, fill
from sim.api.kinds.common.pods.defaults import TCP
from sim.api.objects import name_of
from sim.api.schema.kind import Cells, Kind, Row, Strategy
from sim.api.types import Obj
from sim.api.validation import text
from sim.api.validation.errors import Errors, checked, required
from sim.api.validation.metadata import object_meta, object_meta_update
from sim.ident import Names

_ADDRESSES = ("addresses", "notReadyAddresses")


def _fill_defaults(obj: Obj) -> Obj:
    def subset(value: Obj) -> Obj:
        return all_of(value, "ports", lambda port: fill(port, TCP))

    return all_of(obj, "subsets", subset)


def _validate_create(obj: Obj) -> Errors:
    return object_meta(obj["metadata"], True, text.subdomain) + _subsets(obj.get("subsets"))


def _validate_update(new: Obj, old: Obj) -> Errors:
    """Quirk: the metadata is checked twice, so most errors about it are listed twice."""
    errors = object_meta_update(new["metadata"], old["metadata"])
    if new["metadata"] is not old["metadata"]:
        errors += object_meta(new["metadata"], True, text.subdomain)
    if new.get("subsets") is not old.get("subsets"):
        known = [subset.get(kind) or () for subset in old.get("subsets") or () for kind in _ADDRESSES]
        errors += _subsets(new.get("subsets"), identities(*known))
    return errors


def _subsets(subsets: Any, valid: frozenset[int] = frozenset()) -> Errors:
    """Errors of subsets.

    valid: identities of addresses that need no check
    """
    errors: Errors = []
    for i, subset in enumerate(subsets or ()):
        at = f"subsets[{i}]"
        if not subset.get("addresses") and not subset.get("notReadyAddresses"):
            errors.append(required(at, "must specify `addresses` or `notReadyAddresses`"))
        for kind in _ADDRESSES:
            for j, address in enumerate(subset.get(kind) or ()):
                if id(address) not in valid:
                    errors += _address(address, f"{at}.{kind}[{j}]")
        ports = subset.get("ports") or ()
        for j, port in enumerate(ports):
            errors += _port(port, f"{at}.ports[{j}]", len(ports) > 1)
    return errors


def _address(address: Obj, at: str) -> Errors:
    value = address.get("ip", "")
    errors = checked(f"{at}.ip", value, text.ip)
    if address.get("hostname"):
        errors += checked(f"{at}.hostname", address["hostname"], text.label)
    errors += checked(f"{at}.nodeName", address.get("nodeName"), text.subdomain)
    return errors + checked(f"{at}.ip", value, text.non_special_ip)


def _port(port: Obj, at: str, named: bool) -> Errors:
    name, number = port.get("name", ""), port.get("port", 0)
    errors: Errors = []
    if named and not name:
        errors.append(required(f"{at}.name"))
    elif name:
        errors += checked(f"{at}.name", name, text.label)
    errors += checked(f"{at}.port", number, text.port_number)
    errors += protocol_errors(port, at)
    return errors


def _cells(obj: Obj, now_us: int, _: Names) -> Cells:
    found: list[str] = []
    for subset in obj.get("subsets") or ():
        addresses = [a["ip"] for a in subset.get("addresses") or ()]
        ports = subset.get("ports") or ()
        found += [f"{a}:{p['port']}" for p in ports for a in addresses] if ports else addresses
    return [name_of(obj), or_none(cut_list(found, 3)), age(obj, now_us)]


KIND = Kind(
    rows=(Row("", "v1", "endpoints", "Endpoints", short=("ep",)),),
    strategy=Strategy(create_by_put=True),
    defaults=_fill_defaults,
    validate_create=_validate_create,
    validate_update={"": _validate_update},
    columns=(NAME, "Endpoints=subsets", AGE),
    cells=_cells,
)
