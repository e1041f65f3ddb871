"""FlowSchemas.

Holds: a valid schema can be classified by (`sim.api.fairness.classification`): every subject has
its member, every rule its lists.

Mirrors  kubernetes v1.25 pkg/apis/flowcontrol/validation/validation.go: ValidateFlowSchema;
         pkg/apis/flowcontrol/v1beta2/defaults.go.
"""

from __future__ import annotations

from sim.api.go.printing import GoValue
from sim.api.kinds.common.cells import AGE, NAME, age
from sim.api.kinds.flowcontrol.mandatory import schema_spec_errors
from sim.api.kinds.flowcontrol.shared import (
    EXEMPT,
    FLOW,
    condition_errors,
    filled,
    validate_status,
    with_spec,
)
from sim.api.objects import condition_status, get_in, name_of
from sim.api.schema.kind import STATUS, Cells, Kind, Lifecycle, Row
from sim.api.types import Obj
from sim.api.validation import text
from sim.api.validation.errors import Errors, checked, forbidden, invalid, required, unsupported
from sim.api.validation.metadata import object_meta
from sim.ident import Names

# --- defaults -------------------------------------------------------------------------------------


PRECEDENCE = 1000


def _fill_defaults(obj: Obj) -> Obj:
    """Defaults of a FlowSchema.  Quirk: a missing list of namespaces is written as null."""
    spec = filled(obj.get("spec") or {}, {"matchingPrecedence": PRECEDENCE})
    rules = spec.get("rules")
    if rules:
        spec = {**spec, "rules": [_with_namespaces(rule) for rule in rules]}
    return with_spec(obj, spec)


def _with_namespaces(rule: Obj) -> Obj:
    covered = rule.get("resourceRules")
    return {**rule, "resourceRules": [{"namespaces": None, **one} for one in covered]} if covered else rule


# --- validation -----------------------------------------------------------------------------------

PRECEDENCE_MAX = 10_000  # types.go: FlowSchemaMaxMatchingPrecedence

_MEMBERS = {"Group": "group", "ServiceAccount": "serviceAccount", "User": "user"}


def _validate_create(obj: Obj) -> Errors:
    errors = object_meta(obj["metadata"], False, text.subdomain) + _schema_errors(obj)
    errors += schema_spec_errors(name_of(obj), obj.get("spec") or {})
    return errors + condition_errors(obj)


def _validate_update(new: Obj, _old: Obj) -> Errors:
    return _validate_create(new)


def _schema_errors(obj: Obj) -> Errors:
    spec, errors = obj.get("spec") or {}, []
    precedence = spec.get("matchingPrecedence", 0)
    at = "spec.matchingPrecedence"
    if precedence <= 0:
        errors.append(invalid(at, precedence, "must be a positive value"))
    if precedence > PRECEDENCE_MAX:
        errors.append(invalid(at, precedence, f"must not be greater than {PRECEDENCE_MAX}"))
    if precedence == 1 and obj["metadata"].get("name") != EXEMPT:
        errors.append(invalid(at, precedence, "only the schema named 'exempt' may have matchingPrecedence 1"))
    method = spec.get("distinguisherMethod")
    if method is not None and method.get("type") not in ("ByNamespace", "ByUser"):
        shown = GoValue("flowcontrol.FlowDistinguisherMethod", method)
        errors.append(unsupported("spec.distinguisherMethod.type", shown, ("ByNamespace", "ByUser")))
    name, at = (
        (spec.get("priorityLevelConfiguration") or {}).get("name"),
        "spec.priorityLevelConfiguration.name",
    )
    if not name:
        errors.append(required(at, "must reference a priority level"))
    else:
        errors += checked(at, name, text.subdomain)
    for i, rule in enumerate(spec.get("rules") or ()):
        errors += _rule_errors(rule, f"spec.rules[{i}]")
    return errors


def _rule_errors(rule: Obj, at: str) -> Errors:
    errors: Errors = []
    subjects = rule.get("subjects") or []
    if not subjects:
        errors.append(required(f"{at}.subjects", "subjects must contain at least one value"))
    for i, subject in enumerate(subjects):
        errors += _subject_errors(subject, f"{at}.subjects[{i}]")
    covered, paths = rule.get("resourceRules") or [], rule.get("nonResourceRules") or []
    if not covered and not paths:
        detail = "at least one of resourceRules and nonResourceRules has to be non-empty"
        errors.append(required(at, detail))
    for i, one in enumerate(covered):
        where = f"{at}.resourceRules[{i}]"
        for key in ("verbs", "apiGroups", "resources"):
            errors += _list_errors(one, key, where)
        errors += _namespace_errors(one, f"{where}.namespaces")
    for i, one in enumerate(paths):
        for key in ("verbs", "nonResourceURLs"):
            errors += _list_errors(one, key, f"{at}.nonResourceRules[{i}]")
    return errors


def _namespace_errors(rule: Obj, at: str) -> Errors:
    given = rule.get("namespaces") or []
    if not given and not rule.get("clusterScope"):
        detail = "resource rules that are not cluster scoped must supply at least one namespace"
        return [required(at, detail)]
    if "*" in given:
        detail = "if '*' is present, must not specify other namespaces"
        return [invalid(at, given, detail)] if len(given) > 1 else []
    form = "each member of this list must be '*' or a DNS-1123 label; "
    return [
        invalid(f"{at}[{i}]", name, form + problem)
        for i, name in enumerate(given)
        for problem in text.label(name)
    ]


_LACKING = {
    "verbs": "verbs must contain at least one value",
    "apiGroups": "resource rules must supply at least one api group",
    "resources": "resource rules must supply at least one resource",
    "nonResourceURLs": "nonResourceURLs must contain at least one value",
}


def _list_errors(rule: Obj, key: str, at: str) -> Errors:
    """Errors of a list that must have members; "*" must be the only one."""
    values = rule.get(key) or []
    if not values:
        return [required(f"{at}.{key}", _LACKING[key])]
    if "*" in values:
        detail = "if '*' is present, must not specify other " + _PLURALS[key]
        return [invalid(f"{at}.{key}", values, detail)] if len(values) > 1 else []
    if key == "verbs" and any(verb not in VERBS for verb in values):
        return [unsupported(f"{at}.verbs", values, VERBS)]
    if key != "nonResourceURLs":
        return []
    return [error for i, url in enumerate(values) for error in _url_errors(url, f"{at}.{key}[{i}]")]


def _url_errors(url: str, at: str) -> Errors:
    """The first problem of a path."""
    stars = url.count("*")
    for problem, bad in (
        ("must not be empty", not url),
        ("must start with slash", not url.startswith("/")),
        ("must not contain white-space", " " in url),
        ("must not contain double slash", "//" in url),
        ("wildcard can only do suffix matching", stars > 1 or (stars == 1 and not url.endswith("/*"))),
    ):
        if bad:
            return [invalid(at, url, problem)]
    return []


VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "proxy", "update", "watch")


_PLURALS = {
    "verbs": "verbs",
    "apiGroups": "api groups",
    "resources": "resources",
    "nonResourceURLs": "non-resource URLs",
}


def _subject_errors(subject: Obj, at: str) -> Errors:
    kind = subject.get("kind", "")
    if kind not in _MEMBERS:
        return [unsupported(f"{at}.kind", kind, sorted(_MEMBERS))]
    member = _MEMBERS[kind]
    value = subject.get(member)
    if value is None:
        errors = [required(f"{at}.{member}", f"{member} is required when subject kind is '{kind}'")]
    else:
        errors = [] if value.get("name") else [required(f"{at}.{member}.name")]
        if kind == "ServiceAccount":
            errors += _account_errors(value, f"{at}.{member}")
    for other in ("ServiceAccount", "User", "Group"):
        name = _MEMBERS[other]
        if other != kind and subject.get(name) is not None:
            detail = f"{name} is forbidden when subject kind is not '{other}'"
            errors.append(forbidden(f"{at}.{name}", detail))
    return errors


def _account_errors(account: Obj, at: str) -> Errors:
    name, namespace = account.get("name") or "", account.get("namespace") or ""
    errors: Errors = []
    if name and name != "*":
        errors += checked(f"{at}.name", name, text.subdomain)
    if not namespace:
        return [*errors, required(f"{at}.namespace", "must specify namespace for service account")]
    return errors + checked(f"{at}.namespace", namespace, text.label)


def _cells(obj: Obj, now_us: int, _: Names) -> Cells:
    return [
        name_of(obj),
        get_in(obj, ("spec", "priorityLevelConfiguration", "name"), ""),
        get_in(obj, ("spec", "matchingPrecedence"), 0),
        get_in(obj, ("spec", "distinguisherMethod", "type"), "<none>"),
        age(obj, now_us),
        condition_status(obj, "Dangling") or "?",
    ]


def _order(obj: Obj) -> tuple[int, str]:
    """Rows go by precedence, then by name (apihelpers.FlowSchemaSequence)."""
    return get_in(obj, ("spec", "matchingPrecedence"), 0), name_of(obj)


_V1BETA2 = Row(
    "flowcontrol.apiserver",
    "v1beta2",
    "flowschemas",
    "FlowSchema",
    namespaced=False,
    subs=(STATUS,),
    stored_version="v1beta2",
)
KIND = Kind(
    rows=(_V1BETA2, _V1BETA2._replace(version="v1beta1", lifecycle=Lifecycle(23, 26, "v1beta2"))),
    strategy=FLOW,
    defaults=_fill_defaults,
    validate_create=_validate_create,
    validate_update={"": _validate_update, "status": validate_status},
    columns=(
        NAME,
        "PriorityLevel=spec.priorityLevelConfiguration",
        "MatchingPrecedence=spec.matchingPrecedence",
        "DistinguisherMethod=spec.distinguisherMethod",
        AGE,
        "MissingPL",
    ),
    cells=_cells,
    row_order=_order,
)
