"""The invariant `budgets-kept`: no eviction takes a pod that a PodDisruptionBudget needs.

Turns the evictions that budgets grant (a name that comes into `status.disruptedPods`) into a count
of the pods that are healthy in the storage at that instant, beside what the budget needs.

Differs  from the API server, which believes `status.disruptionsAllowed`: a controller that counts
from
         an old cache, or has stopped, leaves a number there that is no longer true.
"""

from __future__ import annotations

from typing import ClassVar

from sim.api.objects import labels_of
from sim.api.selectors import from_selector
from sim.api.store import Change, path_of
from sim.api.types import Obj
from sim.check.availability import is_available
from sim.check.invariants.base import Invariant
from sim.check.world import World, split_key
from sim.check.writes import listed
from sim.verdict import Verdict


class BudgetsKept(Invariant):
    """No eviction leaves a PodDisruptionBudget with fewer healthy pods than it needs.

    Only voluntary acts count, which are evictions through the API (drains, deschedulers). A pod
    that was lost without one counts as healthy for `within` more, since no controller can know of
    it at once.
    """

    name_in_file = "budgets-kept"
    within_default = "5s"
    example: ClassVar[str] = "{name: budgets hold, invariant: budgets-kept}"

    _pods: dict[str, dict[str, Obj]]  # healthy pods, by namespace and key
    _lost: dict[str, dict[str, tuple[int, Obj]]]  # pods that ceased to be so, and when
    _granted: dict[str, dict[str, None]]  # names of pods that may be evicted, by namespace

    def reset(self) -> None:
        """Forget the breaches; the pods stay known."""
        super().reset()
        if not hasattr(self, "_pods"):
            self._pods, self._lost, self._granted = {}, {}, {}
        self._breaches: list[tuple[str, str, int, int]] = []

    def resources(self) -> frozenset[str]:
        """Pods and budgets."""
        return frozenset(("pods", "poddisruptionbudgets"))

    def take(self, world: World, resource: str, change: Change) -> None:
        """Take a commit of a pod, or an eviction that a budget grants."""
        if resource == "pods":
            self._pod(change)
        elif change.prev is not None and not change.deleted:
            before = (change.prev.obj.get("status") or {}).get("disruptedPods") or {}
            after = (change.item.obj.get("status") or {}).get("disruptedPods") or {}
            for name in after:
                if name not in before:
                    self._evicted(change, name, after)

    def _pod(self, change: Change) -> None:
        key, pod = change.item.key, change.item.obj
        namespace = pod["metadata"]["namespace"]
        healthy, lost = self._pods.setdefault(namespace, {}), self._lost.setdefault(namespace, {})
        if not change.deleted and is_available(pod):
            healthy[key] = pod
            lost.pop(key, None)
        elif (last := healthy.pop(key, None)) is not None:
            for late in [one for one, (at_us, _) in lost.items() if change.at_us - at_us > self.within_us]:
                del lost[late]
            if pod["metadata"]["name"] not in self._granted.get(namespace, {}):
                lost[key] = change.at_us, last
        if change.deleted:
            self._granted.get(namespace, {}).pop(pod["metadata"]["name"], None)

    def _evicted(self, change: Change, name: str, disrupted: Obj) -> None:
        _, namespace, budget = split_key(change.item.key)
        self._granted.setdefault(namespace, {})[name] = None
        healthy = self._pods.get(namespace, {})
        if f"//pods/{namespace}/{name}" not in healthy or not self.in_window(change.at_us):
            return
        recent = self._lost.get(namespace, {}).values()
        left = [pod for pod in healthy.values() if pod["metadata"]["name"] not in disrupted]
        left += [pod for at_us, pod in recent if change.at_us - at_us <= self.within_us]
        matches = from_selector(change.item.obj["spec"].get("selector")).matches
        count = sum(matches(labels_of(pod)) for pod in left)
        needed = _needed(change.item.obj)
        if count < needed:
            self.note(change.at_us, f"//pods/{namespace}/{name}", change.item.rev)
            self._breaches.append((f"{namespace}/{budget}", name, count, needed))

    def judge(self, end_us: int) -> Verdict:
        """The verdict on the evictions."""
        target = "never below a budget's minimum"
        if never := self.unopened(target):
            return never
        if not self._breaches:
            return self.kept("never", target)
        parts = [
            f"{path_of(self.subject) if not index else name} evicted, with {count} of {needed} left of {budget}"
            for index, (budget, name, count, needed) in enumerate(self._breaches)
        ]
        return self.broken(listed(parts), target, (float(len(self._breaches)),))


def _needed(budget: Obj) -> int:
    """The number of pods that the budget needs; shares are those that its controller computed."""
    least = budget["spec"].get("minAvailable")
    return least if isinstance(least, int) else int((budget.get("status") or {}).get("desiredHealthy", 0))
