"""The processes of a cluster's storage drivers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

from actors.csi.driver import driver_main
from sim.api.schema.scheme import Scheme
from sim.client import Channel
from sim.kernel import Actor, Context, Supervisor
from sim.options.storage_drivers import StorageDrivers, driver_process
from sim.units import SECOND

RESTART_US = 2 * SECOND  # a process that has exited starts again after this time


class StoringCluster(Protocol):
    """What is used of a cluster.  `Cluster` satisfies it."""

    supervisor: Supervisor
    scheme: Scheme
    storage_drivers: StorageDrivers

    def connect(self, ctx: Context) -> Sequence[Channel]:
        """Channels from an actor to every API server."""
        ...


def add_drivers(cluster: StoringCluster) -> Iterator[Actor]:
    """Add the process of each driver, which the caller starts."""
    for driver in cluster.storage_drivers:
        main = driver_main(cluster.scheme, cluster.connect, driver, cluster.storage_drivers)
        name = driver_process(driver.name)
        yield cluster.supervisor.add(name, main, restart_us=RESTART_US, start=False)
