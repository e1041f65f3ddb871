"""One operation of an OpenAPI document: its name, tags, description, answers, and its older and
newer form.

Turns a route into an operation of OpenAPI 2, and a path item of OpenAPI 2 into one of OpenAPI 3.

Holds: keys are in the order in which upstream writes them.

Mirrors  kubernetes v1.25 apiserver pkg/endpoints/openapi/openapi.go (GetOperationIDAndTags,
         ToValidOperationID), pkg/endpoints/installer.go (GetArticleForNoun);
         kube-openapi pkg/builder/openapi.go and pkg/builder3/openapi.go (buildOperations,
         buildRequestBody: the body of version 3 is never required), pkg/validation/spec, pkg/spec3
         (order of members).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from sim.api.openapi.parameters import hoisted
from sim.api.openapi.schemas import V2, V3

Body = dict[str, Any]

SECURITY: Body = {
    "BearerToken": {
        "description": "Bearer Token authentication",
        "type": "apiKey",
        "name": "authorization",
        "in": "header",
    }
}
SECURITY_V3: Body = {
    "BearerToken": {
        "type": "apiKey",
        "description": "Bearer Token authentication",
        "name": "authorization",
        "in": "header",
    }
}
METHODS: Final = ("get", "put", "post", "delete", "options", "head", "patch")
UNAUTHORIZED: Body = {"401": {"description": "Unauthorized"}}
OK, CREATED, ACCEPTED = ("200", "OK"), ("201", "Created"), ("202", "Accepted")


def identifier(text: str, *, upper: bool) -> str:
    """Text as part of the name of an operation: letters, digits and underscores, with a capital
    letter after each other character.

    upper: True if the first letter becomes a capital too
    """
    made: list[str] = []
    for place, letter in enumerate(text):
        if letter.isalpha() or letter == "_" or (place and letter.isdigit()):
            made.append(letter.upper() if upper else letter)
            upper = False
        else:
            upper = True
    return "".join(made)


def title(group: str, version: str) -> str:
    """A group version in the names of operations: "CoreV1", "RbacAuthorizationV1".

    group: without upstream's domain
    """
    return identifier(group or "core", upper=True) + identifier(version, upper=True)


def tag(group: str, version: str = "") -> str:
    """The tag of a group version: "core_v1", "rbacAuthorization_v1"."""
    begin = identifier(group or "core", upper=False)
    return f"{begin}_{identifier(version, upper=False)}" if version else begin


def article(noun: str) -> str:
    """The article of a noun between spaces; a plural has none."""
    if noun.endswith("s") and not noun.endswith("ss"):
        return " "
    return " an " if noun[:1].lower() in "aeiou" else " a "


def answers(schema: Body, *codes: tuple[str, str]) -> Body:
    """The answers of an operation, all with one schema.

    codes: with their descriptions, in order
    """
    return {**{code: {"description": text, "schema": schema} for code, text in codes}, **UNAUTHORIZED}


def operation(
    name: str,
    tags: Sequence[str],
    text: str,
    responses: Body,
    *,
    consumes: Sequence[str] = (),
    produces: Sequence[str] = (),
    parameters: Sequence[Body] = (),
    extensions: Mapping[str, Any] | None = None,
) -> Body:
    """An operation with all of its parameters.

    text: its description, "" if it has none
    """
    return {
        **({"description": text} if text else {}),
        **({"consumes": list(consumes)} if consumes else {}),
        **({"produces": list(produces)} if produces else {}),
        "schemes": ["https"],
        "tags": list(tags),
        "operationId": name,
        **({"parameters": list(parameters)} if parameters else {}),
        "responses": responses,
        **(extensions or {}),
    }


def about(action: str, group: str, version: str, kind: str) -> Body:
    """The extensions of an operation: its action, and the kind that it concerns."""
    return {
        "x-kubernetes-action": action,
        "x-kubernetes-group-version-kind": {"group": group, "version": version, "kind": kind},
    }


def items_of(routes: Iterable[tuple[str, str, Body]]) -> Body:
    """The path items of operations, which come with their path and method, in order of the paths."""
    found: dict[str, dict[str, Body]] = {}
    for path, method, made in routes:
        found.setdefault(path, {})[method] = made
    return {path: hoisted(_in_order(found[path])) for path in sorted(found)}


def _in_order(operations: Mapping[str, Body]) -> dict[str, Body]:
    return {method: operations[method] for method in METHODS if method in operations}


# --- OpenAPI 3 ------------------------------------------------------------------------------------


def newer(item: Body) -> Body:
    """A path item in the form of OpenAPI 3."""
    return {
        key: [_parameter(each) for each in value] if key == "parameters" else _newer_operation(value)
        for key, value in item.items()
    }


def _parameter(given: Body) -> Body:
    schema = {key: given[key] for key in ("type", "uniqueItems") if key in given}
    return {
        **{key: given[key] for key in ("name", "in", "description", "required") if key in given},
        "schema": schema,
    }


def _newer_operation(given: Body) -> Body:
    made: Body = {key: given[key] for key in ("tags", "description", "operationId") if key in given}
    parameters = given.get("parameters", [])
    body = next((each for each in parameters if each["in"] == "body"), None)
    queries = [_parameter(each) for each in parameters if each["in"] != "body"]
    if queries:
        made["parameters"] = queries
    if body is not None:
        made["requestBody"] = {"content": _content(given["consumes"], body["schema"])}
    made["responses"] = {
        code: {
            "description": answer["description"],
            **({"content": _content(given["produces"], answer["schema"])} if "schema" in answer else {}),
        }
        for code, answer in given["responses"].items()
    }
    return {**made, **{key: value for key, value in given.items() if key.startswith("x-")}}


def _content(media: Iterable[str], schema: Body) -> Body:
    moved = {"$ref": schema["$ref"].replace(V2, V3)} if "$ref" in schema else schema
    return {each: {"schema": moved} for each in sorted(media)}
