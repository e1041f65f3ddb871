"""The volumes of a cluster: which stay bound, and the storage drivers that a scenario needs.

A claim keeps its volume if both are in the files.  Each driver of the Container Storage Interface
that a class, a claim or a volume names gets an entry in the field `cluster.storage`; its classes
stay objects of their own.  A provisioner of another kind is noted, since the simulation has none.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from sim.api.kinds.common.volumes.binding import MIGRATED
from sim.app.imports.parts import Value
from sim.app.imports.references import UPSTREAM
from sim.app.provisioners import driver_of, is_driver

_SHARED = ("ReadWriteMany", "ReadOnlyMany")
_ALL_MODES = ["ReadWriteOnce", "ReadOnlyMany", "ReadWriteMany", "ReadWriteOncePod"]


def with_volumes(objects: Sequence[Value], notes: list[str]) -> list[Value]:
    """The objects, in which claims and pods refer only to volumes and nodes that they can have."""
    names = {each["metadata"]["name"]: None for each in objects if each["kind"] == "PersistentVolume"}
    made: list[Value] = []
    unbound: dict[tuple[str, str], None] = {}
    lost = 0
    for obj in objects:
        spec = obj.get("spec") or {}
        if obj["kind"] == "PersistentVolumeClaim" and spec.get("volumeName") not in names:
            unbound[obj["metadata"].get("namespace", ""), obj["metadata"]["name"]] = None
            lost += "volumeName" in spec
            obj = {**obj, "spec": {key: value for key, value in spec.items() if key != "volumeName"}}
        made.append(obj)
    if lost:
        notes.append(
            f"claims get new volumes, since theirs are not in the files: {lost} PersistentVolumeClaims"
        )
    return [_movable(each) if _waits(each, unbound) else each for each in made]


def _waits(obj: Value, unbound: Mapping[tuple[str, str], None]) -> bool:
    """True for a pod with a claim that has no volume: its node is chosen before the volume is made."""
    if obj["kind"] != "Pod":
        return False
    claims = [each.get("persistentVolumeClaim") for each in (obj.get("spec") or {}).get("volumes") or ()]
    space = obj["metadata"].get("namespace", "")
    return any((space, claim.get("claimName", "")) in unbound for claim in claims if claim)


def _movable(pod: Value) -> Value:
    return {**pod, "spec": {key: value for key, value in pod["spec"].items() if key != "nodeName"}}


def storage_drivers(objects: Sequence[Value], notes: list[str]) -> list[Value]:
    """The entries of `cluster.storage`; what nothing can provision is noted."""
    entries: list[Value] = []
    taken = {each["metadata"]["name"]: None for each in objects if each["kind"] == "StorageClass"}
    missing = _classes_without_object(objects, taken)
    for driver in sorted(dict.fromkeys(_drivers(objects))):
        if not is_driver(driver):
            remedy = "let a driver of cluster.storage have the class, or its claims wait"
            notes.append(f"no process provisions {driver}: {remedy}")
            continue
        own = next((name for name, by in missing.items() if by == driver), driver.partition(".")[0])
        while own in taken:
            own = f"{own}-driver"
        taken[own] = None
        entries.append({"driver": driver, "class": own, **_abilities(driver, objects)})
    if entries:
        shown = ", ".join(each["driver"] for each in entries)
        notes.append(f"storage drivers are simulated, with the usual times of cluster.storage: {shown}")
    return entries


def _drivers(objects: Sequence[Value]) -> Iterator[str]:
    for obj in objects:
        found = ""
        if obj["kind"] == "StorageClass":
            found = driver_of(str(obj.get("provisioner", "")), UPSTREAM)
        elif obj["kind"] == "PersistentVolume":
            found = _driver_of_volume(obj)
        elif obj["kind"] == "PersistentVolumeClaim":
            found = _provisioner_of(obj)
        if found:
            yield found


def _driver_of_volume(volume: Value) -> str:
    spec = volume.get("spec") or {}
    moved = next((each.driver for field, each in MIGRATED.items() if spec.get(field)), "")
    return moved or str((spec.get("csi") or {}).get("driver") or "")


def _provisioner_of(claim: Value) -> str:
    """The provisioner that the binder has asked for a volume of a claim."""
    marks = (claim.get("metadata") or {}).get("annotations") or {}
    keys = (UPSTREAM.annotation_storage_provisioner, UPSTREAM.annotation_beta_storage_provisioner)
    found = next((str(marks[key]) for key in keys if marks.get(key)), "")
    return driver_of(found, UPSTREAM)


def _classes_without_object(objects: Sequence[Value], there: Mapping[str, None]) -> dict[str, str]:
    """The classes that claims name and the files do not hold, with their provisioners."""
    found: dict[str, str] = {}
    for obj in objects:
        name = (obj.get("spec") or {}).get("storageClassName")
        if obj["kind"] == "PersistentVolumeClaim" and name and name not in there and _provisioner_of(obj):
            found[name] = _provisioner_of(obj)
    return found


def _abilities(driver: str, objects: Sequence[Value]) -> Value:
    """What the volumes of a driver show of it: shared access, zones, no attachments."""
    found: Value = {}
    volumes = [
        each for each in objects if each["kind"] == "PersistentVolume" and _driver_of_volume(each) == driver
    ]
    if any(mode in _SHARED for each in volumes for mode in each["spec"].get("accessModes") or ()):
        found["accessModes"] = _ALL_MODES
    zoned = [key for each in volumes for key in _affinity_keys(each) if key.endswith("/zone")]
    if zoned:
        found["topology"] = "zone" if zoned[0] == UPSTREAM.label_zone else zoned[0]
    for obj in objects:
        if obj["kind"] == "CSIDriver" and obj["metadata"]["name"] == driver:
            if (obj.get("spec") or {}).get("attachRequired") is False:
                found["attachRequired"] = False
    return found


def _affinity_keys(volume: Value) -> Iterator[str]:
    required = (volume["spec"].get("nodeAffinity") or {}).get("required") or {}
    for term in required.get("nodeSelectorTerms") or ():
        for each in term.get("matchExpressions") or ():
            yield each["key"]
