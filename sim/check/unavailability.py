"""The expectation that a workload is available: for how long too few of its pods serve.

    - name: the shop survives
      unavailability: {of: deployments/web, below: 24, atMost: 90s}
      after: outage

Turns the commits of a workload and of its pods, and what becomes of machines, into a verdict with
the time below the bound, the lowest number of pods and the pods that were missing, each counted
with its time.
"""

from __future__ import annotations

from msgspec import UNSET

from sim.api.store import Change
from sim.check.availability import AvailablePods, loss
from sim.check.condition import selector
from sim.check.expect import Expectation, Spec, duration_us
from sim.check.tally import parse_matter
from sim.check.world import World, split_key
from sim.ident import Names
from sim.series import Series
from sim.verdict import Verdict, unit_of

# Workloads with pods that are found by their owner, and with a wanted number of pods.
WORKLOADS = ("deployments", "statefulsets", "replicasets", "replicationcontrollers")
TRUTH, CONTROL_PLANE = "truth", "controlPlane"


class Unavailability(Expectation):
    """Fewer pods than wanted are available for at most so long, in all, within the window."""

    def __init__(self, spec: Spec, names: Names) -> None:
        super().__init__(spec)
        entry = spec.unavailability
        resource, namespace, name = _workload(entry.of, names)
        self.below: int | None = None if entry.below is UNSET else entry.below
        self.view = entry.view
        at_most_us = duration_us(entry.at_most)
        if at_most_us is None or at_most_us < 0:
            raise ValueError(f"'atMost': {entry.at_most!r} is no duration, write it as 90s or 5m")
        self.at_most_us = at_most_us
        self.unit = unit_of(entry.at_most)
        if self.below == 0:
            raise ValueError("fewer than 0 pods are never available; write below: 1 or more")
        where = {"namespace": namespace, "owner": name}
        self.matter = parse_matter(
            f"at least 1 pods in namespace {namespace} owned by {name} are ready", names
        )
        self._select = selector(where, names)
        self._resource, self._place = resource, (namespace, name)
        self._shown = "/".join((resource, *self._place))
        self._wanted = Series()
        self._key = ""  # of the workload
        self._pods = AvailablePods()

    def resources(self) -> frozenset[str]:
        """The pods, the workload, and what the owners of pods are found by."""
        return super().resources() | {"pods", self._resource}

    def take(self, world: World, resource: str, change: Change) -> None:
        """Take a commit of a pod or of the workload."""
        if resource == "pods":
            if self._select(world, resource, change.item.obj):
                before = self._available
                self._pods.pod(change)
                self._note(before, change.at_us, change.item.key, change.item.rev)
        elif resource == self._resource and split_key(change.item.key)[1:] == self._place:
            spec = change.item.obj.get("spec") or {}
            self._key = change.item.key
            self._wanted.put(change.at_us, 0 if change.deleted else spec.get("replicas", 1))

    def machine(self, node: str, serves: bool, at_us: int) -> None:
        """A machine begins or ceases to serve, and its pods with it."""
        before = self._available
        self._pods.machine(node, serves, at_us)
        self._note(before, at_us, f"//nodes//{node}")

    @property
    def _available(self) -> int:
        points = (self._pods.truth if self.view == TRUTH else self._pods.seen).points
        return points[-1][1] if points else 0

    def _note(self, before: int, at_us: int, key: str, rev: int = 0) -> None:
        """The first loss in the window decides, or the last one before it."""
        first = self.decided_us is None or not self.in_window(self.decided_us)
        if first and self._available < before:
            self.witness, self.decided_us, self.subject = rev, at_us, key

    def at_fault(self) -> tuple[str, ...]:
        """The object of the first loss, and the workload; the workload first if it had too few pods
        already when the window opened.
        """
        before_us = (self.from_us or 0) - 1  # a fault acts at the first instant of its window
        target = self._wanted.at(before_us) if self.below is None else self.below
        pods = self._pods.truth if self.view == TRUTH else self._pods.seen
        short = bool(self._key) and pods.at(before_us) < target
        lost, workload = super().at_fault(), (self._key,) if self._key else ()
        return (*workload, *lost) if short else (*lost, *workload)

    def judge(self, end_us: int) -> Verdict:
        """The verdict on the time with too few pods."""
        bound = f"below {self.below}" if self.below is not None else "below the wanted replicas"
        target = f"{bound} for at most {self.shown(self.at_most_us)}"
        never = self.unopened(target)
        if never is not None:
            return never
        if not self._wanted.points:  # it may be misspelt: then nothing is judged
            return Verdict(self.name, False, f"there was no {self._shown}", target)
        from_us = self.from_us or 0
        stop_us = end_us if self.end_us is None else min(end_us, self.end_us)
        numbers = self._wanted if self.below is None else self.below
        pods = self._pods
        views = {
            TRUTH: loss(pods.truth, numbers, from_us, stop_us),
            CONTROL_PLANE: loss(pods.seen, numbers, from_us, stop_us),
        }
        result = views[self.view]
        text = f"{self.shown(result.below_us)}, lowest {result.lowest}, {result.missing_us / 1e6:.0f} pod-seconds missing"
        points = (pods.truth if self.view == TRUTH else pods.seen).points
        if from_us and not any(count for at_us, count in points if at_us <= from_us):
            text += "; was never ready, not even before"
        if self.view == TRUTH and views[CONTROL_PLANE] != result:
            text += f"; the control plane saw {self.shown(views[CONTROL_PLANE].below_us)}"
        ok = result.below_us <= self.at_most_us
        return Verdict(self.name, ok, text, target, (result.below_us / 1e6,))


def _workload(of: str, names: Names) -> tuple[str, str, str]:
    """Resource, namespace and name of "deployments/web" or "deployments/NAMESPACE/web"."""
    parts = of.split("/")
    if len(parts) == 2:
        parts.insert(1, names.default_namespace)
    if len(parts) != 3 or not all(parts) or parts[0] not in WORKLOADS:
        raise ValueError(
            f"'of': {of!r} is no workload, write deployments/web or deployments/NAMESPACE/web; "
            f"there are {', '.join(WORKLOADS)}; or a component: apiserver, controller-manager, scheduler"
        )
    return parts[0], parts[1], parts[2]
