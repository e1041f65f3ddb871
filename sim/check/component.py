"""The expectation that a component of the control plane is available.

    - name: the cluster is managed
      unavailability: {of: controller-manager, atMost: 30s}
    - name: two API servers answer
      unavailability: {of: apiserver, below: 2, atMost: 1m}

Turns commits of the leases of leaders, and what becomes of processes, into the number of replicas
that do their work: API servers that run, or the leader of a controller manager or scheduler. A
leader works while it holds its lease, has renewed it within its duration and, in truth, its process
runs; the control plane sees its lease only.

Differs  an API server that runs counts, also while its storage is silent or its links are cut.
"""

from __future__ import annotations

from typing import Any

from msgspec import UNSET

from sim.api.store import Change
from sim.check.availability import loss
from sim.check.expect import Expectation, Spec, duration_us
from sim.check.world import World, split_key
from sim.ident import Names
from sim.series import Series
from sim.units import SECOND
from sim.verdict import Verdict, unit_of

SERVERS = "apiserver"
LED = ("controller-manager", "scheduler")
COMPONENTS = (SERVERS, *LED)


class ComponentUnavailability(Expectation):
    """Fewer replicas of a component than wanted do their work for at most so long, in all."""

    needs_processes = True

    def __init__(self, spec: Spec, names: Names) -> None:
        super().__init__(spec)
        entry = spec.unavailability
        at_most_us = duration_us(entry.at_most)
        if at_most_us is None or at_most_us < 0:
            raise ValueError(f"'atMost': {entry.at_most!r} is no duration, write it as 90s or 5m")
        self.at_most_us, self.unit = at_most_us, unit_of(entry.at_most)
        self.component, self.below = entry.of, 1 if entry.below is UNSET else entry.below
        if not self.below:
            raise ValueError("fewer than 0 replicas never work; write below: 1 or more")
        if self.component in LED and self.below > 1:
            raise ValueError(f"one {self.component} leads at a time; leave 'below' out")
        self.in_truth = entry.view == "truth"
        self._lease_name, self._namespace = names.component(entry.of), names.system_namespace
        self._series = Series()
        self._running: dict[str, bool] = {}  # of the processes of the component
        self._holder, self._over_us = "", 0  # of the lease, and when it runs out
        self._key = ""  # of the lease

    def matters(self) -> tuple[()]:
        """None: it has no condition."""
        return ()

    def resources(self) -> frozenset[str]:
        """The leases of leaders."""
        return frozenset((f"leases/{self._namespace}",))

    def take(self, world: World, resource: str, change: Change) -> None:
        """Take a write of a lease."""
        if self.component == SERVERS or split_key(change.item.key)[2] != self._lease_name:
            return
        self._run_out(change.at_us)
        spec: Any = change.item.obj.get("spec") or {}
        holder = "" if change.deleted else str(spec.get("holderIdentity") or "")
        duration_us = int(spec.get("leaseDurationSeconds") or 15) * SECOND
        self._key, self._holder = change.item.key, holder
        self._over_us = change.at_us + duration_us if holder else 0
        self._count(change.at_us, change.item.rev)

    def process(self, what: str, name: str, at_us: int) -> None:
        """A process starts, ends, or is hindered."""
        if name.rpartition("-")[0] == self.component:
            self._run_out(at_us)
            if what not in ("slow", "terminate"):
                self._running[name] = what in ("start", "resume")
            self._count(at_us)

    def _run_out(self, at_us: int) -> None:
        """The lease may have run out since."""
        if self._over_us and self._over_us <= at_us:
            over_us, self._over_us = self._over_us, 0
            self._count(over_us)

    def _count(self, at_us: int, rev: int = 0) -> None:
        if self.component == SERVERS:
            number = sum(self._running.values())
        else:
            runs = not self.in_truth or self._running.get(self._holder.partition("_")[0], False)
            number = int(bool(self._over_us) and runs)
        before = self._series.last
        self._series.put(at_us, number)
        first = self.decided_us is None or not self.in_window(self.decided_us)
        if first and number < before:
            self.witness, self.decided_us, self.subject = rev, at_us, self._key

    def judge(self, end_us: int) -> Verdict:
        """The verdict on the time with too few."""
        target = f"below {self.below} for at most {self.shown(self.at_most_us)}"
        if never := self.unopened(target):
            return never
        self._run_out(end_us)
        stop_us = end_us if self.end_us is None else min(end_us, self.end_us)
        result = loss(self._series, self.below, self.from_us or 0, stop_us)
        text = f"{self.shown(result.below_us)}, lowest {result.lowest}"
        ok = result.below_us <= self.at_most_us
        return Verdict(self.name, ok, text, target, (result.below_us / 1e6,))
