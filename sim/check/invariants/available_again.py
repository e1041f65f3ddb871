"""The invariant `available-again`: Deployments are available after the last disturbance."""

from __future__ import annotations

from typing import ClassVar

from actors.controllers.deployment.decide import max_unavailable
from sim.api.objects import replicas_of
from sim.api.store import Change, path_of
from sim.check.availability import AvailablePods
from sim.check.invariants.base import Invariant
from sim.check.world import World
from sim.check.writes import listed
from sim.faults.disturbances import LAST_DISTURBANCE
from sim.verdict import Verdict


class _Workload:
    """One Deployment: its pods, how many it needs, and until when it had too few.

    changed_us: the last change of its spec
    short_us: the last time at which it had too few pods
    """

    def __init__(self) -> None:
        self.pods = AvailablePods(self._changed)
        self.needed = 0
        self.changed_us = self.short_us = 0
        self.count = 0

    @property
    def is_short(self) -> bool:
        """True if too few pods are available now."""
        return self.count < self.needed

    def need(self, needed: int, at_us: int) -> None:
        """The number of pods that it needs from now on."""
        self._look(self.count, needed, at_us)

    def _changed(self, at_us: int, truth: int, _: int) -> None:
        self._look(truth, self.needed, at_us)

    def _look(self, count: int, needed: int, at_us: int) -> None:
        if self.is_short:
            self.short_us = at_us
        self.count, self.needed = count, needed


class AvailableAgain(Invariant):
    """Every Deployment has enough available pods from `within` after the last disturbance on.

    Enough are its replicas less its `maxUnavailable`, as for the condition Available; a pod on a
    machine without power or network is not available. A change of the Deployment itself gives it
    the same time again. Deployments with too little room in the cluster break it.
    """

    name_in_file = "available-again"
    within_default = "10m"
    after_default = LAST_DISTURBANCE
    example: ClassVar[str] = (
        "{name: all come back, invariant: {name: available-again, within: 15m}, after: last fault}"
    )

    _workloads: dict[str, _Workload]  # by key
    _down: dict[str, None]  # the machines that do not serve

    def reset(self) -> None:
        """The pods stay known; the time begins again."""
        super().reset()
        if not hasattr(self, "_workloads"):
            self._workloads, self._down = {}, {}

    def resources(self) -> frozenset[str]:
        """Deployments and pods; the world follows what is between them."""
        return frozenset(("deployments", "pods"))

    def take(self, world: World, resource: str, change: Change) -> None:
        """Take a commit of a Deployment or of a pod."""
        key, obj = change.item.key, change.item.obj
        if resource == "deployments":
            if change.deleted:
                self._workloads.pop(key, None)
                return
            workload = self._workload(key, change.at_us)
            if change.prev is None or change.prev.obj["spec"] != obj["spec"]:
                workload.changed_us = change.at_us
                workload.need(replicas_of(obj) - max_unavailable(obj), change.at_us)
            return
        for owner in world.references(obj):
            if owner["kind"] == "Deployment":
                of = f"/apps/deployments/{obj['metadata']['namespace']}/{owner['name']}"
                if of in self._workloads:
                    self._workloads[of].pods.pod(change)

    def _workload(self, key: str, at_us: int) -> _Workload:
        workload = self._workloads.get(key)
        if workload is None:
            workload = self._workloads[key] = _Workload()
            for node in self._down:
                workload.pods.machine(node, False, at_us)
        return workload

    def machine(self, node: str, serves: bool, at_us: int) -> None:
        """A machine begins or ceases to serve, and its pods with it."""
        if serves:
            self._down.pop(node, None)
        else:
            self._down[node] = None
        for workload in self._workloads.values():
            workload.pods.machine(node, serves, at_us)

    def judge(self, end_us: int) -> Verdict:
        """The verdict on the last time at which a Deployment had too few pods."""
        target = f"from {self.shown(self.within_us)} {self.since}"
        if never := self.unopened(target):
            return never
        stop_us, longest_us, late = self.stop_us(end_us), 0, []
        for key, workload in self._workloads.items():
            since_us = max(self.from_us or 0, workload.changed_us)
            until_us = stop_us if workload.is_short else workload.short_us
            longest_us = max(longest_us, until_us - since_us)
            if until_us > since_us + self.within_us:
                self.note(until_us, key)
                now = f"{workload.count} of {workload.needed}"
                late.append(
                    f"{path_of(key)} has {now} at the end"
                    if workload.is_short
                    else f"{path_of(key)} after {self.shown(until_us - since_us)}"
                )
        if late:
            return self.broken(listed(late), target, (longest_us / 1e6,))
        if stop_us < self.deadline_us:
            return self.too_short(target, end_us)
        return self.kept(f"all after {self.shown(longest_us)}", target, (longest_us / 1e6,))
