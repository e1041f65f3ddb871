"""Options of the controller manager about leader migration: a second lock for some controllers.

Turns the configuration file into the lock, and into the lock of each controller.

Mirrors  kubernetes v1.25 staging/src/k8s.io/controller-manager/pkg/leadermigration/{migrator,
         util}.go, config/{config,default}.go, options/options.go; the kinds of lock are those of
         client-go
         tools/leaderelection/resourcelock/interface.go, which refuses "endpoints".
Differs  a configuration that would be ignored (without enable-leader-migration), and migration
         without leader election, are refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Any

from sim.dataclass import dataclass
from sim.options.base import boolean, document, option
from sim.options.groups.election import ElectionFlags

KIND = "LeaderMigrationConfiguration"
GROUP = "controllermanager.config."  # and the domain of the naming set
VERSIONS = ("v1", "v1beta1", "v1alpha1")
DEFAULT_NAME = "cloud-provider-extraction-migration"
DEFAULT_CONTROLLERS = ("route", "service", "cloud-node-lifecycle")
LEASES, ENDPOINTS = "leases", "endpoints"
EVERY = "*"


class Lock(Enum):
    """The lock under which a controller runs."""

    MAIN = "main"
    MIGRATION = "migration"
    NONE = "none"  # another component runs it


@dataclass(frozen=True, slots=True)
class Migration:
    """leaders: the component that runs a controller, by its name"""

    lock_name: str
    leaders: Mapping[str, str]

    def lock_of(self, controller: str, component: str) -> Lock:
        """The lock under which a component runs a controller."""
        leader = self.leaders.get(controller)
        if leader is None:
            return Lock.MAIN
        return Lock.MIGRATION if leader in (component, EVERY) else Lock.NONE


def read_migration(given: Mapping[str, Any]) -> Migration:
    """The migration of a configuration; {}: the default one.  Raises ValueError."""
    if not given:
        return Migration(DEFAULT_NAME, dict.fromkeys(DEFAULT_CONTROLLERS, EVERY))
    group, _, version = str(given.get("apiVersion", "")).partition("/")
    if given.get("kind") != KIND or not group.startswith(GROUP) or version not in VERSIONS:
        raise ValueError(f"wanted a {KIND} of {GROUP}DOMAIN/{VERSIONS[0]}, {VERSIONS[1]} or {VERSIONS[2]}")
    unknown = sorted({*given} - {"apiVersion", "kind", "leaderName", "resourceLock", "controllerLeaders"})
    if unknown:
        raise ValueError(f'unknown field "{unknown[0]}"')
    if not isinstance(given.get("leaderName"), str) or not given["leaderName"]:
        raise ValueError(
            "leaderName: Required value: leaderName must be set for LeaderMigrationConfiguration"
        )
    lock = given.get("resourceLock", LEASES)
    if lock == ENDPOINTS:
        raise ValueError(f"{ENDPOINTS} lock is removed, migrate to endpointsleases")
    if lock != LEASES:
        raise ValueError(
            f"resourceLock: Invalid value: {str(lock)!r}: resource Lock must be one of 'leases' or 'endpoints'"
        )
    return Migration(given["leaderName"], dict(_leader(i, one) for i, one in enumerate(_leaders(given))))


def _leaders(given: Mapping[str, Any]) -> list[Any]:
    result = given.get("controllerLeaders") or []
    if not isinstance(result, list):
        raise ValueError("controllerLeaders: wanted a list")
    return result


def _leader(index: int, given: Any) -> tuple[str, str]:
    fields = given if isinstance(given, dict) else {}
    for field in ("component", "name"):
        if not isinstance(fields.get(field), str) or not fields[field]:
            raise ValueError(f"controllerLeaders[{index}].{field}: Required value: {field} must be set")
    return fields["name"], fields["component"]


@dataclass(frozen=True)  # without slots: it is one of several bases
class LeaderMigrationFlags(ElectionFlags):
    """The options of leader migration, beside those of leader election."""

    enable_leader_migration: bool = option("enable-leader-migration", boolean, False)
    leader_migration_config: Mapping[str, object] = option("leader-migration-config", document, {})

    def check_migration(self) -> None:
        """Raises ValueError if the options contradict each other."""
        if self.leader_migration_config and not self.enable_leader_migration:
            raise ValueError("leader-migration-config has no effect without enable-leader-migration")
        if self.enable_leader_migration and not self.leader_elect:
            raise ValueError("enable-leader-migration has no effect without leader-elect")
        try:
            read_migration(self.leader_migration_config)
        except ValueError as problem:
            raise ValueError(f"leader-migration-config: {problem}") from None

    @property
    def migration(self) -> Migration | None:
        """The migration that is under way; None for none."""
        return read_migration(self.leader_migration_config) if self.enable_leader_migration else None
