"""What a call of a storage driver comes to, by its times and the faults in force."""

from __future__ import annotations

from sim.options.storage_drivers import (
    UNREACHABLE,
    DriverCall,
    DriverFault,
    StorageDriver,
    StorageDrivers,
)
from sim.units import SECOND

DISK = StorageDriver("disk", attach_us=3 * SECOND, mount_us=1 * SECOND)


def drivers_with(*faults: DriverFault) -> StorageDrivers:
    drivers = StorageDrivers([DISK])
    drivers.set_faults("disk", faults)
    return drivers


def test_healthy_call_takes_the_time_of_its_operation() -> None:
    drivers = drivers_with()
    assert drivers.call("disk", "attach", "n1") == DriverCall(3 * SECOND)
    assert drivers.call("disk", "mount", "n1") == DriverCall(1 * SECOND)


def test_slow_faults_multiply_and_add() -> None:
    drivers = drivers_with(
        DriverFault("slow", factor=2, cause=7), DriverFault("slow", ("attach",), by_us=5 * SECOND, cause=8)
    )
    assert drivers.call("disk", "attach", "n1") == DriverCall(11 * SECOND, "", 7)
    assert drivers.call("disk", "mount", "n1") == DriverCall(2 * SECOND, "", 7)


def test_fault_of_one_node_leaves_other_nodes_and_processes() -> None:
    drivers = drivers_with(DriverFault("failing", nodes=("n1",), text="no", cause=7))
    assert drivers.call("disk", "mount", "n1") == DriverCall(1 * SECOND, "no", 7)
    assert drivers.call("disk", "mount", "n2") == DriverCall(1 * SECOND)
    assert drivers.call("disk", "provision") == DriverCall(1 * SECOND)


def test_hanging_call_does_not_return_even_if_it_would_fail() -> None:
    drivers = drivers_with(DriverFault("failing", text="no"), DriverFault("hanging", ("detach",), cause=9))
    assert drivers.call("disk", "detach", "n1") == DriverCall(None, "", 9)
    assert drivers.call("disk", "attach", "n1").error == "no"


def test_driver_that_is_away_refuses_connections_at_once() -> None:
    drivers = drivers_with(DriverFault("hanging"), DriverFault("away", nodes=("n1",), cause=4))
    assert drivers.call("disk", "mount", "n1") == DriverCall(0, UNREACHABLE, 4)
    assert drivers.away("disk", "n1") is not None
    assert drivers.away("disk", "n2") is None and drivers.away("disk") is None


def test_listeners_learn_of_each_change_until_they_end() -> None:
    drivers, changed = drivers_with(), list[str]()
    end = drivers.on_change(changed.append)
    drivers.set_faults("disk", [DriverFault("away")])
    end()
    drivers.set_faults("disk", [])
    assert changed == ["disk"]


def test_driver_that_is_away_from_a_node_attaches_there_and_mounts_nothing() -> None:
    drivers = drivers_with(DriverFault("away", nodes=("n1",)))
    assert drivers.call("disk", "attach", "n1").error == ""
    assert drivers.call("disk", "mount", "n1").error == UNREACHABLE
    assert drivers.call("disk", "mount", "n2").error == ""
