"""Parameters of operations: their types and descriptions.

Turns the name of a parameter into its form in OpenAPI 2, and the parameters of all operations of a
path into those that the path itself states.

Holds: parameters are in the order of their names; a parameter that every operation of a path takes
is stated once, at the path.

Mirrors  kubernetes v1.25 apiserver pkg/endpoints/installer.go (AddObjectParams, typeToJSON);
         kube-openapi pkg/builder/openapi.go (findCommonParameters, buildParameter), util.go.
Differs  descriptions that no definition states are shorter than upstream's.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from sim.api.schema.field_schemas import META, description
from sim.texts import rows

Body = dict[str, Any]

DRY_RUN, CREATE = ("dryRun",), ("dryRun", "fieldManager", "fieldValidation")
PATCH = (*CREATE, "force")
DELETE = ("dryRun", "gracePeriodSeconds", "orphanDependents", "propagationPolicy")
# Of a list that is deleted.
SELECT = (
    "continue",
    "fieldSelector",
    "labelSelector",
    "limit",
    "resourceVersion",
    "resourceVersionMatch",
    "timeoutSeconds",
)
LIST = ("allowWatchBookmarks", *SELECT, "watch")
LOG = (
    "container",
    "follow",
    "insecureSkipTLSVerifyBackend",
    "limitBytes",
    "previous",
    "sinceSeconds",
    "tailLines",
    "timestamps",
)
_STREAMS = ("stderr", "stdin", "stdout", "tty")
# Of subresources that connect their client with something.
CONNECT: Final[Mapping[str, tuple[str, ...]]] = {
    "attach": ("container", *_STREAMS),
    "exec": ("command", "container", *_STREAMS),
    "portforward": ("ports",),
    "proxy": ("path",),
}
_INTEGERS = (
    "gracePeriodSeconds",
    "limit",
    "limitBytes",
    "ports",
    "sinceSeconds",
    "tailLines",
    "timeoutSeconds",
)
_FLAGS = (
    "allowWatchBookmarks",
    "follow",
    "force",
    "insecureSkipTLSVerifyBackend",
    "orphanDependents",
    "previous",
    "timestamps",
    "watch",
    *_STREAMS,
)
_TYPES = {**dict.fromkeys(_INTEGERS, "integer"), **dict.fromkeys(_FLAGS, "boolean")}
_TEXTS: Final = rows(Path(__file__).with_name("parameters.txt"))["query"]
_NAMESPACE = "object name and auth scope, such as for teams and projects"


def query(name: str) -> Body:
    """A parameter of the query."""
    text = _TEXTS.get(name) or description(f"{META}DeleteOptions", (name,))
    kind = _TYPES.get(name, "string")
    return {"uniqueItems": True, "type": kind, "description": text, "name": name, "in": "query"}


def in_path(name: str, text: str = _NAMESPACE) -> Body:
    """A parameter of the path."""
    return {
        "uniqueItems": True,
        "type": "string",
        "description": text,
        "name": name,
        "in": "path",
        "required": True,
    }


def in_body(schema: Body, *, required: bool) -> Body:
    """The body as a parameter."""
    return {"name": "body", "in": "body", **({"required": True} if required else {}), "schema": schema}


def _rank(parameter: Body) -> tuple[str, str]:
    return parameter["name"], parameter["in"]


def hoisted(operations: Mapping[str, Body]) -> Body:
    """The path item of operations, by method; every operation has all its parameters."""
    counts: dict[tuple[str, str], int] = {}
    stated: dict[tuple[str, str], Body] = {}
    for operation in operations.values():
        for parameter in operation.get("parameters", ()):
            key = _rank(parameter)
            counts[key] = counts.get(key, 0) + 1
            if parameter["in"] != "body":
                stated[key] = parameter
    shared = {key for key in stated if counts[key] == len(operations)}
    item: Body = {}
    for method, operation in operations.items():
        given = [each for each in operation.get("parameters", ()) if _rank(each) not in shared]
        own = {key: value for key, value in operation.items() if key != "parameters" or given}
        item[method] = {**own, "parameters": sorted(given, key=_rank)} if given else own
    if shared:
        item["parameters"] = [stated[key] for key in sorted(shared)]
    return item
