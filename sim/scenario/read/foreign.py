"""Files of other tools where a scenario is expected: their format, and the command that takes them.

Turns a parsed document into a `Foreign`, or None for what may be meant as a scenario.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from sim.ident import CHAOS_MESH_GROUPS, KWOK_GROUPS, LITMUS_GROUPS


class Foreign(NamedTuple):
    """A file of another tool.

    importer: the argument of `orrery import` that takes it; empty for a plain manifest
    description: of the document, after "is"
    """

    importer: str
    description: str

    def remedy(self, file: str) -> str:
        """What to do with the file."""
        if self.importer:
            return f"orrery import {self.importer} {file} -o scenario.yaml makes a scenario of it"
        return "name it under spec.objects of a scenario, or kubectl apply it to orrery serve"


_GROUPS = (("kwok", KWOK_GROUPS), ("chaos-mesh", CHAOS_MESH_GROUPS), ("litmus", LITMUS_GROUPS))
_TITLES = {"kwok": "kwok", "chaos-mesh": "Chaos Mesh", "litmus": "Litmus"}


def foreign_file(values: Sequence[Any]) -> Foreign | None:
    """The format of the documents of a file: the first format of a tool, else that of the
    first.
    """
    found = [foreign(value) for value in values]
    return next((each for each in found if each and each.importer in _TITLES), found[0] if found else None)


def foreign(value: Any) -> Foreign | None:
    """The format of a document that is not a scenario; None if it may be one."""
    if is_simkube(value):
        return Foreign("simkube", "is a trace of SimKube")
    if is_list(value):
        return Foreign("kubectl-dump", "is a list of API objects, as kubectl get -o yaml prints it")
    if not isinstance(value, dict):
        return None
    version, kind = value.get("apiVersion"), value.get("kind")
    if not isinstance(version, str) or not isinstance(kind, str):
        return None
    group = version.partition("/")[0]
    for importer, groups in _GROUPS:
        if group in groups:
            return Foreign(importer, f"is a {kind} of {_TITLES[importer]} ({version})")
    if kind == "Scenario" or group.startswith("orrery"):
        return None
    if kind == "Node":
        return Foreign("kubectl-dump", f"is a manifest ({version} {kind})")
    # A misspelt version of a scenario has its own remedy; a manifest has a name.
    if "spec" in value and isinstance(value["spec"], dict) and "timeline" in value["spec"]:
        return None
    return Foreign("", f"is a manifest ({version} {kind}), not a scenario")


def is_list(value: Any) -> bool:
    """True for a List of the API, or a list of one kind; without items it may hold null."""
    return (
        isinstance(value, dict)
        and isinstance(value.get("items", ""), list | None)
        and isinstance(value.get("kind"), str)
        and value["kind"].endswith("List")
        and isinstance(value.get("apiVersion"), str)
    )


def is_simkube(value: Any) -> bool:
    """True for a trace of SimKube: a mapping, or the list of its first version."""
    if isinstance(value, list):
        return len(value) > 1 and isinstance(value[0], dict) and "trackedObjects" in value[0]
    return (
        isinstance(value, dict)
        and isinstance(value.get("events"), list)
        and "trackedObjects" in (value.get("config") or {})
    )
