"""The processes of a cluster's storage drivers."""

from __future__ import annotations

from collections.abc import Iterator

from sim.app.parts.ports import BuiltCluster
from sim.kernel import Actor
from sim.options.storage_drivers import driver_process
from sim.units import SECOND

RESTART_US = 2 * SECOND  # a process that has exited starts again after this time


def add_drivers(cluster: BuiltCluster) -> Iterator[Actor]:
    """Add the process of each driver, which the caller starts."""
    for driver in cluster.storage_drivers:
        from actors.csi.driver import driver_main

        main = driver_main(cluster.scheme, cluster.connect, driver, cluster.storage_drivers)
        name = driver_process(driver.name)
        yield cluster.supervisor.add(name, main, restart_us=RESTART_US, start=False)
