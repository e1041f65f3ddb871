"""The invariant `bounded-requests`: no client floods the API servers when all is calm."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from sim.api.store import Change
from sim.check.invariants.base import Invariant
from sim.check.world import World
from sim.check.writes import listed
from sim.faults.disturbances import LAST_DISTURBANCE
from sim.units import SECOND, format_instant
from sim.verdict import Verdict


class BoundedRequests(Invariant):
    """From `within` after the last disturbance on, no client sends more than `atMost` requests a
    second.

    A client is a component or a program by its user agent; the agents of all nodes are one, which
    may send so many for each node. Requests are counted in intervals of 10 s. A controller that
    retries without a pause, or writes what a webhook changes back, breaks it.
    """

    name_in_file = "bounded-requests"
    within_default = "10m"
    at_most_default = 15
    after_default = LAST_DISTURBANCE
    needs_requests = True
    example: ClassVar[str] = (
        "{name: no flood, invariant: {name: bounded-requests, atMost: 5}, after: last fault}"
    )

    def reset(self) -> None:
        """Forget the requests before the window."""
        super().reset()
        self._most: dict[str, float] = {}  # requests a second, by client
        self._floods: dict[str, str] = {}
        self._counts: Mapping[str, int] = {}
        self._since_us = -1

    def resources(self) -> frozenset[str]:
        """None: it needs no commits but those of nodes, which the world counts."""
        return frozenset()

    def take(self, world: World, resource: str, change: Change) -> None:
        """Has no effect."""

    def requests(self, counts: Mapping[str, int], at_us: int, world: World) -> None:
        """Take the numbers of requests so far, by client."""
        before, self._counts = self._counts, counts
        since_us, self._since_us = self._since_us, at_us
        if since_us < self.deadline_us or not self.in_window(at_us):
            return
        for client, count in counts.items():
            shares = max(1, len(world.zone_of_node)) if client == self.names.node_agent else 1
            rate = (count - before.get(client, 0)) * SECOND / (at_us - since_us) / shares
            self._most[client] = max(rate, self._most.get(client, 0.0))
            if rate > self.at_most and client not in self._floods:
                self.note(at_us, "")
                self._floods[client] = format_instant(at_us)

    def judge(self, end_us: int) -> Verdict:
        """The verdict on the client with the most requests."""
        target = f"at most {self.at_most} a second from {self.shown(self.within_us)} {self.since}"
        if never := self.unopened(target):
            return never
        most = max(self._most.values(), default=0.0)
        if self._floods:
            parts = [
                f"{client} {self._most[client]:.1f} a second, from {at}"
                for client, at in self._floods.items()
            ]
            return self.broken(listed(parts), target, (most,))
        if self.stop_us(end_us) < self.deadline_us:
            return self.too_short(target, end_us)
        return self.kept(f"{most:.1f} a second", target, (most,))
