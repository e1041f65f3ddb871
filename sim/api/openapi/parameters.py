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
from typing import Any, Final

from sim.api.schema.field_schemas import META, description

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
_TEXTS: Final[Mapping[str, str]] = {
    "allowWatchBookmarks": "Allows the server to send events of type BOOKMARK in a watch.",
    "command": "The command to run, as a list of arguments. No shell evaluates it.",
    "container": "The container. The default is the only container of a pod that has one.",
    "continue": "The token from an earlier part of the same list, for the part that follows. "
    "A token that has expired gives 410.",
    "fieldManager": "The name of the manager that owns the changed fields, of at most 128 "
    "printable characters.",
    "fieldSelector": "A selector of objects by their fields. The default selects all.",
    "fieldValidation": "What happens with unknown and duplicate fields of the body: Ignore, Warn "
    "(the default) or Strict.",
    "follow": "Continues the log as the container writes it. The default is false.",
    "force": "Lets an apply request take over fields that other managers own.",
    "insecureSkipTLSVerifyBackend": "Accepts any serving certificate of the node that holds the log.",
    "labelSelector": "A selector of objects by their labels. The default selects all.",
    "limit": "The greatest number of objects in one answer of a list; the rest follows by the "
    "parameter `continue`.",
    "limitBytes": "The number of bytes after which the log ends.",
    "path": "The rest of the URL path to which the request is passed.",
    "ports": "The ports to forward. WebSockets need them.",
    "pretty": "If 'true', then the output is pretty printed.",
    "previous": "Returns the log of the container that ran before. The default is false.",
    "resourceVersion": "The resource version that the answer has or follows. The default is unset.",
    "resourceVersionMatch": "How the resource version applies to a list: Exact or NotOlderThan. "
    "The default is unset.",
    "sinceSeconds": "The age in seconds of the oldest lines of the log.",
    "stderr": "Redirects the standard error stream of the container.",
    "stdin": "Redirects the standard input stream of the container. The default is false.",
    "stdout": "Redirects the standard output stream of the container.",
    "tailLines": "The number of lines from the end of the log. The default is the whole log.",
    "timeoutSeconds": "The time in seconds after which the list or watch ends.",
    "timestamps": "Begins each line of the log with the time at which it was written. The default is false.",
    "tty": "Allocates a terminal for the call. The default is false.",
    "watch": "Returns the changes of the listed objects as a stream, from the resource version on.",
}
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
