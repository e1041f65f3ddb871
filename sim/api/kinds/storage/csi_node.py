"""CSINodes: the drivers on a node.

Mirrors  kubernetes v1.25 pkg/registry/storage/csinode/strategy.go,
         pkg/apis/storage/validation/validation.go: ValidateCSINode and its update;
         pkg/printers/internalversion/printers.go: printCSINode.
"""

from __future__ import annotations

from sim.api.go.printing import GoValue
from sim.api.kinds.common.cells import AGE, NAME, age
from sim.api.kinds.common.fill import all_of, present, within
from sim.api.kinds.common.pods.volumes import csi_driver_errors
from sim.api.objects import get_in, name_of
from sim.api.schema.kind import Cells, Deletion, Kind, Row, Strategy
from sim.api.types import Json, Obj
from sim.api.validation import text
from sim.api.validation.errors import Errors, at_least_zero, checked, duplicate, immutable, invalid, required
from sim.api.validation.metadata import object_meta
from sim.ident import Names


def _fill_driver(driver: Obj) -> Obj:
    return present(driver, {"topologyKeys": None})


def _fill_spec(spec: Obj) -> Obj:
    return all_of(present(spec, {"drivers": None}), "drivers", _fill_driver)


def _fill_defaults(obj: Obj) -> Obj:
    """The object with its lists, which upstream's encoding always writes."""
    return within(present(obj, {"spec": {}}), "spec", _fill_spec)


# --- validation -----------------------------------------------------------------------------------

NODE_ID_MAX = 256  # validation.go: csiNodeIDLongerMaxLength


def _validate_create(obj: Obj) -> Errors:
    return object_meta(obj["metadata"], False, text.subdomain) + _driver_list_errors(obj)


def _driver_list_errors(obj: Obj) -> Errors:
    errors: Errors = []
    met: dict[str, None] = {}
    for i, driver in enumerate(obj["spec"].get("drivers") or ()):
        at, name = f"spec.drivers[{i}]", driver.get("name") or ""
        errors += _driver_errors(driver, name, at)
        if name in met:
            errors.append(duplicate(f"{at}.name", name))
        met[name] = None
        errors += _key_errors(driver.get("topologyKeys") or (), at)
    return errors


def _driver_errors(driver: Obj, name: str, at: str) -> Errors:
    errors = csi_driver_errors(name, f"{at}.name")
    node = driver.get("nodeID") or ""
    if not node:
        errors.append(required(f"{at}.nodeID"))
    if len(node.encode()) > NODE_ID_MAX:
        errors.append(invalid(f"{at}.nodeID", node, f"must be {NODE_ID_MAX} characters or less"))
    return errors + at_least_zero(f"{at}.allocatable.count", get_in(driver, ("allocatable", "count")))


def _key_errors(keys: Json, at: str) -> Errors:
    """Quirk: errors of keys name the driver, not the key."""
    errors: Errors = []
    for i, key in enumerate(keys):
        if not key:
            errors.append(required(at))
        if key in keys[:i]:
            errors.append(duplicate(at, key))
        errors += checked(at, key, text.qualified_name)
    return errors


def _validate_update(new: Obj, old: Obj) -> Errors:
    """Quirk: the strategy checks the object twice, so its errors are listed twice."""
    errors = _validate_create(new) * 2
    for before in old["spec"].get("drivers") or ():
        for driver in new["spec"].get("drivers") or ():
            if driver.get("name") == before.get("name"):
                errors += immutable(
                    "CSINodeDriver", _plain(driver), _plain(before), GoValue("storage.CSINodeDriver", driver)
                )
    return errors


def _plain(driver: Obj) -> Obj:
    """A driver without its empty keys, which equal absent ones."""
    return {key: value for key, value in driver.items() if key != "topologyKeys" or value}


def _prepare(obj: Obj) -> Obj:
    """Empty lists are stored as null; their writer owns them all the same."""
    drivers = obj["spec"].get("drivers")
    if drivers == []:
        return {**obj, "spec": {**obj["spec"], "drivers": None}}
    return within(obj, "spec", lambda spec: all_of(spec, "drivers", _prepare_driver))


def _prepare_driver(driver: Obj) -> Obj:
    return {**driver, "topologyKeys": None} if driver.get("topologyKeys") == [] else driver


# --- table ----------------------------------------------------------------------------------------


def _cells(obj: Obj, now_us: int, _: Names) -> Cells:
    return [name_of(obj), len(get_in(obj, ("spec", "drivers")) or ()), age(obj, now_us)]


KIND = Kind(
    rows=(Row("storage", "v1", "csinodes", "CSINode", namespaced=False),),
    deletion=Deletion(returns_object=True),
    strategy=Strategy(
        unconditional=False,
        prepare_create=lambda obj, _names: _prepare(obj),
        prepare_update=lambda new, _old, _names: _prepare(new),
    ),
    defaults=_fill_defaults,
    validate_create=_validate_create,
    validate_update={"": _validate_update},
    columns=(NAME, "Drivers:integer", AGE),
    cells=_cells,
)
