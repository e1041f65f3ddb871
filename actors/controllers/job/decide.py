"""Decisions of the Job controller: counts, results, indexes, pods to create and to delete.  Pure.

Turns a Job and its pods into the numbers of succeeded and failed pods, the condition that finishes
the Job, the pods to remove and the indexes to run; turns finished pods into the bookkeeping by
which each pod is counted once.

Holds: a finished pod is counted once: its uid is in `status.uncountedTerminatedPods` until its
       finalizer is removed; an index that has succeeded is not run again.

Mirrors  kubernetes v1.25.10 pkg/controller/job/{job_controller.go,indexed_job_utils.go},
         controller_utils.go (ActivePods).
Differs  ties in the order of removal are resolved by name (upstream: unspecified).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from actors.controllers.job.failure_policy import verdict
from actors.controllers.shared.pod_owners import ready_since_us
from sim.api.objects import is_deleting, is_ready, is_terminal, phase_of, spec_of, status_of, uid_of
from sim.api.types import Obj
from sim.dataclass import dataclass
from sim.ident import Names
from sim.units import SECOND, format_time, parse_time, parse_whole

PODS_PER_SYNC_MAX = 500  # MaxPodCreateDeletePerSync
UNCOUNTED_MAX = 500  # MaxUncountedPods
PREFIX_MAX = 58  # names.MaxGeneratedNameLength
INDEX_VARIABLE = "JOB_COMPLETION_INDEX"
_RUN_MIN = 3  # consecutive indexes from this number on are written as a range


def is_finished(job: Obj) -> bool:
    """True if the Job is complete or has failed."""
    return ended(job) is not None


def ended(job: Obj) -> Obj | None:
    """The condition Complete or Failed, None if the Job is not finished."""
    for condition in status_of(job).get("conditions") or ():
        if condition["type"] in ("Complete", "Failed") and condition["status"] == "True":
            return condition  # type: ignore[no-any-return]
    return None


def is_suspended(job: Obj) -> bool:
    """True if the Job is suspended."""
    return bool(spec_of(job).get("suspend"))


def is_indexed(job: Obj) -> bool:
    """True for the completion mode Indexed."""
    return spec_of(job).get("completionMode") == "Indexed"


def completion_mode(job: Obj) -> str:
    """The completion mode of a Job."""
    return "Indexed" if is_indexed(job) else "NonIndexed"


def is_tracked(pod: Obj, finalizer: str) -> bool:
    """True if the pod has the tracking finalizer."""
    return finalizer in (pod["metadata"].get("finalizers") or ())


# --- indexes --------------------------------------------------------------------------------------


def index_of(pod: Obj, annotation: str) -> int:
    """The completion index of a pod, -1 if it has none."""
    index = parse_whole((pod["metadata"].get("annotations") or {}).get(annotation, ""))
    return -1 if index is None or index < 0 else index


def parse_indexes(text: str, completions: int) -> list[int]:
    """The numbers below `completions` in a text like `1,3-5`.

    Parts that are no number or range are skipped; a part that starts at or above `completions` ends
    the list.
    """
    found: list[int] = []
    for part in text.split(",") if text else ():
        first_text, dash, last_text = part.partition("-")
        first, last = parse_whole(first_text), parse_whole(last_text if dash else first_text)
        if first is None or last is None:
            continue
        if first >= completions:
            break
        found += range(first, min(last, completions - 1) + 1)
    return found


def format_indexes(indexes: Sequence[int]) -> str:
    """Numbers as text; three or more consecutive ones become a range."""
    runs: list[list[int]] = []
    for index in sorted(indexes):
        if runs and runs[-1][-1] == index - 1:
            runs[-1].append(index)
        else:
            runs.append([index])
    parts: list[str] = []
    for run in runs:
        parts += [f"{run[0]}-{run[-1]}"] if len(run) >= _RUN_MIN else [str(index) for index in run]
    return ",".join(parts)


def pending_indexes(
    active: Sequence[Obj], done: Sequence[int], count: int, job: Obj, annotation: str
) -> list[int]:
    """The lowest `count` indexes that are neither completed nor have an active pod."""
    taken = {*done, *(index_of(pod, annotation) for pod in active)}
    completions = spec_of(job).get("completions") or 0
    missing: list[int] = []
    for index in range(completions):
        if len(missing) == count:
            break
        if index not in taken:
            missing.append(index)
    return missing


# --- counting -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Uncounted:
    """Uids of finished pods that are listed in the status and not yet in the counters."""

    succeeded: tuple[str, ...] = ()
    failed: tuple[str, ...] = ()

    def as_status(self) -> Obj:
        """The value of `status.uncountedTerminatedPods`."""
        lists = (("succeeded", self.succeeded), ("failed", self.failed))
        return {name: list(uids) for name, uids in lists if uids}


def uncounted_of(job: Obj) -> Uncounted:
    """The uids in `status.uncountedTerminatedPods`."""
    given = status_of(job).get("uncountedTerminatedPods") or {}
    return Uncounted(tuple(given.get("succeeded") or ()), tuple(given.get("failed") or ()))


@dataclass(frozen=True, slots=True)
class Tracking:
    """The rules by which pods are tracked and counted.

    removing: uids of pods with a pending finalizer removal
    policy: the Job's podFailurePolicy; None if it has none or the gate is off
    by_finalizer: False for a Job without the tracking annotation, and while the gate
        JobTrackingWithFinalizers is off: then the pods that are there are counted, each time
    """

    finalizer: str
    annotation: str
    removing: Mapping[str, Any]
    policy: Obj | None = None
    by_finalizer: bool = True

    @staticmethod
    def of(
        names: Names, removing: Mapping[str, Any], policy: Obj | None = None, by_finalizer: bool = True
    ) -> Tracking:
        """The rules with the finalizer and the annotation of a naming set."""
        finalizer, annotation = names.finalizer_job_tracking, names.annotation_job_completion_index
        return Tracking(finalizer, annotation, removing, policy, by_finalizer)

    def counts_failure(self, pod: Obj) -> bool:
        """True if the failure of a pod counts towards the back-off limit."""
        return self.policy is None or verdict(self.policy, pod).counts

    def counts(self, pod: Obj) -> bool:
        """True if a pod has still to be counted."""
        if not self.by_finalizer:
            return True
        return is_tracked(pod, self.finalizer) and uid_of(pod) not in self.removing

    def has_place(self, job: Obj, pod: Obj) -> bool:
        """True unless the Job is indexed and the pod's index is out of range."""
        return not is_indexed(job) or 0 <= index_of(pod, self.annotation) < (
            spec_of(job).get("completions") or 0
        )


def is_failed(pod: Obj) -> bool:
    """True for a failed pod, and for a terminating one that has not succeeded.

    The pod of a deleted node terminates without ever reporting that it failed.
    """
    return phase_of(pod) == "Failed" or (is_deleting(pod) and phase_of(pod) != "Succeeded")


def _says_failed(pod: Obj) -> bool:
    return phase_of(pod) == "Failed"


def _is_succeeded(pod: Obj) -> bool:
    return phase_of(pod) == "Succeeded"


def totals(job: Obj, pods: Sequence[Obj], tracking: Tracking) -> tuple[int, int]:
    """(succeeded, failed) pods so far, including those that are not in the counters yet."""
    status, uncounted = status_of(job), uncounted_of(job)
    if not tracking.by_finalizer:
        status, uncounted = {}, Uncounted()

    def new(known: tuple[str, ...], belongs: Callable[[Obj], bool]) -> int:
        more = (
            p for p in pods if tracking.counts(p) and uid_of(p) not in known and tracking.has_place(job, p)
        )
        return len(known) + sum(belongs(pod) for pod in more)

    succeeded = status.get("succeeded", 0) + new(uncounted.succeeded, _is_succeeded)
    has_failed = is_failed if tracking.by_finalizer else _says_failed
    failed = new(uncounted.failed, lambda pod: has_failed(pod) and tracking.counts_failure(pod))
    return succeeded, status.get("failed", 0) + failed


def succeeded_indexes(job: Obj, pods: Sequence[Obj], tracking: Tracking) -> tuple[list[int], list[int]]:
    """(completed indexes in the status, those and the newly completed ones) of an indexed Job."""
    completions = spec_of(job).get("completions") or 0
    known = status_of(job).get("completedIndexes", "") if tracking.by_finalizer else ""
    before = parse_indexes(known, completions)
    new = {
        index_of(pod, tracking.annotation)
        for pod in pods
        if _is_succeeded(pod)
        and (not tracking.by_finalizer or is_tracked(pod, tracking.finalizer))
        and tracking.has_place(job, pod)
    }
    return before, sorted({*before, *new})


@dataclass(frozen=True, slots=True)
class Count:
    """Result of counting finished pods.

    indexes: completed indexes
    free: pods that need their finalizer no longer
    changed: True if something is new
    full: True if the limit was reached, so that further pods are left to the next sync
    """

    uncounted: Uncounted
    indexes: list[int]
    free: list[Obj]
    changed: bool
    full: bool


def count_finished(
    job: Obj, pods: Sequence[Obj], before: Uncounted, indexes: Sequence[int], over: bool, t: Tracking
) -> Count:
    """List finished pods, at most `UNCOUNTED_MAX`.

    before: uids listed so far
    over: True if the Job has finished, so that all its pods count as finished
    """
    indexed = is_indexed(job)
    if indexed:
        pods = sorted(pods, key=lambda pod: index_of(pod, t.annotation))
    known_good, known_bad = {*uncounted_of(job).succeeded}, {*uncounted_of(job).failed}
    good, bad, new = list(before.succeeded), list(before.failed), list[int]()
    done = {*indexes}
    free: list[Obj] = []
    changed = full = False
    for pod in pods:
        if not t.counts(pod):
            continue
        uid = uid_of(pod)
        going = over or is_deleting(pod)
        if going or is_terminal(pod) or is_deleting(job):
            free.append(pod)
        if _is_succeeded(pod) and uid not in known_bad:
            index = index_of(pod, t.annotation)
            if indexed and t.has_place(job, pod) and index not in done:
                done.add(index)
                new.append(index)
                changed = True
            elif not indexed and uid not in known_good:
                good.append(uid)
                changed = True
        elif (going or phase_of(pod) == "Failed") and uid not in known_bad and t.has_place(job, pod):
            if t.counts_failure(pod):
                bad.append(uid)
                changed = True
        if len(new) + len(good) + len(bad) >= UNCOUNTED_MAX:
            full = True
            break
    return Count(Uncounted(tuple(good), tuple(bad)), sorted(done), free, changed, full)


def settle_uncounted(uncounted: Uncounted, tracked: Mapping[str, Any]) -> tuple[Uncounted, int, int]:
    """Take out the pods without a finalizer: (uids left, number succeeded, number failed).

    tracked: uids of pods that still have their finalizer
    """
    good = tuple(uid for uid in uncounted.succeeded if uid in tracked)
    bad = tuple(uid for uid in uncounted.failed if uid in tracked)
    moved = len(uncounted.succeeded) - len(good), len(uncounted.failed) - len(bad)
    return Uncounted(good, bad), *moved


# --- results --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class End:
    """The condition that finishes a Job."""

    type: str
    reason: str = ""
    message: str = ""


LIMIT = End("Failed", "BackoffLimitExceeded", "Job has reached the specified backoff limit")
DEADLINE = End("Failed", "DeadlineExceeded", "Job was active longer than specified deadline")
COMPLETE = End("Complete")
TARGET = "FailureTarget"  # condition that announces the failure before the pods are counted


def policy_failure(job: Obj, pods: Sequence[Obj], policy: Obj | None) -> End | None:
    """The failure of a Job by a rule of its pod failure policy.

    Its type is FailureTarget, or Failed if that condition is set already.
    """
    for known in status_of(job).get("conditions") or ():
        if known["type"] == TARGET:
            return End("Failed", known.get("reason", ""), known.get("message", ""))
    failed = (verdict(policy, pod).message for pod in pods if is_failed(pod)) if policy is not None else ()
    message = next(filter(None, failed), "")
    return End(TARGET, "PodFailurePolicy", message) if message else None


def failure_of(job: Obj, pods: Sequence[Obj], active: int, failed: int, wall_us: int) -> End | None:
    """The failure of a Job by its back-off limit or its deadline, None if it has not failed."""
    spec = spec_of(job)
    # With all wanted pods active, the failure is an old one that could not be written to the
    # status.
    fresh = failed > status_of(job).get("failed", 0) and active != spec.get("parallelism")
    if (fresh and failed > spec.get("backoffLimit", 6)) or _restarted_too_often(spec, pods):
        return LIMIT
    left_us = deadline_left_us(job, wall_us)
    return DEADLINE if left_us is not None and left_us <= 0 else None


def _restarted_too_often(spec: Mapping[str, Any], pods: Sequence[Obj]) -> bool:
    if ((spec.get("template") or {}).get("spec") or {}).get("restartPolicy") != "OnFailure":
        return False
    count = sum(
        status.get("restartCount", 0)
        for pod in pods
        if phase_of(pod) in ("Running", "Pending")
        for kind in ("initContainerStatuses", "containerStatuses")
        for status in pod["status"].get(kind) or ()
    )
    limit = spec.get("backoffLimit", 6)
    return bool(count >= limit if limit else count > 0)


def deadline_left_us(job: Obj, wall_us: int) -> int | None:
    """Time left until the active deadline; None if there is none or the Job does not run."""
    seconds, start = spec_of(job).get("activeDeadlineSeconds"), status_of(job).get("startTime")
    if seconds is None or not start or is_suspended(job):
        return None
    return int(parse_time(start) + seconds * SECOND - wall_us)


def is_complete(job: Obj, active: int, succeeded: int) -> bool:
    """True if enough pods have succeeded and none is active."""
    completions = spec_of(job).get("completions")
    return active == 0 and (succeeded > 0 if completions is None else succeeded >= completions)


def condition(kind: str, status: str, reason: str, message: str, wall_us: int) -> Obj:
    """A condition that changes now."""
    now = format_time(wall_us)
    made = {"type": kind, "status": status, "lastProbeTime": now, "lastTransitionTime": now}
    return made | {k: v for k, v in (("reason", reason), ("message", message)) if v}


def with_condition(conditions: Sequence[Obj], wanted: Obj) -> list[Obj] | None:
    """The conditions with this one; None if nothing changes. A new condition is not added as False."""
    for index, known in enumerate(conditions):
        if known["type"] == wanted["type"]:
            same = all(known.get(k, "") == wanted.get(k, "") for k in ("status", "reason", "message"))
            return None if same else [*conditions[:index], wanted, *conditions[index + 1 :]]
    return [*conditions, wanted] if wanted["status"] != "False" else None


# --- pods to create and to remove -----------------------------------------------------------------


def wanted_active(job: Obj, active: int, succeeded: int) -> int:
    """The number of pods that should be active now."""
    spec = spec_of(job)
    if is_suspended(job):
        return 0
    parallelism, completions = spec.get("parallelism", 1), spec.get("completions")
    if completions is None:
        return active if succeeded > 0 else int(parallelism)
    return int(max(0, min(parallelism, completions - succeeded)))


_NEVER = 1 << 63  # a pod with an unknown time of readiness sorts first
_PHASES = {"Pending": 0, "Unknown": 1, "Running": 2}


def _deletion_rank(pod: Obj) -> tuple[Any, ...]:
    """Sort key of upstream's ActivePods: the pod to delete first has the lowest rank."""
    meta, status = pod["metadata"], pod.get("status", {})
    ready_us = ready_since_us(pod)
    restarts = max((s.get("restartCount", 0) for s in status.get("containerStatuses") or ()), default=0)
    created = meta.get("creationTimestamp")
    return (
        bool(pod["spec"].get("nodeName")),
        _PHASES.get(phase_of(pod), 0),
        is_ready(pod),
        -ready_us if ready_us else -_NEVER,
        -restarts,
        -parse_time(created) if created else 0,
        meta["name"],
    )


def to_remove(job: Obj, active: Sequence[Obj], surplus: int, annotation: str) -> list[Obj]:
    """At least `surplus` pods to remove, and for an indexed Job all pods that no index needs."""
    gone: list[Obj] = []
    left = list(active)
    if is_indexed(job):
        gone, left = _unneeded(active, spec_of(job).get("completions") or 0, annotation)
    if len(gone) < surplus:
        gone += sorted(left, key=_deletion_rank)[: surplus - len(gone)]
    return gone if is_suspended(job) else gone[:PODS_PER_SYNC_MAX]


def _unneeded(active: Sequence[Obj], completions: int, annotation: str) -> tuple[list[Obj], list[Obj]]:
    """(pods with no valid index or a duplicate one, the other pods)."""
    by_index: dict[int, list[Obj]] = {}
    for pod in active:
        by_index.setdefault(index_of(pod, annotation), []).append(pod)
    gone: list[Obj] = []
    left: list[Obj] = []
    for index, pods in sorted(by_index.items()):
        if 0 <= index < completions:
            *repeated, kept = sorted(pods, key=_deletion_rank)
            gone += repeated
            left.append(kept)
        else:
            gone += pods
    return gone, left


def indexed_template(template: Obj, annotation: str) -> Obj:
    """A template with containers that get their index as an environment variable."""
    path = {"fieldRef": {"fieldPath": f"metadata.annotations['{annotation}']"}}
    spec = dict(template.get("spec") or {})
    for kind in ("initContainers", "containers"):
        if spec.get(kind):
            spec[kind] = [_with_index(container, path) for container in spec[kind]]
    return {**template, "spec": spec}


def _with_index(container: Obj, source: Obj) -> Obj:
    env = container.get("env") or []
    if any(variable["name"] == INDEX_VARIABLE for variable in env):
        return container
    return {**container, "env": [*env, {"name": INDEX_VARIABLE, "valueFrom": source}]}


def indexed_pod(pod: Obj, job_name: str, index: int, annotation: str) -> Obj:
    """The pod of one index, from a pod made of an indexed template."""
    meta, tail = pod["metadata"], f"-{index}-"
    annotations = {**(meta.get("annotations") or {}), annotation: str(index)}
    prefix = job_name[: PREFIX_MAX - len(tail)] + tail
    return {
        **pod,
        "metadata": {**meta, "generateName": prefix, "annotations": annotations},
        "spec": {**pod["spec"], "hostname": f"{job_name}-{index}"},
    }
