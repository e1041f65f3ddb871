"""The paths of an OpenAPI document: one operation for each verb of each resource and subresource.

A `Resource` becomes path items of OpenAPI 2.

Holds: an operation exists if and only if its resource has the verb and serves it; each
`operationId` is unique.

Mirrors  kubernetes v1.25 apiserver pkg/endpoints/installer.go (registerResourceHandlers),
         pkg/endpoints/discovery, pkg/server/routes, pkg/routes/{logs,openidmetadata}.go.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from sim.api.openapi.operations import (
    ACCEPTED,
    CREATED,
    OK,
    UNAUTHORIZED,
    about,
    answers,
    article,
    items_of,
    operation,
    tag,
    title,
)
from sim.api.openapi.parameters import (
    CONNECT,
    CREATE,
    DELETE,
    LIST,
    LOG,
    PATCH,
    SELECT,
    in_body,
    in_path,
    query,
)
from sim.api.openapi.schemas import V2
from sim.api.schema.field_schemas import META, definition_name
from sim.api.schema.kind import CONNECTING
from sim.api.schema.resource import Resource, Subresource
from sim.api.scheme.discovery import fixed_versions
from sim.api.scheme.scheme import Scheme
from sim.ident import Names

Body = dict[str, Any]
Route = tuple[str, str, Body]
EMPTY: Mapping[str, str] = {}

_PROXIED = ("get", "post", "put", "delete", "options", "head", "patch")  # methods
_STREAMED = ("get", "post")
# verb: HTTP method, begin of the operation's name and of its description
_ITEM: Final = {
    "get": ("get", "read", "read"),
    "update": ("put", "replace", "replace"),
    "patch": ("patch", "patch", "partially update"),
    "create": ("post", "create", "create"),
    "delete": ("delete", "delete", "delete"),
}
_PARAMETERS = {"get": (), "update": CREATE, "patch": PATCH, "create": CREATE, "delete": DELETE}
_CODES = {
    "get": (OK,),
    "update": (OK, CREATED),
    "patch": (OK, CREATED),
    "create": (OK, CREATED, ACCEPTED),
    "delete": (OK, ACCEPTED),
}
_OF_META = ("Status", "DeleteOptions", "Patch", "WatchEvent")
_USE_WATCH = ". deprecated: use the 'watch' parameter with a list operation instead"


class Writer:
    """The paths of one resource."""

    def __init__(self, resource: Resource, names: Names, own: Mapping[str, str] = EMPTY) -> None:
        """own: names of definitions that are not upstream's, by kind."""
        self._r, self._own = resource, own
        self._names = names
        base = f"/apis/{resource.group}/{resource.version}" if resource.group else f"/api/{resource.version}"
        self._base = base
        inside = "/namespaces/{namespace}" if resource.namespaced else ""
        self._collection = f"{base}{inside}/{resource.plural}"
        self._watched = f"{base}/watch{inside}/{resource.plural}"
        self._group = title(resource.short_group, resource.version)
        self._tags = [tag(resource.short_group, resource.version)]
        self._scope = "Namespaced" if resource.namespaced else ""
        self._media = [names.media_json, names.media_yaml, names.media_protobuf]
        self._streams = [f"{media};stream=watch" for media in (names.media_json, names.media_protobuf)]
        self._patches = [
            names.media_json_patch,
            names.media_merge_patch,
            names.media_strategic_patch,
            names.media_apply_patch,
        ]
        self._namespace = [in_path("namespace")] if resource.namespaced else []
        self._named = [in_path("name", f"name of the {resource.kind}"), *self._namespace]

    def routes(self) -> Iterator[Route]:
        """Path, method and operation of each operation."""
        r = self._r
        yield from self._many()
        for verb in _ITEM:
            if verb in r.verbs and verb != "create":
                yield f"{self._collection}/{{name}}", _ITEM[verb][0], self._one(verb)
        for sub in r.subresources:
            if sub.name in CONNECTING:
                yield from self._connecting(sub)
            else:
                for verb in sub.verbs:
                    yield f"{self._collection}/{{name}}/{sub.name}", _ITEM[verb][0], self._sub(sub, verb)
        if "watch" in r.verbs:
            yield from self._watches()

    # --- operations -------------------------------------------------------------------------------

    def _many(self) -> Iterator[Route]:
        r = self._r
        if "list" in r.verbs:
            yield self._collection, "get", self._list(self._scope, "", self._namespace)
            if r.namespaced:
                yield f"{self._base}/{r.plural}", "get", self._list("", "ForAllNamespaces", [])
        if "create" in r.verbs:
            yield self._collection, "post", self._one("create")
        if "deletecollection" in r.verbs:
            given = [query(name) for name in (*DELETE, *SELECT, "pretty")]
            yield (
                self._collection,
                "delete",
                self._made(
                    "deletecollection",
                    f"delete{self._group}Collection{self._scope}{r.kind}",
                    f"delete collection of {r.kind}",
                    answers(self._refers("Status"), OK),
                    [in_body(self._refers("DeleteOptions"), required=False), *given, *self._namespace],
                ),
            )

    def _list(self, scope: str, tail: str, path: list[Body]) -> Body:
        r = self._r
        watched = " or watch" if "watch" in r.verbs else ""
        return self._made(
            "list",
            f"list{self._group}{scope}{r.kind}{tail}",
            f"list{watched} objects of kind {r.kind}",
            answers(self._refers(r.naming.list_kind), OK),
            [*map(query, (*LIST, "pretty")), *path],
            produces=[*self._media, *self._streams],
        )

    def _one(self, verb: str) -> Body:
        r = self._r
        method, begin, text = _ITEM[verb]
        joined = article(r.kind) if verb in ("create", "delete") else " the specified "
        shown = "Status" if verb == "delete" and not r.behavior.deletion.returns_object else r.kind
        path = self._namespace if verb == "create" else self._named
        return self._made(
            method,
            f"{begin}{self._group}{self._scope}{r.kind}",
            f"{text}{joined}{r.kind}",
            answers(self._refers(shown), *_CODES[verb]),
            [*self._given(verb, r.kind), *path],
            consumes=self._patches if verb == "patch" else (),
        )

    def _sub(self, sub: Subresource, verb: str) -> Body:
        """An operation of a subresource, which may be of another kind."""
        r = self._r
        method, begin, text = _ITEM[verb]
        gvk = self._gvk_of(sub)
        joined = f" {sub.name} of" + (article(r.kind) if verb == "create" else " the specified ")
        log = sub.name == "log"
        schema = {"type": "string"} if log else self._refers(sub.kind, gvk)
        own = [query(name) for name in LOG] if log else []
        return self._made(
            method,
            f"{begin}{self._group}{self._scope}{r.kind}{sub.name[:1].upper()}{sub.name[1:]}",
            f"{text}{joined}{r.kind}",
            answers(schema, *_CODES[verb]),
            [*own, *self._given(verb, sub.kind, gvk), *self._named_of(sub)],
            consumes=self._patches if verb == "patch" else (),
            produces=["text/plain", *self._media] if log else (),
            gvk=gvk,
        )

    def _connecting(self, sub: Subresource) -> Iterator[Route]:
        """The paths of a subresource that connects its client with something."""
        r, proxies = self._r, sub.name == "proxy"
        gvk = self._gvk_of(sub)
        for tail in ("", "WithPath") if proxies else ("",):
            path = [*self._named_of(sub), *([in_path("path", "path to the resource")] if tail else [])]
            for method in _PROXIED if proxies else _STREAMED:
                yield (
                    f"{self._collection}/{{name}}/{sub.name}" + ("/{path}" if tail else ""),
                    method,
                    self._made(
                        "connect",
                        f"connect{self._group}{method.title()}{self._scope}{r.kind}{sub.name.title()}{tail}",
                        f"connect {method.upper()} requests to {sub.name} of {r.kind}",
                        answers({"type": "string"}, OK),
                        [*map(query, CONNECT[sub.name]), *path],
                        produces=["*/*"],
                        gvk=gvk,
                    ),
                )

    def _watches(self) -> Iterator[Route]:
        r, group, scope = self._r, self._group, self._scope

        def watch(action: str, name: str, text: str, path: list[Body]) -> Body:
            return self._made(
                action,
                name,
                text,
                answers(self._refers("WatchEvent"), OK),
                [*map(query, (*LIST, "pretty")), *path],
                produces=[*self._media, *self._streams],
            )

        if "list" in r.verbs:
            name, text = f"watch{group}{scope}{r.kind}List", f"watch individual changes to a list of {r.kind}"
            listed = f"{text}{_USE_WATCH}."
            yield self._watched, "get", watch("watchlist", name, listed, self._namespace)
            if r.namespaced:
                everywhere = f"watch{group}{r.kind}ListForAllNamespaces"
                yield f"{self._base}/watch/{r.plural}", "get", watch("watchlist", everywhere, listed, [])
        text = f"watch changes to an object of kind {r.kind}{_USE_WATCH}"
        one = f"{text}, filtered to a single item with the 'fieldSelector' parameter."
        yield (
            f"{self._watched}/{{name}}",
            "get",
            watch("watch", f"watch{group}{scope}{r.kind}", one, self._named),
        )

    # --- parts ------------------------------------------------------------------------------------

    def _named_of(self, sub: Subresource) -> list[Body]:
        """The parameters of the path of a subresource: its kind names the object."""
        return [in_path("name", f"name of the {sub.kind}"), *self._namespace]

    def _gvk_of(self, sub: Subresource) -> Body:
        r = self._r
        group = sub.group if sub.version else r.group
        return {"group": group, "version": sub.version or r.version, "kind": sub.kind}

    def _refers(self, kind: str, gvk: Body | None = None) -> Body:
        """The schema of a reply or a body: of a group version (default: that of the resource), or
        one common to all groups.
        """
        if kind in _OF_META:
            return {"$ref": f"{V2}{META}{kind}"}
        group, version = (gvk["group"], gvk["version"]) if gvk else (self._r.group, self._r.version)
        name = self._own.get(kind) or definition_name(self._names.upstream_group(group), version, kind)
        return {"$ref": V2 + name} if name else {"type": "string"}

    def _given(self, verb: str, kind: str, gvk: Body | None = None) -> list[Body]:
        """The body and the parameters of the query."""
        found = [query(name) for name in (*_PARAMETERS[verb], "pretty")]
        if verb == "get":
            return found
        named = {"patch": "Patch", "delete": "DeleteOptions"}.get(verb, kind)
        return [in_body(self._refers(named, gvk), required=verb != "delete"), *found]

    def _made(
        self,
        action: str,
        name: str,
        text: str,
        responses: Body,
        parameters: list[Body],
        *,
        consumes: list[str] | tuple[()] = (),
        produces: list[str] | tuple[()] = (),
        gvk: Body | None = None,
    ) -> Body:
        r = self._r
        known = gvk or {"group": r.group, "version": r.version, "kind": r.kind}
        return operation(
            name,
            self._tags,
            text,
            responses,
            consumes=consumes or ["*/*"],
            produces=produces or self._media,
            parameters=parameters,
            extensions=about(action, known["group"], known["version"], known["kind"]),
        )


def paths_of(resource: Resource, names: Names) -> Body:
    """The path items of a resource."""
    return items_of(Writer(resource, names).routes())


# --- documents ------------------------------------------------------------------------------------


def documents(scheme: Scheme) -> Body:
    """The path items of discovery, the version, the log files and the issuer of tokens."""
    return items_of(_documents(scheme))


def _documents(scheme: Scheme) -> Iterator[Route]:
    names = scheme.names
    yield _listed("/api/", "getCoreAPIVersions", "core", "available API versions", "APIVersions", names)
    yield _listed("/apis/", "getAPIVersions", "apis", "available API versions", "APIGroupList", names)
    for version in ("v1",):
        what = "available resources"
        name = f"get{title('', version)}APIResources"
        yield _listed(f"/api/{version}/", name, tag("", version), what, "APIResourceList", names)
    for group, versions in fixed_versions(scheme).items():
        short = names.short_group(group)
        name = f"get{title(short, '')}APIGroup"
        yield _listed(f"/apis/{group}/", name, tag(short), "information of a group", "APIGroup", names)
        for version in versions:
            name = f"get{title(short, version)}APIResources"
            at = f"/apis/{group}/{version}/"
            yield _listed(at, name, tag(short, version), "available resources", "APIResourceList", names)
    json = [names.media_json]
    info = answers({"$ref": f"{V2}io.k8s.apimachinery.pkg.version.Info"}, OK)
    yield (
        "/version/",
        "get",
        operation("getCodeVersion", ["version"], "get the code version", info, consumes=json, produces=json),
    )
    yield from _issuer(names)
    for path, name, parameter in (
        ("/logs/", "logFileListHandler", []),
        ("/logs/{logpath}", "logFileHandler", [in_path("logpath", "path to the log")]),
    ):
        yield path, "get", operation(name, ["logs"], "", dict(UNAUTHORIZED), parameters=parameter)


def _listed(path: str, name: str, label: str, what: str, kind: str, names: Names) -> Route:
    media = [names.media_json, names.media_yaml, names.media_protobuf]
    found = answers({"$ref": f"{V2}{META}{kind}"}, OK)
    return path, "get", operation(name, [label], f"get {what}", found, consumes=media, produces=media)


def _issuer(names: Names) -> Iterator[Route]:
    """The documents of the issuer of service account tokens."""
    begin, text = "getServiceAccountIssuerOpenID", "get service account issuer OpenID"
    for path, name, label, rest, media in (
        (
            "/.well-known/openid-configuration/",
            "Configuration",
            "WellKnown",
            "configuration, also known as the 'OIDC discovery doc'",
            names.media_json,
        ),
        (
            "/openid/v1/jwks/",
            "Keyset",
            "openid",
            "JSON Web Key Set (contains public token verification keys)",
            "application/jwk-set+json",
        ),
    ):
        found = answers({"type": "string"}, OK)
        yield path, "get", operation(begin + name, [label], f"{text} {rest}", found, produces=[media])
