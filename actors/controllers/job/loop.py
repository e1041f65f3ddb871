"""Job controller: runs pods until enough have succeeded or too many have failed.

Turns a Job and its pods into creates (slow start), deletes, removals of the tracking finalizer, and
a status.

Holds: a finished pod is listed in the status before its finalizer is removed, and added to the
       counters after that; a Job finishes only when no pod is between these two steps. A sync
       creates or deletes at most 500 pods, and none while the cache does not show earlier ones.

Mirrors  kubernetes v1.25.10 pkg/controller/job/job_controller.go with JobTrackingWithFinalizers and
         JobReadyPods.
Differs  no metrics. Jobs are tracked by finalizers only.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from actors.controllers.job import decide
from actors.controllers.shared.metering import count, observe
from actors.controllers.shared.pod_owners import (
    PodControl,
    attribute_causes,
    candidates_of,
    index_by_controller,
    index_by_namespace,
    owner_ref,
    pod_from_template,
    route_by_controller,
    selector_of,
    selects_nothing,
)
from actors.controllers.shared.shell import Env, Expectations, Owner, claim_objects, in_parallel, run_workers
from sim.api.objects import (
    annotations_of,
    controller_of,
    is_active,
    is_deleting,
    is_ready,
    key_of,
    phase_of,
    spec_of,
    split_key,
    status_of,
    uid_of,
)
from sim.api.types import Obj, Reply
from sim.client.queue import WorkQueue
from sim.client.rest.limiter import ItemExponential
from sim.options.features.gates import FAILURE_POLICY, JOB_TRACKING, enabled
from sim.units import SECOND, format_time, parse_time

CLIENT = "job-controller"
WORKERS = 5
PREFIX = "job_controller_"
BATCH_US = 1 * SECOND  # podUpdateBatchPeriod
BACKOFF_US, BACKOFF_MAX_US = 10 * SECOND, 360 * SECOND  # DefaultJobBackOff, MaxJobBackOff


async def start(env: Env) -> None:
    """Run the Job controller until its process ends."""
    loop = JobLoop(env)
    await env.informers.start_and_sync()
    attribute_causes(loop.queue, loop.jobs, loop.pods)
    for index in range(WORKERS):
        env.ctx.spawn(loop.work, name=f"job-{index}")
    run_workers(env, loop.orphans, loop.free_orphan, 1)


@dataclass(slots=True)
class _SyncState:
    """State of one sync: the decisions so far, and the Job as it will be written.

    succeeded_count: number of pods that have succeeded
    indexes: (completed indexes in the status, those and the newly completed ones), for indexed Jobs
    """

    key: str
    job: Obj
    pods: list[Obj]
    active: int
    succeeded_count: int
    indexes: tuple[list[int], list[int]]
    end: decide.End | None = None
    error: str | None = None
    suspend_changed: bool = False
    ended_us: int = 0  # when the Job was found to be complete
    action: str = "reconciling"  # for metrics


class JobLoop:
    """Shell of the controller: handlers, queues, and the sync of one Job."""

    def __init__(self, env: Env) -> None:
        self.env = env
        self.resource = env.scheme.resource("jobs")
        self.client = env.client(CLIENT)
        self.recorder = env.recorder(CLIENT, self.client)
        self.expectations = Expectations(env.ctx.now_us)
        self.control = PodControl(env, self.client, self.recorder, self.expectations, named=False)
        # Deletes of pods of a failed Job are not expected, as the sync creates no others.
        self.stopper = PodControl(env, self.client, self.recorder)
        self.queue = WorkQueue(env.ctx, "job", ItemExponential(BACKOFF_US, BACKOFF_MAX_US))
        self.orphans = WorkQueue(env.ctx, "job_orphan_pod", ItemExponential(BACKOFF_US, BACKOFF_MAX_US))
        self.jobs = env.informers["jobs"]
        self.pods = env.informers["pods"]
        self._finalizer = env.names.finalizer_job_tracking
        self._annotation = env.names.annotation_job_completion_index
        self._reports_ready = enabled(env.options.feature_gates, "JobReadyPods")
        self._tracks_pods = enabled(env.options.feature_gates, JOB_TRACKING)
        self._policies_enabled = enabled(env.options.feature_gates, FAILURE_POLICY)
        # Job key -> uids of pods with a finalizer removal that the watch has not shown yet
        self._removing: dict[str, dict[str, None]] = {}
        self._failed = env.ctx.kernel.kind("sync-error", "queue", "key", "error")
        index_by_namespace(self.jobs)
        index_by_controller(self.pods)
        self.jobs.on(add=self._job_changed, update=self._job_updated, delete=self._job_deleted)
        route_by_controller(self.pods)
        self.pods.on(
            add=self._pod_added,
            update=self._pod_updated,
            delete=lambda pod: self._pod_gone(pod, True),
            about="Job",
        )

    # --- events -----------------------------------------------------------------------------------

    def _job_changed(self, job: Obj) -> None:
        self.queue.add(key_of(job))

    def _job_updated(self, old: Obj, new: Obj) -> None:
        self._job_changed(new)
        seconds, start = new["spec"].get("activeDeadlineSeconds"), new["status"].get("startTime")
        if start and seconds is not None and seconds != old["spec"].get("activeDeadlineSeconds"):
            left_us = parse_time(start) + seconds * SECOND - self.env.ctx.wall_us()
            self.queue.add_after_us(key_of(new), left_us)

    def _job_deleted(self, job: Obj) -> None:
        """Queue the tracked pods of a deleted Job, as no sync will remove their finalizers."""
        self._job_changed(job)
        for pod in self.pods.by_index("controller", uid_of(job)):
            if decide.is_tracked(pod, self._finalizer):
                self.orphans.add(key_of(pod))

    def _job_of(self, pod: Obj) -> Obj | None:
        ref = controller_of(pod)
        if ref is None or ref["kind"] != "Job":
            return None
        job = self.jobs.get(f"{pod['metadata']['namespace']}/{ref['name']}")
        return job if job is not None and uid_of(job) == ref["uid"] else None

    def _enqueue(self, job: Obj, at_once: bool = True) -> None:
        """Queue a Job after a pod change, with a short delay to collect further changes.

        at_once: False for a pod that has just failed, which waits for the Job's back-off
        """
        key = key_of(job)
        batch_us = BATCH_US if self._reports_ready else 0
        self.queue.add_after_us(key, (0 if at_once else self._backoff_us(key)) or batch_us)

    def _backoff_us(self, key: str) -> int:
        """The delay for the number of failures of the Job so far."""
        failures = self.queue.retries(key)
        return min(BACKOFF_US << min(failures - 1, 9), BACKOFF_MAX_US) if failures else 0

    def _pod_added(self, pod: Obj) -> None:
        if is_deleting(pod):
            self._pod_gone(pod, False)
        elif controller_of(pod) is None:
            self._orphan_changed(pod)
        else:
            job = self._job_of(pod)
            if job is not None:
                self.expectations.created(key_of(job))
                self._enqueue(job)

    def _pod_updated(self, old: Obj, new: Obj) -> None:
        if old["metadata"]["resourceVersion"] == new["metadata"]["resourceVersion"]:
            return
        if is_deleting(new):
            self._pod_gone(new, False)
            return
        # Only the change to Failed waits for the back-off; later changes of a failed pod do not.
        at_once = phase_of(new) != "Failed" or phase_of(old) == "Failed"
        before, ref = controller_of(old), controller_of(new)
        if before != ref:
            former = self._job_of(old)
            if former is not None:
                self._observe_freed(former, old, decide.is_tracked(new, self._finalizer))
                self._enqueue(former, at_once)
        if ref is None:
            changed = before is not None or old["metadata"].get("labels") != new["metadata"].get("labels")
            self._orphan_changed(new, changed, at_once)
            return
        job = self._job_of(new)
        if job is not None:
            self._observe_freed(job, new, decide.is_tracked(new, self._finalizer))
            self._enqueue(job, at_once)

    def _pod_gone(self, pod: Obj, removed: bool) -> None:
        job = self._job_of(pod)
        if job is None or decide.is_finished(job):
            if decide.is_tracked(pod, self._finalizer):
                self.orphans.add(key_of(pod))  # no sync of the Job will remove its finalizer
            return
        self.expectations.deleted(key_of(job))
        self._observe_freed(job, pod, not removed and decide.is_tracked(pod, self._finalizer))
        self._enqueue(job)

    def _orphan_changed(self, pod: Obj, adoptable: bool = True, at_once: bool = True) -> None:
        if decide.is_tracked(pod, self._finalizer):
            self.orphans.add(key_of(pod))
        for job in self.jobs.by_index("namespace", pod["metadata"]["namespace"]) if adoptable else ():
            if not selects_nothing(job) and selector_of(job)(pod):
                self._enqueue(job, at_once)

    def _observe_freed(self, job: Obj, pod: Obj, tracked: bool) -> None:
        if not tracked:
            self._removing.get(key_of(job), {}).pop(uid_of(pod), None)

    # --- a sync -----------------------------------------------------------------------------------

    async def work(self) -> None:
        """A worker as in `run_workers`, but a success resets the back-off only if `sync` says so."""
        while True:
            key = await self.queue.get()
            error, reset = await self.sync(key)
            if error is not None:
                self.env.ctx.record(self._failed, (self.queue.name, key, error))
                self.queue.add_rate_limited(key)
            elif reset:
                self.queue.forget(key)
            self.queue.done(key)

    async def sync(self, key: str) -> tuple[str | None, bool]:
        """Sync one Job; returns (error text or None, True if the back-off is to be reset)."""
        job = self.jobs.get(key)
        if job is None:
            self.expectations.forget(key)
            self._removing.pop(key, None)
            return None, True
        if decide.is_finished(job):
            return None, True
        begun_us = self.env.ctx.now_us()
        tracking = self._tracking(key, job)
        if not tracking.by_finalizer:
            error = await self._unmark(job)
            if error is not None:
                return error, False
        satisfied = self.expectations.satisfied(key)
        pods, error = await self._claim(job)
        if error is not None:
            return error, False
        active = [pod for pod in pods if is_active(pod)]
        good, bad = decide.totals(job, pods, tracking)
        indexes: tuple[list[int], list[int]] = ([], [])
        if decide.is_indexed(job):
            indexes = decide.succeeded_indexes(job, pods, tracking)
            good = len(indexes[1])
        wall_us = self.env.ctx.wall_us()
        status = {**status_of(job), "ready": sum(is_ready(pod) for pod in active)}
        if not self._reports_ready:
            del status["ready"]
        if not status.get("startTime") and not decide.is_suspended(job):
            status["startTime"] = format_time(wall_us)
        state = _SyncState(key, {**job, "status": status}, pods, len(active), good, indexes)
        state.end = (
            decide.policy_failure(state.job, pods, tracking.policy) if self._policies_enabled else None
        )
        state.end = state.end or decide.failure_of(state.job, pods, state.active, bad, wall_us)
        if state.end is not None:
            bad += 0 if tracking.by_finalizer else state.active
            await self._stop(state, active, satisfied or not tracking.by_finalizer)
        else:
            self._await_deadline(state, wall_us)
            await self._continue(state, active, satisfied)
        result = await self._conclude(state, job, bad, tracking)
        self._count_sync(state, result[0], begun_us)
        return result

    def _count_sync(self, state: _SyncState, error: str | None, begun_us: int) -> None:
        """Count a sync for metrics."""
        kernel = self.env.ctx.kernel
        labels = decide.completion_mode(state.job), "success" if error is None else "error", state.action
        count(kernel, f"{PREFIX}job_sync_total", *labels)
        took_us = self.env.ctx.now_us() - begun_us
        observe(kernel, f"{PREFIX}job_sync_duration_seconds", took_us / SECOND, *labels)

    def _count_pods(self, job: Obj, before: Mapping[str, Any]) -> None:
        """Count the pods by which the status of a Job has grown (recordJobPodFinished)."""
        after = status_of(job)
        for result in ("succeeded", "failed"):
            grown = after.get(result, 0) - before.get(result, 0)
            count(
                self.env.ctx.kernel,
                f"{PREFIX}job_pods_finished_total",
                decide.completion_mode(job),
                result,
                by=grown,
            )

    async def _conclude(
        self, state: _SyncState, seen: Obj, bad: int, tracking: decide.Tracking
    ) -> tuple[str | None, bool]:
        """Write the result of a sync; `seen` is the Job as it was read."""
        had = status_of(seen)
        status = {**state.job["status"], "active": state.active}
        needed = (
            state.suspend_changed
            or state.active != had.get("active", 0)
            or status.get("ready") != had.get("ready")
        )
        state.job = {**state.job, "status": status}
        if tracking.by_finalizer:
            refused = await self._track(state, seen, needed, tracking)
        else:
            refused = await self._count(state, seen, needed, bad)
        if refused is not None:
            if refused == _CONFLICT:
                self.queue.add_after_us(state.key, self._backoff_us(state.key))
                return None, False
            return f"tracking status: {refused}", False
        if bad > had.get("failed", 0) and not decide.is_finished(state.job):
            # The error queues the Job after its back-off, which delays replacements of failed pods.
            return f'failed pod(s) detected for job key "{state.key}"', False
        return state.error, state.suspend_changed or state.succeeded_count > had.get("succeeded", 0)

    def _tracking(self, key: str, job: Obj) -> decide.Tracking:
        """The rules by which pods count now.

        A finalizer removal is pending only until a watch event shows it.
        """
        policy = spec_of(job).get("podFailurePolicy") if self._policies_enabled else None
        removing = dict(self._removing.get(key, {}))
        return decide.Tracking.of(self.env.names, removing, policy, self._tracks(job))

    def _tracks(self, job: Obj) -> bool:
        """True if pods of a Job are tracked by finalizers."""
        return self._tracks_pods and self.env.names.annotation_job_tracking in annotations_of(job)

    async def _unmark(self, job: Obj) -> str | None:
        """Remove the annotation from a Job that is not tracked by finalizers."""
        key = self.env.names.annotation_job_tracking
        if key not in annotations_of(job):
            return None
        patch = {"metadata": {"annotations": {key: None}}}
        reply = await self.client.patch("jobs", *split_key(key_of(job)), patch)
        return None if reply.ok else f"removing tracking finalizer from job {key_of(job)}: {reply.message}"

    async def _claim(self, job: Obj) -> tuple[list[Obj], str | None]:
        finalizers = (self._finalizer,) if self._tracks(job) else ()
        owner = Owner(job, "jobs", self.resource.api_version, self.resource.kind, finalizers)
        candidates = candidates_of(self.pods, job)
        pods, error = await claim_objects(self.client, owner, "pods", candidates, selector_of(job))
        uid = uid_of(job)
        return [pod if _owned(pod, uid) or not finalizers else self._adopted(pod) for pod in pods], error

    def _adopted(self, pod: Obj) -> Obj:
        """A pod just adopted with its finalizer, which the cache does not show yet."""
        if decide.is_tracked(pod, self._finalizer):
            return pod
        meta = pod["metadata"]
        finalizers = [*(meta.get("finalizers") or ()), self._finalizer]
        return {**pod, "metadata": {**meta, "finalizers": finalizers}}

    def _await_deadline(self, state: _SyncState, wall_us: int) -> None:
        left_us = decide.deadline_left_us(state.job, wall_us)
        if left_us is not None:
            self.queue.add_after_us(state.key, left_us)

    async def _stop(self, state: _SyncState, active: Sequence[Obj], satisfied: bool) -> None:
        """Delete the active pods of a failed Job; they keep their finalizers until counted."""
        send = self.stopper.delete_send(state.job, active)
        replies = await in_parallel(self.env.ctx, len(active), send)
        refused = [reply for reply in replies if not reply.ok and reply.reason != "NotFound"]
        if refused or not satisfied:
            state.end = None
        state.active = len(refused)
        state.error = refused[0].message if refused else None

    async def _continue(self, state: _SyncState, active: Sequence[Obj], satisfied: bool) -> None:
        managed = satisfied and not is_deleting(state.job)
        if managed:
            await self._manage(state, active)
        if decide.is_complete(state.job, state.active, state.succeeded_count):
            state.end, state.ended_us = decide.COMPLETE, self.env.ctx.wall_us()
        elif managed:
            self._record_suspension(state)

    def _record_suspension(self, state: _SyncState) -> None:
        wall_us, suspended = self.env.ctx.wall_us(), decide.is_suspended(state.job)
        texts = (
            ("True", "JobSuspended", "Job suspended") if suspended else ("False", "JobResumed", "Job resumed")
        )
        status = state.job["status"]
        wanted = decide.condition("Suspended", *texts, wall_us)
        conditions = decide.with_condition(status.get("conditions") or (), wanted)
        if conditions is None:
            return
        state.suspend_changed = True
        self.recorder.event(state.job, "Normal", "Suspended" if suspended else "Resumed", texts[2])
        start = {} if suspended else {"startTime": format_time(wall_us)}
        state.job = {**state.job, "status": {**status, "conditions": conditions, **start}}

    # --- pods -------------------------------------------------------------------------------------

    async def _manage(self, state: _SyncState, active: Sequence[Obj]) -> None:
        """Delete surplus pods, or else create missing ones."""
        job = state.job
        wanted = decide.wanted_active(job, state.active, state.succeeded_count)
        gone = decide.to_remove(job, active, max(0, state.active - wanted), self._annotation)
        state.action = "tracking"
        if gone or decide.is_suspended(job):
            state.action = "pods_deleted"
        if gone:
            self.expectations.expect(state.key, 0, len(gone))
            replies = await in_parallel(self.env.ctx, len(gone), self._remove_send(job, gone))
            refused = [reply for reply in replies if not reply.ok and reply.reason != "NotFound"]
            state.active -= len(gone) - len(refused)
            state.error = refused[0].message if refused else None
        elif wanted > state.active and not decide.is_suspended(job):
            state.action = "pods_created"
            await self._create(state, active, min(wanted - state.active, decide.PODS_PER_SYNC_MAX))

    def _remove_send(self, job: Obj, pods: Sequence[Obj]) -> Callable[[int, Callable[[Reply], None]], None]:
        """A function that deletes the `index`-th pod uncounted: its finalizer is removed first."""
        delete = self.control.delete_send(job, pods)

        def send(index: int, on_reply: Callable[[Reply], None]) -> None:
            pod = pods[index]
            if not decide.is_tracked(pod, self._finalizer):
                delete(index, on_reply)
                return

            def finalizer_removed(reply: Reply) -> None:
                if reply.ok:
                    delete(index, on_reply)
                else:
                    self.expectations.deleted(key_of(job))
                    on_reply(reply)

            self._patch_finalizer(pod, finalizer_removed)

        return send

    async def _create(self, state: _SyncState, active: Sequence[Obj], count: int) -> None:
        job = state.job
        self.expectations.expect_creates(state.key, count)
        template = job["spec"]["template"]
        meta = template.get("metadata") or {}
        if self._tracks(job):
            finalizers = list(dict.fromkeys([*(meta.get("finalizers") or ()), self._finalizer]))
            template = {**template, "metadata": {**meta, "finalizers": finalizers}}
        ref = owner_ref(self.env, "jobs", job)
        if decide.is_indexed(job):
            indexes = decide.pending_indexes(active, state.indexes[1], count, job, self._annotation)
            self.expectations.created(state.key, count - len(indexes))
            pod = pod_from_template(decide.indexed_template(template, self._annotation), job, ref)
            name = job["metadata"]["name"]
            pods = [decide.indexed_pod(pod, name, index, self._annotation) for index in indexes]
        else:
            pods = [pod_from_template(template, job, ref)] * count
        made, state.error = await self.control.create_counted(job, pods)
        state.active += made

    # --- counting ---------------------------------------------------------------------------------

    async def _count(self, state: _SyncState, seen: Obj, needed: bool, failed: int) -> str | None:
        """Write how many pods there are, for a Job that is not tracked by finalizers."""
        left = [pod for pod in state.pods if decide.is_tracked(pod, self._finalizer)]
        _, error = await self._remove_finalizers(state.key, left)
        if error is not None:
            return f"removing disabled finalizers from job pods {state.key}: {error}"
        had, status = status_of(seen), {**state.job["status"]}
        status.pop("uncountedTerminatedPods", None)
        status |= {"succeeded": state.succeeded_count, "failed": failed}
        if decide.is_indexed(seen):
            status["completedIndexes"] = decide.format_indexes(state.indexes[1])
        state.job = {**state.job, "status": status}
        needed = needed or any(status[name] != had.get(name, 0) for name in ("succeeded", "failed"))
        if state.end is not None:
            self._finish(state, replace(state.end, type=state.end.type.replace(decide.TARGET, "Failed")))
            needed = True
        return await self._write(state) if needed else None

    async def _track(
        self, state: _SyncState, seen: Obj, needed: bool, tracking: decide.Tracking
    ) -> str | None:
        """Count finished pods: list them in the status, remove finalizers, add them to the
        counters.
        """
        tracked = {uid_of(pod): None for pod in state.pods if tracking.counts(pod)}
        given = decide.uncounted_of(seen)
        left = self._settle(state, given, tracked)
        count = decide.count_finished(
            seen, state.pods, left, state.indexes[0], state.end is not None, tracking
        )
        needed = needed or count.changed or left != given
        uncounted = count.uncounted
        status = {**state.job["status"], "uncountedTerminatedPods": uncounted.as_status()}
        if decide.is_indexed(seen):
            text = decide.format_indexes(count.indexes)
            needed = needed or text != status.get("completedIndexes", "")
            status |= {"succeeded": len(count.indexes), "completedIndexes": text}
        if state.end is not None and state.end.type == decide.TARGET:
            status, state.end = (
                self._with_failure_target(status, state.end),
                replace(state.end, type="Failed"),
            )
            needed = True
        state.job = {**state.job, "status": status}
        if needed:
            refused = await self._write_counted(state, status_of(seen))
            if refused is not None:
                return refused
        counted = status_of(state.job)
        freed, error = await self._remove_finalizers(state.key, count.free)
        for uid in freed:
            tracked.pop(uid, None)
        left = self._settle(state, uncounted, tracked)
        needed = left != uncounted
        state.job = {
            **state.job,
            "status": {**state.job["status"], "uncountedTerminatedPods": left.as_status()},
        }
        if error is not None:
            refused = await self._write_counted(state, counted) if needed else None
            return refused or error
        if state.end is not None and not count.full and left == decide.Uncounted():
            self._finish(state, state.end)
            needed = True
        return await self._write_counted(state, counted) if needed else None

    async def _write_counted(self, state: _SyncState, before: Mapping[str, Any]) -> str | None:
        """Write the status; its finished pods are counted for metrics if that succeeds.

        before: the status that the cluster has
        """
        refused = await self._write(state)
        if refused is None:
            self._count_pods(state.job, before)
        return refused

    def _with_failure_target(self, status: Obj, end: decide.End) -> Obj:
        """Add the condition that the Job will fail, before the pods that show why may be deleted."""
        added = decide.condition(end.type, "True", end.reason, end.message, self.env.ctx.wall_us())
        return {**status, "conditions": [*(status.get("conditions") or ()), added]}

    def _settle(
        self, state: _SyncState, uncounted: decide.Uncounted, tracked: dict[str, None]
    ) -> decide.Uncounted:
        left, good, bad = decide.settle_uncounted(uncounted, tracked)
        status = state.job["status"]
        counts = {"succeeded": status.get("succeeded", 0) + good, "failed": status.get("failed", 0) + bad}
        state.job = {**state.job, "status": {**status, **counts}}
        return left

    def _finish(self, state: _SyncState, end: decide.End) -> None:
        """Finish a Job (Quirk: the event precedes the write, so a failed write repeats the event)."""
        wall_us, status = self.env.ctx.wall_us(), state.job["status"]
        result = "succeeded" if end.type == "Complete" else "failed"
        mode = decide.completion_mode(state.job)
        count(self.env.ctx.kernel, f"{PREFIX}job_finished_total", mode, result)
        ended = decide.condition(end.type, "True", end.reason, end.message, wall_us)
        conditions = decide.with_condition(status.get("conditions") or (), ended)
        status = status if conditions is None else {**status, "conditions": conditions}
        if end.type == "Complete":
            completions = state.job["spec"].get("completions")
            if completions is not None and status.get("succeeded", 0) > completions:
                text = "Too many succeeded pods running after completion count reached"
                self.recorder.event(state.job, "Warning", "TooManySucceededPods", text)
            status = {**status, "completionTime": format_time(state.ended_us)}
            self.recorder.event(state.job, "Normal", "Completed", "Job completed")
        else:
            self.recorder.event(state.job, "Warning", end.reason, end.message)
        state.job = {**state.job, "status": status}

    async def _write(self, state: _SyncState) -> str | None:
        status = {k: v for k, v in state.job["status"].items() if v or k not in _LEFT_OUT}
        reply = await self.client.update("jobs", {**state.job, "status": status}, subresource="status")
        if reply.ok:
            state.job = reply.obj
            return None
        return _CONFLICT if reply.reason == "Conflict" else reply.message

    # --- finalizers -------------------------------------------------------------------------------

    def _patch_finalizer(self, pod: Obj, on_reply: Callable[[Reply], None]) -> None:
        meta = pod["metadata"]
        patch = {"metadata": {"$deleteFromPrimitiveList/finalizers": [self._finalizer]}}
        kind = self.env.names.media_strategic_patch
        request = self.client.request(
            "patch", "pods", meta["namespace"], meta["name"], body=patch, content_type=kind
        )
        self.client.call(request, on_reply)

    async def _remove_finalizers(self, key: str, pods: Sequence[Obj]) -> tuple[list[str], str | None]:
        """Remove the finalizer of pods; returns (uids of pods without it, first error or None)."""
        removing = self._removing.setdefault(key, {})
        removing.update({uid_of(pod): None for pod in pods})

        def send(index: int, on_reply: Callable[[Reply], None]) -> None:
            self._patch_finalizer(pods[index], on_reply)

        replies = await in_parallel(self.env.ctx, len(pods), send)
        freed: list[str] = []
        error: str | None = None
        for pod, reply in zip(pods, replies, strict=True):
            uid = uid_of(pod)
            if not reply.ok:
                removing.pop(uid, None)  # no watch event will show the removal
            if reply.ok or reply.reason == "NotFound":
                freed.append(uid)
            else:
                error = error or (_CONFLICT if reply.reason == "Conflict" else reply.message)
        return freed, error

    async def free_orphan(self, key: str) -> str | None:
        """Remove the finalizer of a pod that no Job will count."""
        pod = self.pods.get(key)
        if pod is None or not decide.is_tracked(pod, self._finalizer):
            return None
        job = self._job_of(pod)
        if job is not None and not decide.is_finished(job):
            return None
        replies = await in_parallel(self.env.ctx, 1, lambda _, on_reply: self._patch_finalizer(pod, on_reply))
        return None if replies[0].ok or replies[0].reason == "NotFound" else replies[0].message


_CONFLICT = "conflict"
# Fields of the status that are left out while they are empty.
_LEFT_OUT = ("active", "succeeded", "failed", "completedIndexes")


def _owned(pod: Obj, uid: str) -> bool:
    return any(ref.get("uid") == uid for ref in pod["metadata"].get("ownerReferences") or ())
