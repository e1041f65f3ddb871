"""`kubectl get nodes,deployments,… -o yaml` as a scenario that begins as the cluster is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sim.app.imports.machines import node_groups
from sim.app.imports.objects import manifests
from sim.app.imports.parts import PLAIN_NODES, Imported, Value, plain_nodes
from sim.app.imports.places import places_of
from sim.app.imports.volumes import storage_drivers
from sim.errors import InputError


def import_dump(documents: Sequence[Any], shown: str) -> Imported:
    """The nodes and objects of a cluster.  Raises InputError if there are none.

    shown: how errors name the files
    """
    objects = [each for each in documents if is_object(each)]
    if not objects:
        remedy = "save what kubectl get nodes,deployments -A -o yaml prints"
        raise InputError("holds no API objects", shown, remedy)
    machines = node_groups([each for each in objects if each["kind"] == "Node"])
    notes = [*machines.notes] if machines.groups else [PLAIN_NODES]
    storage = storage_drivers(objects, notes)
    played = [each["driver"] for each in storage]
    given = [each for each in objects if each["kind"] != "Node" and not _is_of_driver(each, played)]
    made, object_notes = manifests(given, machines.names)
    places = places_of(given, made, machines.names, notes)
    strange = len(documents) - len(objects)
    return Imported(
        nodes=machines.groups or plain_nodes(),
        storage=storage,
        places=places,
        established=True,
        objects=made,
        steps=machines.steps,
        notes=[
            *notes,
            *object_notes,
            *([f"left out {strange} documents that are no API objects"] if strange else []),
        ],
        names=machines.names,
        metrics=any(each["kind"] == "HorizontalPodAutoscaler" for each in made),
    )


def _is_of_driver(obj: Value, drivers: Sequence[str]) -> bool:
    """True for what a simulated storage driver makes itself: its CSIDriver and its attachments."""
    made = obj["kind"] == "CSIDriver" and obj["metadata"]["name"] in drivers
    return made or obj["kind"] in ("VolumeAttachment", "CSIStorageCapacity")


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
