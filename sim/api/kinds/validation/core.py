"""Namespaces, nodes, events, ConfigMaps, Secrets, service accounts, volume claims.

Mirrors  kubernetes v1.25 pkg/apis/core/validation/{validation,events}.go.
"""

from __future__ import annotations

from base64 import b64decode
from typing import Any

from sim.api.kinds.validation import text
from sim.api.kinds.validation.claims import claim_spec
from sim.api.kinds.validation.errors import (
    IMMUTABLE,
    Errors,
    Shown,
    duplicate,
    forbidden,
    immutable,
    invalid,
    required,
    too_long,
    unsupported,
)
from sim.api.kinds.validation.meta import core_finalizer, object_meta, object_meta_update, shown_time
from sim.api.schema.field_validation import go_kind
from sim.api.schema.json_text import go_quote, parse
from sim.api.status import CAUSES_MAX
from sim.api.types import Obj
from sim.ident import NAMES, TAINT_EFFECTS
from sim.units import quantity_nano, quantity_text, quantity_value

SECRET_BYTES_MAX = 1024 * 1024  # core.MaxSecretSize
_WHEN_IMMUTABLE = "field is immutable when `immutable` is set"


# --- Namespace --------------------------------------------------------------------------------------------


def create_namespace(obj: Obj) -> Errors:
    errors = object_meta(obj["metadata"], False, text.label)
    for name in (obj.get("spec") or {}).get("finalizers") or ():
        errors += core_finalizer(name, "spec.finalizers")
    return errors


def update_namespace(new: Obj, old: Obj) -> Errors:
    return object_meta_update(new["metadata"], old["metadata"])


def status_namespace(new: Obj, old: Obj) -> Errors:
    errors = object_meta_update(new["metadata"], old["metadata"])
    phase = (new.get("status") or {}).get("phase", "")
    if new["metadata"].get("deletionTimestamp"):
        if phase != "Terminating":
            detail = "may only be 'Terminating' if `deletionTimestamp` is not empty"
            errors.append(invalid("status.Phase", phase, detail))
    elif phase != "Active":
        errors.append(invalid("status.Phase", phase, "may only be 'Active' if `deletionTimestamp` is empty"))
    return errors


def finalize_namespace(new: Obj, old: Obj) -> Errors:
    errors = object_meta_update(new["metadata"], old["metadata"])
    for i, name in enumerate((new.get("spec") or {}).get("finalizers") or ()):
        errors += core_finalizer(name, f"spec.finalizers[{i}]")
    return errors


# --- Node -------------------------------------------------------------------------------------------------


def create_node(obj: Obj) -> Errors:
    errors = object_meta(obj["metadata"], False, text.subdomain)
    spec = obj.get("spec") or {}
    # Quirk: taints are reported below the metadata.
    errors += taints(spec.get("taints"), "metadata.taints")
    return errors + _node_status(obj.get("status") or {}, {}) + _pod_cidrs(spec)


def taints(given: Any, field: str) -> Errors:
    errors: Errors = []
    seen: dict[tuple[str, str], None] = {}
    for i, taint in enumerate(given or ()):
        at = f"{field}[{i}]"
        key, value, effect = taint.get("key", ""), taint.get("value", ""), taint.get("effect", "")
        errors += [invalid(f"{at}.key", key, problem) for problem in text.qualified_name(key)]
        problems = text.label_value(value)
        if problems:
            errors.append(invalid(f"{at}.value", value, ";".join(problems)))
        if not effect:
            errors.append(required(f"{at}.effect"))
        elif effect not in TAINT_EFFECTS:
            errors.append(unsupported(f"{at}.effect", effect, TAINT_EFFECTS))
        if (key, effect) in seen:
            error = duplicate(at, _go_taint(taint))
            errors.append(
                type(error)(at, error.type, "taints must be unique by key and effect pair", error.value)
            )
        seen[key, effect] = None
    return errors


def _go_taint(taint: Obj) -> Shown:
    key, value, effect = (go_quote(taint.get(k, "")) for k in ("key", "value", "effect"))
    return Shown(f"core.Taint{{Key:{key}, Value:{value}, Effect:{effect}, TimeAdded:<nil>}}")


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


def update_node(new: Obj, old: Obj) -> Errors:
    """Of the spec and of the status alike: upstream has one rule for both."""
    errors = object_meta_update(new["metadata"], old["metadata"])
    spec, before = new.get("spec") or {}, old.get("spec") or {}
    status, was = new.get("status") or {}, old.get("status") or {}
    if status is not was:
        errors += _node_status(status, was)
    if spec is not before:
        errors += _pod_cidrs(spec)
        if before.get("podCIDRs") and spec.get("podCIDRs") != before["podCIDRs"]:
            detail = 'node updates may not change podCIDR except from "" to valid'
            errors.append(forbidden("spec.podCIDRs", detail))
        if before.get("providerID") and spec.get("providerID") != before["providerID"]:
            detail = 'node updates may not change providerID except from "" to valid'
            errors.append(forbidden("spec.providerID", detail))
        if spec.get("taints") is not before.get("taints"):
            errors += taints(spec.get("taints"), "metadata.taints")
    return errors


def _node_status(status: Obj, was: Obj) -> Errors:
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


# --- events -----------------------------------------------------------------------------------------------

_EVENT_TEXT_MAX, _EVENT_NOTE_MAX = 128, 1024


def create_event(obj: Obj) -> Errors:
    return _event(obj, "involvedObject", "message", "reportingComponent")


def update_event(new: Obj, old: Obj) -> Errors:
    return create_event(new)


def _event(obj: Obj, about: str, note: str, reporter: str) -> Errors:
    errors: Errors = []
    namespace = obj["metadata"].get("namespace", "")
    involved = (obj.get(about) or {}).get("namespace", "")
    # Quirk: the new form may be about an object anywhere.
    wrong = (
        involved != namespace and about == "involvedObject" if involved else namespace not in ("", "default")
    )
    if wrong:
        errors.append(invalid("involvedObject.namespace", involved, "does not match event.namespace"))
    if obj.get("eventTime"):
        errors += _timed_event(obj, note, reporter)
    return errors + [invalid("namespace", namespace, problem) for problem in text.subdomain(namespace)]


def _timed_event(obj: Obj, note: str, reporter: str) -> Errors:
    errors: Errors = []
    controller = obj.get(reporter, "")
    if not controller:
        errors.append(required(reporter))
    errors += [invalid(reporter, controller, p) for p in text.qualified_name(controller)]
    for key in ("reportingInstance", "action", "reason"):
        value = obj.get(key) or ""
        if not value:
            errors.append(required(key))
        if len(value) > _EVENT_TEXT_MAX:
            errors.append(invalid(key, "", f"can have at most {_EVENT_TEXT_MAX} characters"))
    if len(obj.get(note) or "") > _EVENT_NOTE_MAX:
        errors.append(invalid("message", "", f"can have at most {_EVENT_NOTE_MAX} characters"))
    return errors


def create_new_event(obj: Obj) -> Errors:
    """Of events.k8s.io: nothing of the old form may be set."""
    errors = _event(obj, "regarding", "note", "reportingController")
    errors += object_meta(obj["metadata"], True, text.subdomain)
    errors += _series(obj)
    if not obj.get("eventTime"):
        errors.append(required("eventTime"))
    kind = obj.get("type", "")
    if kind not in ("Normal", "Warning"):
        errors.append(invalid("type", "", f"has invalid value: {kind}"))
    for key, spelled in (
        ("deprecatedFirstTimestamp", "firstTimestamp"),
        ("deprecatedLastTimestamp", "lastTimestamp"),
        ("deprecatedCount", "count"),
        ("deprecatedSource", "source"),
    ):
        if obj.get(key):
            errors.append(invalid(spelled, "", "needs to be unset"))
    return errors


def _series(obj: Obj) -> Errors:
    series = obj.get("series")
    if series is None:
        return []
    errors: Errors = []
    if series.get("count", 0) < 2:
        errors.append(invalid("series.count", "", "should be at least 2"))
    if not series.get("lastObservedTime"):
        errors.append(required("series.lastObservedTime"))
    return errors


# (field in the newer form, its name in errors), in the order of ValidateEventUpdate.
_EVENT_FIXED = (
    ("regarding", "involvedObject"),
    ("reason", "reason"),
    ("note", "message"),
    ("deprecatedSource", "source"),
    ("deprecatedFirstTimestamp", "firstTimestamp"),
    ("deprecatedLastTimestamp", "lastTimestamp"),
    ("deprecatedCount", "count"),
    ("reason", "reason"),  # Quirk: looked at twice
    ("type", "type"),
    ("eventTime", "eventTime"),
    ("action", "action"),
    ("related", "related"),
    ("reportingController", "reportingController"),
    ("reportingInstance", "reportingInstance"),
)
_REFERENCE = ("kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath")
_GO_NAMES = {"uid": "UID", "apiVersion": "APIVersion"}


def update_new_event(new: Obj, old: Obj) -> Errors:
    errors = _event(new, "regarding", "note", "reportingController")
    errors += object_meta_update(new["metadata"], old["metadata"])
    for key, spelled in _EVENT_FIXED:
        after, before = new.get(key) or None, old.get(key) or None
        if after != before:
            errors.append(invalid(spelled, _event_shown(key, after), IMMUTABLE))
    return errors + _series(new)


def _event_shown(key: str, value: Any) -> Any:
    """A field of an Event as Go prints it."""
    if key in ("eventTime", "deprecatedFirstTimestamp", "deprecatedLastTimestamp"):
        return Shown(shown_time(value or "0001-01-01T00:00:00Z"))
    if key in ("regarding", "deprecatedSource"):
        kind, fields = (
            ("EventSource", ("component", "host"))
            if key == "deprecatedSource"
            else ("ObjectReference", _REFERENCE)
        )
        return _go_struct(kind, fields, value or {})
    if key == "related":
        return Shown("null") if value is None else _go_struct("ObjectReference", _REFERENCE, value)
    return value if value is not None else 0 if key == "deprecatedCount" else ""


def _go_struct(kind: str, fields: tuple[str, ...], value: Obj) -> Shown:
    texts = (f"{_GO_NAMES.get(f, f[0].upper() + f[1:])}:{go_quote(str(value.get(f, '')))}" for f in fields)
    return Shown(f"core.{kind}{{{', '.join(texts)}}}")


# --- ConfigMap, Secret ------------------------------------------------------------------------------------


def create_config_map(obj: Obj) -> Errors:
    errors = object_meta(obj["metadata"], True, text.subdomain)
    data, binary = obj.get("data") or {}, obj.get("binaryData") or {}
    size = 0
    for key, value in data.items():
        if len(errors) > CAUSES_MAX:
            break
        errors += [invalid(f"data[{key}]", key, problem) for problem in text.config_key(key)]
        if key in binary:
            errors.append(invalid(f"data[{key}]", key, "duplicate of key present in binaryData"))
        size += len((value or "").encode())
    for key, value in binary.items():
        errors += [invalid(f"binaryData[{key}]", key, problem) for problem in text.config_key(key)]
        size += _decoded_size(value)
    if size > SECRET_BYTES_MAX:
        errors.append(too_long("[]", SECRET_BYTES_MAX))
    return errors


def _decoded_size(value: str) -> int:
    return len(value) * 3 // 4 - value.count("=", -2)


def _kept_immutable(new: Obj, old: Obj, keys: tuple[str, ...]) -> Errors:
    if not old.get("immutable"):
        return []
    errors = [] if new.get("immutable") else [forbidden("immutable", _WHEN_IMMUTABLE)]
    return errors + [
        forbidden(key, _WHEN_IMMUTABLE) for key in keys if (new.get(key) or {}) != (old.get(key) or {})
    ]


def update_config_map(new: Obj, old: Obj) -> Errors:
    errors = object_meta_update(new["metadata"], old["metadata"])
    errors += _kept_immutable(new, old, ("data", "binaryData"))
    return errors + create_config_map(new)


_TYPES = {
    getattr(names, attribute): attribute
    for names in NAMES.values()
    for attribute in (
        "secret_type_service_account",
        "secret_type_dockercfg",
        "secret_type_dockerconfigjson",
        "secret_type_basic_auth",
        "secret_type_ssh_auth",
        "secret_type_tls",
    )
}
_ACCOUNT_ANNOTATIONS = tuple(names.annotation_service_account_name for names in NAMES.values())


def create_secret(obj: Obj) -> Errors:
    errors = object_meta(obj["metadata"], True, text.subdomain)
    data = obj.get("data") or {}
    for key in data:
        errors += [invalid(f"data[{key}]", key, problem) for problem in text.config_key(key)]
    if sum(map(_decoded_size, data.values())) > SECRET_BYTES_MAX:
        errors.append(too_long("data", SECRET_BYTES_MAX))
    return errors + _by_type(_TYPES.get(obj.get("type", ""), ""), obj, data)


def _by_type(kind: str, obj: Obj, data: Obj) -> Errors:
    if kind == "secret_type_service_account":
        annotations = obj["metadata"].get("annotations") or {}
        if any(annotations.get(key) for key in _ACCOUNT_ANNOTATIONS):
            return []
        key = next((k for k, v in _type_names() if v == obj["type"]), _ACCOUNT_ANNOTATIONS[0])
        return [required(f"metadata.annotations[{key}]")]
    if kind in ("secret_type_dockercfg", "secret_type_dockerconfigjson"):
        key = ".dockercfg" if kind.endswith("cfg") else ".dockerconfigjson"
        if key not in data:
            return [required(f"data[{key}]")]
        problem = _json_problem(data[key])
        return [invalid(f"data[{key}]", "<secret contents redacted>", problem)] if problem else []
    if kind == "secret_type_basic_auth":
        if "username" in data or "password" in data:
            return []
        return [required("data[username]"), required("data[password]")]
    if kind == "secret_type_ssh_auth":
        return [] if data.get("ssh-privatekey") else [required("data[ssh-privatekey]")]
    if kind == "secret_type_tls":
        return [required(f"data[{key}]") for key in ("tls.crt", "tls.key") if key not in data]
    return []


def _type_names() -> list[tuple[str, str]]:
    """(annotation, type) of service account tokens in every naming set."""
    return [(n.annotation_service_account_name, n.secret_type_service_account) for n in NAMES.values()]


def _json_problem(value: str) -> str:
    """What Go says of a text that is no JSON mapping; "" of one that is."""
    try:
        parsed = parse(b64decode(value).decode("utf-8", "replace"))
    except ValueError as error:
        return str(error)
    if parsed is None or isinstance(parsed, dict):
        return ""
    return f"json: cannot unmarshal {go_kind(parsed)} into Go value of type map[string]interface {{}}"


def update_secret(new: Obj, old: Obj) -> Errors:
    errors = object_meta_update(new["metadata"], old["metadata"])
    errors += immutable("type", new.get("type"), old.get("type"))
    errors += _kept_immutable(new, old, ("data",))
    return errors + create_secret(new)


# --- ServiceAccount ---------------------------------------------------------------------------------------


def create_service_account(obj: Obj) -> Errors:
    return object_meta(obj["metadata"], True, text.subdomain)


def update_service_account(new: Obj, old: Obj) -> Errors:
    return object_meta_update(new["metadata"], old["metadata"]) + create_service_account(new)


# --- PersistentVolumeClaim --------------------------------------------------------------------------------

_CLAIM_FORBIDDEN = "spec is immutable after creation except resources.requests for bound claims\n"


def create_claim(obj: Obj) -> Errors:
    return object_meta(obj["metadata"], True, text.subdomain) + claim_spec(obj.get("spec") or {}, "spec")


def update_claim(new: Obj, old: Obj) -> Errors:
    errors = object_meta_update(new["metadata"], old["metadata"])
    spec, before = new.get("spec") or {}, old.get("spec") or {}
    if spec is before:
        return errors
    errors += create_claim(new)
    bound = (old.get("status") or {}).get("phase") == "Bound"
    was = dict(before)
    if not was.get("volumeName") and spec.get("volumeName"):
        was["volumeName"] = spec["volumeName"]  # binding sets it once
    if bound and spec.get("resources"):
        requests = spec["resources"].get("requests")
        was["resources"] = {**(was.get("resources") or {}), "requests": requests}
    if was != spec:
        errors.append(forbidden("spec", _CLAIM_FORBIDDEN))
    size, floor = (
        ((s.get("resources") or {}).get("requests") or {}).get("storage", "0") for s in (spec, before)
    )
    if quantity_nano(size) < quantity_nano(floor):
        detail = "field can not be less than previous value"
        errors.append(forbidden("spec.resources.requests.storage", detail))
    return errors + immutable("volumeMode", spec.get("volumeMode"), before.get("volumeMode"))


def status_claim(new: Obj, old: Obj) -> Errors:
    errors = object_meta_update(new["metadata"], old["metadata"])
    if not new["metadata"].get("resourceVersion"):
        errors.append(required("ResourceVersion"))
    if not (new.get("spec") or {}).get("accessModes"):
        errors.append(required("Spec.accessModes"))
    for name, amount in ((new.get("status") or {}).get("capacity") or {}).items():
        value = quantity_value(amount)
        if value < 0:
            errors.append(invalid(f"status.capacity[{name}]", value, "must be a valid resource quantity"))
    return errors
