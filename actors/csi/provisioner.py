"""external-provisioner: makes volumes for claims, and deletes them.

Mirrors  kubernetes-csi/external-provisioner v3.2 pkg/controller/controller.go (Provision, Delete),
         sig-storage-lib-external-provisioner v8 controller.go: shouldProvision, shouldDelete, 100
         workers, calls of at most 10 s, the events.
Differs  a zone is chosen by the node, or else the one with the fewest volumes of the driver.
"""

from __future__ import annotations

from collections.abc import Sequence

from actors.csi.shell import DriverEnv
from sim.api.objects import annotations_of, is_deleting, key_of, labels_of, name_of, phase_of, uid_of
from sim.api.types import Obj
from sim.api.volumes import capacity_bytes, class_of, requested_bytes, volume_mode
from sim.units import SECOND

CLAIMS, VOLUMES = "persistentvolumeclaims", "persistentvolumes"
WORKERS = 100
DEADLINE_US = 10 * SECOND
FULL = "rpc error: code = ResourceExhausted desc = not enough capacity"


class Provisioner:
    """Makes and deletes the volumes of one driver."""

    def __init__(self, env: DriverEnv) -> None:
        self._env = env
        self._names = env.names
        self._client = env.connect("provisioner")
        self._recorder = env.recorder(self._client)
        informers = env.informers
        self._claims, self._volumes = informers[CLAIMS], informers[VOLUMES]
        self._classes, self._nodes = informers["storageclasses"], informers["nodes"]
        self._attachments = informers["volumeattachments"]
        self._claim_queue, self._volume_queue = env.queue("claims"), env.queue("volumes")
        # Volumes that were made: place and size, until the informer shows them.
        self._made: dict[str, tuple[str, int]] = {}

    def listen(self) -> None:
        """Register the handlers."""
        self._claims.on(self._claim_changed, lambda _, new: self._claim_changed(new))
        self._volumes.on(self._volume_changed, lambda _, new: self._volume_changed(new))

    def start(self) -> None:
        """Start the workers."""
        self._env.work(self._claim_queue, self._provision, WORKERS)
        self._env.work(self._volume_queue, self._delete, WORKERS)

    # --- provision --------------------------------------------------------------------------------

    def _claim_changed(self, claim: Obj) -> None:
        if self._concerns(claim):
            self._claim_queue.add(key_of(claim))

    def _concerns(self, claim: Obj) -> bool:
        """True for a claim without a volume that this driver has to serve."""
        marks, names = annotations_of(claim), self._names
        keys = (names.annotation_storage_provisioner, names.annotation_beta_storage_provisioner)
        driver = next((marks[key] for key in keys if key in marks), None)
        return (
            driver == self._env.driver.name and not claim["spec"].get("volumeName") and not is_deleting(claim)
        )

    async def _provision(self, key: str) -> str | None:
        claim, driver, names = self._claims.get(key), self._env.driver, self._names
        if claim is None or not self._concerns(claim):
            return None
        volume_name = f"pvc-{uid_of(claim)}"
        if volume_name in self._made or self._volumes.get(volume_name) is not None:
            return None
        storage_class = self._classes.get(class_of(claim, names))
        if storage_class is None:
            return f'storageclass "{class_of(claim, names)}" not found'
        node_name = annotations_of(claim).get(names.annotation_selected_node, "")
        if storage_class.get("volumeBindingMode") == "WaitForFirstConsumer" and not node_name:
            return None
        text = f'External provisioner is provisioning volume for claim "{key}"'
        self._recorder.event(claim, "Normal", "Provisioning", text)
        place, error = self._place_of(node_name, storage_class, requested_bytes(claim))
        wrong = [mode for mode in claim["spec"]["accessModes"] if mode not in driver.access_modes]
        if wrong:
            error = f"rpc error: code = InvalidArgument desc = access mode {wrong[0]} is not supported"
        if not error:
            error = await self._env.calls.call("provision", volume_name, DEADLINE_US)
        if error:
            name = name_of(storage_class)
            text = f'failed to provision volume with StorageClass "{name}": {error}'
            self._recorder.event(claim, "Warning", "ProvisioningFailed", text)
            if "ResourceExhausted" in error and node_name:
                await self._reschedule(claim)
                return None
            return text
        self._made[volume_name] = (place, requested_bytes(claim))
        volume = self._volume(claim, storage_class, place)
        reply = await self._client.create(VOLUMES, "", volume)
        if not reply.ok and reply.reason != "AlreadyExists":
            del self._made[volume_name]
            return reply.message
        text = f"Successfully provisioned volume {volume_name}"
        self._recorder.event(claim, "Normal", "ProvisioningSucceeded", text)
        return None

    async def _reschedule(self, claim: Obj) -> None:
        """Take the node from a claim, so that the scheduler chooses one again."""
        mark = {self._names.annotation_selected_node: None}
        meta, patch = claim["metadata"], {"metadata": {"annotations": mark}}
        await self._client.patch(CLAIMS, meta["namespace"], meta["name"], patch, "merge")

    def _place_of(self, node_name: str, storage_class: Obj, size: int) -> tuple[str, str]:
        """Where a volume is to be, "" for everywhere, and an error text."""
        driver = self._env.driver
        key, used = driver.topology_key, self._used()
        if not key:
            full = driver.capacity is not None and used.get("", 0) + size > driver.capacity
            return "", FULL if full else ""
        if node_name:
            node = self._nodes.get(node_name)
            place = "" if node is None else labels_of(node).get(key, "")
            if not place:
                return (
                    "",
                    f"error generating accessibility requirements: no topology key found on node {node_name}",
                )
            places = [place]
        else:
            places = sorted({labels_of(node)[key] for node in self._nodes.list() if key in labels_of(node)})
        allowed = driver.zones or _allowed(storage_class, key)
        places = [place for place in places if not allowed or place in allowed]
        if not places:
            return "", "rpc error: code = ResourceExhausted desc = the driver has no disks in these places"
        capacity = driver.capacity
        free = [place for place in places if capacity is None or used.get(place, 0) + size <= capacity]
        if not free:
            return "", FULL
        return min(free, key=lambda place: (used.get(place, 0), place)), ""

    def _used(self) -> dict[str, int]:
        """The bytes that are provisioned in each place."""
        used: dict[str, int] = {}
        for volume in self._volumes.list():
            if (volume["spec"].get("csi") or {}).get("driver") == self._env.driver.name:
                self._made.pop(name_of(volume), None)
                place = _place(volume, self._env.driver.topology_key)
                used[place] = used.get(place, 0) + capacity_bytes(volume)
        for place, size in self._made.values():
            used[place] = used.get(place, 0) + size
        return used

    def _volume(self, claim: Obj, storage_class: Obj, place: str) -> Obj:
        """The object of a new volume."""
        driver, meta, spec = self._env.driver, claim["metadata"], claim["spec"]
        name = f"pvc-{meta['uid']}"
        source: Obj = {"driver": driver.name, "volumeHandle": name}
        if volume_mode(claim) == "Filesystem":
            parameters = storage_class.get("parameters") or {}
            source["fsType"] = parameters.get(self._names.parameter_fs_type, "ext4")
        found: Obj = {
            "accessModes": spec["accessModes"],
            "capacity": {"storage": spec["resources"]["requests"]["storage"]},
            "claimRef": {
                "apiVersion": "v1",
                "kind": "PersistentVolumeClaim",
                "namespace": meta["namespace"],
                "name": meta["name"],
                "uid": meta["uid"],
                "resourceVersion": meta["resourceVersion"],
            },
            "csi": source,
            "persistentVolumeReclaimPolicy": storage_class["reclaimPolicy"],
            "storageClassName": name_of(storage_class),
            "volumeMode": volume_mode(claim),
        }
        if storage_class.get("mountOptions"):
            found["mountOptions"] = storage_class["mountOptions"]
        if place:
            term = {"key": driver.topology_key, "operator": "In", "values": [place]}
            found["nodeAffinity"] = {"required": {"nodeSelectorTerms": [{"matchExpressions": [term]}]}}
        marks = {self._names.annotation_provisioned_by: driver.name}
        metadata = {"name": name, "annotations": marks}
        return {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": metadata, "spec": found}

    # --- delete -----------------------------------------------------------------------------------

    def _volume_changed(self, volume: Obj) -> None:
        if self._deletes(volume):
            self._volume_queue.add(key_of(volume))

    def _deletes(self, volume: Obj) -> bool:
        """True for a volume without a claim that this driver has made and is to delete."""
        return (
            phase_of(volume) == "Released"
            and volume["spec"].get("persistentVolumeReclaimPolicy") == "Delete"
            and annotations_of(volume).get(self._names.annotation_provisioned_by) == self._env.driver.name
            and not is_deleting(volume)
        )

    async def _delete(self, key: str) -> str | None:
        volume = self._volumes.get(key)
        if volume is None or not self._deletes(volume):
            return None
        error = self._attached_problem(key)
        if not error:
            error = await self._env.calls.call("delete", key, DEADLINE_US)
        if error:
            self._recorder.event(volume, "Warning", "VolumeFailedDelete", error)
            return error
        reply = await self._client.delete(VOLUMES, "", key)
        return None if reply.ok or reply.reason == "NotFound" else reply.message

    def _attached_problem(self, name: str) -> str:
        for attachment in self._attachments.list():
            spec = attachment["spec"]
            if spec["source"].get("persistentVolumeName") == name:
                return f"persistentvolume {name} is still attached to node {spec['nodeName']}"
        return ""


def _allowed(storage_class: Obj, key: str) -> Sequence[str]:
    """The places that a class allows; () for all."""
    return [
        value
        for term in storage_class.get("allowedTopologies") or ()
        for each in term.get("matchLabelExpressions") or ()
        if each["key"] == key
        for value in each["values"]
    ]


def _place(volume: Obj, key: str) -> str:
    """The place of a volume by its node affinity."""
    required = (volume["spec"].get("nodeAffinity") or {}).get("required") or {}
    for term in required.get("nodeSelectorTerms") or ():
        for each in term.get("matchExpressions") or ():
            if each["key"] == key and each.get("values"):
                return str(each["values"][0])
    return ""
