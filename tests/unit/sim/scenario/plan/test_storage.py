"""The field `cluster.storage` becomes drivers and the objects that make them known."""

from __future__ import annotations

from pathlib import Path

import pytest

from sim.errors import InputError
from sim.faults.surroundings.driver import DriverFails
from sim.ident import NAMES
from sim.options.storage_drivers import StorageDriver, StoragePlan
from sim.scenario.compile import load
from sim.scenario.plan.plan import Plan
from sim.scenario.plan.storage import storage_objects, storage_of
from sim.units import SECOND

NAMING = NAMES["kubernetes"]


def plan_of(folder: Path, storage: str, step: str = "") -> Plan:
    (folder / "s.yaml").write_text(
        "apiVersion: orrery.dev/v1\nkind: Scenario\nmetadata: {name: s}\nspec:\n"
        "  cluster:\n    nodes: [{count: 2, zones: [a, b]}]\n"
        f"    storage: [{storage}]\n  timeline: [{step}]\n"
    )
    return load(folder / "s.yaml")


def test_driver_without_more_has_its_defaults_and_a_class(tmp_path: Path) -> None:
    plan = plan_of(tmp_path, "{driver: disk.csi.example.com}")
    assert plan.cluster.storage == (StoragePlan(StorageDriver("disk.csi.example.com"), "disk"),)


def test_zones_bind_disks_to_the_zone_label(tmp_path: Path) -> None:
    given = "{driver: disk, class: fast, zones: [a], attachTime: 9s, limitPerNode: 3, default: true}"
    found = plan_of(tmp_path, given).cluster.storage[0]
    assert found.driver.topology_key == "topology.orch.io/zone"
    assert (found.driver.attach_us, found.driver.limit_per_node) == (9 * SECOND, 3)
    assert (found.class_name, found.binding_mode, found.default) == ("fast", "WaitForFirstConsumer", True)


@pytest.mark.parametrize(
    ("storage", "message"),
    [
        ("{driver: d, zones: [c]}", "no node is in the zone c"),
        ("{driver: d, attachTime: soon}", "'soon' is not a duration"),
        ("{driver: d, capacity: much}", "'much' is not an amount"),
        ("{driver: d, capacity: 0}", "0 is not an amount"),
        ("{driver: d, topology: hostname, zones: [a]}", "disks that belong to one node have no zones"),
        ("{driver: d, topology: 'a b'}", "'a b' is not a label"),
        ("{driver: d, accessModes: []}", "a driver without access modes has no volumes"),
        ("{driver: d}, {driver: d, class: e}", "two storage drivers are named d"),
        ("{driver: d}, {driver: e, class: d}", "two storage drivers have the class d"),
        ("{driver: d, default: true}, {driver: e, default: true}", "two classes are the default"),
    ],
)
def test_wrong_driver_is_an_error_with_its_place(tmp_path: Path, storage: str, message: str) -> None:
    with pytest.raises(InputError) as caught:
        plan_of(tmp_path, storage)
    assert message in caught.value.message and "s.yaml:7:" in caught.value.place


def test_objects_of_a_driver_say_what_it_can_do() -> None:
    plans = storage_of(
        [{"driver": "disk", "zones": ["a"], "expandable": False, "default": True, "capacity": "9Gi"}], NAMING
    )
    driver, storage_class, *_ = storage_objects(plans, NAMING)
    assert driver["spec"] == {
        "attachRequired": True,
        "fsGroupPolicy": "ReadWriteOnceWithFSType",
        "storageCapacity": True,
    }
    assert storage_class["metadata"]["annotations"] == {"storageclass.kubernetes.io/is-default-class": "true"}
    assert storage_class["allowVolumeExpansion"] is False
    assert storage_class["allowedTopologies"] == [
        {"matchLabelExpressions": [{"key": "topology.kubernetes.io/zone", "values": ["a"]}]}
    ]


def test_parameter_of_a_cluster_is_checked() -> None:
    with pytest.raises(InputError, match="unknown field"):
        storage_of([{"driver": "disk", "zone": "a"}], NAMING)
    with pytest.raises(InputError, match="is not a duration"):
        storage_of([{"driver": "disk", "mountTime": "x"}], NAMING)


def test_step_of_a_driver_becomes_its_fault(tmp_path: Path) -> None:
    step = "{at: 1m, driver: {name: d, how: slow, operation: [attach, mount], nodes: {zone: a}, factor: 3}}"
    plan = plan_of(tmp_path, "{driver: d}", step)
    assert plan.steps[0].choices[0].action == DriverFails(
        "d", "slow", ("attach", "mount"), ("node-a-0",), factor=3
    )


@pytest.mark.parametrize(
    ("step", "message"),
    [
        ("{name: e, how: away}", "there is no storage driver 'e'"),
        ("{name: d, how: away, operation: attach}", "a driver that is away does nothing at all"),
        ("{name: d, how: slow}", "a slow driver needs 'by' or 'factor'"),
        ("{name: d, how: hanging, by: 3s}", "'by' has no effect on 'hanging'"),
        ("{name: d, how: slow, by: 3s, message: no}", "'message' has no effect on 'slow'"),
        ("{name: d, how: failing, operation: provision, nodes: {zone: a}}", "provision happens at no node"),
    ],
)
def test_wrong_fault_of_a_driver_is_an_error(tmp_path: Path, step: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        plan_of(tmp_path, "{driver: d}", f"{{at: 1m, driver: {step}}}")
