"""external-provisioner: makes volumes for claims, and deletes them.

Mirrors  kubernetes-csi/external-provisioner v3.2 pkg/controller/controller.go (Provision, Delete),
         checkError; sig-storage-lib-external-provisioner v8 controller.go: shouldProvision,
         shouldDelete, provisionClaimOperation, rescheduleProvisioning, 100 workers, calls of at
         most 10 s, the events.
Differs  a zone is chosen by the node, or else the one with the fewest bytes of the driver; a claim
         that is copied gets no finalizer for that time. No finalizer of external-provisioner is
         set.
"""

from __future__ import annotations

from collections.abc import Sequence

from actors.csi.capacity import Capacities
from actors.csi.demands import (
    capability_problem,
    file_system,
    is_populated,
    parameter_problem,
    source_problem,
)
from actors.csi.disks import Disks, place_of
from actors.csi.shell import DriverEnv
from sim.api.kinds.common.volumes.binding import claim_reference, class_of, requested_bytes, volume_mode
from sim.api.objects import annotations_of, is_deleting, key_of, labels_of, name_of, phase_of, uid_of
from sim.api.types import Obj
from sim.units import BINARY_SI, MS, SECOND, format_quantity

CLAIMS, VOLUMES = "persistentvolumeclaims", "persistentvolumes"
WORKERS = 100
DEADLINE_US = 10 * SECOND
EXHAUSTED = "ResourceExhausted"
NOWHERE = "\n"  # in place of a place if no node that counts has one


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
        self._disks = Disks(env.driver, self._volumes)
        started_ms = env.ctx.wall_us() // MS
        number = env.ctx.stream("identity").randrange(10_000)
        self._identity = f"{started_ms}-{number}-{env.driver.name}"
        self.capacities = None if env.driver.capacity is None else Capacities(env, self._disks)

    def listen(self) -> None:
        """Register the handlers."""
        self._claims.on(self._claim_changed, lambda _, new: self._claim_changed(new))
        self._volumes.on(self._volume_changed, lambda _, new: self._volume_changed(new))
        if self.capacities is not None:
            self.capacities.listen()

    def start(self) -> None:
        """Start the workers."""
        self._env.work(self._claim_queue, self._provision, WORKERS)
        self._env.work(self._volume_queue, self._delete, WORKERS)
        if self.capacities is not None:
            self.capacities.start()

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
        claim, names = self._claims.get(key), self._names
        if claim is None or not self._concerns(claim):
            return None
        volume_name = f"pvc-{uid_of(claim)}"
        if self._disks.is_made(volume_name):
            return None
        storage_class = self._classes.get(class_of(claim, names))
        if storage_class is None:
            return f'storageClass "{class_of(claim, names)}" not found'
        node_name = annotations_of(claim).get(names.annotation_selected_node, "")
        if storage_class.get("volumeBindingMode") == "WaitForFirstConsumer" and not node_name:
            return None
        if storage_class["provisioner"] != self._env.driver.name:
            return None
        if node_name and self._nodes.get(node_name) is None:
            return await self._failed(claim, f'node "{node_name}" not found', reschedule=True)
        text = f'External provisioner is provisioning volume for claim "{key}"'
        self._recorder.event(claim, "Normal", "Provisioning", text)
        if is_populated(claim):
            text = "Assuming an external populator will provision the volume"
            self._recorder.event(claim, "Normal", "Provisioning", text)
            return None
        place, error = self._preparation(claim, storage_class, node_name)
        if not error:
            error = self._refusal(claim, place)
            if not error:
                error = await self._env.calls.call("provision", volume_name, DEADLINE_US)
            self._refresh()
        if error:
            text = f'failed to provision volume with StorageClass "{name_of(storage_class)}": {error}'
            movable = bool(self._env.driver.topology_key and node_name) and EXHAUSTED in error
            return await self._failed(claim, text, reschedule=movable)
        return await self._create(claim, storage_class, place)

    def _refresh(self) -> None:
        if self.capacities is not None:
            self.capacities.refresh()

    def _preparation(self, claim: Obj, storage_class: Obj, node_name: str) -> tuple[str, str]:
        """Where the volume of a claim is to be, and why the driver is not called; "" if it is."""
        driver, names = self._env.driver, self._names
        error = capability_problem(claim, driver, names) or parameter_problem(storage_class, names)
        origin = claim["spec"].get("dataSource")
        if origin is not None and not error:
            source = self._claims.get(f"{claim['metadata']['namespace']}/{origin['name']}")
            volume = None if source is None else self._volumes.get(source["spec"].get("volumeName") or "")
            if problem := source_problem(claim, driver.name, source, volume):
                what = f"DataSource Type {origin['kind']} by Name {origin['name']}"
                error = f"error getting handle for {what}: {problem}"
            elif volume is not None and (place := place_of(volume, driver.topology_key)):
                return place, ""  # a copy is where its source is
        return ("", error) if error else self._place_of(node_name, storage_class, requested_bytes(claim))

    def _refusal(self, claim: Obj, place: str) -> str:
        """The error of the driver for a volume that it cannot make; "" if it makes it."""
        for mode in claim["spec"]["accessModes"]:
            if mode not in self._env.driver.access_modes:
                return f"rpc error: code = InvalidArgument desc = access mode {mode} is not supported"
        if place == NOWHERE:
            return f"rpc error: code = {EXHAUSTED} desc = the driver has no disks in these places"
        free = self._disks.free(place)
        full = free is not None and requested_bytes(claim) > free
        return f"rpc error: code = {EXHAUSTED} desc = not enough capacity" if full else ""

    async def _failed(self, claim: Obj, text: str, *, reschedule: bool) -> str | None:
        """Report an error. It is tried again, or else the scheduler chooses a node again."""
        self._recorder.event(claim, "Warning", "ProvisioningFailed", text)
        if not reschedule:
            return text
        mark = {self._names.annotation_selected_node: None}
        meta, patch = claim["metadata"], {"metadata": {"annotations": mark}}
        reply = await self._client.patch(CLAIMS, meta["namespace"], meta["name"], patch, "merge")
        return None if reply.ok else text

    async def _create(self, claim: Obj, storage_class: Obj, place: str) -> str | None:
        """Create the object of a volume that was made."""
        name = f"pvc-{uid_of(claim)}"
        self._disks.made(name, place, requested_bytes(claim))
        reply = await self._client.create(VOLUMES, "", self._volume(claim, storage_class, place))
        if not reply.ok and reply.reason != "AlreadyExists":
            self._disks.unmade(name)
            return reply.message
        self._recorder.event(
            claim, "Normal", "ProvisioningSucceeded", f"Successfully provisioned volume {name}"
        )
        return None

    def _place_of(self, node_name: str, storage_class: Obj, size: int) -> tuple[str, str]:
        """Where a volume is to be, "" for everywhere, and an error text."""
        driver, key = self._env.driver, self._env.driver.topology_key
        if not key:
            return "", ""
        if node_name:
            node = self._nodes.get(node_name)
            place = "" if node is None else labels_of(node).get(key, "")
            if not place:
                text = f"no topology key found on node {node_name}"
                return "", f"error generating accessibility requirements: {text}"
            places = [place]
        else:
            places = sorted({labels_of(node)[key] for node in self._nodes.list() if key in labels_of(node)})
        has, allowed, used = driver.zones, _allowed(storage_class, key), self._disks.used()
        places = [each for each in places if (not has or each in has) and (not allowed or each in allowed)]
        free = [each for each in places if (left := self._disks.free(each)) is None or size <= left]
        return min(free or places, key=lambda each: (used.get(each, 0), each), default=NOWHERE), ""

    def _volume(self, claim: Obj, storage_class: Obj, place: str) -> Obj:
        """The object of a new volume."""
        driver, meta, spec = self._env.driver, claim["metadata"], claim["spec"]
        name = f"pvc-{meta['uid']}"
        source: Obj = {
            "driver": driver.name,
            "volumeHandle": name,
            "volumeAttributes": {self._names.attribute_provisioner_identity: self._identity},
        }
        if volume_mode(claim) == "Filesystem":
            source["fsType"] = file_system(storage_class, self._names)
        found: Obj = {
            "accessModes": spec["accessModes"],
            "capacity": {"storage": format_quantity(requested_bytes(claim), BINARY_SI)},
            "claimRef": claim_reference(claim),
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
        self._refresh()
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
