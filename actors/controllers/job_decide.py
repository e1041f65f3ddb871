"""What a Job needs, as plain decisions: counts, ends, indexes, pods to make and to delete.

Turns a Job and its pods into counts of what succeeded and failed, the condition that ends it, the
pods to remove and the indexes to run; finished pods into the bookkeeping that counts each exactly
once.

Holds: a finished pod is counted once, by its uid in `status.uncountedTerminatedPods` until its
finalizer is gone; an index that succeeded is never run again.

Mirrors  kubernetes v1.25.10 pkg/controller/job/{job_controller.go,indexed_job_utils.go},
         controller_utils.go (ActivePods).
Differs  ties in the order of removal go by name (upstream: any).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from actors.controllers.job_failure_policy import verdict
from actors.controllers.pod_owners import ready_since_us
from sim.ident import Names
from sim.machinery.api import Obj
from sim.machinery.objects import is_deleting, is_ready, is_terminal, phase_of, spec_of, status_of, uid_of
from sim.units import SECOND, format_time, parse_time, parse_whole

PODS_PER_SYNC_MAX = 500  # MaxPodCreateDeletePerSync
UNCOUNTED_MAX = 500  # MaxUncountedPods
PREFIX_MAX = 58  # names.MaxGeneratedNameLength
INDEX_VARIABLE = "JOB_COMPLETION_INDEX"
_RUN_MIN = 3  # indexes in a row that are written as a range


def is_finished(job: Obj) -> bool:
    return ended(job) is not None


def ended(job: Obj) -> Obj | None:
    """The condition that says that a Job is over."""
    for condition in status_of(job).get("conditions") or ():
        if condition["type"] in ("Complete", "Failed") and condition["status"] == "True":
            return condition  # type: ignore[no-any-return]
    return None


def is_suspended(job: Obj) -> bool:
    return bool(spec_of(job).get("suspend"))


def is_indexed(job: Obj) -> bool:
    return spec_of(job).get("completionMode") == "Indexed"


def is_tracked(pod: Obj, finalizer: str) -> bool:
    return finalizer in (pod["metadata"].get("finalizers") or ())


# --- indexes --------------------------------------------------------------------------------------


def index_of(pod: Obj, annotation: str) -> int:
    """The index of a pod; -1 if it has none."""
    index = parse_whole((pod["metadata"].get("annotations") or {}).get(annotation, ""))
    return -1 if index is None or index < 0 else index


def parse_indexes(text: str, completions: int) -> list[int]:
    """`1,3-5` as numbers below `completions`; what is no number or range is left out, as is all
    from the first beyond.
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
    """Numbers as text; three or more in a row become a range."""
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
    """The lowest `count` indexes that neither ran to their end nor have an active pod."""
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
    """Uids of pods that are finished, written down and not yet added to the counters."""

    succeeded: tuple[str, ...] = ()
    failed: tuple[str, ...] = ()

    def as_status(self) -> Obj:
        lists = (("succeeded", self.succeeded), ("failed", self.failed))
        return {name: list(uids) for name, uids in lists if uids}


def uncounted_of(job: Obj) -> Uncounted:
    given = status_of(job).get("uncountedTerminatedPods") or {}
    return Uncounted(tuple(given.get("succeeded") or ()), tuple(given.get("failed") or ()))


@dataclass(frozen=True, slots=True)
class Tracking:
    """How pods are told apart: the finalizer and annotation of the naming set, and finalizers on
    their way out.

    policy: the Job's rules on pods that fail, None without any, or while their gate is off
    """

    finalizer: str
    annotation: str
    removing: Mapping[str, Any]
    policy: Obj | None = None

    @staticmethod
    def of(names: Names, removing: Mapping[str, Any], policy: Obj | None = None) -> Tracking:
        return Tracking(names.finalizer_job_tracking, names.annotation_job_completion_index, removing, policy)

    def counts_failure(self, pod: Obj) -> bool:
        """Whether the failure of a pod counts."""
        return self.policy is None or verdict(self.policy, pod).counts

    def counts(self, pod: Obj) -> bool:
        """Whether a pod is still to be counted."""
        return is_tracked(pod, self.finalizer) and uid_of(pod) not in self.removing

    def has_place(self, job: Obj, pod: Obj) -> bool:
        """Whether an indexed Job has this pod's index."""
        return not is_indexed(job) or 0 <= index_of(pod, self.annotation) < (
            spec_of(job).get("completions") or 0
        )


def is_failed(pod: Obj) -> bool:
    """Also one that is being deleted: an orphan of a dead node never says that it failed."""
    return phase_of(pod) == "Failed" or (is_deleting(pod) and phase_of(pod) != "Succeeded")


def _is_succeeded(pod: Obj) -> bool:
    return phase_of(pod) == "Succeeded"


def totals(job: Obj, pods: Sequence[Obj], tracking: Tracking) -> tuple[int, int]:
    """How many pods have succeeded and failed so far, those not yet in the counters included."""
    status, uncounted = status_of(job), uncounted_of(job)

    def new(known: tuple[str, ...], belongs: Callable[[Obj], bool]) -> int:
        more = (
            p for p in pods if tracking.counts(p) and uid_of(p) not in known and tracking.has_place(job, p)
        )
        return len(known) + sum(belongs(pod) for pod in more)

    succeeded = status.get("succeeded", 0) + new(uncounted.succeeded, _is_succeeded)
    failed = new(uncounted.failed, lambda pod: is_failed(pod) and tracking.counts_failure(pod))
    return succeeded, status.get("failed", 0) + failed


def succeeded_indexes(job: Obj, pods: Sequence[Obj], tracking: Tracking) -> tuple[list[int], list[int]]:
    """Of an indexed Job: the indexes whose success is written down, and those with the new ones."""
    completions = spec_of(job).get("completions") or 0
    before = parse_indexes(status_of(job).get("completedIndexes", ""), completions)
    new = {
        index_of(pod, tracking.annotation)
        for pod in pods
        if _is_succeeded(pod) and is_tracked(pod, tracking.finalizer) and tracking.has_place(job, pod)
    }
    return before, sorted({*before, *new})


@dataclass(frozen=True, slots=True)
class Count:
    """What a sync writes down: the uids and indexes now, pods to free of the finalizer, and whether
    that is new.
    """

    uncounted: Uncounted
    indexes: list[int]
    free: list[Obj]
    changed: bool
    full: bool


def count_finished(
    job: Obj, pods: Sequence[Obj], before: Uncounted, indexes: Sequence[int], over: bool, t: Tracking
) -> Count:
    """Take down what is finished, at most `UNCOUNTED_MAX` pods at a time; when a Job is `over`, so
    are its pods.
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


def settle_uncounted(uncounted: Uncounted, held: Mapping[str, Any]) -> tuple[Uncounted, int, int]:
    """Those whose pods are held no longer go to the counters: what is left, and how many succeeded
    and failed.
    """
    good = tuple(uid for uid in uncounted.succeeded if uid in held)
    bad = tuple(uid for uid in uncounted.failed if uid in held)
    moved = len(uncounted.succeeded) - len(good), len(uncounted.failed) - len(bad)
    return Uncounted(good, bad), *moved


# --- ending ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class End:
    """How a Job is over."""

    type: str
    reason: str = ""
    message: str = ""


LIMIT = End("Failed", "BackoffLimitExceeded", "Job has reached the specified backoff limit")
DEADLINE = End("Failed", "DeadlineExceeded", "Job was active longer than specified deadline")
COMPLETE = End("Complete")
TARGET = "FailureTarget"  # type of the condition that says so before the pods are counted


def policy_failure(job: Obj, pods: Sequence[Obj], policy: Obj | None) -> End | None:
    """The end of a Job that has failed by a rule on its pods: to be announced, or announced
    already.
    """
    for known in status_of(job).get("conditions") or ():
        if known["type"] == TARGET:
            return End("Failed", known.get("reason", ""), known.get("message", ""))
    failed = (verdict(policy, pod).message for pod in pods if is_failed(pod)) if policy is not None else ()
    message = next(filter(None, failed), "")
    return End(TARGET, "PodFailurePolicy", message) if message else None


def failure_of(job: Obj, pods: Sequence[Obj], active: int, failed: int, wall_us: int) -> End | None:
    """The end of a Job that has failed."""
    spec = spec_of(job)
    # where active pods are as many as wanted, the failure is an old one whose status could not be
    # written
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
    """Time left of the active deadline; None if there is none, or it does not run."""
    seconds, start = spec_of(job).get("activeDeadlineSeconds"), status_of(job).get("startTime")
    if seconds is None or not start or is_suspended(job):
        return None
    return int(parse_time(start) + seconds * SECOND - wall_us)


def is_complete(job: Obj, active: int, succeeded: int) -> bool:
    completions = spec_of(job).get("completions")
    return active == 0 and (succeeded > 0 if completions is None else succeeded >= completions)


def condition(kind: str, status: str, reason: str, message: str, wall_us: int) -> Obj:
    now = format_time(wall_us)
    made = {"type": kind, "status": status, "lastProbeTime": now, "lastTransitionTime": now}
    return made | {k: v for k, v in (("reason", reason), ("message", message)) if v}


def with_condition(conditions: Sequence[Obj], wanted: Obj) -> list[Obj] | None:
    """The conditions with this one; None if they say so already.  What never was is not denied."""
    for index, known in enumerate(conditions):
        if known["type"] == wanted["type"]:
            same = all(known.get(k, "") == wanted.get(k, "") for k in ("status", "reason", "message"))
            return None if same else [*conditions[:index], wanted, *conditions[index + 1 :]]
    return [*conditions, wanted] if wanted["status"] != "False" else None


# --- pods to make and to remove -------------------------------------------------------------------


def wanted_active(job: Obj, active: int, succeeded: int) -> int:
    """How many pods should run now."""
    spec = spec_of(job)
    if is_suspended(job):
        return 0
    parallelism, completions = spec.get("parallelism", 1), spec.get("completions")
    if completions is None:
        return active if succeeded > 0 else int(parallelism)
    return int(max(0, min(parallelism, completions - succeeded)))


_NEVER = 1 << 63  # a time of Ready that is not told sorts first
_PHASES = {"Pending": 0, "Unknown": 1, "Running": 2}


def _usefulness(pod: Obj) -> tuple[Any, ...]:
    """ActivePods: the least useful sorts first."""
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
    """At least `surplus` pods; of an indexed Job also those that no index needs."""
    gone: list[Obj] = []
    left = list(active)
    if is_indexed(job):
        gone, left = _unneeded(active, spec_of(job).get("completions") or 0, annotation)
    if len(gone) < surplus:
        gone += sorted(left, key=_usefulness)[: surplus - len(gone)]
    return gone if is_suspended(job) else gone[:PODS_PER_SYNC_MAX]


def _unneeded(active: Sequence[Obj], completions: int, annotation: str) -> tuple[list[Obj], list[Obj]]:
    """Pods without an index, with one too large, or with another's; and the rest."""
    by_index: dict[int, list[Obj]] = {}
    for pod in active:
        by_index.setdefault(index_of(pod, annotation), []).append(pod)
    gone: list[Obj] = []
    left: list[Obj] = []
    for index, pods in sorted(by_index.items()):
        if 0 <= index < completions:
            *repeated, kept = sorted(pods, key=_usefulness)
            gone += repeated
            left.append(kept)
        else:
            gone += pods
    return gone, left


def indexed_template(template: Obj, annotation: str) -> Obj:
    """A template whose containers learn their index."""
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
    """A pod made from an indexed template as that of one index."""
    meta, tail = pod["metadata"], f"-{index}-"
    annotations = {**(meta.get("annotations") or {}), annotation: str(index)}
    prefix = job_name[: PREFIX_MAX - len(tail)] + tail
    return {
        **pod,
        "metadata": {**meta, "generateName": prefix, "annotations": annotations},
        "spec": {**pod["spec"], "hostname": f"{job_name}-{index}"},
    }
