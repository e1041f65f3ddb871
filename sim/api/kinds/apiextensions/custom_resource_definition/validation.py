"""Validation of CustomResourceDefinitions: names, versions, subresources, columns, conversion,
approval of the group.

Turns a definition (and the one it changes) into field errors.  `schemas` checks the schemas.

Holds: paths are those of the hub: what all versions have in common, and all of a single version, is
hoisted beside the versions (`spec.validation`, `spec.subresources`,
`spec.additionalPrinterColumns`, `spec.conversion.webhookClientConfig`).

Mirrors  apiextensions-apiserver v1.25 pkg/apis/apiextensions/validation/validation.go,
         pkg/apihelpers/helpers.go, pkg/apis/apiextensions/v1/conversion.go.
Differs  all rules apply to an update: no stored object comes from an older release with weaker
         rules.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from urllib.parse import urlsplit

from sim.api.crd.definition_form import names_of, schemas_in
from sim.api.go.printing import GoValue
from sim.api.kinds.apiextensions.custom_resource_definition.schemas import schema_errors
from sim.api.kinds.common import webhooks
from sim.api.objects import condition_status
from sim.api.schema.json_text import go_quote
from sim.api.types import Json, Obj
from sim.api.validation import text
from sim.api.validation.errors import Errors, checked, forbidden, immutable, invalid, one_of, required
from sim.api.validation.metadata import object_meta, object_meta_update
from sim.ident import Names
from sim.pauses import paced

VERSION_US = 20  # of processor time, for one version without its schema
COLUMN_TYPES = ("boolean", "date", "integer", "number", "string")
COLUMN_FORMATS = ("byte", "date", "date-time", "double", "float", "int32", "int64", "password")
SCOPES = ("Cluster", "Namespaced")
REVIEW_VERSIONS = ("v1", "v1beta1")
DEPRECATION_BYTES_MAX = 256
# Fields that are hoisted beside the versions where they are the same in each.
_HOISTED = (
    ("schema", "validation"),
    ("subresources", "subresources"),
    ("additionalPrinterColumns", "additionalPrinterColumns"),
)


def create_definition(obj: Obj) -> Errors:
    """Errors of a new definition."""
    errors = object_meta(obj["metadata"], False, _name_rule(obj["spec"]), core=False)
    return errors + _spec(obj["spec"]) + _status(obj) + _approval(obj, None) + _preserved(obj, None)


def update_definition(new: Obj, old: Obj) -> Errors:
    """Errors of a changed definition."""
    errors = object_meta_update(new["metadata"], old["metadata"], core=False)
    if new["spec"] is not old["spec"]:
        errors += _spec(new["spec"]) + _fixed(new["spec"], old)
    return errors + _status(new) + _approval(new, old) + _preserved(new, old)


def status_definition(new: Obj, old: Obj) -> Errors:
    """Errors of a write to /status of a definition."""
    errors = object_meta_update(new["metadata"], old["metadata"], core=False)
    return errors + _names(new["status"]["acceptedNames"], "status.acceptedNames")


def _name_rule(spec: Obj) -> Callable[[str], text.Problems]:
    wanted = f"{spec['names']['plural']}.{spec['group']}"

    def rule(name: str) -> text.Problems:
        problems = text.subdomain(name)
        return problems if name == wanted else (*problems, 'must be spec.names.plural+"."+spec.group')

    return rule


def _fixed(spec: Obj, old: Obj) -> Errors:
    """Errors of changed fields that must stay: those that make the keys of objects, and the scope
    and kind once objects are served.
    """
    before = old["spec"]
    errors: Errors = []
    if condition_status(old, "Established") == "True":
        errors += immutable("spec.scope", spec["scope"], before["scope"])
        errors += immutable("spec.names.kind", spec["names"]["kind"], before["names"]["kind"])
    errors += immutable("spec.group", spec["group"], before["group"])
    return errors + immutable("spec.names.plural", spec["names"]["plural"], before["names"]["plural"])


# --- the spec -------------------------------------------------------------------------------------


def hub(spec: Obj) -> Obj:
    """The spec in the form of upstream's hub: what all versions have in common is beside them."""
    made = {**spec, "versions": spec.get("versions")}
    versions = made["versions"]
    if not versions:
        return made
    for field, above in _HOISTED:
        first = versions[0].get(field)
        if all(_same(version.get(field), first) for version in versions):
            made[above] = first
            versions = [{k: v for k, v in version.items() if k != field} for version in versions]
    return {**made, "versions": versions, "version": versions[0]["name"]}


def _same(one: Json, other: Json) -> bool:
    # Python takes 1 for true.  The text differs, and is made only if the rest is equal.
    return one is other or (
        one == other and json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)
    )


def _spec(spec: Obj) -> Errors:
    spec = hub(spec)
    errors = _group(spec["group"]) + one_of("spec.scope", spec["scope"], SCOPES)
    versions, above = spec["versions"] or [], spec.get("validation") or {}
    if above.get("openAPIV3Schema") is None:
        errors += [
            required(f"spec.versions[{i}].schema.openAPIV3Schema", "schemas are required")
            for i, version in enumerate(versions)
            if (version.get("schema") or {}).get("openAPIV3Schema") is None
        ]
    if spec.get("preserveUnknownFields") and _has_defaults(spec):
        detail = "must be false in order to use defaults in the schema"
        errors.append(invalid("spec.preserveUnknownFields", True, detail))
    per_version = any(version.get("subresources") is not None for version in versions)
    for i, version in enumerate(paced(versions, VERSION_US)):
        status = _has_status(version if per_version else spec)
        errors += _version(version, status, f"spec.versions[{i}]")
    errors += _version_list(spec, versions)
    names = spec["names"]
    needed = ("plural", "singular", "kind", "listKind")
    errors += [required(f"spec.names.{field}") for field in needed if not names.get(field)]
    errors += _names(names, "spec.names")
    status = _has_status(spec) or any(map(_has_status, versions))
    errors += schema_errors(spec.get("validation"), status, "spec.validation")
    errors += _subresources(spec.get("subresources"), "spec.subresources")
    errors += _columns(spec.get("additionalPrinterColumns"), "spec.additionalPrinterColumns")
    return errors + _conversion(spec)


def _has_defaults(spec: Obj) -> bool:
    """True if a schema of the definition has a default."""
    holders = [spec.get("validation"), *(version.get("schema") for version in spec["versions"] or ())]
    schemas = [(holder or {}).get("openAPIV3Schema") for holder in holders]
    return any(
        one.get("default") is not None
        for schema in schemas
        if schema is not None
        for one in schemas_in(schema)
    )


def _group(group: str) -> Errors:
    if not group:
        return [required("spec.group")]
    problems = text.subdomain(group)
    if not problems and "." not in group:
        problems = ("should be a domain with at least one dot",)
    return [invalid("spec.group", group, ",".join(problems))] if problems else []


def _label(value: str, field: str, before: str = "") -> Errors:
    problems = text.label_1035(value.lower() if before else value)
    return [invalid(field, value, before + ",".join(problems))] if problems else []


def _names(names: Obj, at: str) -> Errors:
    errors: Errors = []
    mixed = "may have mixed case, but should otherwise match: "
    for field, before in (("plural", ""), ("singular", ""), ("kind", mixed), ("listKind", mixed)):
        if names.get(field):
            errors += _label(names[field], f"{at}.{field}", before)
    for i, short in enumerate(names.get("shortNames") or ()):
        errors += _label(short, f"{at}.shortNames[{i}]")
    if names.get("kind") and names["kind"] == names.get("listKind"):
        detail = "kind and listKind may not be the same"
        errors.append(invalid(f"{at}.listKind", names["listKind"], detail))
    for i, category in enumerate(names.get("categories") or ()):
        errors += _label(category, f"{at}.categories[{i}]")
    return errors


# --- versions -------------------------------------------------------------------------------------


def _has_status(holder: Obj) -> bool:
    return (holder.get("subresources") or {}).get("status") is not None


def _version(version: Obj, status: bool, at: str) -> Errors:
    errors = _label(version["name"], f"{at}.name")
    warning = version.get("deprecationWarning")
    if warning is not None:
        problems = _deprecation(bool(version.get("deprecated")), warning)
        errors += [invalid(f"{at}.deprecationWarning", warning, problem) for problem in problems]
    errors += schema_errors(version.get("schema"), status, f"{at}.schema")
    errors += _subresources(version.get("subresources"), f"{at}.subresources")
    return errors + _columns(version.get("additionalPrinterColumns"), f"{at}.additionalPrinterColumns")


def _deprecation(deprecated: bool, warning: str) -> list[str]:
    if not deprecated:
        return ["can only be set for deprecated versions"]
    problems = []
    if len(warning.encode()) > DEPRECATION_BYTES_MAX:
        problems.append(f"must be <= {DEPRECATION_BYTES_MAX} characters long")
    if not warning:
        problems.append("must not be an empty string")
    for i, character in enumerate(warning):
        if not character.isprintable():
            at = len(warning[:i].encode())
            why = f"non-printable character found at index {at}"
            problems.append(f"must only contain printable UTF-8 characters; {why}")
            break
    return problems


def _version_list(spec: Obj, versions: list[Obj]) -> Errors:
    """Errors of the list of versions as a whole."""
    names = [version["name"] for version in versions]
    problems = []
    if len(dict.fromkeys(names)) < len(names):
        problems.append("must contain unique version names")
    if sum(bool(version["storage"]) for version in versions) != 1:
        problems.append("must have exactly one version marked as storage version")
    shown = GoValue(f"[]{_VERSION}", spec["versions"])
    errors = [invalid("spec.versions", shown, problem) for problem in problems]
    first = spec.get("version")
    return errors + (_label(first, "spec.version") if first else [])


_VERSION = "apiextensions.CustomResourceDefinitionVersion"


def _columns(columns: list[Obj] | None, at: str) -> Errors:
    errors: Errors = []
    for i, column in enumerate(columns or ()):
        field, kind, form = f"{at}[{i}]", column.get("type") or "", column.get("format") or ""
        if not column.get("name"):
            errors.append(required(f"{field}.name"))
        detail = f"must be one of {','.join(COLUMN_TYPES)}"
        if not kind:
            errors.append(required(f"{field}.type", detail))
        elif kind not in COLUMN_TYPES:
            errors.append(invalid(f"{field}.type", kind, detail))
        if form and form not in COLUMN_FORMATS:
            errors.append(invalid(f"{field}.format", form, f"must be one of {','.join(COLUMN_FORMATS)}"))
        path = column.get("jsonPath") or ""
        errors += _json_path(path, f"{field}.JSONPath") if path else [required(f"{field}.JSONPath")]
    return errors


def _json_path(path: str, field: str) -> Errors:
    return (
        [] if path.startswith(".") else [invalid(field, path, "must be a simple json path starting with .")]
    )


def _subresources(subresources: Obj | None, at: str) -> Errors:
    scale = (subresources or {}).get("scale")
    if scale is None:
        return []
    errors: Errors = []
    for key, below in (("specReplicasPath", ".spec"), ("statusReplicasPath", ".status")):
        field, path = f"{at}.scale.{key}", scale.get(key) or ""
        if not path:
            errors.append(required(field))
        elif wrong := _json_path(path, field):
            errors += wrong
        elif not path.startswith(f"{below}."):
            errors.append(invalid(field, path, f"should be a json path under {below}"))
    field, path = f"{at}.scale.labelSelectorPath", scale.get("labelSelectorPath") or ""
    if path:
        wrong = _json_path(path, field)
        if not wrong and not path.startswith((".spec.", ".status.")):
            wrong = [invalid(field, path, "should be a json path under either .spec or .status")]
        errors += wrong
    return errors


# --- conversion -----------------------------------------------------------------------------------


def _conversion(spec: Obj) -> Errors:
    conversion = spec["conversion"]
    strategy, webhook = conversion["strategy"], conversion.get("webhook") or {}
    client, versions = webhook.get("clientConfig"), webhook.get("conversionReviewVersions")
    at = "spec.conversion"
    errors: Errors = []
    if strategy != "None" and spec.get("preserveUnknownFields"):
        detail = "must be None if spec.preserveUnknownFields is true"
        errors.append(invalid(f"{at}.strategy", strategy, detail))
    errors += one_of(f"{at}.strategy", strategy, ("None", "Webhook"))
    if strategy == "Webhook":
        return errors + _client(client, f"{at}.webhookClientConfig") + _reviews(versions or [], at)
    unused = "should not be set when strategy is not set to Webhook"
    if client is not None:
        errors.append(forbidden(f"{at}.webhookClientConfig", unused))
    if versions:
        errors.append(forbidden(f"{at}.conversionReviewVersions", unused))
    return errors


def _client(client: Obj | None, at: str) -> Errors:
    if client is None:
        return [required(at, "required when strategy is set to Webhook")]
    url, service = client.get("url"), client.get("service")
    if (url is None) == (service is None):
        return [required(at, "exactly one of url or service is required")]
    if url is not None:
        return webhooks.url(url, f"{at}.url")
    assert service is not None
    # Quirk: name and namespace are swapped
    return webhooks.service(
        service["name"], service["namespace"], service.get("path"), service["port"], f"{at}.service"
    )


def _reviews(versions: list[str], at: str) -> Errors:
    field = f"{at}.conversionReviewVersions"
    if not versions:
        return [required(field)]
    errors: Errors = []
    seen: dict[str, None] = {}
    for i, version in enumerate(versions):
        if version in seen:
            errors.append(invalid(f"{field}[{i}]", version, "duplicate version"))
            continue
        seen[version] = None
        errors += checked(f"{field}[{i}]", version, text.label_1035)
    if not any(version in seen for version in REVIEW_VERSIONS):
        detail = f"must include at least one of {', '.join(REVIEW_VERSIONS)}"
        errors.append(invalid(field, GoValue("[]string", versions), detail))
    return errors


# --- status ---------------------------------------------------------------------------------------


def _status(obj: Obj) -> Errors:
    status, field = obj["status"], "status.storedVersions"
    errors = _names(status["acceptedNames"], "status.acceptedNames")
    stored = status.get("storedVersions")
    if not stored:
        detail = "must have at least one stored version"
        return [*errors, invalid(field, GoValue("[]string", stored), detail)]
    versions = hub(obj["spec"])["versions"] or ()
    left = {name: i for i, name in enumerate(stored)}
    for version in versions:
        # Quirk: of two versions with one name, the second counts as not stored.
        if left.pop(version["name"], None) is None and version["storage"]:
            detail = f"must have the storage version {version['name']}"
            errors.append(invalid(field, GoValue(_VERSION, version), detail))
    texts = [(f"{field}[{i}]", name) for name, i in left.items()]
    return errors + [invalid(at, name, "must appear in spec.versions") for at, name in texts]


# --- groups of the community ----------------------------------------------------------------------


def approval(obj: Obj) -> tuple[str, str] | None:
    """The state of approval and its reason for a group of the community; None for other groups.

    The state is Missing, Invalid, Approved or Unapproved.
    """
    names = names_of(obj)
    group = obj["spec"]["group"]
    if not any(group == d or group.endswith(f".{d}") for d in (names.group_domain, names.domain)):
        return None
    return _approval_state(obj["metadata"].get("annotations") or {}, names)


# What upstream's messages point to.
_POLICY = "see https://github.com/kubernetes/enhancements/pull/1111"


def _approval_state(annotations: Obj, names: Names) -> tuple[str, str]:
    said = annotations.get(names.annotation_api_approved) or ""
    must = f'protected groups must have approval annotation "{names.annotation_api_approved}"'
    if not said:
        return "Missing", f"{must}, {_POLICY}"
    if said.startswith("unapproved"):
        return "Unapproved", f"not approved: {go_quote(said)}"
    try:
        url = urlsplit(said)
    except ValueError:
        url = urlsplit("")
    if url.scheme and url.netloc:
        return "Approved", f"approved in {said}"
    return "Invalid", f'{must} with either a URL or a reason starting with "unapproved", {_POLICY}'


def _approval(new: Obj, old: Obj | None) -> Errors:
    state = approval(new)
    if state is None:
        return []
    names = names_of(new)
    if old is not None:
        before = _approval_state(old["metadata"].get("annotations") or {}, names)
        if before[0] == state[0]:
            return []
    field = f"metadata.annotations[{names.annotation_api_approved}]"
    if state[0] == "Missing":
        return [required(field, state[1])]
    said = (new["metadata"].get("annotations") or {}).get(names.annotation_api_approved)
    return [invalid(field, said, state[1])] if state[0] == "Invalid" else []


def _preserved(new: Obj, old: Obj | None) -> Errors:
    if not new["spec"].get("preserveUnknownFields"):
        return []
    if old is not None and old["spec"].get("preserveUnknownFields"):
        return []
    detail = "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead"
    return [invalid("spec.preserveUnknownFields", True, detail)]
