"""Job controller: runs pods until enough have succeeded or too many have failed.

Turns a Job and its pods into creates (slow start), deletes, removals of the tracking finalizer, and
a status.

Holds: nothing is decided here; the steps are those of `sync`, their values those of `decide`.

Mirrors  kubernetes v1.25.10 pkg/controller/job/job_controller.go with JobTrackingWithFinalizers and
         JobReadyPods.
Differs  no metrics. Jobs are tracked by finalizers only.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import assert_never

from actors.controllers.job import decide
from actors.controllers.job import sync as steps
from actors.controllers.shared.pod_owners import (
    PodControl,
    attribute_causes,
    candidates_of,
    index_by_controller,
    index_by_namespace,
    owner_ref,
    route_by_controller,
    selector_of,
    selects_nothing,
)
from actors.controllers.shared.shell import Env, Expectations, Owner, claim_objects, in_parallel, run_workers
from actors.controllers.shared.steps import Event, Requeue, Shell, Update, carry_out
from sim.api.objects import (
    annotations_of,
    controller_of,
    is_deleting,
    key_of,
    phase_of,
    spec_of,
    split_key,
    uid_of,
)
from sim.api.types import Obj, Reply
from sim.client.queue import WorkQueue
from sim.client.rest.limiter import ItemExponential
from sim.kernel.measure import count, observe
from sim.options.features.gates import FAILURE_POLICY, JOB_TRACKING, enabled
from sim.units import SECOND, parse_time

CLIENT = "job-controller"
WORKERS = 5
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
        self.shell = Shell(env.ctx, self.client, self.recorder, self.queue)
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
        seen = steps.Seen(
            key,
            tracking,
            owner_ref(self.env, "jobs", job),
            satisfied,
            self._backoff_us(key),
            self._reports_ready,
            self._policies_enabled,
            self.env.ctx.wall_us(),
        )
        outcome = await carry_out(steps.sync_job(job, pods, seen), self._do)
        self._count_sync(job, outcome, begun_us)
        return outcome.error, outcome.resets

    def _count_sync(self, job: Obj, outcome: steps.Outcome, begun_us: int) -> None:
        """Count a sync for metrics."""
        kernel = self.env.ctx.kernel
        labels = decide.completion_mode(job), "success" if outcome.error is None else "error", outcome.work
        count(kernel, f"{steps.PREFIX}job_sync_total", *labels)
        took_us = self.env.ctx.now_us() - begun_us
        observe(kernel, f"{steps.PREFIX}job_sync_duration_seconds", took_us / SECOND, *labels)

    async def _do(self, action: steps.Action) -> steps.Answer:
        replies: Sequence[Reply] = ()
        made, error = 0, None
        match action:
            case steps.CreatePods(job, pods):
                self.expectations.expect_creates(key_of(job), len(pods))
                made, error = await self.control.create_counted(job, pods)
            case steps.DeletePods(job, pods, uncounted):
                if uncounted:
                    self.expectations.expect(key_of(job), 0, len(pods))
                send = self._remove_send(job, pods) if uncounted else self.stopper.delete_send(job, pods)
                replies = await in_parallel(self.env.ctx, len(pods), send)
            case steps.FreePods(key, pods):
                replies = await self._remove_finalizers(key, pods)
            case steps.Count(family, labels, by):
                count(self.env.ctx.kernel, family, *labels, by=by)
            case Update() | Event() | Requeue():
                replies = (await self.shell.do(action),)
            case _:
                assert_never(action)
        return steps.Answer(self.env.ctx.wall_us(), replies, made, error)

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

    # --- finalizers -------------------------------------------------------------------------------

    def _patch_finalizer(self, pod: Obj, on_reply: Callable[[Reply], None]) -> None:
        meta = pod["metadata"]
        patch = {"metadata": {"$deleteFromPrimitiveList/finalizers": [self._finalizer]}}
        kind = self.env.names.media_strategic_patch
        request = self.client.request(
            "patch", "pods", meta["namespace"], meta["name"], body=patch, content_type=kind
        )
        self.client.call(request, on_reply)

    async def _remove_finalizers(self, key: str, pods: Sequence[Obj]) -> list[Reply]:
        removing = self._removing.setdefault(key, {})
        removing.update({uid_of(pod): None for pod in pods})

        def send(index: int, on_reply: Callable[[Reply], None]) -> None:
            self._patch_finalizer(pods[index], on_reply)

        replies = await in_parallel(self.env.ctx, len(pods), send)
        for pod, reply in zip(pods, replies, strict=True):
            if not reply.ok:
                removing.pop(uid_of(pod), None)  # no watch event will show the removal
        return replies

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


def _owned(pod: Obj, uid: str) -> bool:
    return any(ref.get("uid") == uid for ref in pod["metadata"].get("ownerReferences") or ())
