"""The storage drivers of a scenario: from the field `cluster.storage` to checked values, and the
objects that make them known to a cluster.

Holds: two drivers have different names and different classes; at most one class is the default.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import ValidationError, convert

from sim.api.types import Obj
from sim.api.validation.metadata import labels
from sim.errors import InputError, Problems
from sim.ident import Names
from sim.options.storage_drivers import StorageDriver, StoragePlan, driver_account
from sim.scenario.read.source import Document, Path_
from sim.scenario.schema.sections import StorageEntry
from sim.units import parse_duration_us, quantity_value

HOSTNAME, ZONE = "hostname", "zone"  # short names of two labels


def storage_plans(
    document: Document, path: Path_, given: Sequence[StorageEntry], zones: Sequence[str], names: Names
) -> tuple[StoragePlan, ...]:
    """The drivers of a scenario.  Raises InputError with every error.

    path: of the field in the document
    zones: of the nodes, where drivers can have disks; () if they are not known
    """
    problems = Problems()
    plans: list[StoragePlan] = []
    for index, entry in enumerate(given):
        with problems.part():
            reader = _Entry(document, (*path, index), entry, zones, names)
            plan = reader.plan()
            reader.compare(plans, plan)
            plans.append(plan)
    problems.report()
    return tuple(plans)


def storage_of(given: Sequence[Mapping[str, Any]], names: Names) -> tuple[StoragePlan, ...]:
    """The drivers of the parameter `storage` of a cluster, written as in a scenario."""
    try:
        entries = [convert(dict(one), StorageEntry) for one in given]
    except (ValidationError, TypeError, ValueError) as error:
        remedy = 'write it as storage=[{"driver": "disk.csi.example.com", "class": "fast"}]'
        raise InputError(f"a storage driver is wrong: {error}", "", remedy) from None
    try:
        return storage_plans(Document("", {}), (), entries, (), names)
    except InputError as error:
        raise InputError(error.message, "", error.remedy) from None


class _Entry:
    """One entry of the field."""

    def __init__(
        self, document: Document, path: Path_, entry: StorageEntry, zones: Sequence[str], names: Names
    ) -> None:
        self._document = document
        self._path = path
        self._entry = entry
        self._zones = zones
        self._names = names

    def _error(self, key: str, message: str, remedy: str = "") -> InputError:
        return self._document.error((*self._path, key), message, remedy)

    def plan(self) -> StoragePlan:
        """The checked values."""
        entry, problems = self._entry, Problems()
        times: dict[str, int] = {}
        for key, text in self._times().items():
            with problems.part():
                times[key] = self._duration(key, text)
        capacity, topology_key = None, ""
        with problems.part():
            capacity = self._capacity()
        with problems.part():
            topology_key = self._topology()
        with problems.part():
            self._check_zones()
        with problems.part():
            self._check_modes()
        problems.report()
        driver = StorageDriver(
            entry.driver,
            provision_us=times["provisionTime"],
            delete_us=times["deleteTime"],
            attach_us=times["attachTime"],
            detach_us=times["detachTime"],
            mount_us=times["mountTime"],
            unmount_us=times["unmountTime"],
            expand_us=times["expandTime"],
            node_expand_us=times["nodeExpandTime"],
            fs_group_us=times["fsGroupTime"],
            selinux_us=times["selinuxTime"],
            limit_per_node=entry.limit_per_node,
            access_modes=tuple(dict.fromkeys(entry.access_modes)),
            expandable=bool(entry.expandable),
            offline=entry.expandable == "offline",
            clones=entry.clones,
            zones=tuple(dict.fromkeys(entry.zones)),
            topology_key=topology_key,
            attach_required=entry.attach_required,
            fs_group_policy=entry.fs_group_policy,
            capacity=capacity,
        )
        mode = entry.binding_mode or ("WaitForFirstConsumer" if topology_key else "Immediate")
        name = entry.class_ or entry.driver.partition(".")[0]
        return StoragePlan(driver, name, mode, entry.reclaim_policy, entry.default)

    def compare(self, earlier: Sequence[StoragePlan], plan: StoragePlan) -> None:
        """Check what only one driver of a cluster can have."""
        for other in earlier:
            if other.driver.name == plan.driver.name:
                raise self._error("driver", f"two storage drivers are named {plan.driver.name}")
            if other.class_name == plan.class_name:
                raise self._error("class", f"two storage drivers have the class {plan.class_name}")
            if other.default and plan.default:
                raise self._error("default", "two classes are the default", "let one be the default")

    def _times(self) -> dict[str, str]:
        entry = self._entry
        return {
            "provisionTime": entry.provision_time,
            "deleteTime": entry.delete_time,
            "attachTime": entry.attach_time,
            "detachTime": entry.detach_time,
            "mountTime": entry.mount_time,
            "unmountTime": entry.unmount_time,
            "expandTime": entry.expand_time,
            "nodeExpandTime": entry.node_expand_time or ("500ms" if entry.attach_required else "0s"),
            "fsGroupTime": entry.fs_group_time,
            "selinuxTime": entry.selinux_time,
        }

    def _duration(self, key: str, text: str) -> int:
        try:
            result = parse_duration_us(text)
        except ValueError:
            result = -1
        if result < 0:
            raise self._error(key, f"{text!r} is not a duration", "write it as 500ms, 20s or 2m")
        return result

    def _capacity(self) -> int | None:
        value = self._entry.capacity
        if value is None:
            return None
        try:
            amount = quantity_value(value)
        except ValueError:
            amount = -1
        if amount <= 0:
            raise self._error("capacity", f"{value!r} is not an amount", "write it as 500Gi")
        return amount

    def _topology(self) -> str:
        """The label that disks and their pods have to agree in."""
        entry, names = self._entry.topology, self._names
        if not entry:
            return names.label_zone if self._entry.zones else ""
        if entry == HOSTNAME:
            if self._entry.zones:
                raise self._error("zones", "disks that belong to one node have no zones", "leave them out")
            return names.label_hostname
        if entry == ZONE:
            return names.label_zone
        for wrong in labels({entry: ""}, "topology"):
            raise self._error(
                "topology", f"{entry!r} is not a label: {wrong.message}", "zone, hostname or a label"
            )
        return entry

    def _check_zones(self) -> None:
        for zone in self._entry.zones if self._zones else ():
            if zone not in self._zones:
                remedy = f"the nodes are in {', '.join(self._zones)}"
                raise self._error("zones", f"no node is in the zone {zone}", remedy)

    def _check_modes(self) -> None:
        if not self._entry.access_modes:
            raise self._error("accessModes", "a driver without access modes has no volumes")


def storage_objects(plans: Sequence[StoragePlan], names: Names) -> list[Obj]:
    """The CSIDriver, the StorageClass and the rights of each driver."""
    return [obj for plan in plans for obj in _objects(plan, names)]


def _objects(plan: StoragePlan, names: Names) -> list[Obj]:
    return [_csi_driver(plan.driver, names), _storage_class(plan, names), *_rights(plan.driver, names)]


def _csi_driver(driver: StorageDriver, names: Names) -> Obj:
    return {
        "apiVersion": names.api_version("storage", "v1"),
        "kind": "CSIDriver",
        "metadata": {"name": driver.name},
        "spec": {
            "attachRequired": driver.attach_required,
            "fsGroupPolicy": driver.fs_group_policy,
            "storageCapacity": driver.capacity is not None,
        },
    }


def _storage_class(plan: StoragePlan, names: Names) -> Obj:
    driver = plan.driver
    metadata: Obj = {"name": plan.class_name}
    if plan.default:
        metadata["annotations"] = {names.annotation_default_storage_class: "true"}
    result: Obj = {
        "apiVersion": names.api_version("storage", "v1"),
        "kind": "StorageClass",
        "metadata": metadata,
        "provisioner": driver.name,
        "reclaimPolicy": plan.reclaim_policy,
        "volumeBindingMode": plan.binding_mode,
        "allowVolumeExpansion": driver.expandable,
    }
    if driver.zones:
        terms = [{"key": driver.topology_key, "values": [*driver.zones]}]
        result["allowedTopologies"] = [{"matchLabelExpressions": terms}]
    return result


def _rights(driver: StorageDriver, names: Names) -> list[Obj]:
    """The service account of a driver's process, and what it may do."""
    name, namespace = driver_account(driver.name), names.system_namespace
    group, storage = names.group("rbac"), names.group("storage")
    read = ["get", "list", "watch"]
    rules = [
        ("", ["persistentvolumes"], [*read, "create", "update", "patch", "delete"]),
        ("", ["persistentvolumeclaims"], [*read, "update", "patch"]),
        ("", ["persistentvolumeclaims/status"], ["update", "patch"]),
        ("", ["events"], ["create", "update", "patch"]),
        ("", ["nodes", "pods"], read),
        (storage, ["storageclasses", "csinodes", "csidrivers"], read),
        (storage, ["csistoragecapacities"], [*read, "create", "update", "patch", "delete"]),
        (storage, ["volumeattachments"], [*read, "update", "patch"]),
        (storage, ["volumeattachments/status"], ["patch"]),
    ]
    role = {"apiGroup": group, "kind": "ClusterRole", "name": name}
    version = names.api_version("rbac", "v1")
    metadata = {"name": name}
    return [
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {**metadata, "namespace": namespace}},
        {
            "apiVersion": version,
            "kind": "ClusterRole",
            "metadata": metadata,
            "rules": [{"apiGroups": [of], "resources": what, "verbs": verbs} for of, what, verbs in rules],
        },
        {
            "apiVersion": version,
            "kind": "ClusterRoleBinding",
            "metadata": metadata,
            "roleRef": role,
            "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": namespace}],
        },
    ]
