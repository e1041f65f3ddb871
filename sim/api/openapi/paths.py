"""The paths of an OpenAPI document: one operation for each verb of each resource and subresource.

A `Resource` becomes path items of OpenAPI 2, and these become path items of OpenAPI 3.

Holds: an operation exists if and only if its resource has the verb and serves it; each
`operationId` is unique.

Mirrors  kubernetes v1.25 apiserver pkg/endpoints/installer.go (registerResourceHandlers),
         pkg/endpoints/openapi/openapi.go (GetOperationIDAndTags), kube-openapi pkg/builder.
Differs  parameters have no descriptions.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from sim.api.kinds.kind import CONNECTING
from sim.api.openapi.schemas import V2, V3
from sim.api.schema.field_schemas import META, definition_name
from sim.api.schema.resource import Resource, Subresource
from sim.ident import Names

Body = dict[str, Any]
EMPTY: Mapping[tuple[str, str, str], str] = {}

SECURITY = {
    "BearerToken": {
        "type": "apiKey",
        "name": "authorization",
        "in": "header",
        "description": "Bearer Token authentication",
    }
}
_WRITE = ("dryRun", "fieldManager", "fieldValidation")
_DELETE = ("dryRun", "gracePeriodSeconds", "orphanDependents", "propagationPolicy")
_SELECT = (
    "continue",
    "fieldSelector",
    "labelSelector",
    "limit",
    "resourceVersion",
    "resourceVersionMatch",
    "timeoutSeconds",
)
_LIST = ("allowWatchBookmarks", *_SELECT, "watch")
_LOG = {
    "container": "string",
    "follow": "boolean",
    "insecureSkipTLSVerifyBackend": "boolean",
    "limitBytes": "integer",
    "previous": "boolean",
    "sinceSeconds": "integer",
    "tailLines": "integer",
    "timestamps": "boolean",
}
_STREAMS = dict.fromkeys(("stderr", "stdin", "stdout", "tty"), "boolean")
# Parameters of connecting subresources.
_CONNECT = {
    "attach": ("container", *_STREAMS),
    "exec": ("command", "container", *_STREAMS),
    "portforward": ("ports",),
    "proxy": ("path",),
}
_PROXIED = ("delete", "get", "head", "options", "patch", "post", "put")  # methods
_TYPES = {
    **_LOG,
    **_STREAMS,
    "ports": "integer",
    **dict.fromkeys(("gracePeriodSeconds", "limit", "timeoutSeconds"), "integer"),
    **dict.fromkeys(("allowWatchBookmarks", "watch", "orphanDependents", "force"), "boolean"),
}
# verb: HTTP method, action, begin of the operation's name
_ITEM = {
    "get": ("get", "get", "read"),
    "update": ("put", "put", "replace"),
    "patch": ("patch", "patch", "patch"),
    "delete": ("delete", "delete", "delete"),
    "create": ("post", "post", "create"),
}


def title(short_group: str, version: str) -> str:
    """A group version in the names of operations: "CoreV1", "RbacAuthorizationV1"."""
    parts = (short_group or "core").split(".")
    return "".join(part[:1].upper() + part[1:] for part in (*parts, version))


class Writer:
    """The paths of one resource."""

    def __init__(
        self, resource: Resource, names: Names, own: Mapping[tuple[str, str, str], str] = EMPTY
    ) -> None:
        """own: names of schemas that definitions made, by group, version and kind."""
        self._r = resource
        self._own = own
        self._names = names
        base = f"/apis/{resource.group}/{resource.version}" if resource.group else f"/api/{resource.version}"
        self._base = base
        inside = "/namespaces/{namespace}" if resource.namespaced else ""
        self._collection = f"{base}{inside}/{resource.plural}"
        self._watched = f"{base}/watch{inside}/{resource.plural}"
        self._group = title(resource.short_group, resource.version)
        self._scope = "Namespaced" if resource.namespaced else ""
        self._json = [names.media_json, names.media_yaml, names.media_protobuf]
        self._streams = [f"{media};stream=watch" for media in (names.media_json, names.media_protobuf)]
        self._patches = [
            names.media_json_patch,
            names.media_merge_patch,
            *(() if resource.custom else (names.media_strategic_patch,)),
            names.media_apply_patch,
        ]

    def items(self) -> Iterator[tuple[str, Body]]:
        """Path and path item of each path."""
        r = self._r
        yield self._collection, self._item_of(self._many(), r.namespaced)
        if r.namespaced and "list" in r.verbs:
            yield f"{self._base}/{r.plural}", {"get": self._list("ForAllNamespaces", ""), **self._common()}
        if "get" in r.verbs:
            yield f"{self._collection}/{{name}}", self._item_of(self._one(), r.namespaced, "name")
        for sub in r.subresources:
            if sub.name in CONNECTING and not r.custom:
                yield from self._connecting(sub)
                continue
            path = f"{self._collection}/{{name}}/{sub.name}"
            yield path, self._item_of(self._sub(sub), r.namespaced, "name")
        if "watch" in r.verbs:
            yield from self._watches()

    # --- operations -------------------------------------------------------------------------------

    def _many(self) -> Body:
        r, made = self._r, {}
        if "list" in r.verbs:
            made["get"] = self._list("", self._scope)
        if "create" in r.verbs:
            made["post"] = self._operation("post", f"create{self._name()}", r.kind, _WRITE, r.kind)
        if "deletecollection" in r.verbs:
            name = f"delete{self._group}Collection{self._scope}{r.kind}"
            parameters = tuple(sorted({*_DELETE, *_SELECT}))
            made["delete"] = self._operation(
                "deletecollection", name, "Status", parameters, "DeleteOptions", method="delete"
            )
        return made

    def _list(self, tail: str, scope: str) -> Body:
        r = self._r
        name = f"list{self._group}{scope}{r.kind}{tail}"
        return self._operation("list", name, r.list_kind, _LIST, produces=[*self._json, *self._streams])

    def _one(self) -> Body:
        r, made = self._r, {}
        for verb in ("get", "update", "patch", "delete"):
            if verb not in r.verbs:
                continue
            method, action, begin = _ITEM[verb]
            body = {"update": r.kind, "patch": "Patch", "delete": "DeleteOptions"}.get(verb, "")
            answer = "Status" if verb == "delete" else r.kind
            made[method] = self._operation(
                action, f"{begin}{self._name()}", answer, _parameters(verb), body, method=method
            )
        return made

    def _sub(self, sub: Subresource) -> Body:
        """Operations of a subresource, which may be of another kind."""
        made: Body = {}
        suffix = "".join(part[:1].upper() + part[1:] for part in _words(sub.name))
        gvk = self._gvk_of(sub)
        for verb in sub.verbs:
            method, action, begin = _ITEM[verb]
            parameters, produces = _parameters(verb), self._json
            if sub.name == "log":
                parameters, produces = tuple(sorted(_LOG)), ["text/plain", *self._json]
            body = {"create": sub.kind, "update": sub.kind, "patch": "Patch"}.get(verb, "")
            answer = "" if sub.name == "log" else sub.kind
            made[method] = self._operation(
                action,
                f"{begin}{self._name()}{suffix}",
                answer,
                parameters,
                body,
                method=method,
                gvk=gvk,
                produces=produces,
            )
        return made

    def _connecting(self, sub: Subresource) -> Iterator[tuple[str, Body]]:
        """The paths of a subresource that connects its client with something."""
        r, proxies = self._r, sub.name == "proxy"
        path = f"{self._collection}/{{name}}/{sub.name}"
        for tail in ("", "WithPath") if proxies else ("",):
            made: Body = {}
            for method in _PROXIED if proxies else ("get", "post"):
                name = f"connect{self._group}{method.title()}{self._scope}{r.kind}{sub.name.title()}{tail}"
                made[method] = self._operation(
                    "connect", name, "", (), gvk=self._gvk_of(sub), produces=["*/*"]
                )
                made[method]["description"] = f"connect {method.upper()} requests to {sub.name} of {r.kind}"
            named = [*(["path"] if tail else []), "name", *(["namespace"] if r.namespaced else [])]
            given = [_in_path(each) for each in sorted(named)]
            item = {**made, "parameters": [*given, *(_query(each) for each in _CONNECT[sub.name])]}
            yield path + ("/{path}" if tail else ""), item

    def _watches(self) -> Iterator[tuple[str, Body]]:
        r, group = self._r, self._group
        produces = [*self._json, *self._streams]

        def watch(action: str, name: str) -> Body:
            return {"get": self._operation(action, name, "WatchEvent", (), produces=produces)}

        name = f"watch{group}{self._scope}{r.kind}"
        yield self._watched, self._item_of(watch("watchlist", f"{name}List"), r.namespaced, query=_LIST)
        if r.namespaced:
            everywhere = watch("watchlist", f"watch{group}{r.kind}ListForAllNamespaces")
            yield f"{self._base}/watch/{r.plural}", self._item_of(everywhere, False, query=_LIST)
        one = self._item_of(watch("watch", name), r.namespaced, "name", query=_LIST)
        yield f"{self._watched}/{{name}}", one

    # --- parts ------------------------------------------------------------------------------------

    def _name(self) -> str:
        return f"{self._group}{self._scope}{self._r.kind}"

    def _gvk_of(self, sub: Subresource) -> Body:
        r = self._r
        group = sub.group if sub.version else r.group
        return {"group": group, "version": sub.version or r.version, "kind": sub.kind}

    def _refers(self, kind: str, gvk: Body) -> Body:
        """The schema of a reply or a body: of the operation's group version, or one common to all
        groups.
        """
        if kind in ("Status", "DeleteOptions", "Patch", "WatchEvent"):
            return {"$ref": f"{V2}{META}{kind}"}
        group = self._names.upstream_group(gvk["group"])
        name = self._own.get((gvk["group"], gvk["version"], kind)) or definition_name(
            group, gvk["version"], kind
        )
        return {"$ref": V2 + name} if name else {"type": "string"}

    def _operation(
        self,
        action: str,
        name: str,
        answer: str,
        parameters: tuple[str, ...],
        body: str = "",
        *,
        method: str = "",
        gvk: Body | None = None,
        produces: list[str] | None = None,
    ) -> Body:
        r = self._r
        gvk = gvk or {"group": r.group, "version": r.version, "kind": r.kind}
        own = {"group": r.group, "version": r.version}
        schema = self._refers(answer, gvk if answer == gvk["kind"] else own) if answer else {"type": "string"}
        good = {"description": "OK", "schema": schema}
        answers: Body = {"200": good}
        if action in ("post", "put", "patch"):
            answers["201"] = {**good, "description": "Created"}
        if action in ("post", "delete"):
            answers["202"] = {**good, "description": "Accepted"}
        given = [_query(parameter) for parameter in parameters]
        group = title(r.short_group, "")
        if body:
            needed = {} if body == "DeleteOptions" else {"required": True}
            schema = self._refers(body, gvk if body == gvk["kind"] else own)
            given = [{"name": "body", "in": "body", **needed, "schema": schema}, *given]
        return {
            "description": f"{action} {r.kind}",
            "consumes": self._patches if action == "patch" else ["*/*"],
            "produces": produces or self._json,
            "schemes": ["https"],
            "tags": [f"{group[:1].lower()}{group[1:]}_{r.version}"],
            "operationId": name,
            **({"parameters": given} if given else {}),
            "responses": {**answers, "401": {"description": "Unauthorized"}},
            "x-kubernetes-action": action,
            "x-kubernetes-group-version-kind": gvk,
        }

    def _item_of(self, operations: Body, namespaced: bool, *path: str, query: tuple[str, ...] = ()) -> Body:
        """A path item: operations and their common parameters."""
        names = (*path[:1], *(("namespace",) if namespaced else ()), *path[1:])
        named = [_in_path(name) for name in names]
        return {**operations, "parameters": [*named, *(_query(each) for each in query), _query("pretty")]}

    def _common(self) -> Body:
        return {"parameters": [_query("pretty")]}


def _words(sub: str) -> tuple[str, ...]:
    return {"ephemeralcontainers": ("ephemeralcontainers",)}.get(sub, (sub,))


def _parameters(verb: str) -> tuple[str, ...]:
    if verb == "patch":
        return (*_WRITE, "force")
    return _WRITE if verb in ("create", "update") else _DELETE if verb == "delete" else ()


def _in_path(name: str) -> Body:
    return {"name": name, "in": "path", "required": True, "type": "string", "uniqueItems": True}


def _query(name: str) -> Body:
    return {"name": name, "in": "query", "type": _TYPES.get(name, "string"), "uniqueItems": True}


def document(path: str, name: str, names: Names, answer: str = "") -> Body:
    """The path item of a document of discovery."""
    media = [names.media_json] + ([names.media_yaml, names.media_protobuf] if answer else [])
    schema = {"$ref": f"{V2}{META}{answer}"} if answer else {"type": "object"}
    return {
        "get": {
            "description": f"get {path}",
            "consumes": media,
            "produces": media,
            "schemes": ["https"],
            "operationId": name,
            "responses": {
                "200": {"description": "OK", "schema": schema},
                "401": {"description": "Unauthorized"},
            },
        }
    }


def logs(name: str, parameter: str = "") -> Body:
    """The path item of the log files.  parameter: of the path, if it names one"""
    operation = {
        "schemes": ["https"],
        "tags": ["logs"],
        "operationId": name,
        "responses": {"401": {"description": "Unauthorized"}},
    }
    return {"get": operation, **({"parameters": [_in_path(parameter)]} if parameter else {})}


# --- OpenAPI 3 ------------------------------------------------------------------------------------


def newer(item: Body) -> Body:
    """A path item in the form of OpenAPI 3."""
    return {
        key: [_parameter(each) for each in value] if key == "parameters" else _newer_operation(value)
        for key, value in item.items()
    }


def _parameter(given: Body) -> Body:
    schema = {key: given[key] for key in ("type", "uniqueItems") if key in given}
    return {**{key: value for key, value in given.items() if key not in schema}, "schema": schema}


def _newer_operation(given: Body) -> Body:
    gone = ("consumes", "produces", "schemes", "parameters", "responses")
    made = {key: value for key, value in given.items() if key not in gone}
    parameters = given.get("parameters", [])
    body = next((each for each in parameters if each["in"] == "body"), None)
    queries = [_parameter(each) for each in parameters if each["in"] != "body"]
    if queries:
        made["parameters"] = queries
    if body is not None:
        content = {media: {"schema": _moved(body["schema"])} for media in given["consumes"]}
        made["requestBody"] = {"content": content, **({"required": True} if body.get("required") else {})}
    made["responses"] = {
        code: {
            "description": answer["description"],
            **(
                {"content": {media: {"schema": _moved(answer["schema"])} for media in given["produces"]}}
                if "schema" in answer
                else {}
            ),
        }
        for code, answer in given["responses"].items()
    }
    return made


def _moved(schema: Body) -> Body:
    return {"$ref": schema["$ref"].replace(V2, V3)} if "$ref" in schema else schema
