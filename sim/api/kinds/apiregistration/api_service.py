"""APIServices: which server answers for a group version.

Mirrors  kube-aggregator v1.25 pkg/registry/apiservice/{strategy.go,etcd/etcd.go},
         pkg/apis/apiregistration/validation/validation.go, pkg/apis/apiregistration/helpers.go,
         pkg/apis/apiregistration/v1/defaults.go; pkg/controllers/autoregister (labels);
         kubernetes cmd/kube-apiserver/app/aggregator.go (priorities).
"""

from __future__ import annotations

from sim.api.kinds.common.cells import AGE, NAME, age
from sim.api.kinds.common.fill import fill, present, within
from sim.api.kinds.common.status import fill_status_conditions
from sim.api.objects import condition_of, name_of, with_field
from sim.api.schema.groups import DEFAULT_VERSION_PRIORITY, GROUP_PRIORITIES, VERSION_PRIORITIES
from sim.api.schema.json_text import go_quote
from sim.api.schema.kind import STATUS, Cells, Kind, Row, Strategy
from sim.api.types import Obj
from sim.api.validation import text
from sim.api.validation.errors import Errors, checked, invalid, required, unsupported
from sim.api.validation.metadata import object_meta, object_meta_update
from sim.ident import Names

AVAILABLE = "Available"

# --- defaults and strategy ------------------------------------------------------------------------


def _fill_defaults(obj: Obj) -> Obj:
    obj = within(present(obj, {"spec": {}, "status": {}}), "spec", _fill_spec)
    return fill_status_conditions(obj)


def _fill_spec(spec: Obj) -> Obj:
    return within(spec, "service", lambda service: fill(service, {"port": 443}))


def _prepare_create(obj: Obj, _: Names) -> Obj:
    """The object with the condition of a group version that the server itself serves."""
    if obj["spec"].get("service") is not None:
        return obj
    condition = {
        "type": AVAILABLE,
        "status": "True",
        "lastTransitionTime": obj["metadata"].get("creationTimestamp"),
        "reason": "Local",
        "message": "Local APIServices are always available",
    }
    return {**obj, "status": {"conditions": [condition]}}


def _prepare_status(new: Obj, old: Obj, _: Names) -> Obj:
    metadata, before = dict(new["metadata"]), old["metadata"]
    for field in ("labels", "annotations", "finalizers", "ownerReferences"):
        metadata.pop(field, None)
        if field in before:
            metadata[field] = before[field]
    return with_field(new, "metadata", metadata)


def local(group: str, version: str, names: Names) -> Obj | None:
    """The object of a built-in group version; None if it has no priority.

    group: the short name, without the domain
    """
    priority = GROUP_PRIORITIES.get(group)
    if priority is None:
        return None
    spec = {
        "group": names.group(group),
        "version": version,
        "groupPriorityMinimum": priority,
        "versionPriority": VERSION_PRIORITIES.get((group, version), DEFAULT_VERSION_PRIORITY),
    }
    if not group:
        del spec["group"]
    labels = {names.label_automanaged: "onstart"}
    return {"metadata": {"name": f"{version}.{names.group(group)}", "labels": labels}, "spec": spec}


# --- validation -----------------------------------------------------------------------------------

GROUP_PRIORITY_MAX, VERSION_PRIORITY_MAX = 20_000, 1000
_NO_GROUP = "only v1 may have an empty group and it better be legacy kube"
_STATUSES = ("True", "False", "Unknown")


def _validate_create(obj: Obj) -> Errors:
    spec = obj["spec"]
    group, version = spec.get("group") or "", spec.get("version") or ""
    wanted = f"{version}.{group}"

    def name_rule(name: str) -> text.Problems:
        problems = text.segment(name)
        if problems or name == wanted:
            return problems
        return (f'must be `spec.version+"."+spec.group`: {go_quote(wanted)}',)

    errors = object_meta(obj["metadata"], False, name_rule, core=False)
    if not group and version != "v1":
        errors.append(required("spec.group", _NO_GROUP))
    errors += checked("spec.group", group or None, text.subdomain)
    errors += checked("spec.version", version, text.label_1035)
    for field, limit in (
        ("groupPriorityMinimum", GROUP_PRIORITY_MAX),
        ("versionPriority", VERSION_PRIORITY_MAX),
    ):
        value = spec.get(field) or 0
        if not 0 < value <= limit:
            errors.append(invalid(f"spec.{field}", value, f"must be positive and less than {limit}"))
    return errors + _server_errors(spec)


def _server_errors(spec: Obj) -> Errors:
    """Errors of the server that answers."""
    errors: Errors = []
    service, bundle = spec.get("service"), spec.get("caBundle") or ""
    insecure, at = bool(spec.get("insecureSkipTLSVerify")), "spec.insecureSkipTLSVerify"
    if service is None:
        if bundle:
            size = f"{_decoded_size(bundle)} bytes"
            errors.append(invalid("spec.caBundle", size, "local APIServices may not have a caBundle"))
        if insecure:
            detail = "local APIServices may not have insecureSkipTLSVerify"
            errors.append(invalid(at, True, detail))
        return errors
    errors += [required(f"spec.service.{key}") for key in ("namespace", "name") if not service.get(key)]
    port = service.get("port", 0)
    problems = text.port_number(port)
    if problems:
        errors.append(invalid("spec.service.port", port, f"port is not valid: {', '.join(problems)}"))
    if insecure and bundle:
        errors.append(invalid(at, True, "may not be true if caBundle is present"))
    return errors


def _decoded_size(encoded: str) -> int:
    """The number of bytes that a text in base64 stands for."""
    return len(encoded) * 3 // 4 - encoded.count("=")


def _validate_update(new: Obj, old: Obj) -> Errors:
    return object_meta_update(new["metadata"], old["metadata"], core=False) + _validate_create(new)


def _validate_status(new: Obj, old: Obj) -> Errors:
    errors = object_meta_update(new["metadata"], old["metadata"], core=False)
    for i, condition in enumerate((new.get("status") or {}).get("conditions") or ()):
        status = condition.get("status") or ""
        if status not in _STATUSES:
            errors.append(unsupported(f"status.conditions[{i}].status", status, _STATUSES))
    return errors


# --- table ----------------------------------------------------------------------------------------


def _cells(obj: Obj, now_us: int, _: Names) -> Cells:
    service, condition = (obj.get("spec") or {}).get("service"), condition_of(obj, AVAILABLE)
    shown = "Local" if service is None else f"{service.get('namespace', '')}/{service.get('name', '')}"
    available = "Unknown"
    if condition is not None:
        available = condition.get("status", "")
        if available != "True" and condition.get("reason"):
            available = f"{available} ({condition['reason']})"
    return [name_of(obj), shown, available, age(obj, now_us)]


KIND = Kind(
    rows=(
        Row(
            "apiregistration",
            "v1",
            "apiservices",
            "APIService",
            namespaced=False,
            categories=("api-extensions",),
            subs=(STATUS,),
        ),
    ),
    strategy=Strategy(
        status=True,
        unconditional=False,
        prepare_create=_prepare_create,
        prepare_status=_prepare_status,
    ),
    defaults=_fill_defaults,
    validate_create=_validate_create,
    validate_update={"": _validate_update, "status": _validate_status},
    # pkg/registry/apiservice/etcd/etcd.go: ConvertToTable
    columns=(
        NAME,
        "Service='The reference to the service that hosts this API endpoint.'",
        "Available='Whether this service is available.'",
        AGE,
    ),
    cells=_cells,
)
