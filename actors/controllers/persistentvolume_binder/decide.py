"""What becomes of a claim and of a volume: pure rules of the controller that binds them.

Turns claims, volumes and classes into the objects to write.

Mirrors  kubernetes v1.25 pkg/controller/volume/persistentvolume: pv_controller.go
         (checkVolumeSatisfyClaim, updateClaimStatus, bindClaimToVolume, unbindVolume,
         isVolumeReleased), index.go; pkg/volume/plugins.go
         (NewPersistentVolumeRecyclerPodTemplate).
         The matching itself is in `sim.api.kinds.common.volumes.binding`.
Differs  the pod that recycles does not check that it has removed every file, and its image has no
         registry.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any, Literal

from sim.api.kinds.common.volumes.binding import (
    capacity_bytes,
    claim_reference,
    class_of,
    find_matching_volume,
    offers_modes,
    requested_bytes,
    volume_mode,
)
from sim.api.objects import annotations_of, is_deleting, name_of, phase_of, status_of, uid_of, with_metadata
from sim.api.types import Obj
from sim.ident import Names
from sim.units import quantity_value

GIB = 1 << 30


def claim_key_of(volume: Obj) -> str:
    """The key of the claim that a volume is reserved for."""
    reference = volume["spec"]["claimRef"]
    return f"{reference.get('namespace', '')}/{reference.get('name', '')}"


# --- matching -------------------------------------------------------------------------------------


def best_match(claim: Obj, volumes: Iterable[Obj], names: Names, delays: bool) -> Obj | None:
    """The volume that a claim gets: of the fewest access modes, then the smallest."""
    wanted = {*(claim["spec"].get("accessModes") or ())}
    by_modes: dict[tuple[str, ...], list[Obj]] = {}
    for volume in volumes:
        modes = tuple(dict.fromkeys(volume["spec"].get("accessModes") or ()))
        if wanted <= {*modes}:
            by_modes.setdefault(tuple(sorted(modes)), []).append(volume)
    for modes in sorted(by_modes, key=lambda one: (len(one), one)):
        found = find_matching_volume(claim, by_modes[modes], names, delays=delays)
        if found is not None:
            return found
    return None


def volume_problem(volume: Obj, claim: Obj, names: Names) -> str:
    """Why a claim cannot have the volume that it names; "" if it can."""
    if is_deleting(volume):
        return f'the volume is marked for deletion "{volume["metadata"]["name"]}"'
    if capacity_bytes(volume) < requested_bytes(claim):
        return "requested PV is too small"
    if class_of(volume, names) != class_of(claim, names):
        return "storageClassName does not match"
    if volume_mode(volume) != volume_mode(claim):
        return "incompatible volumeMode"
    return "" if offers_modes(volume, claim) else "incompatible accessMode"


# --- objects to write -----------------------------------------------------------------------------


ClaimPhase = Literal["Pending", "Bound", "Lost"]
VolumePhase = Literal["Pending", "Available", "Bound", "Released", "Failed"]


def claim_bound_to(claim: Obj, volume: Obj, names: Names) -> Obj:
    """The claim with the name of its volume and the mark of a complete binding."""
    marks, name = dict(annotations_of(claim)), volume["metadata"]["name"]
    new = claim
    if claim["spec"].get("volumeName") != name:
        new = {**new, "spec": {**new["spec"], "volumeName": name}}
        marks.setdefault(names.annotation_bound_by_controller, "yes")
    marks.setdefault(names.annotation_bind_completed, "yes")
    return new if marks == annotations_of(claim) and new is claim else with_metadata(new, annotations=marks)


def claim_in_phase(claim: Obj, phase: ClaimPhase, volume: Obj | None, names: Names) -> Obj:
    """The claim with the status of a phase; the claim itself if that is its status."""
    old = status_of(claim)
    status: dict[str, Any] = {**old, "phase": phase}
    if volume is None:
        status.pop("accessModes", None)
        status.pop("capacity", None)
    else:
        status["accessModes"] = volume["spec"].get("accessModes")
        if old.get("phase") != phase:  # later the size belongs to those that expand it
            status["capacity"] = _claimed_capacity(old, volume, names)
    return claim if status == old else {**claim, "status": status}


def _claimed_capacity(old: Mapping[str, Any], volume: Obj, names: Names) -> Any:
    has = old.get("capacity") or {}
    before = annotations_of(volume).get(names.annotation_pre_resize_capacity)
    capacity = volume["spec"].get("capacity") or {}
    if before is not None:  # a file system that the node has not made larger yet
        return {**has, "storage": before if _is_quantity(before) else capacity.get("storage")}
    same = "storage" in has and quantity_value(has["storage"]) == quantity_value(capacity.get("storage", 0))
    return has if same else capacity


def _is_quantity(text: str) -> bool:
    try:
        quantity_value(text)
    except ValueError:
        return False
    return True


def volume_in_phase(volume: Obj, phase: VolumePhase, message: str = "") -> Obj:
    """The volume with the status of a phase; the volume itself if that is its phase."""
    if phase_of(volume) == phase:
        return volume
    status = {key: value for key, value in status_of(volume).items() if key != "message"}
    return {**volume, "status": {**status, "phase": phase} | ({"message": message} if message else {})}


def released_from_claim(volume: Obj, names: Names) -> Obj:
    """The volume without its claim; one that a user has reserved stays so for a claim of that name."""
    marks, mark = dict(annotations_of(volume)), names.annotation_bound_by_controller
    spec = dict(volume["spec"])
    if mark in marks:
        del marks[mark], spec["claimRef"]
        return with_metadata({**volume, "spec": spec}, annotations=marks)
    spec["claimRef"] = {key: value for key, value in spec["claimRef"].items() if key != "uid"}
    return {**volume, "spec": spec}


def is_released(volume: Obj, claim: Obj | None) -> bool:
    """True if a volume has lost the claim that it was bound to.  claim: that of this name now"""
    reference = volume["spec"].get("claimRef")
    if not reference or not reference.get("uid"):
        return False
    if claim is None or uid_of(claim) != reference["uid"]:
        return True
    name = claim["spec"].get("volumeName")
    return bool(name) and name != volume["metadata"]["name"]


def with_provisioner(claim: Obj, provisioner: str, names: Names) -> Obj:
    """The claim with the names of its provisioner; the claim itself if it has them."""
    marks = annotations_of(claim)
    if marks.get(names.annotation_storage_provisioner) == provisioner:
        return claim
    added = {
        names.annotation_storage_provisioner: provisioner,
        names.annotation_beta_storage_provisioner: provisioner,
    }
    return with_metadata(claim, annotations={**marks, **added})


# --- recycling -----------------------------------------------------------------------------------


def recycler_deadline_s(volume: Obj, minimum_s: int, increment_s: int) -> int:
    """The time that the pod which recycles a volume has."""
    return max(minimum_s, capacity_bytes(volume) // GIB * increment_s)


def recycler_pod(volume: Obj, template: Obj, deadline_s: int) -> Obj:
    """The pod that empties a volume.  template: its first volume becomes the one to be emptied"""
    source = next(key for key in ("hostPath", "nfs") if key in volume["spec"])
    where = {key: value for key, value in volume["spec"][source].items() if key in ("path", "server")}
    spec = {**template["spec"], "activeDeadlineSeconds": deadline_s}
    first, *others = spec["volumes"]
    spec["volumes"] = [{"name": first["name"], source: where}, *others]
    metadata = {
        key: value for key, value in (template.get("metadata") or {}).items() if key != "generateName"
    }
    name = f"recycler-for-{volume['metadata']['name']}"
    return {**template, "metadata": {**metadata, "name": name}, "spec": spec}


RECYCLER: Obj = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"namespace": "default"},
    "spec": {
        "restartPolicy": "Never",
        "volumes": [{"name": "vol"}],
        "containers": [
            {
                "name": "pv-recycler",
                "image": "debian-base:v2.0.0",
                "command": ["/bin/sh"],
                "args": ["-c", "rm -rf /scrub/..?* /scrub/.[!.]* /scrub/*"],
                "volumeMounts": [{"name": "vol", "mountPath": "/scrub"}],
            }
        ],
    },
}


def recycles(volume: Obj) -> bool:
    """True if a plugin can empty the volume."""
    return "hostPath" in volume["spec"] or "nfs" in volume["spec"]


def mode_mismatch(volume: Obj, claim: Obj) -> tuple[str, str] | None:
    """The texts for a volume and a claim that differ in their volume mode; None if they agree."""
    if volume_mode(volume) == volume_mode(claim):
        return None
    of_volume, of_claim = volume["metadata"]["name"], claim["metadata"]["name"]
    return (
        f'Cannot bind PersistentVolume to requested PersistentVolumeClaim "{of_claim}"'
        " due to incompatible volumeMode.",
        f'Cannot bind PersistentVolume "{of_volume}" to requested PersistentVolumeClaim'
        " due to incompatible volumeMode.",
    )


# --- default class --------------------------------------------------------------------------------


def default_class(classes: Iterable[Obj], names: Names) -> str:
    """The name of the only default class (GetDefaultClass); "" if there is none, or more than one."""
    marks = (names.annotation_default_storage_class, names.annotation_beta_default_storage_class)
    found = [
        name_of(each) for each in classes if any(annotations_of(each).get(mark) == "true" for mark in marks)
    ]
    return found[0] if len(found) == 1 else ""


# --- provisioning ---------------------------------------------------------------------------------


def with_migration(obj: Obj, keys: tuple[str, ...], drivers: Mapping[str, str], names: Names) -> Obj:
    """The object with the driver to which its plugin has migrated; itself if it has it.

    keys: annotations of which the first that is there names the plugin
    drivers: by the short name of their plugin
    """
    marks, prefix = annotations_of(obj), names.volume_plugin_prefix
    provisioner = next((marks[key] for key in keys if key in marks), None)
    if provisioner is None:
        return obj
    is_plugin = provisioner.startswith(prefix)
    driver = drivers.get(provisioner.removeprefix(prefix), "") if is_plugin else ""
    if marks.get(names.annotation_migrated_to, "") == driver:
        return obj
    changed = {key: value for key, value in marks.items() if key != names.annotation_migrated_to}
    return with_metadata(
        obj, annotations=changed | ({names.annotation_migrated_to: driver} if driver else {})
    )


def with_deletion_finalizers(volume: Obj, migrated: Collection[str], names: Names) -> Obj:
    """The volume with the finalizers by which its data are deleted before it
    (modifyDeletionFinalizers); the volume itself if it has them.

    migrated: short names of the plugins that have migrated to drivers
    """
    provisioner = annotations_of(volume).get(names.annotation_provisioned_by)
    prefix, given = names.volume_plugin_prefix, volume["metadata"].get("finalizers") or []
    if provisioner is None or not provisioner.startswith(prefix):
        return volume
    mine, wanted = names.finalizer_volume_data, list(given)
    policy = volume["spec"].get("persistentVolumeReclaimPolicy")
    if provisioner.removeprefix(prefix) in migrated:
        wanted = [each for each in given if each != mine]
    else:
        if policy == "Delete" and mine not in given:
            wanted.append(mine)
        gone = (names.finalizer_external_volume, *((mine,) if policy != "Delete" else ()))
        wanted = [each for each in wanted if each not in gone]
    return volume if wanted == given else with_metadata(volume, finalizers=wanted)


def host_path_volume(claim: Obj, storage_class: Obj, directory: str, names: Names) -> Obj:
    """The volume of a directory that was made for a claim, bound to the claim."""
    meta, requests = claim["metadata"], claim["spec"]["resources"]["requests"]
    marks = {
        f"{names.volume_plugin_prefix}createdby": "hostpath-dynamic-provisioner",
        names.annotation_bound_by_controller: "yes",
        names.annotation_provisioned_by: storage_class["provisioner"],
    }
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": f"pvc-{meta['uid']}", "annotations": marks},
        "spec": {
            "accessModes": claim["spec"].get("accessModes") or ["ReadWriteOnce"],
            "capacity": {"storage": requests["storage"]},
            "claimRef": claim_reference(claim),
            "hostPath": {"path": directory},
            "persistentVolumeReclaimPolicy": storage_class["reclaimPolicy"],
            "storageClassName": class_of(claim, names),
        },
    }
