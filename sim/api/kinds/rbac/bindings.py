"""RoleBindings and ClusterRoleBindings.

Mirrors  kubernetes v1.25 pkg/apis/rbac/validation/validation.go: ValidateRoleBinding,
         ValidateClusterRoleBinding and their updates; pkg/apis/rbac/v1/defaults.go,
         evaluation_helpers.go (SubjectsStrings);
         pkg/registry/rbac/{rolebinding,clusterrolebinding}/strategy.go;
         pkg/printers/internalversion/printers.go.
"""

from __future__ import annotations

from functools import partial

from sim.api.go.printing import GoValue
from sim.api.kinds.common.cells import AGE, NAME, age
from sim.api.kinds.common.fill import all_of, fill, present, within
from sim.api.kinds.rbac.roles import rbac_name
from sim.api.objects import name_of
from sim.api.schema.kind import Cells, Kind, Row, Strategy
from sim.api.types import Obj
from sim.api.validation import text
from sim.api.validation.errors import Errors, checked, invalid, required, unsupported
from sim.api.validation.metadata import object_meta, object_meta_update
from sim.ident import Names

# --- defaults -------------------------------------------------------------------------------------


def _fill_defaults(obj: Obj) -> Obj:
    """The group of roles, users and groups, which is the group of the binding."""
    group = {"apiGroup": _group(obj)}
    named = {"kind": "", "name": ""}
    obj = within(present(obj, {"roleRef": {}}), "roleRef", lambda role: present(fill(role, group), named))
    if "subjects" in obj and not obj["subjects"]:
        return {name: value for name, value in obj.items() if name != "subjects"}
    return all_of(obj, "subjects", lambda subject: _subject(subject, group))


def _subject(subject: Obj, group: Obj) -> Obj:
    subject = fill(subject, group) if subject.get("kind") in ("User", "Group") else subject
    return present(subject, {"kind": "", "name": ""})


def _group(obj: Obj) -> str:
    """The API group of the binding; its domain is that of the naming set."""
    return str(obj["apiVersion"]).rpartition("/")[0]


# --- validation -----------------------------------------------------------------------------------


def _validate_create(obj: Obj, namespaced: bool) -> Errors:
    errors = object_meta(obj["metadata"], namespaced, rbac_name)
    role, group = obj.get("roleRef") or {}, _group(obj)
    if role.get("apiGroup", "") != group:
        errors.append(unsupported("roleRef.apiGroup", role.get("apiGroup", ""), (group,)))
    kinds = ("Role", "ClusterRole") if namespaced else ("ClusterRole",)
    if role.get("kind", "") not in kinds:
        errors.append(unsupported("roleRef.kind", role.get("kind", ""), kinds))
    name = role.get("name", "")
    if not name:
        errors.append(required("roleRef.name"))
    errors += checked("roleRef.name", name, rbac_name)
    for i, subject in enumerate(obj.get("subjects") or ()):
        errors += _subject_errors(subject, group, namespaced, f"subjects[{i}]")
    return errors


def _validate_update(new: Obj, old: Obj, namespaced: bool) -> Errors:
    """Quirk: the strategy checks the object twice, so each error about it is listed twice."""
    errors = _validate_create(new, namespaced)
    errors = errors + errors + object_meta_update(new["metadata"], old["metadata"])
    role = new.get("roleRef") or {}
    if role != old.get("roleRef"):
        errors.append(invalid("roleRef", GoValue("rbac.RoleRef", role), "cannot change roleRef"))
    return errors


_KINDS = ("ServiceAccount", "User", "Group")


def _subject_errors(subject: Obj, group: str, namespaced: bool, at: str) -> Errors:
    kind, name, given = subject.get("kind", ""), subject.get("name", ""), subject.get("apiGroup", "")
    errors: Errors = [] if name else [required(f"{at}.name")]
    if kind not in _KINDS:
        return [*errors, unsupported(f"{at}.kind", kind, _KINDS)]
    if kind != "ServiceAccount":
        if given != group:
            errors.append(unsupported(f"{at}.apiGroup", given, (group,)))
        return errors
    errors += checked(f"{at}.name", name or None, text.subdomain)
    if given:
        errors.append(unsupported(f"{at}.apiGroup", given, ("",)))
    if not namespaced and not subject.get("namespace"):
        errors.append(required(f"{at}.namespace"))
    return errors


# --- table ----------------------------------------------------------------------------------------


def _cells(obj: Obj, now_us: int, _: Names) -> Cells:
    role, subjects = obj.get("roleRef") or {}, obj.get("subjects") or ()
    holders: dict[str, list[str]] = {"User": [], "Group": [], "ServiceAccount": []}
    for subject in subjects:
        kind, name = subject.get("kind", ""), subject.get("name", "")
        if kind == "ServiceAccount":
            name = f"{subject.get('namespace', '')}/{name}"
        holders.get(kind, []).append(name)
    shown = f"{role.get('kind', '')}/{role.get('name', '')}"
    return [name_of(obj), shown, age(obj, now_us), *map(", ".join, holders.values())]


# --- kinds ----------------------------------------------------------------------------------------


def _kind(row: Row) -> Kind:
    return Kind(
        rows=(row,),
        strategy=Strategy(create_by_put=True),
        defaults=_fill_defaults,
        validate_create=partial(_validate_create, namespaced=row.namespaced),
        validate_update={"": partial(_validate_update, namespaced=row.namespaced)},
        columns=(NAME, "Role=roleRef", AGE, "*Users", "*Groups", "*ServiceAccounts"),
        cells=_cells,
    )


ROLE_BINDING = _kind(Row("rbac.authorization", "v1", "rolebindings", "RoleBinding"))
CLUSTER_ROLE_BINDING = _kind(
    Row("rbac.authorization", "v1", "clusterrolebindings", "ClusterRoleBinding", namespaced=False)
)
