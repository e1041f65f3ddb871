"""One sync of a Job as steps: what is written, in which order, and what follows an answer.  Pure.

Turns a Job, its pods and the answers to its writes into the next action.

Holds: a finished pod is listed in the status before its finalizer is removed, and added to the
       counters after that; a Job finishes only when no pod is between these two steps. A sync
       creates or deletes at most 500 pods, and none while the cache does not show earlier ones.

Mirrors  kubernetes v1.25.10 pkg/controller/job/job_controller.go (syncJob, manageJob,
         deleteActivePods, trackJobStatusAndRemoveFinalizers, flushUncountedAndRemoveFinalizers,
         enactJobFinished, recordJobPodFinished).
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from actors.controllers.job import decide
from actors.controllers.shared.pod_owners import pod_from_template
from actors.controllers.shared.steps import Event, Requeue, T, Update
from sim.api.objects import is_active, is_deleting, is_ready, status_of, uid_of
from sim.api.types import Obj, Reply
from sim.client.events.recorder import EventKind
from sim.dataclass import dataclass
from sim.units import format_time

PREFIX = "job_controller_"
_CONFLICT = "conflict"
# Fields of the status that are left out while they are empty.
_LEFT_OUT = ("active", "succeeded", "failed", "completedIndexes")


@dataclass(frozen=True, slots=True)
class CreatePods:
    """Create pods in growing batches."""

    job: Obj
    pods: Sequence[Obj]


@dataclass(frozen=True, slots=True)
class DeletePods:
    """Delete pods in parallel.

    uncounted: True to remove their finalizers first, and to expect the deletes; False for the pods
        of a failed Job, which keep their finalizers until they are counted
    """

    job: Obj
    pods: Sequence[Obj]
    uncounted: bool


@dataclass(frozen=True, slots=True)
class FreePods:
    """Remove the finalizers of pods in parallel."""

    key: str
    pods: Sequence[Obj]


@dataclass(frozen=True, slots=True)
class Count:
    """Add to a counter of metrics."""

    family: str
    labels: tuple[str, ...]
    by: int = 1


Action = CreatePods | DeletePods | FreePods | Count | Update | Event | Requeue


class Answer(NamedTuple):
    """What follows an action.

    replies: of the requests of deletes, finalizer removals and an update
    made: number of pods that were created; error: of the first that was not
    wall_us: the time by the clock of the process
    """

    wall_us: int
    replies: Sequence[Reply] = ()
    made: int = 0
    error: str | None = None


Steps = Generator[Action, Answer, T]


class Seen(NamedTuple):
    """What a sync sees besides the Job and its pods.

    reference: the controller reference of a new pod
    satisfied: True if the cache shows all earlier creates and deletes
    backoff_us: the delay for the number of failures of the Job so far
    reports_ready, has_policies: feature gates JobReadyPods and JobPodFailurePolicy
    wall_us: the time by the clock of the process
    """

    key: str
    tracking: decide.Tracking
    reference: Obj
    satisfied: bool
    backoff_us: int
    reports_ready: bool
    has_policies: bool
    wall_us: int


class Outcome(NamedTuple):
    """The end of a sync.

    error: the error text; resets: True if the back-off is to be reset
    work: what was done with pods, for metrics
    """

    error: str | None
    resets: bool
    work: str


def sync_job(job: Obj, pods: Sequence[Obj], seen: Seen) -> Steps[Outcome]:
    """The sync of a Job that is not finished, with its pods."""
    return _Sync(job, pods, seen).run()


class _Sync:
    """The decisions so far; `job` is the Job as it will be written, `read` as it was read.

    succeeded: number of pods that have succeeded
    indexes: (completed indexes in the status, those and the newly completed ones), for indexed Jobs
    ended_us: when the Job was found to be complete
    """

    def __init__(self, job: Obj, pods: Sequence[Obj], seen: Seen) -> None:
        self.seen = seen
        self.tracking = seen.tracking
        self.wall_us = seen.wall_us
        self.read = job
        self.pods = pods
        self.running = [pod for pod in pods if is_active(pod)]
        self.active = len(self.running)
        self.succeeded, self.failed = decide.totals(job, pods, self.tracking)
        self.indexes: tuple[list[int], list[int]] = ([], [])
        if decide.is_indexed(job):
            self.indexes = decide.succeeded_indexes(job, pods, self.tracking)
            self.succeeded = len(self.indexes[1])
        status = {**status_of(job), "ready": sum(is_ready(pod) for pod in self.running)}
        if not seen.reports_ready:
            del status["ready"]
        if not status.get("startTime") and not decide.is_suspended(job):
            status["startTime"] = format_time(self.wall_us)
        self.job = {**job, "status": status}
        self.end: decide.End | None = None
        self.error: str | None = None
        self.suspend_changed = False
        self.ended_us = 0
        self.work = "reconciling"

    def _do(self, action: Action) -> Steps[Answer]:
        answer = yield action
        self.wall_us = answer.wall_us
        return answer

    def _event(self, kind: EventKind, reason: str, message: str) -> Steps[None]:
        yield from self._do(Event(self.job, kind, reason, message))

    def run(self) -> Steps[Outcome]:
        policy, job = self.tracking.policy, self.job
        self.end = decide.policy_failure(job, self.pods, policy) if self.seen.has_policies else None
        self.end = self.end or decide.failure_of(job, self.pods, self.active, self.failed, self.wall_us)
        if self.end is not None:
            self.failed += 0 if self.tracking.by_finalizer else self.active
            yield from self._stop()
        else:
            left_us = decide.deadline_left_us(job, self.wall_us)
            if left_us is not None:
                yield from self._do(Requeue(self.seen.key, left_us))
            yield from self._continue()
        error, resets = yield from self._conclude()
        return Outcome(error, resets, self.work)

    def _conclude(self) -> Steps[tuple[str | None, bool]]:
        """Write the result of a sync."""
        had = status_of(self.read)
        status = {**self.job["status"], "active": self.active}
        needed = (
            self.suspend_changed
            or self.active != had.get("active", 0)
            or status.get("ready") != had.get("ready")
        )
        self.job = {**self.job, "status": status}
        count = self._track if self.tracking.by_finalizer else self._count
        refused = yield from count(needed)
        if refused == _CONFLICT:
            yield from self._do(Requeue(self.seen.key, self.seen.backoff_us))
            return None, False
        if refused is not None:
            return f"tracking status: {refused}", False
        if self.failed > had.get("failed", 0) and not decide.is_finished(self.job):
            # The error queues the Job after its back-off, which delays replacements of failed pods.
            return f'failed pod(s) detected for job key "{self.seen.key}"', False
        return self.error, self.suspend_changed or self.succeeded > had.get("succeeded", 0)

    # --- pods -------------------------------------------------------------------------------------

    def _delete(self, pods: Sequence[Obj], *, uncounted: bool) -> Steps[int]:
        """Delete pods; returns how many could not be deleted."""
        answer = yield from self._do(DeletePods(self.job, pods, uncounted))
        refused = [reply for reply in answer.replies if not reply.ok and reply.reason != "NotFound"]
        self.error = refused[0].message if refused else None
        return len(refused)

    def _stop(self) -> Steps[None]:
        """Delete the active pods of a failed Job; they keep their finalizers until counted."""
        self.active = yield from self._delete(self.running, uncounted=False)
        if self.active or not (self.seen.satisfied or not self.tracking.by_finalizer):
            self.end = None

    def _continue(self) -> Steps[None]:
        managed = self.seen.satisfied and not is_deleting(self.job)
        if managed:
            yield from self._manage()
        if decide.is_complete(self.job, self.active, self.succeeded):
            self.end, self.ended_us = decide.COMPLETE, self.wall_us
        elif managed:
            yield from self._record_suspension()

    def _record_suspension(self) -> Steps[None]:
        suspended, status = decide.is_suspended(self.job), self.job["status"]
        texts = (
            ("True", "JobSuspended", "Job suspended") if suspended else ("False", "JobResumed", "Job resumed")
        )
        wanted = decide.condition("Suspended", *texts, self.wall_us)
        conditions = decide.with_condition(status.get("conditions") or (), wanted)
        if conditions is None:
            return
        self.suspend_changed = True
        yield from self._event("Normal", "Suspended" if suspended else "Resumed", texts[2])
        start = {} if suspended else {"startTime": format_time(self.wall_us)}
        self.job = {**self.job, "status": {**status, "conditions": conditions, **start}}

    def _manage(self) -> Steps[None]:
        """Delete surplus pods, or else create missing ones."""
        job, annotation = self.job, self.tracking.annotation
        wanted = decide.wanted_active(job, self.active, self.succeeded)
        gone = decide.to_remove(job, self.running, max(0, self.active - wanted), annotation)
        self.work = "tracking"
        if gone or decide.is_suspended(job):
            self.work = "pods_deleted"
        if gone:
            refused = yield from self._delete(gone, uncounted=True)
            self.active -= len(gone) - refused
        elif wanted > self.active and not decide.is_suspended(job):
            self.work = "pods_created"
            pods = self._new_pods(min(wanted - self.active, decide.PODS_PER_SYNC_MAX))
            answer = yield from self._do(CreatePods(job, pods))
            self.active, self.error = self.active + answer.made, answer.error

    def _new_pods(self, count: int) -> list[Obj]:
        job, annotation, finalizer = self.job, self.tracking.annotation, self.tracking.finalizer
        template, ref = job["spec"]["template"], self.seen.reference
        meta = template.get("metadata") or {}
        if self.tracking.by_finalizer:
            finalizers = list(dict.fromkeys([*(meta.get("finalizers") or ()), finalizer]))
            template = {**template, "metadata": {**meta, "finalizers": finalizers}}
        if not decide.is_indexed(job):
            return [pod_from_template(template, job, ref)] * count
        indexes = decide.pending_indexes(self.running, self.indexes[1], count, job, annotation)
        pod = pod_from_template(decide.indexed_template(template, annotation), job, ref)
        return [decide.indexed_pod(pod, job["metadata"]["name"], index, annotation) for index in indexes]

    # --- counting ---------------------------------------------------------------------------------

    def _count(self, needed: bool) -> Steps[str | None]:
        """Write how many pods there are, for a Job that is not tracked by finalizers."""
        left = [pod for pod in self.pods if decide.is_tracked(pod, self.tracking.finalizer)]
        _, error = yield from self._free(left)
        if error is not None:
            return f"removing disabled finalizers from job pods {self.seen.key}: {error}"
        had, status = status_of(self.read), {**self.job["status"]}
        status.pop("uncountedTerminatedPods", None)
        status |= {"succeeded": self.succeeded, "failed": self.failed}
        if decide.is_indexed(self.read):
            status["completedIndexes"] = decide.format_indexes(self.indexes[1])
        self.job = {**self.job, "status": status}
        needed = needed or any(status[name] != had.get(name, 0) for name in ("succeeded", "failed"))
        if self.end is not None:
            yield from self._finish(replace(self.end, type=self.end.type.replace(decide.TARGET, "Failed")))
            needed = True
        return (yield from self._write()) if needed else None

    def _track(self, needed: bool) -> Steps[str | None]:
        """Count finished pods: list them in the status, remove finalizers, add them to the
        counters.
        """
        tracked = {uid_of(pod): None for pod in self.pods if self.tracking.counts(pod)}
        given = decide.uncounted_of(self.read)
        left = self._settle(given, tracked)
        count = decide.count_finished(
            self.read, self.pods, left, self.indexes[0], self.end is not None, self.tracking
        )
        needed = needed or count.changed or left != given
        uncounted = count.uncounted
        status = {**self.job["status"], "uncountedTerminatedPods": uncounted.as_status()}
        if decide.is_indexed(self.read):
            text = decide.format_indexes(count.indexes)
            needed = needed or text != status.get("completedIndexes", "")
            status |= {"succeeded": len(count.indexes), "completedIndexes": text}
        if self.end is not None and self.end.type == decide.TARGET:
            # The condition comes before the pods that show why may be deleted.
            end = self.end
            added = decide.condition(end.type, "True", end.reason, end.message, self.wall_us)
            status["conditions"] = [*(status.get("conditions") or ()), added]
            self.end, needed = replace(end, type="Failed"), True
        self.job = {**self.job, "status": status}
        if needed:
            refused = yield from self._write_counted(status_of(self.read))
            if refused is not None:
                return refused
        counted = status_of(self.job)
        freed, error = yield from self._free(count.free)
        for uid in freed:
            tracked.pop(uid, None)
        left = self._settle(uncounted, tracked)
        needed = left != uncounted
        status = {**self.job["status"], "uncountedTerminatedPods": left.as_status()}
        self.job = {**self.job, "status": status}
        if error is not None:
            refused = (yield from self._write_counted(counted)) if needed else None
            return refused or error
        if self.end is not None and not count.full and left == decide.Uncounted():
            yield from self._finish(self.end)
            needed = True
        return (yield from self._write_counted(counted)) if needed else None

    def _free(self, pods: Sequence[Obj]) -> Steps[tuple[list[str], str | None]]:
        """Remove the finalizer of pods; returns (uids of pods without it, first error or None)."""
        answer = yield from self._do(FreePods(self.seen.key, pods))
        freed: list[str] = []
        error: str | None = None
        for pod, reply in zip(pods, answer.replies, strict=True):
            if reply.ok or reply.reason == "NotFound":
                freed.append(uid_of(pod))
            else:
                error = error or _refusal(reply)
        return freed, error

    def _settle(self, uncounted: decide.Uncounted, tracked: dict[str, None]) -> decide.Uncounted:
        left, good, bad = decide.settle_uncounted(uncounted, tracked)
        status = self.job["status"]
        counts = {"succeeded": status.get("succeeded", 0) + good, "failed": status.get("failed", 0) + bad}
        self.job = {**self.job, "status": {**status, **counts}}
        return left

    def _finish(self, end: decide.End) -> Steps[None]:
        """Finish a Job (Quirk: the event precedes the write, so a failed write repeats the event)."""
        status = self.job["status"]
        result = "succeeded" if end.type == "Complete" else "failed"
        mode = decide.completion_mode(self.job)
        yield from self._do(Count(f"{PREFIX}job_finished_total", (mode, result)))
        ended = decide.condition(end.type, "True", end.reason, end.message, self.wall_us)
        conditions = decide.with_condition(status.get("conditions") or (), ended)
        status = status if conditions is None else {**status, "conditions": conditions}
        if end.type == "Complete":
            completions = self.job["spec"].get("completions")
            if completions is not None and status.get("succeeded", 0) > completions:
                text = "Too many succeeded pods running after completion count reached"
                yield from self._event("Warning", "TooManySucceededPods", text)
            status = {**status, "completionTime": format_time(self.ended_us)}
            yield from self._event("Normal", "Completed", "Job completed")
        else:
            yield from self._event("Warning", end.reason, end.message)
        self.job = {**self.job, "status": status}

    def _write_counted(self, before: Mapping[str, Any]) -> Steps[str | None]:
        """Write the status; its finished pods are counted for metrics if that succeeds.

        before: the status that the cluster has
        """
        refused = yield from self._write()
        after, mode = status_of(self.job), decide.completion_mode(self.job)
        for result in ("succeeded", "failed") if refused is None else ():
            grown = after.get(result, 0) - before.get(result, 0)
            yield from self._do(Count(f"{PREFIX}job_pods_finished_total", (mode, result), grown))
        return refused

    def _write(self) -> Steps[str | None]:
        status = {k: v for k, v in self.job["status"].items() if v or k not in _LEFT_OUT}
        answer = yield from self._do(Update("jobs", {**self.job, "status": status}, "status"))
        (reply,) = answer.replies
        if not reply.ok:
            return _refusal(reply)
        self.job = reply.obj
        return None


def _refusal(reply: Reply) -> str:
    return _CONFLICT if reply.reason == "Conflict" else reply.message
