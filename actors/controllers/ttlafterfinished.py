"""TTL-after-finished controller: deletes finished Jobs after their time to live.

Turns the end of a Job and its `ttlSecondsAfterFinished` into a foreground delete.

Holds: the Job is read from the API server before it is deleted, so that a prolonged time to live is
       respected.

Mirrors  kubernetes v1.25 pkg/controller/ttlafterfinished/ttlafterfinished_controller.go.
"""

from __future__ import annotations

from actors.controllers.job.decide import ended
from actors.controllers.shared.shell import Env, run_workers
from sim.api.objects import is_deleting, key_of, spec_of, uid_of
from sim.api.types import Obj
from sim.kernel.measure import observe
from sim.units import SECOND, parse_time

CLIENT = "ttl-after-finished-controller"


def left_us(job: Obj, wall_us: int) -> int | None:
    """Time until a Job is to be deleted, None if it is not to be deleted."""
    seconds, end = spec_of(job).get("ttlSecondsAfterFinished"), ended(job)
    if seconds is None or end is None or is_deleting(job):
        return None
    since = end.get("lastTransitionTime")
    # Without a time in the condition, upstream fails to find the end of the Job, and retries.
    return int(parse_time(since) + seconds * SECOND - wall_us) if since else None


DELETION = "ttl_after_finished_controller_job_deletion_duration_seconds"


async def start(env: Env) -> None:
    """Run the controller until its process ends."""
    await JobExpiry(env).run()


class JobExpiry:
    """Shell of the controller: handlers, queue, and the check of one Job."""

    def __init__(self, env: Env) -> None:
        self._env = env
        self._client = env.client(CLIENT)
        self._jobs = env.informers["jobs"]
        self._queue = env.queue("ttl_jobs_to_delete")

    async def run(self) -> None:
        """Start the handlers and the workers."""
        self._jobs.on(add=self._changed, update=lambda _, new: self._changed(new))
        await self._env.informers.start_and_sync()
        run_workers(self._env, self._queue, self._sync, self._env.options.concurrent_ttl_after_finished_syncs)

    def _changed(self, job: Obj) -> None:
        if left_us(job, 0) is not None:
            self._queue.add(key_of(job))

    async def _sync(self, key: str) -> str | None:
        job = self._jobs.get(key)
        if job is None or not self._expired(key, job):
            return None
        meta = job["metadata"]
        live = await self._client.get("jobs", meta["namespace"], meta["name"])
        if not live.ok:
            return None if live.reason == "NotFound" else live.message
        if not self._expired(key, live.obj):
            return None
        namespace, name = meta["namespace"], meta["name"]
        reply = await self._client.delete("jobs", namespace, name, uid=uid_of(live.obj), policy="Foreground")
        if not reply.ok:
            return reply.message
        late_us = -(left_us(live.obj, self._env.ctx.wall_us()) or 0)
        observe(self._env.ctx.kernel, DELETION, late_us / SECOND)
        return None

    def _expired(self, key: str, job: Obj) -> bool:
        """True if the Job's time to live is over; otherwise queues the Job for its end."""
        left = left_us(job, self._env.ctx.wall_us())
        if left is not None and left > 0:
            self._queue.add_after_us(key, left)
        return left is not None and left <= 0
