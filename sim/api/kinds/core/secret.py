"""Secrets.

Mirrors  kubernetes v1.25 pkg/registry/core/secret/strategy.go,
         pkg/apis/core/validation/validation.go: ValidateSecret and its update;
         pkg/apis/core/v1/defaults.go.
"""

from __future__ import annotations

from base64 import b64decode, b64encode

from sim.api.kinds.common.cells import AGE, NAME, age
from sim.api.kinds.common.data import DATA_BYTES_MAX, decoded_size, immutable_data_errors
from sim.api.kinds.common.fill import fill
from sim.api.objects import name_of
from sim.api.schema import quota_use
from sim.api.schema.field_validation import go_kind
from sim.api.schema.json_text import parse
from sim.api.schema.kind import Cells, Kind, Row, Strategy
from sim.api.types import Obj
from sim.api.validation import text
from sim.api.validation.errors import Errors, checked, immutable, invalid, required, too_long
from sim.api.validation.metadata import object_meta, object_meta_update
from sim.ident import NAMES, Names


def _fill_defaults(obj: Obj) -> Obj:
    obj = fill(obj, {"type": "Opaque"})
    if "stringData" not in obj:
        return obj
    plain = {key: b64encode(value.encode()).decode() for key, value in (obj["stringData"] or {}).items()}
    data = {**(obj.get("data") or {}), **plain}
    return {**{key: value for key, value in obj.items() if key != "stringData"}, "data": data}


def _prepare_update(new: Obj, old: Obj, _: Names) -> Obj:
    return new if new.get("type") else {**new, "type": old.get("type", "Opaque")}


# --- validation -----------------------------------------------------------------------------------

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


def _validate_create(obj: Obj) -> Errors:
    errors = object_meta(obj["metadata"], True, text.subdomain)
    data = obj.get("data") or {}
    for key in data:
        errors += checked(f"data[{key}]", key, text.config_key)
    if sum(map(decoded_size, data.values())) > DATA_BYTES_MAX:
        errors.append(too_long("data", DATA_BYTES_MAX))
    return errors + _type_errors(_TYPES.get(obj.get("type", ""), ""), obj, data)


def _type_errors(kind: str, obj: Obj, data: Obj) -> Errors:
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
    """The message of Go about a text that is no JSON mapping; "" if it is one."""
    try:
        parsed = parse(b64decode(value).decode("utf-8", "replace"))
    except ValueError as error:
        return str(error)
    if parsed is None or isinstance(parsed, dict):
        return ""
    return f"json: cannot unmarshal {go_kind(parsed)} into Go value of type map[string]interface {{}}"


def _validate_update(new: Obj, old: Obj) -> Errors:
    errors = object_meta_update(new["metadata"], old["metadata"])
    errors += immutable("type", new.get("type"), old.get("type"))
    errors += immutable_data_errors(new, old, ("data",))
    return errors + _validate_create(new)


def _cells(obj: Obj, now_us: int, _: Names) -> Cells:
    return [name_of(obj), obj.get("type", ""), len(obj.get("data") or ()), age(obj, now_us)]


KIND = Kind(
    rows=(Row("", "v1", "secrets", "Secret"),),
    strategy=Strategy(prepare_update=_prepare_update),
    defaults=_fill_defaults,
    validate_create=_validate_create,
    validate_update={"": _validate_update},
    columns=(NAME, "Type=type", "Data=data", AGE),
    cells=_cells,
    quota=quota_use.named("secrets"),
)
