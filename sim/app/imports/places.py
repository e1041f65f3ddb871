"""The nodes on which the pods of a cluster are, as the field `cluster.places` of a scenario.

A pod belongs to the Deployment of its ReplicaSet, or to its StatefulSet by its ordinal, or to
another controller that is in the scenario.  The pods of a DaemonSet need no places, and those of a
Job begin with it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sim.app.imports.made import controller_of, owner_above
from sim.app.imports.parts import Value
from sim.app.imports.references import UPSTREAM

_PLURALS = {
    "Deployment": "deployments", "ReplicaSet": "replicasets", "StatefulSet": "statefulsets",
    "ReplicationController": "replicationcontrollers",
}  # fmt: skip


def places_of(
    objects: Sequence[Value], found: Sequence[Value], nodes: Mapping[str, str], notes: list[str]
) -> dict[str, list[str]]:
    """The nodes of the pods of each workload; the number of pods is noted.

    objects: as the server had them
    found: the manifests of the scenario
    nodes: the name in the scenario of each node of the files
    """
    there = {_key(each): each for each in found if each["kind"] in _PLURALS}
    pods: dict[tuple[str, str, str], list[tuple[str, str]]] = {}
    for obj in objects:
        node = nodes.get((obj.get("spec") or {}).get("nodeName", "")) if obj["kind"] == "Pod" else None
        ended = (obj.get("status") or {}).get("phase") in ("Succeeded", "Failed")
        owner = _workload(obj, there) if node and not ended else None
        if node and owner and not obj["metadata"].get("deletionTimestamp"):
            pods.setdefault(owner, []).append((obj["metadata"]["name"], node))
    places: dict[str, list[str]] = {}
    lost = 0
    for owner, placed in pods.items():
        kind, space, name = owner
        if kind == "StatefulSet" and (there[owner].get("spec") or {}).get("volumeClaimTemplates"):
            lost += len(placed)
        elif kept := _by_ordinal(name, placed) if kind == "StatefulSet" else [node for _, node in placed]:
            places[f"{_PLURALS[kind]}/{space}/{name}"] = kept
    if count := sum(map(len, places.values())):
        notes.append(f"pods of workloads start on the nodes on which they are: {count} Pods")
    if lost:
        what = "start where the scheduler places them, since their controller makes their claims first"
        notes.append(f"pods of StatefulSets with claims {what}: {lost} Pods")
    return places


def _key(obj: Value) -> tuple[str, str, str]:
    metadata = obj["metadata"]
    return obj["kind"], metadata.get("namespace") or UPSTREAM.default_namespace, metadata["name"]


def _workload(pod: Value, there: Mapping[tuple[str, str, str], Value]) -> tuple[str, str, str] | None:
    """The workload that a pod belongs to."""
    owner = controller_of(pod)
    if owner is None:
        return None
    space = pod["metadata"].get("namespace") or UPSTREAM.default_namespace
    kind, name = owner.get("kind", ""), owner.get("name", "")
    above, above_name = owner_above(kind, name)
    for key in ((kind, space, name), (above, space, above_name)):
        if key in there:
            return key
    return None


def _by_ordinal(name: str, placed: Sequence[tuple[str, str]]) -> list[str]:
    """The nodes of the pods of a StatefulSet from ordinal 0 up to the first that is missing."""
    by_name = dict(placed)
    nodes: list[str] = []
    while (pod := f"{name}-{len(nodes)}") in by_name:
        nodes.append(by_name[pod])
    return nodes
