"""Decisions of the autoscaler: replicas that metrics require, and how fast the size may change.

Pure.

Turns samples of pods, or a measured value, and a target into a proposal (`by_utilization`,
`by_average`, `by_value`, `by_share`); proposals and the history into the next size with the
conditions that explain it (`normalize`).

Holds: the history of recommendations and of changes is a value, passed in and returned.

Mirrors  kubernetes v1.25 pkg/controller/podautoscaler/{horizontal.go,replica_calculator.go},
         metrics/utilization.go.
Differs  no known deviation.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import ceil

from actors.controllers.shared.metrics_api import Sample
from sim.api.objects import condition_of, is_deleting, is_ready, phase_of
from sim.api.types import Obj
from sim.dataclass import dataclass
from sim.units import SECOND, parse_time, quantity_milli

SCALE_UP_FACTOR, SCALE_UP_MIN = 2, 4  # scaleUpLimitFactor, scaleUpLimitMinimum


@dataclass(frozen=True, slots=True)
class Periods:
    """Options of the controller: the tolerance as a share, and periods."""

    tolerance: float
    downscale_us: int
    cpu_initialization_us: int
    readiness_delay_us: int


# --- proposals ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Proposal:
    """Result of one metric.

    replicas: wanted number of replicas
    milli: mean usage in milli units
    percent: mean usage in percent of the requests, None unless that is the target
    """

    replicas: int
    milli: int
    percent: int | None = None


@dataclass(frozen=True, slots=True)
class Groups:
    """Pods by the use of their samples.

    ready: number of pods with a sample that counts
    unready, missing: names of pods with a sample that does not count, or without one
    """

    ready: int
    unready: tuple[str, ...]
    missing: tuple[str, ...]
    samples: Mapping[str, int]  # pod name -> milli units, for samples that count


def group_pods(
    pods: Sequence[Obj], samples: Mapping[str, Sample], resource: str, periods: Periods, wall_us: int
) -> Groups:
    """Group the pods, leaving out those that end; a CPU sample counts only after its pod's start."""
    unready: list[str] = []
    missing: list[str] = []
    ignored: list[str] = []
    ready = 0
    for pod in pods:
        name = pod["metadata"]["name"]
        if is_deleting(pod) or phase_of(pod) == "Failed":
            ignored.append(name)
        elif phase_of(pod) == "Pending":
            unready.append(name)
        elif name not in samples:
            missing.append(name)
        elif resource == "cpu" and _is_settling(pod, samples[name], periods, wall_us):
            unready.append(name)
        else:
            ready += 1
    kept = {k: s.milli for k, s in samples.items() if k not in ignored and k not in unready}
    return Groups(ready, tuple(unready), tuple(missing), kept)


def _is_settling(pod: Obj, sample: Sample, periods: Periods, wall_us: int) -> bool:
    condition, start = condition_of(pod, "Ready"), pod["status"].get("startTime")
    if condition is None or not start:
        return True
    changed = condition.get("lastTransitionTime")
    start_us, changed_us = parse_time(start), parse_time(changed) if changed else 0
    is_false = bool(condition["status"] == "False")
    if start_us + periods.cpu_initialization_us > wall_us:
        return is_false or sample.at_us < changed_us + sample.window_us
    return is_false and start_us + periods.readiness_delay_us > changed_us


def requests_of(pods: Sequence[Obj], resource: str, only: str = "") -> dict[str, int] | str:
    """Requests by pod name in milli units, or an error text if a container has none.

    only: the one container to count; "" for all
    """
    requests: dict[str, int] = {}
    for pod in pods:
        total = 0
        for container in pod["spec"]["containers"]:
            if only and container["name"] != only:
                continue
            asked = ((container.get("resources") or {}).get("requests") or {}).get(resource)
            if asked is None:
                return f"missing request for {resource}"
            total += quantity_milli(asked)
        requests[pod["metadata"]["name"]] = total
    return requests


@dataclass(frozen=True, slots=True)
class _Use:
    """Mean usage: as a ratio of the target, in percent of the requests, and in milli units."""

    ratio: float
    percent: int | None
    milli: int


def _utilization(samples: Mapping[str, int], requests: Mapping[str, int], target: int) -> _Use | str:
    known = {name: milli for name, milli in samples.items() if name in requests}
    asked = sum(requests[name] for name in known)
    if not asked:
        return "no metrics returned matched known pods"
    used = sum(known.values())
    percent = used * 100 // asked
    return _Use(percent / target, percent, used // len(known))


def _average(samples: Mapping[str, int], target: int) -> _Use:
    mean = sum(samples.values()) // len(samples)
    return _Use(mean / target, None, mean)


def selector_text(selector: Obj | None) -> str:
    """A label selector in the form in which Go prints it."""
    if selector is None:
        return "nil"
    labels = "".join(f"{key}: {value}," for key, value in sorted((selector.get("matchLabels") or {}).items()))
    demands = "".join(
        f"LabelSelectorRequirement{{Key:{one['key']},Operator:{one['operator']},"
        f"Values:[{' '.join(one.get('values') or ())}],}},"
        for one in selector.get("matchExpressions") or ()
    )
    return (
        f"&LabelSelector{{MatchLabels:map[string]string{{{labels}}},"
        f"MatchExpressions:[]LabelSelectorRequirement{{{demands}}},}}"
    )


NO_PODS = "no pods returned by selector while calculating replica count"
NO_SAMPLES = "did not receive metrics for any ready pods"


def by_utilization(
    requests: Mapping[str, int], groups: Groups, target: int, current: int, tolerance: float
) -> Proposal | str:
    """Replicas for a mean usage of `target` percent of the requests."""
    if not groups.samples:
        return NO_SAMPLES
    use = _utilization(groups.samples, requests, target)
    if isinstance(use, str):
        return use
    filled = _filled(groups, use.ratio, requests)
    new = None if filled is None else _utilization(filled, requests, target)
    if isinstance(new, str):
        return new
    return Proposal(_replicas(groups, use, filled, new, current, tolerance), use.milli, use.percent)


def by_average(groups: Groups, target_milli: int, current: int, tolerance: float) -> Proposal | str:
    """Replicas for a mean usage of `target_milli`."""
    if not groups.samples:
        return NO_SAMPLES
    use = _average(groups.samples, target_milli)
    filled = _filled(groups, use.ratio, dict.fromkeys(groups.missing, target_milli))
    if filled is not None and use.ratio == 1:
        # Quirk: exactly at the target, pods without samples count as idle here, and are left out
        # by utilization.
        filled |= dict.fromkeys(groups.missing, 0)
    new = None if filled is None else _average(filled, target_milli)
    return Proposal(_replicas(groups, use, filled, new, current, tolerance), use.milli)


def _filled(groups: Groups, ratio: float, whole: Mapping[str, int]) -> dict[str, int] | None:
    """Samples with conservative guesses for pods without one; None if no guess is needed."""
    growing = bool(groups.unready) and ratio > 1
    if not growing and not groups.missing:
        return None
    filled = dict(groups.samples)
    if ratio < 1:
        filled |= {name: whole.get(name, 0) for name in groups.missing}
    elif ratio > 1:
        filled |= dict.fromkeys(groups.missing, 0)
    if growing:
        filled |= dict.fromkeys(groups.unready, 0)
    return filled


def _replicas(
    groups: Groups,
    use: _Use,
    filled: Mapping[str, int] | None,
    new: _Use | None,
    current: int,
    tolerance: float,
) -> int:
    if filled is None or new is None:
        return current if abs(1 - use.ratio) <= tolerance else ceil(use.ratio * groups.ready)
    turned = (use.ratio < 1 < new.ratio) or (new.ratio < 1 < use.ratio)
    if abs(1 - new.ratio) <= tolerance or turned:
        return current
    wanted = ceil(new.ratio * len(filled))
    against = (new.ratio < 1 and wanted > current) or (new.ratio > 1 and wanted < current)
    return current if against else wanted


_UNKNOWN = -(2**63)  # the integer that Go on amd64 makes of a division by zero


def by_value(
    milli: int, target_milli: int, pods: Sequence[Obj], current: int, tolerance: float
) -> Proposal | str:
    """Replicas for a value to reach its target, if the value falls as ready pods are added."""
    ratio = milli / target_milli
    if not current:
        return Proposal(ceil(ratio), milli)
    if abs(1 - ratio) <= tolerance:
        return Proposal(current, milli)
    if not pods:
        return f"unable to calculate ready pods: {NO_PODS}"
    ready = sum(phase_of(pod) == "Running" and is_ready(pod) for pod in pods)
    return Proposal(ceil(ratio * ready), milli)


def by_share(milli: int, target_milli: int, observed: int, tolerance: float) -> Proposal:
    """Replicas for a value of at most `target_milli` for each of them.

    observed: replicas in the status of the target's scale
    Quirk: with 0 observed replicas a value of 0 keeps them at 0, and their mean is the lowest
    integer.
    """
    if not observed:
        return Proposal(ceil(milli / target_milli), _UNKNOWN)
    changes = abs(1 - milli / (target_milli * observed)) > tolerance
    return Proposal(ceil(milli / target_milli) if changes else observed, ceil(milli / observed))


# --- history --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Moment:
    """A recommendation, or a number of replicas added or removed, with its time."""

    count: int
    at_us: int


def _replacing_old(known: tuple[Moment, ...], new: Moment, cutoff_us: int) -> tuple[Moment, ...]:
    """Put a moment in the place of the last one before the cutoff, or at the end if there is none."""
    at = max((i for i, past in enumerate(known) if past.at_us < cutoff_us), default=len(known))
    return (*known[:at], new, *known[at + 1 :])


@dataclass(frozen=True, slots=True)
class History:
    """What the controller remembers about one autoscaler."""

    recommended: tuple[Moment, ...] = ()
    added: tuple[Moment, ...] = ()
    removed: tuple[Moment, ...] = ()

    def recommending(self, count: int, now_us: int, window_us: int) -> History:
        """The history with a recommendation, in the place of an expired one if there is one."""
        moment = Moment(count, now_us)
        return replace(self, recommended=_replacing_old(self.recommended, moment, now_us - window_us))

    def scaled(self, before: int, after: int, behavior: Obj | None, now_us: int) -> History:
        """The history with a change of size, in the place of an expired one if there is one.

        Quirk: a change expires by the policies of its own direction, but policies of the other
        direction, which may have longer periods, count the changes that are left.
        """
        if not behavior or before == after:
            return self
        growing = after > before
        policies = _rules(behavior, growing).get("policies") or ()
        longest_us = max((policy["periodSeconds"] for policy in policies), default=0) * SECOND
        events = self.added if growing else self.removed
        kept = _replacing_old(events, Moment(abs(after - before), now_us), now_us - longest_us)
        return replace(self, added=kept) if growing else replace(self, removed=kept)


# --- the next size --------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Condition:
    """A condition of an autoscaler's status."""

    type: str
    status: str
    reason: str
    message: str


READY = Condition("AbleToScale", "True", "ReadyForNewScale", "recommended size matches current size")
_STABILIZED_DOWN = Condition(
    "AbleToScale", "True", "ScaleDownStabilized",
    "recent recommendations were higher than current one, applying the highest recent recommendation",
)  # fmt: skip
_STABILIZED_UP = Condition(
    "AbleToScale", "True", "ScaleUpStabilized",
    "recent recommendations were lower than current one, applying the lowest recent recommendation",
)  # fmt: skip
_FAST_UP = ("ScaleUpLimit", "the desired replica count is increasing faster than the maximum scale rate")
_FAST_DOWN = ("ScaleDownLimit", "the desired replica count is decreasing faster than the maximum scale rate")
_MANY = ("TooManyReplicas", "the desired replica count is more than the maximum replica count")
_FEW = ("TooFewReplicas", "the desired replica count is less than the minimum replica count")
_FITS = ("DesiredWithinRange", "the desired count is within the acceptable range")


@dataclass(frozen=True, slots=True)
class Bounds:
    """Limits, behavior and present size of one autoscaler during one sync."""

    low: int
    high: int
    behavior: Obj | None
    current: int
    now_us: int


@dataclass(frozen=True, slots=True)
class Size:
    """The next size, the conditions that explain it, and the new history."""

    replicas: int
    conditions: tuple[Condition, ...]
    history: History


def normalize(proposed: int, bounds: Bounds, history: History, downscale_us: int) -> Size:
    """Stabilize a proposal by the history, and limit it by the bounds and the allowed rate."""
    if bounds.behavior is None:
        stable, history = _stabilize_down(proposed, bounds, history, downscale_us)
        able = READY if stable == proposed else _STABILIZED_DOWN
        wanted, why = _within_bounds(stable, bounds)
    else:
        stabilized = _STABILIZED_UP if proposed >= bounds.current else _STABILIZED_DOWN
        stable, history = _stabilize(proposed, bounds, bounds.behavior, history, downscale_us)
        able = READY if stable == proposed else stabilized
        wanted, why = _within_rates(stable, bounds, bounds.behavior, history)
    limited = Condition("ScalingLimited", "False" if wanted == stable else "True", *why)
    return Size(wanted, (able, limited), history)


def _stabilize_down(proposed: int, bounds: Bounds, history: History, window_us: int) -> tuple[int, History]:
    cutoff_us = bounds.now_us - window_us
    recent = [past.count for past in history.recommended if past.at_us >= cutoff_us]
    return max([proposed, *recent]), history.recommending(proposed, bounds.now_us, window_us)


def _within_bounds(desired: int, bounds: Bounds) -> tuple[int, tuple[str, str]]:
    rate = max(SCALE_UP_FACTOR * bounds.current, SCALE_UP_MIN)
    if desired < bounds.low:
        return bounds.low, _FEW
    if desired > min(rate, bounds.high):
        return min(rate, bounds.high), _FAST_UP if bounds.high > rate else _MANY
    return desired, _FITS


def _rules(behavior: Obj, growing: bool) -> Obj:
    """The scaling rules of a direction.

    Quirk: behavior from the v1 annotation has no defaults, and a missing direction allows no
    change.
    """
    return behavior.get("scaleUp" if growing else "scaleDown") or {"selectPolicy": "Disabled"}


def _window_us(rules: Obj, default_us: int) -> int:
    seconds = rules.get("stabilizationWindowSeconds")
    return default_us if seconds is None else int(seconds) * SECOND


def _stabilize(
    proposed: int, bounds: Bounds, behavior: Obj, history: History, downscale_us: int
) -> tuple[int, History]:
    now_us = bounds.now_us
    up_us, down_us = _window_us(_rules(behavior, True), 0), _window_us(_rules(behavior, False), downscale_us)
    lowest = min([proposed, *(m.count for m in history.recommended if m.at_us > now_us - up_us)])
    highest = max([proposed, *(m.count for m in history.recommended if m.at_us > now_us - down_us)])
    stable = min(max(bounds.current, lowest), highest)
    return stable, history.recommending(proposed, now_us, max(up_us, down_us))


def _within_rates(
    desired: int, bounds: Bounds, behavior: Obj, history: History
) -> tuple[int, tuple[str, str]]:
    current = bounds.current
    if desired > current:
        rate = max(current, _rate_limit(bounds, _rules(behavior, True), history, True))
        most = min(bounds.high, rate)
        if desired > most:
            return most, _FAST_UP if bounds.high > rate else _MANY
    elif desired < current:
        rate = min(current, _rate_limit(bounds, _rules(behavior, False), history, False))
        least = max(bounds.low, rate)
        if desired < least:
            return least, _FAST_DOWN if bounds.low < rate else _FEW
    return desired, _FITS


def _rate_limit(bounds: Bounds, rules: Obj, history: History, growing: bool) -> int:
    """The size to which the policies allow the target to grow or shrink now."""
    choice = rules.get("selectPolicy", "Max")
    if choice == "Disabled":
        return bounds.current
    limits: list[int] = []
    for policy in rules.get("policies") or ():
        cutoff_us = bounds.now_us - policy["periodSeconds"] * SECOND
        added = sum(event.count for event in history.added if event.at_us > cutoff_us)
        removed = sum(event.count for event in history.removed if event.at_us > cutoff_us)
        start, value = bounds.current - added + removed, policy["value"]
        if policy["type"] == "Pods":
            limits.append(start + value if growing else start - value)
        elif growing:
            # Rounded up, as a small target would never grow otherwise.
            limits.append(ceil(start * (1 + value / 100)))
        else:
            limits.append(int(start * (1 - value / 100)))
    if not limits:
        return bounds.current
    # The larger change is the larger size when growing, and the smaller size when shrinking.
    return max(limits) if (choice == "Min") is not growing else min(limits)
