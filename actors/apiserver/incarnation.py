"""What exists of an API server only while its process runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from actors.apiserver.audit import Auditor
from actors.apiserver.caches.watch_caches import Caches
from actors.apiserver.fairness import Seats
from actors.apiserver.fast.base import FastState
from actors.apiserver.handlers import Handlers
from actors.apiserver.lifecycle.goaway import Goaway
from actors.apiserver.lifecycle.graceful_termination import Ending
from actors.apiserver.lifecycle.storage_connection import Reach
from actors.apiserver.lifecycle.storage_without_leader import CacheLife
from actors.apiserver.options import ApiServerOptions
from actors.apiserver.surroundings import Surroundings
from sim.api.scheme.scheme import Scheme
from sim.dataclass import dataclass
from sim.kernel import Context
from sim.units import Virtual

if TYPE_CHECKING:
    from actors.apiserver.processors import Processors


@dataclass(slots=True, eq=False, kw_only=True)
class Incarnation:
    """One incarnation of a replica, from its start to its end.

    sees: the scheme with the definitions that this replica has observed
    seats: None if priority and fairness is off
    audit: None if nothing is audited
    goaway: None if the chance is 0
    processors: None if requests take no time of the server
    """

    ctx: Context
    started_us: Virtual
    sees: Scheme
    reach: Reach
    caches: Caches
    cache_life: CacheLife
    handlers: Handlers
    fast: FastState
    seats: Seats | None
    audit: Auditor | None
    goaway: Goaway | None
    ending: Ending
    processors: Processors | None

    @property
    def may_hinder(self) -> bool:
        """True if a request may have to wait, or if its reply is not the reply of its verb alone."""
        queues = self.seats is not None and self.seats.waiting
        return queues or self.ending.away is not None or self.goaway is not None


def auditor_of(
    ctx: Context, sees: Scheme, options: ApiServerOptions, around: Surroundings, address: str
) -> Auditor | None:
    """The audit of an incarnation; None if nothing is audited."""
    sink = around.audit_sink
    if options.audit is None or sink is None:
        return None
    return Auditor(ctx, sees, options.audit, sink, around.client_address or (lambda _: address))
