"""Job loop: run pods until enough of them have succeeded, or too many have failed.

Turns a Job and its pods into creates (slow start), deletes, finalizers taken off pods that are
counted, and a status.

Holds: a finished pod is written into the status before it loses its finalizer, and into the
counters after; a Job is over only when no pod is between the two.  At most 500 creates or deletes a
sync, none while earlier ones are unseen.

Mirrors  kubernetes v1.25.10 pkg/controller/job/job_controller.go with JobTrackingWithFinalizers and
         JobReadyPods.
Differs  a Job without the tracking annotation is tracked all the same; no metrics.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from actors.controllers import job_decide as decide
from actors.controllers.pod_owners import (
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
from actors.controllers.shell import Env, Expectations, Owner, claim_objects, in_parallel, run_workers
from sim.client.limiter import ItemExponential
from sim.client.queue import WorkQueue
from sim.machinery.api import Obj, Reply
from sim.machinery.objects import (
    controller_of,
    is_active,
    is_deleting,
    is_ready,
    key_of,
    phase_of,
    spec_of,
    status_of,
    uid_of,
)
from sim.options.gates import FAILURE_POLICY, enabled
from sim.units import SECOND, format_time, parse_time

CLIENT = "job-controller"
WORKERS = 5
BATCH_US = 1 * SECOND  # podUpdateBatchPeriod
BACKOFF_US, BACKOFF_MAX_US = 10 * SECOND, 360 * SECOND  # DefaultJobBackOff, MaxJobBackOff


async def start(env: Env) -> None:
    loop = JobLoop(env)
    await env.informers.start_and_sync()
    attribute_causes(loop.queue, loop.jobs, loop.pods)
    for index in range(WORKERS):
        env.ctx.spawn(loop.work, name=f"job-{index}")
    run_workers(env, loop.orphans, loop.free_orphan, 1)


@dataclass(slots=True)
class _Sync:
    """One look at a Job: what is decided on the way, and the Job as it will be written.

    good: how many pods have succeeded; indexes: of an indexed Job, those written down and those
    known by now
    """

    key: str
    job: Obj
    pods: list[Obj]
    active: int
    good: int
    indexes: tuple[list[int], list[int]]
    end: decide.End | None = None
    error: str | None = None
    suspend_changed: bool = False
    ended_us: int = 0  # when it was seen to be complete


class JobLoop:
    def __init__(self, env: Env) -> None:
        self.env = env
        self.resource = env.scheme.resource("jobs")
        self.client = env.client(CLIENT)
        self.recorder = env.recorder(CLIENT, self.client)
        self.expectations = Expectations(env.ctx.now_us)
        self.control = PodControl(env, self.client, self.recorder, self.expectations, named=False)
        self.stopper = PodControl(env, self.client, self.recorder)  # its deletes are not awaited
        self.queue = WorkQueue(env.ctx, "job", ItemExponential(BACKOFF_US, BACKOFF_MAX_US))
        self.orphans = WorkQueue(env.ctx, "job_orphan_pod", ItemExponential(BACKOFF_US, BACKOFF_MAX_US))
        self.jobs = env.informers["jobs"]
        self.pods = env.informers["pods"]
        self._finalizer = env.names.finalizer_job_tracking
        self._annotation = env.names.annotation_job_completion_index
        self._tells_ready = enabled(env.options.feature_gates, "JobReadyPods")
        self._heeds_policies = enabled(env.options.feature_gates, FAILURE_POLICY)
        # by Job: uids whose finalizer is on its way out
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
        """Nobody will count its pods any more."""
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
        """A pod changed: gather for a moment; one that has just failed waits for the Job's
        back-off.
        """
        key = key_of(job)
        batch_us = BATCH_US if self._tells_ready else 0
        self.queue.add_after_us(key, (0 if at_once else self._backoff_us(key)) or batch_us)

    def _backoff_us(self, key: str) -> int:
        """As long as the Job's failures so far ask for."""
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
        # Only the first word of a failure waits: that its finalizer is gone is news like any other.
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
                self.orphans.add(key_of(pod))  # no sync will free it
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
        """As `run_workers`, but a success alone does not make up for failures: see `sync`."""
        while True:
            key = await self.queue.get()
            error, forgive = await self.sync(key)
            if error is not None:
                self.env.ctx.record(self._failed, (self.queue.name, key, error))
                self.queue.add_rate_limited(key)
            elif forgive:
                self.queue.forget(key)
            self.queue.done(key)

    async def sync(self, key: str) -> tuple[str | None, bool]:
        """The error if any, and whether the failures so far are made up for."""
        job = self.jobs.get(key)
        if job is None:
            self.expectations.forget(key)
            self._removing.pop(key, None)
            return None, True
        if decide.is_finished(job):
            return None, True
        tracking = self._tracking(key, job)
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
        if not self._tells_ready:
            del status["ready"]
        if not status.get("startTime") and not decide.is_suspended(job):
            status["startTime"] = format_time(wall_us)
        it = _Sync(key, {**job, "status": status}, pods, len(active), good, indexes)
        it.end = decide.policy_failure(it.job, pods, tracking.policy) if self._heeds_policies else None
        it.end = it.end or decide.failure_of(it.job, pods, it.active, bad, wall_us)
        if it.end is not None:
            await self._stop(it, active, satisfied)
        else:
            self._await_deadline(it, wall_us)
            await self._continue(it, active, satisfied)
        return await self._conclude(it, job, bad, tracking)

    async def _conclude(
        self, it: _Sync, seen: Obj, bad: int, tracking: decide.Tracking
    ) -> tuple[str | None, bool]:
        """Write what the sync has come to; `seen` is the Job as it was."""
        had = status_of(seen)
        status = {**it.job["status"], "active": it.active}
        needed = (
            it.suspend_changed or it.active != had.get("active", 0) or status.get("ready") != had.get("ready")
        )
        it.job = {**it.job, "status": status}
        refused = await self._track(it, seen, needed, tracking)
        if refused is not None:
            if refused == _CONFLICT:
                self.queue.add_after_us(it.key, self._backoff_us(it.key))
                return None, False
            return f"tracking status: {refused}", False
        if bad > had.get("failed", 0) and not decide.is_finished(it.job):
            # the error puts the Job back after its back-off: this is what spaces out failing pods
            return f'failed pod(s) detected for job key "{it.key}"', False
        return it.error, it.suspend_changed or it.good > had.get("succeeded", 0)

    def _tracking(self, key: str, job: Obj) -> decide.Tracking:
        """As of now: finalizers are on their way out only until a watch shows them gone."""
        policy = spec_of(job).get("podFailurePolicy") if self._heeds_policies else None
        return decide.Tracking.of(self.env.names, dict(self._removing.get(key, {})), policy)

    async def _claim(self, job: Obj) -> tuple[list[Obj], str | None]:
        owner = Owner(job, "jobs", self.resource.api_version, self.resource.kind, (self._finalizer,))
        candidates = candidates_of(self.pods, job)
        pods, error = await claim_objects(self.client, owner, "pods", candidates, selector_of(job))
        uid = uid_of(job)
        return [pod if _owned(pod, uid) else self._adopted(pod) for pod in pods], error

    def _adopted(self, pod: Obj) -> Obj:
        """A pod just adopted, which the cache shows without the finalizer."""
        if decide.is_tracked(pod, self._finalizer):
            return pod
        meta = pod["metadata"]
        finalizers = [*(meta.get("finalizers") or ()), self._finalizer]
        return {**pod, "metadata": {**meta, "finalizers": finalizers}}

    def _await_deadline(self, it: _Sync, wall_us: int) -> None:
        left_us = decide.deadline_left_us(it.job, wall_us)
        if left_us is not None:
            self.queue.add_after_us(it.key, left_us)

    async def _stop(self, it: _Sync, active: Sequence[Obj], satisfied: bool) -> None:
        """Delete what runs of a failed Job; they keep their finalizers until they are counted."""
        send = self.stopper.delete_send(it.job, active)
        replies = await in_parallel(self.env.ctx, len(active), send)
        refused = [reply for reply in replies if not reply.ok and reply.reason != "NotFound"]
        if refused or not satisfied:
            it.end = None
        it.active = len(refused)
        it.error = refused[0].message if refused else None

    async def _continue(self, it: _Sync, active: Sequence[Obj], satisfied: bool) -> None:
        managed = satisfied and not is_deleting(it.job)
        if managed:
            await self._manage(it, active)
        if decide.is_complete(it.job, it.active, it.good):
            it.end, it.ended_us = decide.COMPLETE, self.env.ctx.wall_us()
        elif managed:
            self._tell_suspension(it)

    def _tell_suspension(self, it: _Sync) -> None:
        wall_us, suspended = self.env.ctx.wall_us(), decide.is_suspended(it.job)
        said = (
            ("True", "JobSuspended", "Job suspended") if suspended else ("False", "JobResumed", "Job resumed")
        )
        status = it.job["status"]
        wanted = decide.condition("Suspended", *said, wall_us)
        conditions = decide.with_condition(status.get("conditions") or (), wanted)
        if conditions is None:
            return
        it.suspend_changed = True
        self.recorder.event(it.job, "Normal", "Suspended" if suspended else "Resumed", said[2])
        start = {} if suspended else {"startTime": format_time(wall_us)}
        it.job = {**it.job, "status": {**status, "conditions": conditions, **start}}

    # --- pods -------------------------------------------------------------------------------------

    async def _manage(self, it: _Sync, active: Sequence[Obj]) -> None:
        """Remove pods that are too many, or else create those that are missing."""
        job = it.job
        wanted = decide.wanted_active(job, it.active, it.good)
        gone = decide.to_remove(job, active, max(0, it.active - wanted), self._annotation)
        if gone:
            self.expectations.expect(it.key, 0, len(gone))
            replies = await in_parallel(self.env.ctx, len(gone), self._remove_send(job, gone))
            refused = [reply for reply in replies if not reply.ok and reply.reason != "NotFound"]
            it.active -= len(gone) - len(refused)
            it.error = refused[0].message if refused else None
        elif wanted > it.active and not decide.is_suspended(job):
            await self._create(it, active, min(wanted - it.active, decide.PODS_PER_SYNC_MAX))

    def _remove_send(self, job: Obj, pods: Sequence[Obj]) -> Callable[[int, Callable[[Reply], None]], None]:
        """Sender that deletes a pod without letting it count: its finalizer goes first."""
        delete = self.control.delete_send(job, pods)

        def send(index: int, on_reply: Callable[[Reply], None]) -> None:
            pod = pods[index]
            if not decide.is_tracked(pod, self._finalizer):
                delete(index, on_reply)
                return

            def freed(reply: Reply) -> None:
                if reply.ok:
                    delete(index, on_reply)
                else:
                    self.expectations.deleted(key_of(job))
                    on_reply(reply)

            self._patch_free(pod, freed)

        return send

    async def _create(self, it: _Sync, active: Sequence[Obj], count: int) -> None:
        job = it.job
        self.expectations.expect_creates(it.key, count)
        template = job["spec"]["template"]
        meta = template.get("metadata") or {}
        finalizers = list(dict.fromkeys([*(meta.get("finalizers") or ()), self._finalizer]))
        template = {**template, "metadata": {**meta, "finalizers": finalizers}}
        ref = owner_ref(self.env, "jobs", job)
        if decide.is_indexed(job):
            indexes = decide.pending_indexes(active, it.indexes[1], count, job, self._annotation)
            self.expectations.created(it.key, count - len(indexes))
            pod = pod_from_template(decide.indexed_template(template, self._annotation), job, ref)
            name = job["metadata"]["name"]
            pods = [decide.indexed_pod(pod, name, index, self._annotation) for index in indexes]
        else:
            pods = [pod_from_template(template, job, ref)] * count
        made, it.error = await self.control.create_counted(job, pods)
        it.active += made

    # --- counting ---------------------------------------------------------------------------------

    async def _track(self, it: _Sync, seen: Obj, needed: bool, tracking: decide.Tracking) -> str | None:
        """Count finished pods in three steps: write down who they are, free them, add them up."""
        held = {uid_of(pod): None for pod in it.pods if tracking.counts(pod)}
        given = decide.uncounted_of(seen)
        left = self._settle(it, given, held)
        count = decide.count_finished(seen, it.pods, left, it.indexes[0], it.end is not None, tracking)
        needed = needed or count.changed or left != given
        uncounted = count.uncounted
        status = {**it.job["status"], "uncountedTerminatedPods": uncounted.as_status()}
        if decide.is_indexed(seen):
            text = decide.format_indexes(count.indexes)
            needed = needed or text != status.get("completedIndexes", "")
            status |= {"succeeded": len(count.indexes), "completedIndexes": text}
        if it.end is not None and it.end.type == decide.TARGET:
            status, it.end = self._announced(status, it.end), replace(it.end, type="Failed")
            needed = True
        it.job = {**it.job, "status": status}
        if needed:
            refused = await self._write(it)
            if refused is not None:
                return refused
        freed, error = await self._free(it.key, count.free)
        for uid in freed:
            held.pop(uid, None)
        left = self._settle(it, uncounted, held)
        needed = left != uncounted
        it.job = {**it.job, "status": {**it.job["status"], "uncountedTerminatedPods": left.as_status()}}
        if error is not None:
            return (await self._write(it) if needed else None) or error
        if it.end is not None and not count.full and left == decide.Uncounted():
            self._finish(it, it.end)
            needed = True
        return await self._write(it) if needed else None

    def _announced(self, status: Obj, end: decide.End) -> Obj:
        """Say of a Job that it will have failed, before its pods lose what shows why."""
        told = decide.condition(end.type, "True", end.reason, end.message, self.env.ctx.wall_us())
        return {**status, "conditions": [*(status.get("conditions") or ()), told]}

    def _settle(self, it: _Sync, uncounted: decide.Uncounted, held: dict[str, None]) -> decide.Uncounted:
        left, good, bad = decide.settle_uncounted(uncounted, held)
        status = it.job["status"]
        counts = {"succeeded": status.get("succeeded", 0) + good, "failed": status.get("failed", 0) + bad}
        it.job = {**it.job, "status": {**status, **counts}}
        return left

    def _finish(self, it: _Sync, end: decide.End) -> None:
        """Quirk: the event comes before the write, so a write that fails brings it once more."""
        wall_us, status = self.env.ctx.wall_us(), it.job["status"]
        ended = decide.condition(end.type, "True", end.reason, end.message, wall_us)
        conditions = decide.with_condition(status.get("conditions") or (), ended)
        status = status if conditions is None else {**status, "conditions": conditions}
        if end.type == "Complete":
            completions = it.job["spec"].get("completions")
            if completions is not None and status.get("succeeded", 0) > completions:
                text = "Too many succeeded pods running after completion count reached"
                self.recorder.event(it.job, "Warning", "TooManySucceededPods", text)
            status = {**status, "completionTime": format_time(it.ended_us)}
            self.recorder.event(it.job, "Normal", "Completed", "Job completed")
        else:
            self.recorder.event(it.job, "Warning", end.reason, end.message)
        it.job = {**it.job, "status": status}

    async def _write(self, it: _Sync) -> str | None:
        status = {k: v for k, v in it.job["status"].items() if v or k not in _LEFT_OUT}
        reply = await self.client.update("jobs", {**it.job, "status": status}, subresource="status")
        if reply.ok:
            it.job = reply.obj
            return None
        return _CONFLICT if reply.reason == "Conflict" else reply.message

    # --- finalizers -------------------------------------------------------------------------------

    def _patch_free(self, pod: Obj, on_reply: Callable[[Reply], None]) -> None:
        meta = pod["metadata"]
        patch = {"metadata": {"$deleteFromPrimitiveList/finalizers": [self._finalizer]}}
        kind = self.env.names.media_strategic_patch
        request = self.client.request(
            "patch", "pods", meta["namespace"], meta["name"], body=patch, content_type=kind
        )
        self.client.call(request, on_reply)

    async def _free(self, key: str, pods: Sequence[Obj]) -> tuple[list[str], str | None]:
        """Take the finalizer off pods: the uids of those that are free of it, and the first error.
        """
        removing = self._removing.setdefault(key, {})
        removing.update({uid_of(pod): None for pod in pods})

        def send(index: int, on_reply: Callable[[Reply], None]) -> None:
            self._patch_free(pods[index], on_reply)

        replies = await in_parallel(self.env.ctx, len(pods), send)
        freed: list[str] = []
        error: str | None = None
        for pod, reply in zip(pods, replies, strict=True):
            uid = uid_of(pod)
            if not reply.ok:
                removing.pop(uid, None)  # no watch will show it
            if reply.ok or reply.reason == "NotFound":
                freed.append(uid)
            else:
                error = error or (_CONFLICT if reply.reason == "Conflict" else reply.message)
        return freed, error

    async def free_orphan(self, key: str) -> str | None:
        """Take the finalizer off a pod that no Job will count."""
        pod = self.pods.get(key)
        if pod is None or not decide.is_tracked(pod, self._finalizer):
            return None
        job = self._job_of(pod)
        if job is not None and not decide.is_finished(job):
            return None
        replies = await in_parallel(self.env.ctx, 1, lambda _, on_reply: self._patch_free(pod, on_reply))
        return None if replies[0].ok or replies[0].reason == "NotFound" else replies[0].message


_CONFLICT = "conflict"
# of a status while they are empty
_LEFT_OUT = ("active", "succeeded", "failed", "completedIndexes")


def _owned(pod: Obj, uid: str) -> bool:
    return any(ref.get("uid") == uid for ref in pod["metadata"].get("ownerReferences") or ())
