"""StorageVersions: the versions in which each API server stores a resource.

Mirrors  kubernetes v1.25 pkg/registry/apiserverinternal/storageversion/strategy.go,
         pkg/apis/apiserverinternal/validation/validation.go,
         pkg/printers/internalversion/printers.go: printStorageVersion.
Quirk    paths of errors about conditions name the status itself, without "conditions"; an invalid
         status of a condition is shown as its type.
API servers write objects of this kind while the gates APIServerIdentity and StorageVersionAPI are
on (`actors.apiserver.builtin.identity`).
"""

from __future__ import annotations

from sim.api.kinds.common.cells import AGE, NAME, age, cut_list, or_none
from sim.api.kinds.common.fill import present
from sim.api.objects import name_of
from sim.api.schema.kind import STATUS, Cells, Kind, Row, Strategy
from sim.api.types import Obj
from sim.api.validation import text
from sim.api.validation.errors import Errors, checked, invalid, required
from sim.api.validation.metadata import object_meta
from sim.ident import Names

SHOWN_MAX = 3  # printers.go: formatStorageVersions
_EMPTY = "must be non-empty"
_FORM = (
    "an apiVersion is a DNS-1035 label, which must consist of lower case alphanumeric characters or '-', start with "
    "an alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for "
    "validation is '[a-z]([-a-z0-9]*[a-z0-9])?') with an optional DNS subdomain prefix and '/' "
    "(e.g. 'example.com/MyVersion')"
)


def _fill_defaults(obj: Obj) -> Obj:
    return present(obj, {"spec": {}, "status": {}})


# --- validation -----------------------------------------------------------------------------------


def _name_problems(name: str) -> text.Problems:
    group, dot, resource = name.rpartition(".")
    if not dot:
        return ("name must be in the form of <group>.<resource>",)
    problems = [f"the group segment {problem}" for problem in text.subdomain(group)]
    return (*problems, *(f"the resource segment {problem}" for problem in text.label_1035(resource)))


def _validate_create(obj: Obj) -> Errors:
    return object_meta(obj["metadata"], False, _name_problems) + _status_errors(obj)


def _validate_status(new: Obj, _: Obj) -> Errors:
    return _status_errors(new)


def _status_errors(obj: Obj) -> Errors:
    status = obj.get("status") or {}
    servers, errors = status.get("storageVersions") or [], []
    for i, server in enumerate(servers):
        errors += _server_errors(server, f"status.storageVersions[{i}]")
    errors += _common_errors(servers, status.get("commonEncodingVersion"))
    return errors + _condition_errors(status.get("conditions") or [])


def _server_errors(server: Obj, at: str) -> Errors:
    ident, encoding = server.get("apiServerID", ""), server.get("encodingVersion", "")
    decodable = server.get("decodableVersions") or []
    errors = checked(f"{at}.apiServerID", ident, text.subdomain)
    for where, version in (
        (f"{at}.encodingVersion", encoding),
        *((f"{at}.decodableVersions[{i}]", version) for i, version in enumerate(decodable)),
    ):
        problems = _version_problems(version)
        if problems:
            errors.append(invalid(where, version, ",".join(problems)))
    if encoding not in decodable:
        detail = f"decodableVersions must include encodingVersion {encoding}"
        errors.append(invalid(f"{at}.decodableVersions", decodable, detail))
    return errors


def _version_problems(version: str) -> list[str]:
    group, slash, name = version.rpartition("/")
    if "/" in group:
        return [_FORM]
    problems: list[str] = []
    if slash:
        problems += [f"group part: {each}" for each in (text.subdomain(group) if group else (_EMPTY,))]
    return problems + [f"version part: {each}" for each in (text.label_1035(name) if name else (_EMPTY,))]


def _common_errors(servers: list[Obj], stated: str | None) -> Errors:
    """Errors about the version on which all servers agree."""
    at = "status.commonEncodingVersion"
    versions = {server.get("encodingVersion", "") for server in servers}
    common = servers[0].get("encodingVersion", "") if len(versions) == 1 else None
    if common is None:
        detail = (
            "should be nil if servers do not agree on the same encoding version, or if there is no server "
            "reporting the supported versions yet"
        )
        return [] if stated is None else [invalid(at, stated, detail)]
    if stated is None:
        return [invalid(at, None, f"the common encoding version is {common}")]
    return (
        [] if stated == common else [invalid(at, stated, f"the actual common encoding version is {common}")]
    )


def _condition_errors(conditions: list[Obj]) -> Errors:
    errors: Errors = []
    seen: dict[str, int] = {}
    for i, condition in enumerate(conditions):
        kind, at = condition.get("type", ""), f"status[{i}]"
        if kind in seen:
            detail = f"the type of the condition is not unique, it also appears in conditions[{seen[kind]}]"
            errors.append(invalid(f"{at}.type", kind, detail))
        seen[kind] = i
        errors += checked(f"{at}.type", kind, text.qualified_name)
        problems = text.qualified_name(condition.get("status", ""))
        errors += [invalid(f"{at}.status", kind, problem) for problem in problems]
        for field in ("reason", "message"):
            if not condition.get(field):
                errors.append(required(f"{at}.{field}", f"{field} cannot be empty"))
    return errors


# --- table ----------------------------------------------------------------------------------------


def _cells(obj: Obj, now_us: int, _: Names) -> Cells:
    status = obj.get("status") or {}
    servers = [
        f"{server.get('apiServerID', '')}={server.get('encodingVersion', '')}"
        for server in status.get("storageVersions") or ()
    ]
    common = status.get("commonEncodingVersion")
    shown = "<unset>" if common is None else common
    return [name_of(obj), shown, or_none(cut_list(servers, SHOWN_MAX)), age(obj, now_us)]


KIND = Kind(
    rows=(
        Row(
            "internal.apiserver",
            "v1alpha1",
            "storageversions",
            "StorageVersion",
            namespaced=False,
            subs=(STATUS,),
        ),
    ),
    strategy=Strategy(status=True, unconditional=False),
    defaults=_fill_defaults,
    validate_create=_validate_create,
    validate_update={"status": _validate_status},
    columns=(
        NAME,
        "CommonEncodingVersion=status.commonEncodingVersion",
        "StorageVersions=status.storageVersions",
        AGE,
    ),
    cells=_cells,
)
