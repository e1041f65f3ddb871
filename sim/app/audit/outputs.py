"""Where the events of a cluster go: its log, and a webhook while it is served.

Holds: both get the events in the order in which the servers send them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sim.api.audit.settings import AuditSettings, LogSettings
from sim.api.types import Obj
from sim.app.audit.log import AuditLog
from sim.errors import InputError
from sim.options.audit import WEBHOOK
from sim.options.base import raw_option
from sim.scenario.plan.plan import ComponentPlan


class AuditOutputs:
    """The sink of the servers of a cluster (`actors.apiserver.ports.AuditSink`).  Raises InputError.

    forward: takes each event at once, for a webhook that batches by itself
    """

    def __init__(self, log: LogSettings, *, force: bool = False) -> None:
        self._log = AuditLog(log, force=force) if log.path else None
        self.forward: Callable[[Obj], None] = _drop

    def write(self, events: Sequence[Obj], wall_us: int) -> bool:
        """Write events to the log; False if they are not stored.  wall_us: Unix time of the cluster"""
        return self._log is None or self._log.write(events, wall_us)

    def close(self) -> None:
        """Close the log."""
        if self._log is not None:
            self._log.close()


def _drop(_: Obj) -> None:
    return None


def refuse_many(settings: AuditSettings | None) -> None:
    """Refuse an audit of many runs, which would write to one file.  Raises InputError."""
    if settings is not None:
        raise InputError("an audit is of one run", "", "leave the audit options out, or give --seed N")


def refuse_webhook(servers: ComponentPlan) -> None:
    """Refuse a webhook where nothing is served in real time.  Raises InputError."""
    if raw_option(servers.flags, WEBHOOK):
        place = servers.places.get(WEBHOOK, servers.place)
        raise InputError(f"{WEBHOOK} is for a cluster that is served", place, "use orrery serve")
