"""The paths of custom resources in an OpenAPI document.

A `CustomResource` becomes path items of OpenAPI 2.

Mirrors  apiextensions-apiserver v1.25 pkg/controller/openapi/builder/builder.go (generateBuilder,
         buildRoute, descriptionFor).
Quirk    a reading operation consumes bodies; deletecollection takes the parameters of a list and no
         body, a patch those of an update; every operation names the kind of the resource, those of
         scales too; there are no paths of watches.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from sim.api.crd.served import CustomResource
from sim.api.openapi.custom_schemas import name_of
from sim.api.openapi.operations import (
    ACCEPTED,
    CREATED,
    OK,
    about,
    answers,
    article,
    items_of,
    operation,
    tag,
    title,
)
from sim.api.openapi.parameters import CREATE, DELETE, LIST, in_body, in_path, query
from sim.api.openapi.schemas import V2
from sim.api.schema.field_schemas import META, definition_name
from sim.ident import Names

Body = dict[str, Any]
Route = tuple[str, str, Body]

# action: HTTP method, begin of the operation's name, parameters of the query, answers
_FORMS: Final = {
    "list": ("get", "list", LIST, (OK,)),
    "post": ("post", "create", CREATE, (OK, CREATED, ACCEPTED)),
    "deletecollection": ("delete", "deletecollection", LIST, (OK,)),
    "get": ("get", "read", ("resourceVersion",), (OK,)),
    "put": ("put", "replace", CREATE, (OK, CREATED)),
    "delete": ("delete", "delete", DELETE, (OK, ACCEPTED)),
    "patch": ("patch", "patch", CREATE, (OK,)),
}
_OBJECT, _SUB = ("get", "put", "delete", "patch"), ("get", "put", "patch")
_MANY = ("list", "post", "deletecollection")


def custom_paths(resource: CustomResource, names: Names) -> Body:
    """The path items of a custom resource."""
    return items_of(_routes(resource, names))


def _routes(r: CustomResource, names: Names) -> Iterator[Route]:
    base = f"/apis/{r.group}/{r.version}"
    inside = "/namespaces/{namespace}" if r.namespaced else ""
    collection = f"{base}{inside}/{r.plural}"
    path = [in_path("namespace")] if r.namespaced else []
    named = [*path, in_path("name", f"name of the {r.kind}")]
    if r.namespaced:
        yield f"{base}/{r.plural}", "get", _operation(r, names, "list", "", [], "ForAllNamespaces")
    for action in _MANY:
        yield collection, _FORMS[action][0], _operation(r, names, action, "", path)
    for action in _OBJECT:
        yield f"{collection}/{{name}}", _FORMS[action][0], _operation(r, names, action, "", named)
    for sub in r.subresources:
        at = f"{collection}/{{name}}/{sub.name}"
        for action in _SUB:
            yield at, _FORMS[action][0], _operation(r, names, action, sub.name, named)


def _operation(
    r: CustomResource, names: Names, action: str, sub: str, path: list[Body], tail: str = ""
) -> Body:
    _, begin, parameters, codes = _FORMS[action]
    kind = {"list": r.naming.list_kind, "delete": "Status", "deletecollection": "Status"}.get(action, r.kind)
    shown = {"$ref": V2 + _definition(r, names, "Scale" if sub == "scale" else kind)}
    given = [*map(query, (*parameters, "pretty")), *path]
    if action == "delete":
        given.append(in_body({"$ref": f"{V2}{META}DeleteOptions"}, required=False))
    elif action in ("post", "put", "patch"):
        body = {"$ref": f"{V2}{META}Patch"} if action == "patch" else shown
        given.append(in_body(body, required=True))
    return operation(
        _name(r, names, begin, sub, tail),
        [tag(names.short_group(r.group), r.version)],
        _text(r, action, begin, sub),
        answers(shown, *codes),
        consumes=_consumed(names, action),
        produces=[names.media_json, names.media_yaml],
        parameters=given,
        extensions=about(action, r.group, r.version, r.kind),
    )


def _consumed(names: Names, action: str) -> list[str]:
    if action == "patch":
        return [names.media_json_patch, names.media_merge_patch, names.media_apply_patch]
    return [names.media_json, names.media_yaml]


def _name(r: CustomResource, names: Names, begin: str, sub: str, tail: str) -> str:
    group = title(names.short_group(r.group), r.version)
    scope = "Namespaced" if r.namespaced and not tail else ""
    rest = f"{scope}{r.kind}{sub[:1].upper()}{sub[1:]}{tail}"
    if begin == "deletecollection":
        return f"delete{group}Collection{rest}"
    return f"{begin}{group}{rest}"


def _text(r: CustomResource, action: str, begin: str, sub: str) -> str:
    """The description of an operation."""
    of = f" {sub} of" if sub else ""
    if action == "list":
        return f"list objects of kind {r.kind}"
    if action == "deletecollection":
        return f"delete collection of {r.kind}"
    joined = article(r.kind) if action in ("post", "delete") else " the specified "
    return f"{'partially update' if action == 'patch' else begin}{of}{joined}{r.kind}"


def _definition(r: CustomResource, names: Names, kind: str) -> str:
    if kind == "Status":
        return f"{META}Status"
    if kind == "Scale":
        return definition_name("autoscaling", "v1", "Scale")
    return name_of(r, kind)
