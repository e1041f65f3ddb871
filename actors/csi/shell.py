"""What the parts of a driver's process share: its environment, its calls, its workers.

Holds: a call that takes longer than its caller waits continues in the driver, and a later call for
       the same thing waits for its end only.

Mirrors  sidecars of 2022 for v1.25: external-provisioner v3.2, external-attacher v3.5,
         external-resizer v1.5 (flags kube-api-qps, kube-api-burst, worker-threads,
         retry-interval-start, retry-interval-max, timeout).
Differs  the sidecars of a driver are one process, each with a client and a rate limit of its own,
         without leader election, under one service account.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from sim.api.scheme.scheme import Scheme
from sim.api.types import Obj
from sim.client import Client, EventRecorder, Informers, ItemExponential, WorkQueue
from sim.client.queue import Sync, spawn_workers
from sim.dataclass import dataclass
from sim.ident import Names
from sim.kernel import Context
from sim.options.storage_drivers import Operation, StorageDriver, StorageDrivers
from sim.units import MINUTE, SECOND

QPS, BURST = 5, 10
RETRY_INITIAL_US, RETRY_MAX_US = 1 * SECOND, 5 * MINUTE
DEADLINE = "rpc error: code = DeadlineExceeded desc = context deadline exceeded"


@dataclass(frozen=True, slots=True)
class DriverEnv:
    """What the parts of a driver's process get.

    connect: makes a client, with a rate limit of its own, from the name of a part
    """

    ctx: Context
    scheme: Scheme
    names: Names
    driver: StorageDriver
    drivers: StorageDrivers
    calls: Calls
    informers: Informers
    connect: Callable[[str], Client]

    def queue(self, name: str) -> WorkQueue:
        """A queue with the pauses of the sidecars."""
        return WorkQueue(self.ctx, name, ItemExponential(RETRY_INITIAL_US, RETRY_MAX_US))

    def recorder(self, client: Client, component: str = "") -> EventRecorder:
        """A recorder of events under a component's name, or else the driver's."""
        return EventRecorder(self.ctx, client, component or f"{self.driver.name}_{self.ctx.name}")

    def work(self, queue: WorkQueue, sync: Sync, workers: int) -> None:
        """Start workers, which sync keys and retry those that failed."""
        spawn_workers(self.ctx, queue, sync, workers)


class Calls:
    """The calls of one driver."""

    def __init__(self, ctx: Context, drivers: StorageDrivers, name: str) -> None:
        self._ctx = ctx
        self._drivers = drivers
        self._name = name
        self._under_way: dict[tuple[str, str], tuple[int, str]] = {}  # their end and its error

    async def call(self, operation: Operation, subject: str, deadline_us: int, node: str = "") -> str:
        """Call the driver and wait; returns "" or the text of the error.

        subject: the thing that is worked on, to find a call that is under way
        """
        key, now_us = (operation, subject), self._ctx.now_us()
        known = self._under_way.get(key)
        if known is None:
            found = self._drivers.call(self._name, operation, node)
            if found.cause:
                self._ctx.decided(f"driver-{operation}", subject, {"error": found.error}, found.cause)
            if found.takes_us is None:
                await self._ctx.sleep_us(deadline_us)
                return DEADLINE
            known = self._under_way[key] = (now_us + found.takes_us, found.error)
        end_us, error = known
        if end_us - now_us > deadline_us:
            await self._ctx.sleep_us(deadline_us)
            return DEADLINE
        await self._ctx.sleep_us(max(0, end_us - now_us))
        self._under_way.pop(key, None)
        return error


def with_status(obj: Obj, **fields: object) -> Obj:
    """The object with other fields of its status; None removes one."""
    status: Mapping[str, object] = {**(obj.get("status") or {}), **fields}
    return {**obj, "status": {key: value for key, value in status.items() if value is not None}}
