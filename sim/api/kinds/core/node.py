"""Nodes.

Mirrors  kubernetes v1.25 pkg/apis/core/validation/validation.go: ValidateNode, ValidateNodeUpdate;
         pkg/apis/core/v1/defaults.go; pkg/printers/internalversion/printers.go: printNode.
"""

from __future__ import annotations

from collections.abc import Collection

from sim.api.kinds.common import text
from sim.api.kinds.common.cells import AGE, NAME, age, or_none
from sim.api.kinds.common.errors import Errors, Shown, duplicate, forbidden, invalid
from sim.api.kinds.common.fill import amounts, present, within
from sim.api.kinds.common.metadata import object_meta, object_meta_update
from sim.api.kinds.common.status import HEARTBEAT_TIMES, fill_conditions
from sim.api.kinds.common.taints import taint_errors
from sim.api.kinds.kind import STATUS, Cells, Kind, Row, Strategy, Sub
from sim.api.memo import Remembered
from sim.api.objects import condition_status, get_in, labels_of, name_of, remove_in
from sim.api.schema.json_text import go_quote
from sim.api.types import Obj
from sim.ident import Names
from sim.options.gates import NODE_CONFIG, is_on
from sim.units import quantity_nano, quantity_text

# --- defaults -------------------------------------------------------------------------------------

_NODE_INFO = (
    "machineID",
    "systemUUID",
    "bootID",
    "kernelVersion",
    "osImage",
    "containerRuntimeVersion",
    "kubeletVersion",
    "kubeProxyVersion",
    "operatingSystem",
    "architecture",
)

_node_amounts = Remembered(amounts)


def _fill_defaults(obj: Obj) -> Obj:
    def status(value: Obj) -> Obj:
        value = fill_conditions(within(value, "capacity", _node_amounts), HEARTBEAT_TIMES)
        if value.get("capacity") and not value.get("allocatable"):
            value = {**value, "allocatable": value["capacity"]}
        return present(
            within(value, "allocatable", _node_amounts),
            {"daemonEndpoints": {"kubeletEndpoint": {"Port": 0}}, "nodeInfo": dict.fromkeys(_NODE_INFO, "")},
        )

    def spec(value: Obj) -> Obj:
        one, listed = value.get("podCIDR"), value.get("podCIDRs")
        if one and (not listed or listed[0] != one):
            return {**value, "podCIDRs": [one]}
        return {**value, "podCIDR": listed[0]} if listed and not one else value

    return within(within(present(obj, {"spec": {}, "status": {}}), "spec", spec), "status", status)


# --- validation -----------------------------------------------------------------------------------


def _validate_create(obj: Obj) -> Errors:
    errors = object_meta(obj["metadata"], False, text.subdomain)
    spec = obj.get("spec") or {}
    # Quirk: taints are reported below the metadata.
    errors += taint_errors(spec.get("taints"), "metadata.taints")
    return errors + _status_errors(obj.get("status") or {}, {}) + _pod_cidrs(spec)


def _pod_cidrs(spec: Obj) -> Errors:
    given = spec.get("podCIDRs") or ()
    errors = [
        invalid(f"spec.podCIDRs[{i}]", list(given), "must be valid CIDR")
        for i, cidr in enumerate(given)
        if not text.is_cidr(cidr)
    ]
    families = [":" in cidr for cidr in given]
    if len(given) > 2 or (len(given) == 2 and families[0] == families[1]):
        detail = "may specify no more than one CIDR for each IP family"
        errors.append(invalid("spec.podCIDRs", list(given), detail))
    return errors


def _validate_update(new: Obj, old: Obj) -> Errors:
    """Errors of a changed node.  Upstream has one rule for spec and status."""
    errors = object_meta_update(new["metadata"], old["metadata"])
    spec, before = new.get("spec") or {}, old.get("spec") or {}
    status, was = new.get("status") or {}, old.get("status") or {}
    if status is not was:
        errors += _status_errors(status, was)
    if spec is not before:
        errors += _pod_cidrs(spec)
        if before.get("podCIDRs") and spec.get("podCIDRs") != before["podCIDRs"]:
            detail = 'node updates may not change podCIDR except from "" to valid'
            errors.append(forbidden("spec.podCIDRs", detail))
        if before.get("providerID") and spec.get("providerID") != before["providerID"]:
            detail = 'node updates may not change providerID except from "" to valid'
            errors.append(forbidden("spec.providerID", detail))
        if spec.get("taints") is not before.get("taints"):
            errors += taint_errors(spec.get("taints"), "metadata.taints")
    return errors


def _status_errors(status: Obj, was: Obj) -> Errors:
    errors: Errors = []
    given = status.get("addresses")
    if given is not was.get("addresses"):
        seen: dict[tuple[str, str], None] = {}
        for i, address in enumerate(given or ()):
            named = address.get("type", ""), address.get("address", "")
            if named in seen:
                kind, value = map(go_quote, named)
                shown = Shown(f"core.NodeAddress{{Type:{kind}, Address:{value}}}")
                errors.append(duplicate(f"status.addresses[{i}]", shown))
            seen[named] = None
    for key in ("capacity", "allocatable"):
        if status.get(key) is was.get(key):
            continue
        for name, value in (status.get(key) or {}).items():
            at = f"status.{key}.{name}"
            errors += [invalid(at, name, problem) for problem in text.qualified_name(name)]
            if quantity_nano(value) < 0:
                errors.append(invalid(at, quantity_text(value), "must be greater than or equal to 0"))
    return errors


# --- strategy -------------------------------------------------------------------------------------

_SOURCE, _CONFIG = ("spec", "configSource"), ("status", "config")


def _drop_disabled(new: Obj, old: Obj, _: Names, gates: Collection[str]) -> Obj:
    """Drop the configuration that an agent takes from the API, a feature that is off."""
    if is_on(gates, NODE_CONFIG):
        return new
    new = _dropped(new, old, _SOURCE)
    return new if old else _dropped(new, old, _CONFIG)


def _drop_disabled_status(new: Obj, old: Obj, _: Names, gates: Collection[str]) -> Obj:
    return new if is_on(gates, NODE_CONFIG) else _dropped(new, old, _CONFIG)


def _dropped(new: Obj, old: Obj, path: tuple[str, str]) -> Obj:
    is_unused = get_in(new, path) is not None and get_in(old, path) is None
    return remove_in(new, path) if is_unused else new


def _warnings(obj: Obj, _: Names) -> tuple[str, ...]:
    if get_in(obj, _SOURCE) is None:
        return ()
    return ("spec.configSource: deprecated in v1.22, support removal is planned in v1.23",)


# --- table ----------------------------------------------------------------------------------------


def _cells(obj: Obj, now_us: int, names: Names) -> Cells:
    ready = {"True": "Ready", "": "Unknown"}.get(condition_status(obj, "Ready"), "NotReady")
    if get_in(obj, ("spec", "unschedulable")):
        ready += ",SchedulingDisabled"
    roles = set()
    for label, value in labels_of(obj).items():
        if label.startswith(names.label_node_role_prefix):
            roles.add(label.removeprefix(names.label_node_role_prefix))
        elif label == names.label_role and value:
            roles.add(value)
    info = get_in(obj, ("status", "nodeInfo"), {})

    def address(type: str) -> str:
        found = get_in(obj, ("status", "addresses"), [])
        return next((str(a["address"]) for a in found if a["type"] == type), "<none>")

    texts = [info.get(f) or "<unknown>" for f in ("osImage", "kernelVersion", "containerRuntimeVersion")]
    head = [name_of(obj), ready, or_none(",".join(sorted(r for r in roles if r))), age(obj, now_us)]
    return [*head, info.get("kubeletVersion", ""), address("InternalIP"), address("ExternalIP"), *texts]


KIND = Kind(
    rows=(
        Row(
            "",
            "v1",
            "nodes",
            "Node",
            namespaced=False,
            short=("no",),
            subs=(Sub("proxy", "cdgpu", "NodeProxyOptions"), STATUS),
        ),
    ),
    strategy=Strategy(status=True, keeps_created_status=True),
    defaults=_fill_defaults,
    drop_disabled=_drop_disabled,
    drop_disabled_status=_drop_disabled_status,
    warnings=_warnings,
    validate_create=_validate_create,
    validate_update={"": _validate_update, "status": _validate_update},
    columns=(
        NAME,
        "Status",
        "Roles",
        AGE,
        "Version=status.nodeInfo.kubeletVersion",
        "*Internal-IP=status.addresses",
        "*External-IP=status.addresses",
        "*OS-Image=status.nodeInfo.osImage",
        "*Kernel-Version=status.nodeInfo.kernelVersion",
        "*Container-Runtime=status.nodeInfo.containerRuntimeVersion",
    ),
    cells=_cells,
)
