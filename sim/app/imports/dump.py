"""`kubectl get nodes,deployments,… -o yaml` as a scenario."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sim.app.imports.machines import node_groups
from sim.app.imports.objects import manifests
from sim.app.imports.parts import PLAIN_NODES, Imported, Value, plain_nodes
from sim.errors import InputError


def import_dump(documents: Sequence[Any], shown: str) -> Imported:
    """The nodes and objects of a cluster.  Raises InputError if there are none.

    shown: how errors name the files
    """
    objects = [each for each in documents if is_object(each)]
    if not objects:
        remedy = "save what kubectl get nodes,deployments -A -o yaml prints"
        raise InputError("holds no API objects", shown, remedy)
    nodes, steps, node_notes = node_groups([each for each in objects if each["kind"] == "Node"])
    made, notes = manifests([each for each in objects if each["kind"] != "Node"])
    if not nodes:
        node_notes = [PLAIN_NODES]
    strange = len(documents) - len(objects)
    return Imported(
        nodes=nodes or plain_nodes(),
        objects=made,
        steps=steps,
        notes=[
            *node_notes,
            *notes,
            *([f"left out {strange} documents that are no API objects"] if strange else []),
        ],
        metrics=any(each["kind"] == "HorizontalPodAutoscaler" for each in made),
    )


def is_object(value: Any) -> bool:
    """True for an object of the API: apiVersion, kind and a name."""
    return (
        isinstance(value, dict)
        and all(isinstance(value.get(key), str) for key in ("apiVersion", "kind"))
        and isinstance(value.get("metadata"), dict)
        and isinstance(value["metadata"].get("name"), str)
    )


def split(documents: Sequence[Any], groups: Sequence[str]) -> tuple[list[Value], list[Any]]:
    """The documents of some API groups, and the others."""
    ours = [each for each in documents if is_object(each) and each["apiVersion"].partition("/")[0] in groups]
    return ours, [each for each in documents if not any(each is one for one in ours)]
