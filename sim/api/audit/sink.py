"""Where the events of an audit go: the backends that the composition root makes."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Protocol

from sim.api.audit.policy import Level


class AuditSink(Protocol):
    """Where the audit of all replicas and of their HTTP fronts goes (`sim.app.audit.outputs`).

    first: sends the first event of a request of an HTTP front that waits for it; None if no request
        waits
    """

    first: Callable[[dict[str, Any]], Awaitable[bool]] | None

    def evaluate(self, level: Level) -> None:
        """Count a request by the level of its policy rule."""
        ...

    def refuse(self) -> None:
        """Count a request that is refused because its event could not be stored."""
        ...

    def forward(self, event: dict[str, Any]) -> None:
        """Take an event at once, for a backend with batches of its own."""
        ...

    def post(self, event: dict[str, Any], done: Callable[[bool], None]) -> None:
        """Send an event to a webhook that requests wait for; `done` gets False if it fails."""
        ...

    def write(self, events: Sequence[dict[str, Any]], wall_us: int) -> bool:
        """Write events to the log; False if they could not be stored.

        wall_us: Unix time
        """
        ...
