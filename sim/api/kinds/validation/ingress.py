"""Ingresses, IngressClasses, NetworkPolicies.

Mirrors  kubernetes v1.25 pkg/apis/networking/validation/validation.go, pkg/apis/core/validation (IsDomainPrefixedPath).
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable

from sim.api.kinds.validation import text
from sim.api.kinds.validation.errors import (
    Errors,
    Shown,
    forbidden,
    immutable,
    invalid,
    required,
    too_long,
    unsupported,
)
from sim.api.kinds.validation.meta import label_selector, object_meta, object_meta_update
from sim.api.kinds.validation.pods.containers import PROTOCOLS, port_or_name
from sim.api.schema.json_text import go_quote
from sim.api.types import Json, Obj
from sim.ident import NAMES

CONTROLLER_MAX = 250  # validation.go: maxLenIngressClassController
PATH_TYPES = ("Exact", "ImplementationSpecific", "Prefix")
SCOPES = ("Cluster", "Namespace")
POLICY_TYPES = ("Ingress", "Egress")
_ANNOTATIONS = tuple(dict.fromkeys(names.annotation_ingress_class for names in NAMES.values()))
_ABSOLUTE = "must be an absolute path"
_BAD_PARTS = ("//", "/./", "/../", "%2f", "%2F")
_BAD_ENDS = ("/..", "/.")
_URL_PATH = r"[A-Za-z0-9/\-._~%!$&'()*+,;=:]+"


# --- Ingress ----------------------------------------------------------------------------------------------


def create_ingress(obj: Obj) -> Errors:
    spec = obj.get("spec") or {}
    errors = object_meta(obj["metadata"], True, text.subdomain) + _ingress(spec)
    annotations = obj["metadata"].get("annotations") or {}
    for key in _ANNOTATIONS:
        if key in annotations and spec.get("ingressClassName") is not None:
            detail = "can not be set when the class field is also set"
            errors.append(invalid(f"annotations.{key}", annotations[key], detail))
    return errors


def update_ingress(new: Obj, old: Obj) -> Errors:
    return object_meta_update(new["metadata"], old["metadata"]) + _ingress(new.get("spec") or {})


def _ingress(spec: Obj) -> Errors:
    errors: Errors = []
    rules, default = spec.get("rules"), spec.get("defaultBackend")
    if not rules and default is None:
        shown = Shown("[]networking.IngressRule" + ("(nil)" if rules is None else "{}"))
        errors.append(invalid("spec", shown, "either `defaultBackend` or `rules` must be specified"))
    if default is not None:
        errors += _backend(default, "spec.defaultBackend")
    for i, rule in enumerate(rules or ()):
        errors += _rule(rule, f"spec.rules[{i}]")
    for i, entry in enumerate(spec.get("tls") or ()):
        for j, host in enumerate(entry.get("hosts") or ()):
            errors += _host(host, f"spec.tls[{i}].hosts[{j}]")
        errors += _checked(text.subdomain, entry.get("secretName"), f"spec.tls[{i}].secretName")
    if spec.get("ingressClassName") is not None:
        name = spec["ingressClassName"]
        errors += [invalid("spec.ingressClassName", name, problem) for problem in text.subdomain(name)]
    return errors


def _checked(rule: Callable[[str], text.Problems], value: Json, at: str) -> Errors:
    """The rule on a value that is given."""
    return [invalid(at, value, problem) for problem in rule(value)] if value else []


def _host(host: str, at: str) -> Errors:
    rule = text.wildcard_subdomain if "*" in host else text.subdomain
    return [invalid(at, host, problem) for problem in rule(host)]


def _rule(rule: Obj, at: str) -> Errors:
    errors: Errors = []
    host = rule.get("host")
    if host:
        if text.parse_ip(host) is not None:
            errors.append(invalid(f"{at}.host", host, "must be a DNS name, not an IP address"))
        errors += _host(host, f"{at}.host")
    http = rule.get("http")
    if http is None:
        return errors
    paths = http.get("paths") or ()
    if not paths:
        errors.append(required(f"{at}.http.paths"))
    for i, path in enumerate(paths):
        errors += _path(path, f"{at}.http.paths[{i}]")
    return errors


def _path(path: Obj, at: str) -> Errors:
    kind, value = path.get("pathType"), path.get("path") or ""
    if not kind:  # what is required and left out is empty by now
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
    return errors + _backend(path.get("backend") or {}, f"{at}.backend")


def _backend(backend: Obj, at: str) -> Errors:
    service, resource = backend.get("service"), backend.get("resource")
    if service is not None and resource is not None:
        return [invalid(at, "", "cannot set both resource and service backends")]
    if resource is not None:
        return _reference(resource, f"{at}.resource")
    if service is None:
        return [invalid(at, "", "resource or service backend is required")]
    errors: Errors = []
    if not service.get("name"):
        errors.append(required(f"{at}.service.name"))
    else:
        errors += _checked(text.label_1035, service["name"], f"{at}.service.name")
    port = service.get("port") or {}
    name, number = port.get("name"), port.get("number")
    if name and number:
        errors.append(invalid(at, "", "cannot set both port name & port number"))
    elif name:
        errors += _checked(text.port_name, name, f"{at}.service.port.name")
    elif number:
        problems = text.port_number(number)
        errors += [invalid(f"{at}.service.port.number", number, problem) for problem in problems]
    else:
        errors.append(required(at, "port name or number is required"))
    return errors


def _reference(given: Obj, at: str) -> Errors:
    """A typed reference to an object."""
    errors: Errors = []
    if given.get("apiGroup") is not None:
        group = given["apiGroup"]
        errors += [invalid(f"{at}.apiGroup", group, problem) for problem in text.subdomain(group)]
    for key in ("kind", "name"):
        if not given.get(key):
            errors.append(required(f"{at}.{key}", f"{key} is required"))
        else:
            errors += _checked(text.segment, given[key], f"{at}.{key}")
    return errors


# --- IngressClass -----------------------------------------------------------------------------------------


def create_class(obj: Obj) -> Errors:
    spec = obj.get("spec") or {}
    errors = object_meta(obj["metadata"], False, text.subdomain)
    controller = spec.get("controller") or ""
    if len(controller.encode()) > CONTROLLER_MAX:
        errors.append(too_long("spec.controller", CONTROLLER_MAX))
    return errors + _prefixed_path(controller, "spec.controller") + _parameters(spec)


def update_class(new: Obj, old: Obj) -> Errors:
    spec, before = new.get("spec") or {}, old.get("spec") or {}
    errors = object_meta_update(new["metadata"], old["metadata"])
    errors += immutable("spec.controller", spec.get("controller"), before.get("controller"))
    return errors + _parameters(spec)


def _prefixed_path(value: str, at: str) -> Errors:
    if not value:
        return [required(at)]
    domain, _, path = value.partition("/")
    if not domain or not path:
        return [invalid(at, value, 'must be a domain-prefixed path (such as "acme.io/foo")')]
    errors = [invalid(at, domain, problem) for problem in text.subdomain(domain)]
    if not re.fullmatch(_URL_PATH, path):
        errors.append(invalid(at, path, f"Invalid path (regex used for validation is '{_URL_PATH}')"))
    return errors


def _parameters(spec: Obj) -> Errors:
    given, at = spec.get("parameters"), "spec.parameters"
    if given is None:
        return []
    errors = _reference(given, at)
    scope, namespace = given.get("scope"), given.get("namespace")
    where = f"{at}.namespace"
    if scope is None:
        errors.append(required(f"{at}.scope"))
    elif scope not in SCOPES:
        errors.append(unsupported(f"{at}.scope", scope, SCOPES))
    elif scope == "Namespace" and namespace is None:
        errors.append(required(where, "`parameters.scope` is set to 'Namespace'"))
    elif scope == "Namespace":
        errors += [invalid(where, namespace, problem) for problem in text.label(namespace)]
    elif namespace is not None:
        errors.append(forbidden(where, "`parameters.scope` is set to 'Cluster'"))
    return errors


# --- NetworkPolicy ----------------------------------------------------------------------------------------


def create_policy(obj: Obj) -> Errors:
    return object_meta(obj["metadata"], True, text.subdomain) + _policy(obj.get("spec") or {})


def update_policy(new: Obj, old: Obj) -> Errors:
    return object_meta_update(new["metadata"], old["metadata"]) + _policy(new.get("spec") or {})


def _policy(spec: Obj) -> Errors:
    errors = label_selector(spec.get("podSelector"), "spec.podSelector")
    for field, peers in (("ingress", "from"), ("egress", "to")):
        for i, rule in enumerate(spec.get(field) or ()):
            at = f"spec.{field}[{i}]"
            for j, port in enumerate(rule.get("ports") or ()):
                errors += _port(port, f"{at}.ports[{j}]")
            for j, peer in enumerate(rule.get(peers) or ()):
                errors += _peer(peer, f"{at}.{peers}[{j}]")
    types = spec.get("policyTypes") or ()
    if len(types) > len(POLICY_TYPES):
        shown = Shown("[]networking.PolicyType{" + ", ".join(go_quote(each) for each in types) + "}")
        errors.append(invalid("spec.policyTypes", shown, "may not specify more than two policyTypes"))
        return errors
    for i, each in enumerate(types):
        if each not in POLICY_TYPES:
            errors.append(unsupported(f"spec.policyTypes[{i}]", each, POLICY_TYPES))
    return errors


def _port(port: Obj, at: str) -> Errors:
    errors: Errors = []
    protocol, number, end = port.get("protocol"), port.get("port"), port.get("endPort")
    if protocol is not None and protocol not in PROTOCOLS:
        errors.append(unsupported(f"{at}.protocol", protocol, ("TCP", "UDP", "SCTP")))
    where = f"{at}.endPort"
    if number is None:
        if end is not None:
            errors.append(invalid(where, end, "may not be specified when `port` is not specified"))
        return errors
    if isinstance(number, str):
        if end is not None:
            errors.append(invalid(where, end, "may not be specified when `port` is non-numeric"))
        return errors + port_or_name(number, f"{at}.port")
    errors += port_or_name(number, f"{at}.port")
    if end is not None:
        if end < number:
            errors.append(invalid(where, number, "must be greater than or equal to `port`"))
        errors += [invalid(where, end, problem) for problem in text.port_number(end)]
    return errors


def _peer(peer: Obj, at: str) -> Errors:
    errors: Errors = []
    given = [key for key in ("podSelector", "namespaceSelector", "ipBlock") if peer.get(key) is not None]
    for key in ("podSelector", "namespaceSelector"):
        errors += label_selector(peer.get(key), f"{at}.{key}")
    if "ipBlock" in given:
        errors += _block(peer["ipBlock"], f"{at}.ipBlock")
    if not given:
        errors.append(required(at, "must specify a peer"))
    elif len(given) > 1 and "ipBlock" in given:
        errors.append(forbidden(at, "may not specify both ipBlock and another peer"))
    return errors


def _block(block: Obj, at: str) -> Errors:
    cidr = block.get("cidr") or ""
    if not cidr:
        return [required(f"{at}.cidr")]
    if not text.is_cidr(cidr):
        return [invalid(f"{at}.cidr", cidr, "not a valid CIDR")]
    errors: Errors = []
    whole = _network(cidr)
    for i, each in enumerate(block.get("except") or ()):
        where = f"{at}.except[{i}]"
        if not text.is_cidr(each):
            errors.append(invalid(where, each, "not a valid CIDR"))
            return errors  # Quirk: those behind it are not looked at
        part = _network(each)
        address = ipaddress.ip_address(each.partition("/")[0])
        if address.version != whole.version or address not in whole or whole.prefixlen >= part.prefixlen:
            errors.append(invalid(where, each, "must be a strict subset of `cidr`"))
    return errors


def _network(cidr: str) -> ipaddress.IPv4Network | ipaddress.IPv6Network:
    return ipaddress.ip_network(cidr, strict=False)
