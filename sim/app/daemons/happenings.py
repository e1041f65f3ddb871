"""Messages of a process about its actor: elections, failed syncs, decisions and lost connections.

Turns records of the trace into records of the log.

Mirrors  client-go v1.25 tools/leaderelection/leaderelection.go (messages of acquire, renew and
         release), util/workqueue users (utilruntime.HandleError of a failed sync).
"""

from __future__ import annotations

import logging
from typing import Any

from sim.kernel import Supervisor
from sim.units import Virtual

LOG = logging.getLogger(__name__)
LOSS, DECISION = 2, 4  # levels of messages


def log_happenings(supervisor: Supervisor) -> None:
    """Log what happens to the actor of a process."""
    kernel = supervisor.kernel

    def elected(lock: str, identity: str) -> None:
        leads = any(
            result()[1] for (name, _), result in kernel.candidates.items() if lock.endswith(f"/{name}")
        )
        if leads:
            LOG.info("successfully acquired lease %s", lock)
        elif identity:
            LOG.info("lease %s is held by %s", lock, identity, extra={"v": DECISION})

    def failed(_: int, at_us: Virtual, cause: int, values: tuple[Any, ...]) -> None:
        queue, key, error = values
        LOG.error("Error syncing", extra={"values": {"queue": queue, "key": key, "err": error}})

    def decided(_: int, at_us: Virtual, cause: int, values: tuple[Any, ...]) -> None:
        _actor, what, target, why = values
        if what == "refused-lease":
            LOG.error("error retrieving resource lock %s: %s", target.partition("/")[2], why["message"])
            return
        values_shown = {"what": what, "object": target, **{name: str(value) for name, value in why.items()}}
        LOG.info("Decision", extra={"v": DECISION, "values": values_shown})

    def lost(_: int, at_us: Virtual, cause: int, values: tuple[Any, ...]) -> None:
        server, _number, what, reason = values
        values_shown = {"server": server, "what": what, "err": reason}
        LOG.info("Connection lost", extra={"v": LOSS, "values": values_shown})

    kernel.elected = elected
    listen = kernel.trace.listen
    listen(kernel.kind("sync-error", "queue", "key", "error"), failed)
    listen(supervisor.decision, decided)
    listen(kernel.kind("connection", "server", "peer", "what", "reason"), lost)
