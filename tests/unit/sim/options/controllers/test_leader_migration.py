"""Leader migration: which controllers run under which lock."""

from __future__ import annotations

from typing import Any

import pytest

from actors.controllers.manager import split
from actors.controllers.table import LOOPS
from sim.errors import InputError
from sim.options.controllers.leader_migration import Lock, read_migration
from sim.options.controllers.manager import parse_controller_manager

CONFIG: dict[str, Any] = {
    "apiVersion": "controllermanager.config.orch.io/v1alpha1",
    "kind": "LeaderMigrationConfiguration",
    "leaderName": "moving",
    "controllerLeaders": [
        {"name": "service", "component": "cloud-controller-manager"},
        {"name": "podgc", "component": "*"},
        {"name": "job", "component": "orch-controller-manager"},
    ],
}
ON: dict[str, Any] = {"enable-leader-migration": True}


def test_default_configuration_moves_the_controllers_of_clouds() -> None:
    migration = read_migration({})
    assert migration.lock_name == "cloud-provider-extraction-migration"
    assert [name for name in LOOPS if migration.lock_of(name, "x") is Lock.MIGRATION] == [
        "cloud-node-lifecycle",
        "route",
        "service",
    ]


def test_component_of_a_controller_decides_its_lock() -> None:
    migration = parse_controller_manager({**ON, "leader-migration-config": CONFIG}).migration
    own, migrated = split(LOOPS, migration, "orch-controller-manager")
    assert sorted(migrated) == ["job", "podgc"]
    assert sorted({*LOOPS} - {*own} - {*migrated}) == ["service"]


def test_tokens_are_made_under_the_main_lock_always() -> None:
    leaders = [{"name": "serviceaccount-token", "component": "*"}]
    own, migrated = split(LOOPS, read_migration({**CONFIG, "controllerLeaders": leaders}), "c")
    assert "serviceaccount-token" in own and not migrated


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"leader-migration-config": CONFIG}, "has no effect without enable-leader-migration"),
        ({**ON, "leader-elect": False}, "enable-leader-migration has no effect without leader-elect"),
        ({**ON, "leader-migration-config": {**CONFIG, "kind": "X"}}, "wanted a LeaderMigrationConfiguration"),
        ({**ON, "leader-migration-config": {**CONFIG, "apiVersion": "a/v2"}}, "wanted a LeaderMigration"),
        ({**ON, "leader-migration-config": {**CONFIG, "leaderName": ""}}, "leaderName must be set"),
        ({**ON, "leader-migration-config": {**CONFIG, "resourceLock": "endpoints"}}, "lock is removed"),
        ({**ON, "leader-migration-config": {**CONFIG, "resourceLock": "x"}}, "must be one of 'leases'"),
        ({**ON, "leader-migration-config": {**CONFIG, "more": 1}}, 'unknown field "more"'),
        (
            {**ON, "leader-migration-config": {**CONFIG, "controllerLeaders": [{"name": "job"}]}},
            "controllerLeaders[0].component: Required value: component must be set",
        ),
    ],
)
def test_configuration_that_cannot_be_is_refused(given: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError) as refused:
        parse_controller_manager(given)
    assert message in str(refused.value)
