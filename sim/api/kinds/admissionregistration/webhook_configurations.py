"""ValidatingWebhookConfigurations and MutatingWebhookConfigurations.

Mirrors  kubernetes v1.25 pkg/apis/admissionregistration/validation/validation.go,
         pkg/apis/admissionregistration/v1/defaults.go;
         pkg/registry/admissionregistration/{mutating,validating}webhookconfiguration/strategy.go;
         pkg/printers/internalversion/printers.go; apimachinery pkg/util/validation/validation.go
         (IsFullyQualifiedName).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from sim.api.go.printing import GoValue
from sim.api.kinds.common import webhooks
from sim.api.kinds.common.cells import AGE, NAME, age
from sim.api.kinds.common.fill import all_of, present, within
from sim.api.objects import name_of
from sim.api.schema.kind import Cells, Kind, Row, Strategy
from sim.api.types import Obj
from sim.api.validation import text
from sim.api.validation.errors import Errors, checked, duplicate, invalid, required, unsupported
from sim.api.validation.metadata import label_selector, object_meta
from sim.ident import Names

# --- defaults -------------------------------------------------------------------------------------

PORT = 443
TIMEOUT_S = 10
_WEBHOOK: Obj = {
    "failurePolicy": "Fail",
    "matchPolicy": "Equivalent",
    "namespaceSelector": {},
    "objectSelector": {},
    "timeoutSeconds": TIMEOUT_S,
}
_MUTATING: Obj = {**_WEBHOOK, "reinvocationPolicy": "Never"}


def _fill_defaults(obj: Obj, defaults: Obj) -> Obj:
    if "webhooks" in obj and not obj["webhooks"]:
        return {key: value for key, value in obj.items() if key != "webhooks"}
    return all_of(obj, "webhooks", lambda webhook: _filled(webhook, defaults))


def _filled(webhook: Obj, defaults: Obj) -> Obj:
    webhook = all_of(present(webhook, defaults), "rules", lambda rule: present(rule, {"scope": "*"}))
    return within(webhook, "clientConfig", _with_port)


def _with_port(client: Obj) -> Obj:
    return within(client, "service", lambda service: present(service, {"port": PORT}))


# --- validation -----------------------------------------------------------------------------------

VERSIONS = ("v1", "v1beta1")
NO_SIDE_EFFECTS = ("None", "NoneOnDryRun")
_SIDE_EFFECTS = ("None", "NoneOnDryRun", "Some", "Unknown")
_CHOICES = (("failurePolicy", ("Fail", "Ignore")), ("matchPolicy", ("Equivalent", "Exact")))
_REINVOCATION = ("IfNeeded", "Never")
_OPERATIONS = ("*", "CONNECT", "CREATE", "DELETE", "UPDATE")
_SCOPES = ("*", "Cluster", "Namespaced")
_TIMEOUT_MAX_S = 30


class _Required(NamedTuple):
    """What an update must keep to, unless the stored object breaks it already."""

    side_effects: bool = True
    versions: bool = True
    unique_names: bool = True


def _required_by(old: Obj) -> _Required:
    hooks = old.get("webhooks") or ()
    names = [hook.get("name", "") for hook in hooks]
    versions = [hook.get("admissionReviewVersions") or [] for hook in hooks]
    return _Required(
        side_effects=all(hook.get("sideEffects") in NO_SIDE_EFFECTS for hook in hooks),
        versions=all(not given or any(v in VERSIONS for v in given) for given in versions),
        unique_names=len(set(names)) == len(names),
    )


def _validate_create(obj: Obj, mutating: bool) -> Errors:
    return _errors(obj, _Required(), mutating)


def _validate_update(new: Obj, old: Obj, mutating: bool) -> Errors:
    return _errors(new, _required_by(old), mutating)


def _errors(obj: Obj, needed: _Required, mutating: bool) -> Errors:
    errors = object_meta(obj["metadata"], False, text.subdomain, core=False)
    names: list[str] = []
    for i, hook in enumerate(obj.get("webhooks") or ()):
        at = f"webhooks[{i}]"
        errors += _webhook_errors(hook, needed, mutating, at)
        versions = hook.get("admissionReviewVersions") or []
        errors += _version_errors(versions, needed.versions, f"{at}.admissionReviewVersions")
        name = hook.get("name", "")
        if needed.unique_names and name:
            if name in names:
                errors.append(duplicate(f"{at}.name", name))
            names.append(name)
    return errors


def _webhook_errors(hook: Obj, needed: _Required, mutating: bool, at: str) -> Errors:
    errors = _full_name_errors(hook.get("name", ""), f"{at}.name")
    for i, rule in enumerate(hook.get("rules") or ()):
        errors += _rule_errors(rule, f"{at}.rules[{i}]")
    for field, values in _CHOICES:
        errors += _choice_errors(hook, field, values, at)
    effects = NO_SIDE_EFFECTS if needed.side_effects else _SIDE_EFFECTS
    where = f"{at}.sideEffects"
    if not hook.get("sideEffects"):  # an absent required field is decoded as an empty text
        errors.append(required(where, f"must specify one of {', '.join(effects)}"))
    else:
        errors += _choice_errors(hook, "sideEffects", effects, at)
    seconds = hook.get("timeoutSeconds")
    if seconds is not None and not 1 <= seconds <= _TIMEOUT_MAX_S:
        detail = "the timeout value must be between 1 and 30 seconds"
        errors.append(invalid(f"{at}.timeoutSeconds", seconds, detail))
    for field in ("namespaceSelector", "objectSelector"):
        errors += label_selector(hook.get(field), f"{at}.{field}")
    if mutating:
        errors += _choice_errors(hook, "reinvocationPolicy", _REINVOCATION, at)
    return errors + _client_errors(hook.get("clientConfig") or {}, f"{at}.clientConfig")


def _choice_errors(hook: Obj, field: str, values: tuple[str, ...], at: str) -> Errors:
    value = hook.get(field)
    return [] if value is None or value in values else [unsupported(f"{at}.{field}", value, values)]


def _full_name_errors(name: str, at: str) -> Errors:
    if not name:
        return [required(at)]
    problems = text.subdomain(name)
    if problems:
        return [invalid(at, name, ",".join(problems))]
    if name.count(".") < 2:
        return [invalid(at, name, "should be a domain with at least three segments separated by dots")]
    return []


def _client_errors(client: Obj, at: str) -> Errors:
    url, service = client.get("url"), client.get("service")
    if (url is None) == (service is None):
        return [required(at, "exactly one of url or service is required")]
    if url is not None:
        return webhooks.url(url, f"{at}.url")
    assert service is not None
    return webhooks.service(  # Quirk: name and namespace are swapped
        service.get("name", ""),
        service.get("namespace", ""),
        service.get("path"),
        service.get("port", 0),
        f"{at}.service",
    )


def _version_errors(versions: list[str], needs_known: bool, at: str) -> Errors:
    if not versions:
        return [required(at, f"must specify one of {', '.join(VERSIONS)}")]
    errors: Errors = []
    for i, version in enumerate(versions):
        if version in versions[:i]:
            errors.append(invalid(f"{at}[{i}]", version, "duplicate version"))
        else:
            errors += checked(f"{at}[{i}]", version, text.label_1035)
    if needs_known and not any(version in VERSIONS for version in versions):
        errors.append(invalid(at, versions, f"must include at least one of {', '.join(VERSIONS)}"))
    return errors


def _rule_errors(rule: Obj, at: str) -> Errors:
    operations = rule.get("operations") or []
    errors: Errors = [] if operations else [required(f"{at}.operations")]
    if len(operations) > 1 and "*" in operations:
        shown = GoValue("[]admissionregistration.OperationType", operations)
        detail = "if '*' is present, must not specify other operations"
        errors.append(invalid(f"{at}.operations", shown, detail))
    for i, operation in enumerate(operations):
        if operation not in _OPERATIONS:
            errors.append(unsupported(f"{at}.operations[{i}]", operation, _OPERATIONS))
    for field, what in (("apiGroups", "API groups"), ("apiVersions", "API versions")):
        values = rule.get(field) or []
        if not values:
            errors.append(required(f"{at}.{field}"))
        if len(values) > 1 and "*" in values:
            detail = f"if '*' is present, must not specify other {what}"
            errors.append(invalid(f"{at}.{field}", values, detail))
        if field == "apiVersions":
            errors += [required(f"{at}.{field}[{i}]") for i, value in enumerate(values) if not value]
    errors += _resource_errors(rule.get("resources") or [], f"{at}.resources")
    scope = rule.get("scope")
    return (
        errors if scope is None or scope in _SCOPES else [*errors, unsupported(f"{at}.scope", scope, _SCOPES)]
    )


def _resource_errors(resources: list[str], at: str) -> Errors:
    """Errors of the resources of a rule.

    Quirk: "*" beside a resource without subresource is refused only if the last entry without a
    slash is that resource.
    """
    errors: Errors = [] if resources else [required(at)]
    whole: list[str] = []  # resources of which all subresources are listed
    everywhere: list[str] = []  # subresources that are listed of all resources
    plain = False
    for i, entry in enumerate(resources):
        where = f"{at}[{i}]"
        if not entry:
            errors.append(required(where))
            continue
        resource, slash, sub = entry.partition("/")
        if not slash:
            plain = entry != "*"
            continue
        if resource in whole:
            errors.append(invalid(where, entry, f"if '{resource}/*' is present, must not specify {entry}"))
        if sub in everywhere:
            errors.append(invalid(where, entry, f"if '*/{sub}' is present, must not specify {entry}"))
        if sub == "*":
            whole.append(resource)
        if resource == "*":
            everywhere.append(sub)
    if len(resources) > 1 and "*/*" in resources:
        errors.append(invalid(at, resources, "if '*/*' is present, must not specify other resources"))
    if "*" in resources and plain:
        detail = "if '*' is present, must not specify other resources without subresources"
        errors.append(invalid(at, resources, detail))
    return errors


# --- table ----------------------------------------------------------------------------------------


def _cells(obj: Obj, now_us: int, _: Names) -> Cells:
    return [name_of(obj), len(obj.get("webhooks") or ()), age(obj, now_us)]


# --- kinds ----------------------------------------------------------------------------------------


def _kind(plural: str, kind: str, defaults: Obj, mutating: bool) -> Kind:
    row = Row("admissionregistration", "v1", plural, kind, namespaced=False, categories=("api-extensions",))
    fill: Callable[[Obj], Obj] = partial(_fill_defaults, defaults=defaults)
    return Kind(
        rows=(row,),
        strategy=Strategy(generation="content", reflected="webhooks", unconditional=False),
        defaults=fill,
        validate_create=partial(_validate_create, mutating=mutating),
        validate_update={"": partial(_validate_update, mutating=mutating)},
        columns=(NAME, "Webhooks:integer=webhooks", AGE),
        cells=_cells,
    )


MUTATING = _kind("mutatingwebhookconfigurations", "MutatingWebhookConfiguration", _MUTATING, True)
VALIDATING = _kind("validatingwebhookconfigurations", "ValidatingWebhookConfiguration", _WEBHOOK, False)
