"""Where the events of a cluster go: its log, and a webhook while it is served.

Holds: both get the events in the order in which the servers send them.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

from sim.api.audit.events import RECEIVED
from sim.api.audit.policy import Level
from sim.api.audit.settings import AuditSettings, LogSettings
from sim.api.types import Obj
from sim.app.audit.log import STDOUT, AuditLog
from sim.errors import InputError
from sim.files import check_output
from sim.options.apiserver.audit import WEBHOOK
from sim.options.base import raw_option
from sim.scenario.plan.plan import ComponentPlan


class AuditOutputs:
    """The `AuditSink` (`actors.apiserver.ports`) of the servers of a cluster.  Raises InputError.

    forward_to: takes each event at once, for a webhook that batches by itself
    first: sends the first event of a request from outside, which waits for it; None if no request
        waits
    posting: sends the first event of a request of the simulation in the same way
    sent: number of events; refused: of requests that were refused because of theirs
    levels: number of requests by the level of their rule
    """

    def __init__(self, log: LogSettings, *, force: bool = False) -> None:
        self._log = AuditLog(log, force=force) if log.path else None
        self.forward_to: Callable[[Obj], None] | None = None
        self.first: Callable[[Obj], Awaitable[bool]] | None = None
        self.posting: Callable[[Obj, Callable[[bool], None]], None] | None = None
        self.sent = self.refused = 0
        self.levels = dict.fromkeys(Level, 0)

    def evaluate(self, level: Level) -> None:
        """Count a request, by the level of its rule."""
        self.levels[level] += 1

    def refuse(self) -> None:
        """Count a request that is refused, because its event is not stored."""
        self.refused += 1

    def forward(self, event: Obj) -> None:
        """Take an event, before batches are made of it."""
        self.sent += 1
        waited_for = self.first is not None and event["stage"] == RECEIVED
        if self.forward_to is not None and not waited_for:
            self.forward_to(event)

    def post(self, event: Obj, done: Callable[[bool], None]) -> None:
        """Send an event to a webhook that requests wait for; `done` gets False if it fails."""
        if self.posting is None:
            done(True)
        else:
            self.posting(event, done)

    def write(self, events: Sequence[Obj], wall_us: int) -> bool:
        """Write events to the log; False if they are not stored.  wall_us: Unix time of the cluster"""
        return self._log is None or self._log.write(events, wall_us)

    def close(self) -> None:
        """Close the log."""
        if self._log is not None:
            self._log.close()


def refuse_existing(settings: AuditSettings | None, *, force: bool) -> None:
    """Refuse a log if its file exists already, before other files are made.  Raises InputError."""
    if settings is None or settings.log.path in ("", STDOUT):
        return
    path = Path(settings.log.path)
    check_output(path, private=True)
    if path.exists() and not force:
        raise InputError("exists already", str(path), "name another file, or --force replaces it")


def refuse_many(settings: AuditSettings | None) -> None:
    """Refuse an audit of many runs, which would write to one file.  Raises InputError."""
    if settings is not None:
        raise InputError("an audit is only for one run", "", "leave the audit options out, or give --seed N")


def refuse_webhook(servers: ComponentPlan) -> None:
    """Refuse a webhook where nothing is served in real time.  Raises InputError."""
    if raw_option(servers.flags, WEBHOOK):
        place = servers.places.get(WEBHOOK, servers.place)
        raise InputError(f"{WEBHOOK} is for a cluster that is served", place, "use orrery serve")
