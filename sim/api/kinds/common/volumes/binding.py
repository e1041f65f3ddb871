"""Persistent volumes and claims: which volume suits a claim, and how the two refer to each other.

Turns a claim, the volumes and the labels of a node into the volume that the claim gets, and a
volume and a claim into the volume that is reserved for the claim. The controller that binds and
the scheduler share these rules.

Mirrors  kubernetes v1.25 pkg/volume/persistentvolume/volume helpers: pkg/controller/volume/
         persistentvolume/util/util.go (FindMatchingVolume, IsVolumeBoundToClaim,
         GetBindVolumeToClaim, IsDelayBindingMode, CheckAccessModes, CheckVolumeModeMismatches);
         component-helpers v1.25 storage/volume/helpers.go (GetPersistentVolumeClaimClass),
         storage/ephemeral/ephemeral.go; pkg/volume/util/util.go: CheckNodeAffinity;
         pkg/volume/util/resize_util.go (MergeResizeConditionOnPVC).
Differs  of volumes that suit a claim equally well the first by name is chosen (upstream: the order
         of an index, which for the scheduler is that of a map).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any, NamedTuple

from sim.api.objects import (
    annotations_of,
    controller_of,
    is_deleting,
    labels_of,
    phase_of,
    status_of,
    with_metadata,
)
from sim.api.scheduling import node_terms, selects_node
from sim.api.selectors import from_selector
from sim.api.types import Obj
from sim.ident import Names
from sim.units import quantity_value

RESIZING, RESIZE_PENDING = "Resizing", "FileSystemResizePending"


class Moved(NamedTuple):
    """The driver that has replaced a plugin.

    plugin: the short name of the plugin
    handle: the field of the source that names the disk; "" for shares, which are not attached
    """

    plugin: str
    driver: str
    handle: str = ""


# Plugins of which the volumes belong to a driver from v1.25 on, by the field of a volume's source
# (csi-translation-lib/plugins).
MIGRATED = {
    "awsElasticBlockStore": Moved("aws-ebs", "ebs.csi.aws.com", "volumeID"),
    "azureDisk": Moved("azure-disk", "disk.csi.azure.com", "diskURI"),
    "azureFile": Moved("azure-file", "file.csi.azure.com"),
    "cinder": Moved("cinder", "cinder.csi.openstack.org", "volumeID"),
    "gcePersistentDisk": Moved("gce-pd", "pd.csi.storage.gke.io", "pdName"),
    "vsphereVolume": Moved("vsphere-volume", "csi.vsphere.vmware.com", "volumePath"),
}
RESIZE_CONDITIONS = (RESIZING, RESIZE_PENDING)


def disk_of(source: Mapping[str, Any]) -> tuple[str, str] | None:
    """The driver and the handle of a volume's source, which may be that of a plugin that has moved;
    None for other sources, and for shares of such a plugin.
    """
    own = source.get("csi")
    if own is not None:
        return own["driver"], own["volumeHandle"]
    for field, moved in MIGRATED.items():
        if source.get(field) is not None and moved.handle:
            return moved.driver, str(source[field].get(moved.handle) or "")
    return None


def class_of(obj: Obj, names: Names) -> str:
    """The storage class of a claim or a volume, "" if it has none; the annotation comes first."""
    annotated = annotations_of(obj).get(names.annotation_beta_storage_class)
    return str(obj["spec"].get("storageClassName") or "") if annotated is None else annotated


def requested_bytes(claim: Obj) -> int:
    """The size that a claim requests."""
    requests = (claim["spec"].get("resources") or {}).get("requests") or {}
    return quantity_value(requests.get("storage", "0"))


def capacity_bytes(volume: Obj) -> int:
    """The size of a volume."""
    return quantity_value((volume["spec"].get("capacity") or {}).get("storage", "0"))


def claimed_bytes(claim: Obj) -> int:
    """The size that a claim has."""
    return quantity_value((status_of(claim).get("capacity") or {}).get("storage", "0"))


def resize_conditions(
    status: Mapping[str, Any], kind: str, message: str = "", now: str = ""
) -> list[Mapping[str, Any]]:
    """The conditions of a claim of which the expansion is in this condition; "" ends it.

    now: the present time, as the API writes it
    """
    new = {"type": kind, "status": "True", "lastProbeTime": None, "lastTransitionTime": now}
    new |= {"message": message} if message else {}
    kept, is_old = [], False
    for each in status.get("conditions") or ():
        if each["type"] not in RESIZE_CONDITIONS:
            kept.append(each)
        elif each["type"] == kind:
            is_old = True
            kept.append(each if each.get("status") == "True" else new)
    return kept if is_old or not kind else [*kept, new]


def volume_mode(obj: Obj) -> str:
    """The mode of a claim or a volume: Filesystem (the default) or Block."""
    return str(obj["spec"].get("volumeMode") or "Filesystem")


# --- the claims of a pod --------------------------------------------------------------------------


def claim_name(pod: Obj, volume: Obj) -> str:
    """The name of the claim behind a volume of a pod; "" if the volume has no claim."""
    source = volume.get("persistentVolumeClaim")
    if source is not None:
        return str(source.get("claimName") or "")
    return f"{pod['metadata']['name']}-{volume['name']}" if volume.get("ephemeral") is not None else ""


def uses_claims(pod: Obj) -> bool:
    """True if a volume of a pod has a claim."""
    for volume in pod["spec"].get("volumes") or ():
        if "persistentVolumeClaim" in volume or "ephemeral" in volume:
            return True
    return False


def claim_names(pod: Obj) -> list[str]:
    """The names of the claims of a pod."""
    if not uses_claims(pod):  # most pods, for which several loops ask at each change
        return []
    names = [claim_name(pod, volume) for volume in pod["spec"]["volumes"]]
    return [name for name in names if name]


def foreign_claim_problem(pod: Obj, claim: Obj) -> str:
    """Why a claim is not the one of the pod's ephemeral volume; "" if it is."""
    owner = controller_of(claim)
    if owner is not None and owner.get("uid") == pod["metadata"].get("uid"):
        return ""
    meta = claim["metadata"]
    return (
        f"PVC {meta['namespace']}/{meta['name']} was not created for pod "
        f"{pod['metadata']['namespace']}/{pod['metadata']['name']} (pod is not owner)"
    )


# --- the state of a binding -----------------------------------------------------------------------


def is_fully_bound(claim: Obj, names: Names) -> bool:
    """True if both sides of the claim's binding have been written."""
    bound = names.annotation_bind_completed in annotations_of(claim)
    return bool(claim["spec"].get("volumeName")) and bound


def is_bound_to(volume: Obj, claim: Obj) -> bool:
    """True if the volume is reserved for this claim, by its uid or by its name alone."""
    reference = volume["spec"].get("claimRef")
    if reference is None:
        return False
    meta = claim["metadata"]
    if (reference.get("name"), reference.get("namespace")) != (meta["name"], meta["namespace"]):
        return False
    return not reference.get("uid") or reference["uid"] == meta.get("uid")


def delays_binding(storage_class: Obj | None) -> bool:
    """True if claims of the class are bound when a pod that uses them is scheduled."""
    return storage_class is not None and storage_class.get("volumeBindingMode") == "WaitForFirstConsumer"


def claim_reference(claim: Obj) -> Obj:
    """The reference that a volume has to its claim."""
    meta = claim["metadata"]
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "namespace": meta["namespace"],
        "name": meta["name"],
        "uid": meta["uid"],
        "resourceVersion": meta["resourceVersion"],
    }


def reserved_for(volume: Obj, claim: Obj, names: Names) -> Obj:
    """The volume with a reference to the claim; the volume itself if it has that already."""
    reference = volume["spec"].get("claimRef") or {}
    new, reserved = volume, is_bound_to(volume, claim)
    if not reserved or reference.get("uid") != claim["metadata"]["uid"]:
        new = {**volume, "spec": {**volume["spec"], "claimRef": claim_reference(claim)}}
    marks, mark = annotations_of(volume), names.annotation_bound_by_controller
    if not reserved and mark not in marks:  # a reservation by a user stays one
        new = with_metadata(new, annotations={**marks, mark: "yes"})
    return new


# --- matching -------------------------------------------------------------------------------------


def reaches(volume: Obj, labels: Mapping[str, str]) -> bool:
    """True if a node with these labels may use the volume, by the volume's node affinity.

    Quirk: a term on fields matches no node, since upstream compares with labels alone.
    """
    required = (volume["spec"].get("nodeAffinity") or {}).get("required")
    if required is None:
        return True
    return selects_node(node_terms(required), "", labels)


def offers_modes(volume: Obj, claim: Obj) -> bool:
    """True if the volume has every access mode that the claim requests."""
    offered = volume["spec"].get("accessModes") or ()
    return all(mode in offered for mode in claim["spec"].get("accessModes") or ())


def suitable_volumes(
    claim: Obj, volumes: Iterable[Obj], names: Names, *, by_modes: bool = False
) -> list[Obj]:
    """The volumes that satisfy the claim wherever it is used, the best first: only the reserved one
    if there is one.

    by_modes: True if access modes count (the controller has looked volumes up by them)
    """
    size, wanted_class, mode = requested_bytes(claim), class_of(claim, names), volume_mode(claim)
    given = claim["spec"].get("selector")
    selector = None if given is None else from_selector(given)
    found: list[tuple[int, str, Obj]] = []
    for volume in volumes:
        bound = is_bound_to(volume, claim)
        if volume["spec"].get("claimRef") is not None and not bound:
            continue
        capacity = capacity_bytes(volume)
        if capacity < size or volume_mode(volume) != mode or is_deleting(volume):
            continue
        if bound:
            return [volume]
        if phase_of(volume) != "Available" or class_of(volume, names) != wanted_class:
            continue
        if selector is not None and not selector.matches(labels_of(volume)):
            continue
        if not by_modes or offers_modes(volume, claim):
            found.append((capacity, volume["metadata"]["name"], volume))
    return [volume for _, _, volume in sorted(found, key=lambda each: each[:2])]


def find_matching_volume(
    claim: Obj,
    volumes: Iterable[Obj],
    names: Names,
    *,
    labels: Mapping[str, str] | None = None,
    chosen: Collection[str] = (),
    delays: bool = False,
) -> Obj | None:
    """The volume reserved for the claim, or else the smallest that satisfies it; None without one.

    labels: of the node that has to use the volume; None if the binding depends on no node
    chosen: names of volumes that other claims get
    delays: True if the claim waits for a pod, so that without a node only a reserved volume counts
    """
    suitable = suitable_volumes(claim, volumes, names, by_modes=labels is not None)
    return nearest_volume(claim, suitable, labels=labels, chosen=chosen, delays=delays)


def nearest_volume(
    claim: Obj,
    suitable: Iterable[Obj],
    *,
    labels: Mapping[str, str] | None,
    chosen: Collection[str] = (),
    delays: bool = False,
) -> Obj | None:
    """The first of the suitable volumes that the node may use; arguments as `find_matching_volume`."""
    for volume in suitable:
        if volume["metadata"]["name"] in chosen or (labels is not None and not reaches(volume, labels)):
            continue
        if labels is not None or not delays or is_bound_to(volume, claim):
            return volume
    return None
