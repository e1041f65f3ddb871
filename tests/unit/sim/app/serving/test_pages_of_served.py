"""Requests for large pages, which stop the process for some 20 ms, are not made while it serves."""

from __future__ import annotations

import pytest

from sim.app.cluster import Cluster
from sim.app.process.large_pages import OF_THIS_PROCESS
from sim.app.serving.serve import served


@pytest.mark.slow
async def test_large_pages_are_requested_before_and_after_serving_only() -> None:
    async with Cluster() as cluster:
        assert cluster.kernel.after_slice == OF_THIS_PROCESS.look
        async with served(cluster, pace=0.001):
            assert cluster.kernel.after_slice != OF_THIS_PROCESS.look
        assert cluster.kernel.after_slice == OF_THIS_PROCESS.look
