"""Nodes.

Mirrors  kubernetes v1.25 pkg/apis/core/validation/validation.go: ValidateNode, ValidateNodeUpdate;
         pkg/apis/core/v1/defaults.go; pkg/printers/internalversion/printers.go: printNode.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from sim.api.go.printing import GoValue
from sim.api.kinds.common.cells import AGE, NAME, age, or_none
from sim.api.kinds.common.fill import amounts, present, within
from sim.api.kinds.common.resources import quantity
from sim.api.kinds.common.status import HEARTBEAT_TIMES, fill_conditions
from sim.api.kinds.common.taints import taint_errors
from sim.api.memo import IdentityMemo, Remembered
from sim.api.objects import condition_status, get_in, labels_of, name_of, remove_in
from sim.api.schema.json_text import go_quote, parse
from sim.api.schema.kind import STATUS, Cells, Kind, Row, Strategy, Sub
from sim.api.types import Obj
from sim.api.validation import text
from sim.api.validation.errors import INTERNAL, Errors, FieldError, duplicate, forbidden, invalid, required
from sim.api.validation.metadata import object_meta, object_meta_update
from sim.ident import NAMES, Names
from sim.options.features.gates import NODE_CONFIG, is_on

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
_valid_amounts: IdentityMemo[bool] = IdentityMemo()  # that of most nodes is one object


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

_TAINTS, _AVOIDED = (
    tuple(f"scheduler.alpha.{names.domain}/{key}" for names in NAMES.values())
    for key in ("taints", "preferAvoidPods")
)


def _validate_create(obj: Obj) -> Errors:
    errors = object_meta(obj["metadata"], False, text.subdomain)
    spec = obj.get("spec") or {}
    errors += _annotation_errors(obj["metadata"])
    # Quirk: taints are reported below the metadata.
    errors += taint_errors(spec.get("taints"), "metadata.taints")
    return errors + _amount_errors(obj.get("status") or {}, {}) + _pod_cidrs(spec)


def _annotation_errors(metadata: Obj) -> Errors:
    """Errors of the annotations of older releases: taints, and pods to avoid."""
    annotations, errors = metadata.get("annotations") or {}, []
    for key in _TAINTS:
        if annotations.get(key):
            try:
                errors += taint_errors(parse(annotations[key]), f"metadata.annotations.{key}")
            except ValueError as error:
                errors.append(invalid("metadata.annotations", key, str(error)))
    for key in _AVOIDED:
        if annotations.get(key):
            try:
                avoided = parse(annotations[key]).get("preferAvoidPods") or ()
            except ValueError as error:
                errors.append(invalid("metadata.annotations.AvoidPods", key, str(error)))
                continue
            errors += _avoided_errors(avoided, f"metadata.annotations.{key}")
    return errors


def _avoided_errors(avoided: Any, field: str) -> Errors:
    errors: Errors = []
    for i, entry in enumerate(avoided):
        at = f"{field}[{i}].PodSignature"
        controller = (entry.get("podSignature") or {}).get("podController")
        if controller is None:
            errors.append(required(at))
        elif not controller.get("controller"):
            detail = "must point to a controller"
            errors.append(invalid(f"{at}.PodController.Controller", False, detail))
    return errors


def _pod_cidrs(spec: Obj) -> Errors:
    given = spec.get("podCIDRs") or ()
    errors = [
        invalid(f"spec.podCIDRs[{i}]", list(given), "must be valid CIDR")
        for i, cidr in enumerate(given)
        if not text.is_cidr(cidr)
    ]
    if len(given) < 2:
        return errors
    bad = next((cidr for cidr in given if not text.is_cidr(cidr)), None)
    if bad is not None:
        why = f"failed to parse cidr value:{go_quote(bad)} with error:invalid CIDR address: {bad}"
        detail = f"invalid PodCIDRs. failed to check with dual stack with error:{why}"
        errors.append(FieldError("spec.podCIDRs", INTERNAL, detail))
    families = dict.fromkeys(":" in cidr for cidr in given)
    if bad is not None or len(families) < 2 or len(given) > 2:
        detail = "may specify no more than one CIDR for each IP family"
        errors.append(invalid("spec.podCIDRs", list(given), detail))
    errors += [duplicate(f"spec.podCIDRs[{i}]", cidr) for i, cidr in enumerate(given) if cidr in given[:i]]
    return errors


def _validate_update(new: Obj, old: Obj) -> Errors:
    """Quirk: the object is checked as a new one too, so some errors are listed twice."""
    return _validate_create(new) + _validate_status(new, old)


def _validate_status(new: Obj, old: Obj) -> Errors:
    """Errors of a changed node.  Upstream has one rule for spec and status."""
    errors = object_meta_update(new["metadata"], old["metadata"])
    spec, before = new.get("spec") or {}, old.get("spec") or {}
    status, was = new.get("status") or {}, old.get("status") or {}
    if new["metadata"].get("annotations") is not old["metadata"].get("annotations"):
        errors += _annotation_errors(new["metadata"])
    if status is not was:
        errors += _amount_errors(status, was) + _address_errors(status, was)
    if spec is not before:
        errors += _changed_cidrs(spec.get("podCIDRs") or [], before.get("podCIDRs") or [])
        if before.get("providerID") and spec.get("providerID") != before["providerID"]:
            detail = 'node updates may not change providerID except from "" to valid'
            errors.append(forbidden("spec.providerID", detail))
        if spec.get("taints") is not before.get("taints"):
            errors += taint_errors(spec.get("taints"), "metadata.taints")
        if (spec.get("externalID") or "") != (before.get("externalID") or ""):
            errors.append(forbidden("spec.externalID", "may not be updated"))
    return errors


def _changed_cidrs(given: list[str], before: list[str]) -> Errors:
    """One error for each range that differs, or one if their number differs."""
    if not before or given == before:
        return []
    count = 1 if len(given) != len(before) else sum(a != b for a, b in zip(given, before, strict=True))
    detail = 'node updates may not change podCIDR except from "" to valid'
    return [forbidden("spec.podCIDRs", detail)] * count


def _address_errors(status: Obj, was: Obj) -> Errors:
    errors: Errors = []
    given = status.get("addresses")
    if given is not was.get("addresses"):
        seen: dict[tuple[str, str], None] = {}
        for i, address in enumerate(given or ()):
            named = address.get("type", ""), address.get("address", "")
            if named in seen:
                errors.append(duplicate(f"status.addresses[{i}]", GoValue("core.NodeAddress", address)))
            seen[named] = None
    return errors


def _amount_errors(status: Obj, was: Obj) -> Errors:
    errors: Errors = []
    for key in ("capacity", "allocatable"):
        given = status.get(key)
        if not given or given is was.get(key) or _valid_amounts.get(given):
            continue
        found = [
            error for name, value in given.items() for error in quantity(name, value, f"status.{key}.{name}")
        ]
        if not found:
            _valid_amounts.put(True, given)
        errors += found
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
    conditions = get_in(obj, ("status", "conditions")) or ()
    known = any(condition.get("type") == "Ready" for condition in conditions)
    ready = "Ready" if condition_status(obj, "Ready") == "True" else "NotReady" if known else "Unknown"
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
    validate_update={"": _validate_update, "status": _validate_status},
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
