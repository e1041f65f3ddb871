"""Ingresses.

Mirrors  kubernetes v1.25 pkg/apis/networking/validation/validation.go: ValidateIngressCreate,
         ValidateIngressUpdate; pkg/printers/internalversion/printers.go: printIngress.
"""

from __future__ import annotations

from typing import NamedTuple

from sim.api.go.printing import GoValue
from sim.api.kinds.common.cells import AGE, NAME, age
from sim.api.kinds.common.fill import all_of, present, within
from sim.api.kinds.common.load_balancers import validate_balanced_status
from sim.api.kinds.common.references import reference_errors
from sim.api.objects import get_in, name_of
from sim.api.schema.kind import STATUS, Cells, Kind, Row, Strategy
from sim.api.types import Obj
from sim.api.validation import text
from sim.api.validation.errors import Errors, checked, invalid, named, required, unsupported
from sim.api.validation.metadata import object_meta, object_meta_update
from sim.ident import NAMES, Names


def _fill_backend(backend: Obj) -> Obj:
    return within(backend, "resource", lambda resource: present(resource, {"apiGroup": None}))


def _fill_rule(rule: Obj) -> Obj:
    def path(value: Obj) -> Obj:
        return within(value, "backend", _fill_backend)

    return within(rule, "http", lambda http: all_of(http, "paths", path))


def _fill_spec(spec: Obj) -> Obj:
    return all_of(within(spec, "defaultBackend", _fill_backend), "rules", _fill_rule)


def _fill_defaults(obj: Obj) -> Obj:
    """The object with the members that upstream's encoding always writes."""
    obj = within(obj, "spec", _fill_spec)
    return within(
        present(obj, {"spec": {}, "status": {}}), "status", lambda s: present(s, {"loadBalancer": {}})
    )


# --- validation -----------------------------------------------------------------------------------

PATH_TYPES = ("Exact", "ImplementationSpecific", "Prefix")

_ANNOTATIONS = tuple(dict.fromkeys(names.annotation_ingress_class for names in NAMES.values()))

_ABSOLUTE = "must be an absolute path"

_BAD_PARTS = ("//", "/./", "/../", "%2f", "%2F")

_BAD_ENDS = ("/..", "/.")


class Tolerated(NamedTuple):
    """Errors that an update does not report.

    secret_names: of names of secrets
    wildcard_rules: of the paths of rules with a wildcard in their host
    """

    secret_names: bool = False
    wildcard_rules: bool = False


def _validate_create(obj: Obj) -> Errors:
    spec = obj.get("spec") or {}
    errors = object_meta(obj["metadata"], True, text.subdomain) + _spec_errors(spec, Tolerated())
    annotations = obj["metadata"].get("annotations") or {}
    for key in _ANNOTATIONS:
        if key in annotations and spec.get("ingressClassName") is not None:
            detail = "can not be set when the class field is also set"
            errors.append(invalid(f"annotations.{key}", annotations[key], detail))
    return errors


def _validate_update(new: Obj, old: Obj) -> Errors:
    """Quirk: the metadata is checked twice, so most errors about it are listed twice."""
    errors = object_meta_update(new["metadata"], old["metadata"])
    errors += object_meta(new["metadata"], True, text.subdomain)
    return errors + _spec_errors(new.get("spec") or {}, _tolerated(old.get("spec") or {}))


def _tolerated(spec: Obj) -> Tolerated:
    """What an update may keep: the stored object has such an error, from an older release."""
    secrets = any(_secret_name_errors(entry, "") for entry in spec.get("tls") or ())
    hosts = any(
        "*" in (rule.get("host") or "") and _http_errors(rule, "") for rule in spec.get("rules") or ()
    )
    return Tolerated(secrets, hosts)


def _secret_name_errors(entry: Obj, at: str) -> Errors:
    return checked(f"{at}.secretName", entry.get("secretName") or None, text.subdomain)


def _spec_errors(spec: Obj, tolerated: Tolerated) -> Errors:
    errors: Errors = []
    rules, default = spec.get("rules"), spec.get("defaultBackend")
    if not rules and default is None:
        shown = GoValue("[]networking.IngressRule", None if rules is None else [])
        errors.append(invalid("spec", shown, "either `defaultBackend` or `rules` must be specified"))
    if default is not None:
        errors += _backend_errors(default, "spec.defaultBackend")
    for i, rule in enumerate(rules or ()):
        errors += _rule_errors(rule, f"spec.rules[{i}]", tolerated)
    for i, entry in enumerate(spec.get("tls") or ()):
        for j, host in enumerate(entry.get("hosts") or ()):
            errors += _host_errors(host, f"spec.tls[{i}].hosts[{j}]")
        if not tolerated.secret_names:
            errors += _secret_name_errors(entry, f"spec.tls[{i}]")
    if spec.get("ingressClassName") is not None:
        errors += checked("spec.ingressClassName", spec["ingressClassName"], text.subdomain)
    return errors


def _host_errors(host: str, at: str) -> Errors:
    rule = text.wildcard_subdomain if "*" in host else text.subdomain
    return checked(at, host, rule)


def _rule_errors(rule: Obj, at: str, tolerated: Tolerated) -> Errors:
    errors: Errors = []
    host = rule.get("host") or ""
    if host:
        if text.parse_ip(host) is not None:
            errors.append(invalid(f"{at}.host", host, "must be a DNS name, not an IP address"))
        errors += _host_errors(host, f"{at}.host")
    if "*" in host and tolerated.wildcard_rules:
        return errors
    return errors + _http_errors(rule, at)


def _http_errors(rule: Obj, at: str) -> Errors:
    errors: Errors = []
    http = rule.get("http")
    if http is None:
        return errors
    paths = http.get("paths") or ()
    if not paths:
        errors.append(required(f"{at}.http.paths"))
    for i, path in enumerate(paths):
        errors += _path_errors(path, f"{at}.http.paths[{i}]")
    return errors


def _path_errors(path: Obj, at: str) -> Errors:
    kind, value = path.get("pathType"), path.get("path") or ""
    if not kind:  # a missing required field is empty after decoding
        return [required(f"{at}.pathType", "pathType must be specified")]
    errors: Errors = []
    if kind in ("Exact", "Prefix"):
        if not value.startswith("/"):
            errors.append(invalid(f"{at}.path", value, _ABSOLUTE))
        bad = [f"must not contain '{part}'" for part in _BAD_PARTS if part in value]
        bad += [f"cannot end with '{end}'" for end in _BAD_ENDS if value.endswith(end)]
        errors += [invalid(f"{at}.path", value, detail) for detail in bad]
    elif kind == "ImplementationSpecific":
        if value and not value.startswith("/"):
            errors.append(invalid(f"{at}.path", value, _ABSOLUTE))
    else:
        errors.append(unsupported(f"{at}.pathType", kind, PATH_TYPES))
    return errors + _backend_errors(path.get("backend") or {}, f"{at}.backend")


def _backend_errors(backend: Obj, at: str) -> Errors:
    service, resource = backend.get("service"), backend.get("resource")
    if service is not None and resource is not None:
        return [invalid(at, "", "cannot set both resource and service backends")]
    if resource is not None:
        return reference_errors(resource, f"{at}.resource")
    if service is None:
        return [invalid(at, "", "resource or service backend is required")]
    errors: Errors = []
    errors += named(f"{at}.service.name", service.get("name"), text.label_1035)
    port = service.get("port") or {}
    name, number = port.get("name"), port.get("number")
    if name and number:
        errors.append(invalid(at, "", "cannot set both port name & port number"))
    elif name:
        errors += checked(f"{at}.service.port.name", name or None, text.port_name)
    elif number:
        problems = text.port_number(number)
        errors += [invalid(f"{at}.service.port.number", number, problem) for problem in problems]
    else:
        errors.append(required(at, "port name or number is required"))
    return errors


# --- table ----------------------------------------------------------------------------------------

HOSTS_SHOWN = 3


def _cells(obj: Obj, now_us: int, _: Names) -> Cells:
    spec = obj.get("spec") or {}
    hosts = [rule["host"] for rule in spec.get("rules") or () if rule.get("host")]
    shown = ",".join(hosts[:HOSTS_SHOWN]) or "*"
    if len(hosts) > HOSTS_SHOWN:
        shown += f" + {len(hosts) - HOSTS_SHOWN} more..."
    points = get_in(obj, ("status", "loadBalancer", "ingress"), [])
    address = ",".join(point.get("ip") or point.get("hostname") or "" for point in points)
    ports = "80, 443" if spec.get("tls") else "80"
    klass = spec.get("ingressClassName")
    return [
        name_of(obj),
        "<none>" if klass is None else klass,
        shown,
        address,
        ports,
        age(obj, now_us),
    ]


KIND = Kind(
    rows=(Row("networking", "v1", "ingresses", "Ingress", short=("ing",), subs=(STATUS,)),),
    strategy=Strategy(status=True, zero_status={"loadBalancer": {}}, generation="spec"),
    defaults=_fill_defaults,
    validate_create=_validate_create,
    validate_update={"": _validate_update, "status": validate_balanced_status},
    columns=(NAME, "Class=spec.ingressClassName", "Hosts", "Address", "Ports", AGE),
    cells=_cells,
    errors_in="extensions",  # the group in which the kind was introduced
)
