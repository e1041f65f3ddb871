"""The options of concurrency: each sets the number of workers of its loop."""

from __future__ import annotations

from typing import Any

import pytest

from sim.kernel import Context
from tests.actor.controllers.workload import world


@pytest.mark.parametrize(
    ("loop", "option", "queues"),
    [
        ("deployment", "concurrent_deployment_syncs", 1),
        ("endpoint", "concurrent_endpoint_syncs", 1),
        ("endpointslice", "concurrent_service_endpoint_syncs", 1),
        ("endpointslicemirroring", "mirroring_concurrent_service_endpoint_syncs", 1),
        ("garbagecollector", "concurrent_gc_syncs", 2),
        ("namespace", "concurrent_namespace_syncs", 1),
        ("replicaset", "concurrent_replicaset_syncs", 1),
        ("replicationcontroller", "concurrent_rc_syncs", 1),
        ("resourcequota", "concurrent_resource_quota_syncs", 2),
        ("serviceaccount-token", "concurrent_service_account_token_syncs", 2),
        ("statefulset", "concurrent_statefulset_syncs", 1),
        ("ttl-after-finished", "concurrent_ttl_after_finished_syncs", 1),
    ],
)
async def test_concurrency_option_sets_the_workers_of_each_queue(
    monkeypatch: pytest.MonkeyPatch, loop: str, option: str, queues: int
) -> None:
    counts, spawn = [], Context.spawn
    for workers in (2, 5):
        spawned: list[str] = []

        def counted(ctx: Context, fn: Any, *args: Any, name: str = "", spawned: Any = spawned) -> Any:
            spawned.append(name)
            return spawn(ctx, fn, *args, name=name)

        with monkeypatch.context() as patched:
            patched.setattr(Context, "spawn", counted)
            async with world((loop,), **{option: workers}):
                pass
        counts.append(len(spawned))
    assert counts[1] - counts[0] == 3 * queues
