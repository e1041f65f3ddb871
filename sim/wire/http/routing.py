"""URLs: the attributes of a request for authorization, and the resource that it addresses.

A method, a path and a query become `AccessAttributes` and then a `Target`: a resource request, a
document outside of the resources, or upstream's refusal.

Holds: a path from outside is only compared with the scheme's tables; no name with "/", "%", "." or
".." alone is accepted.

Quirk: an empty segment matches a parameter of a path, so that `/namespaces//pods` is the collection
of the namespace "": all pods.

Mirrors  kubernetes v1.25 apiserver pkg/endpoints/request/requestinfo.go, pkg/endpoints/installer.go
         (paths), apimachinery pkg/api/validation/path/name.go.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache
from urllib.parse import unquote_to_bytes

import msgspec

from sim.api import status
from sim.api.auth.attributes import AccessAttributes
from sim.api.schema.kind import CONNECTING
from sim.api.schema.resource import Resource
from sim.api.scheme.scheme import Scheme
from sim.api.selectors import name_in_selector
from sim.api.types import Obj, Verb
from sim.patterns import pattern

METHOD_VERBS: Mapping[str, Verb] = {
    "POST": "create",
    "GET": "get",
    "HEAD": "get",
    "PUT": "update",
    "PATCH": "patch",
    "DELETE": "delete",
}
OF_COLLECTION: Mapping[str, Verb] = {"get": "list", "delete": "deletecollection"}
NAMESPACE_SUBRESOURCES = ("status", "finalize")
_BAD_ESCAPE = pattern(r"%(?![0-9A-Fa-f]{2})")


class Target(msgspec.Struct, frozen=True):
    """A resource request that exists.  path: behind `proxy`, "" or with its slash"""

    resource: Resource
    verb: Verb
    namespace: str = ""
    name: str = ""
    subresource: str = ""
    path: str = ""

    @property
    def connects(self) -> bool:
        """True for a request to exec, attach, portforward or proxy."""
        return self.subresource in CONNECTING and not self.resource.custom


class NoRoute(Exception):
    """The path leads nowhere. `body` None: the plain text 404 of a path without a group.

    resource: the custom resource that has the handler which says so; None if none was found
    """

    def __init__(self, body: Obj | None, resource: Resource | None = None) -> None:
        super().__init__("no route")
        self.body = body
        self.resource = resource


def decode_path(raw: str) -> str | None:
    """The path with its escapes decoded once; None if one is broken."""
    if "%" not in raw:
        return raw
    if _BAD_ESCAPE.search(raw):
        return None
    return unquote_to_bytes(raw).decode("utf-8", "replace")


def parse_query(raw: str) -> dict[str, str]:
    """First value of each parameter."""
    found: dict[str, str] = {}
    if not raw:
        return found
    for key, value in query_pairs(raw):
        found.setdefault(key, value)
    return found


def query_pairs(raw: str) -> Iterator[tuple[str, str]]:
    """All parameters; malformed parts are dropped, as by Go's URL.Query."""
    for part in raw.split("&"):
        key, _, value = part.partition("=")
        if not part or ";" in part or _BAD_ESCAPE.search(part):
            continue
        yield (
            unquote_to_bytes(key.replace("+", " ")).decode("utf-8", "replace"),
            unquote_to_bytes(value.replace("+", " ")).decode("utf-8", "replace"),
        )


def is_set(options: Mapping[str, str], name: str) -> bool:
    """A flag of the query: present, and neither 0 nor false."""
    return name in options and options[name].lower() not in ("0", "false")


def attributes(method: str, path: str, options: Mapping[str, str]) -> AccessAttributes:
    """The attributes of a path, whether or not its resource exists."""
    plain = AccessAttributes(method.lower(), path)
    parts = path.strip("/").split("/")
    if len(parts) < 3 or parts[0] not in ("api", "apis"):
        return plain
    group = ""
    rest = parts[1:]
    if parts[0] == "apis":
        if len(rest) < 3:
            return plain
        group, rest = rest[0], rest[1:]
    version, rest = rest[0], rest[1:]
    verb: str = METHOD_VERBS.get(method, "")
    # requestinfo.go: specialVerbs; below /proxy there are no subresources.
    special = rest[0] in ("watch", "proxy") and len(rest) > 1
    if special:
        verb, rest = rest[0], rest[1:]
    namespace = ""
    if rest[0] == "namespaces" and len(rest) > 1:
        namespace = rest[1]
        if len(rest) > 2 and rest[2] not in NAMESPACE_SUBRESOURCES:
            rest = rest[2:]
    name = rest[1] if len(rest) > 1 else ""
    sub = rest[2] if len(rest) > 2 and not (special and verb == "proxy") else ""
    if not name:
        watches = verb == "get" and is_set(options, "watch")
        verb = "watch" if watches else OF_COLLECTION.get(verb, verb)
        if verb in ("list", "watch"):
            name = name_in_selector(options.get("fieldSelector", ""))
    return AccessAttributes(verb, "", group, version, rest[0], sub, namespace, name)


def route(scheme: Scheme, method: str, path: str, options: Mapping[str, str]) -> Target:
    """The resource request of a path below a served group version.  Raises NoRoute."""
    whole = path.split("/")[1:]
    parts = list(whole)
    while len(parts) > 1 and not parts[-1]:
        parts.pop()
    size = len(parts)
    group, parts = ("", parts[1:]) if parts[0] == "api" else (parts[1], parts[2:])
    version, parts = parts[0], parts[1:]
    watching = parts[0] == "watch" and len(parts) > 1
    if watching:
        parts = parts[1:]
    namespace = ""
    namespaced = parts[0] == "namespaces" and len(parts) > 2 and parts[2] not in NAMESPACE_SUBRESOURCES
    if namespaced:
        namespace, parts = parts[1], parts[2:]
    resource = scheme.find(group, version, parts[0])
    if resource is None and group and group not in _groups(scheme.fixed):
        raise NoRoute(None)
    if resource is not None and resource.custom:
        return _custom(resource, method, namespace, parts, (watching, is_set(options, "watch")))
    tail = ""
    if parts[2:3] == ["proxy"]:
        tail = "".join(f"/{each}" for each in whole[size - len(parts) + 3 :])
        parts = parts[:3]
    if resource is None or (namespaced and not resource.namespaced) or len(parts) > 3:
        raise NoRoute(status.unknown_resource())
    across = resource.namespaced and not namespaced
    names_item = len(parts) > 1
    name = parts[1] if names_item else ""
    sub = parts[2] if len(parts) > 2 else ""
    # Of a kind that is created and forgotten there are no items.
    if names_item and (across or "get" not in resource.verbs):
        raise NoRoute(status.unknown_resource())
    verb = _watched(resource, method, sub) if watching else _verb(resource, method, names_item, sub, across)
    # Quirk: ?watch on the path of one item is ignored.
    if verb == "list" and is_set(options, "watch"):
        verb = "watch"
    if names_item:
        _check_name(name)
        if namespaced and not namespace and verb != "watch":
            raise NoRoute(status.bad_request("Namespace parameter required."))
    return Target(resource, verb, namespace, name, sub, tail)


@lru_cache(maxsize=64)
def _groups(scheme: Scheme) -> frozenset[str]:
    return frozenset(r.group for r in scheme.resources)


def _custom(
    resource: Resource, method: str, namespace: str, parts: list[str], watching: tuple[bool, bool]
) -> Target:
    """As `route`, for a custom resource.

    Quirk: a path that its scope does not have gives the 404 page; POST to an item creates; below
    /watch every method watches, because the verb comes from the path there.
    """
    name = parts[1] if len(parts) > 1 else ""
    sub = parts[2] if len(parts) > 2 else ""
    verb = METHOD_VERBS.get(method, "")
    if not name:
        verb = OF_COLLECTION.get(verb, verb)
    if watching[0] or (verb == "list" and watching[1]):
        verb = "watch"
    across = verb in ("list", "watch")
    if bool(namespace) > resource.namespaced or (resource.namespaced and not namespace and not across):
        raise NoRoute(None)
    if sub and resource.subresource(sub) is None:
        raise NoRoute(status.not_found(resource, name), resource)
    if method == "HEAD" or verb not in resource.verbs or (sub and verb not in ("get", "update", "patch")):
        raise NoRoute(status.not_supported(resource, verb or method.lower()), resource)
    if verb in ("update", "patch") and not name:
        raise NoRoute(status.bad_request("name must be provided"))
    if name:
        _check_name(name)
    return Target(resource, verb, namespace, "" if verb == "create" else name, sub)


def _watched(resource: Resource, method: str, sub: str) -> Verb:
    """The verb of a path below /watch: GET of collections and items that can be watched."""
    if sub or "watch" not in resource.verbs:
        raise NoRoute(status.unknown_resource())
    if method != "GET":
        raise NoRoute(status.method_not_allowed())
    return "watch"


def _verb(resource: Resource, method: str, names_item: bool, sub: str, across: bool) -> Verb:
    """The verb of a method on an item, a collection or a subresource that has it.

    across: True for the path of a namespaced kind that names no namespace
    """
    verb = METHOD_VERBS.get(method, "")
    if sub == "proxy" and resource.subresource(sub) is not None and (verb or method == "OPTIONS"):
        return verb
    if method == "HEAD":
        raise NoRoute(status.method_not_allowed())
    if sub:
        found = resource.subresource(sub)
        if found is None:
            raise NoRoute(status.unknown_resource())
        if verb not in found.verbs:
            raise NoRoute(status.method_not_allowed())
        return verb
    if names_item:
        if verb == "create" or verb not in resource.verbs:
            raise NoRoute(status.method_not_allowed())
        return verb
    verb = verb if verb == "create" else OF_COLLECTION.get(verb, "")
    if across and "list" not in resource.verbs:  # created and forgotten: there is no such path
        raise NoRoute(status.unknown_resource())
    if verb not in resource.verbs or (across and verb != "list"):
        raise NoRoute(status.method_not_allowed())
    return verb


def _check_name(name: str) -> None:
    if not name:
        raise NoRoute(status.bad_request("name must be provided"))
    for bad in (".", ".."):
        if name == bad:
            raise NoRoute(status.bad_request(f"Name parameter invalid: \"{name}\": may not be '{bad}'"))
    if "%" in name:
        raise NoRoute(status.bad_request(f"Name parameter invalid: \"{name}\": may not contain '%'"))
