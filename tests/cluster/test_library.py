"""The library as a test author meets it: what fails in a `Cluster` is told as itself, and what is wrong at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from sim.app.cluster import Cluster
from sim.errors import InputError


class OwnError(Exception):
    """Of whoever uses the library."""


@pytest.mark.parametrize("run", ["", "1m"], ids=["before it runs", "after a while"])
async def test_an_error_of_whoever_uses_the_cluster_is_seen_as_itself(run: str) -> None:
    with pytest.raises(OwnError):
        async with Cluster(nodes=2) as cluster:
            if run:
                await cluster.run_for(run)
            raise OwnError


@pytest.mark.parametrize(
    ("use", "told"),
    [
        (lambda c: c.fail_node("node-33", "hang"), "there is no node 'node-33' .did you mean 'node-"),
        (lambda c: c.fail_node("node-1", "powerloss"), "no node fails by 'powerloss' .one of: power-loss"),
        (lambda c: c.heal_node("x"), "there is no node 'x'"),
        (lambda c: c.list("podz"), "there is no resource 'podz' .did you mean 'pods'"),
        (lambda c: c.get("podz", "a"), "there is no resource 'podz'"),
        (lambda c: c.apply({"kind": "Pod"}), "the object has no apiVersion"),
        (lambda c: c.apply({"apiVersion": "v1", "kind": "Pod"}), "the Pod has no metadata.name"),
        (
            lambda c: c.apply({"apiVersion": "apps/v2", "kind": "Deployment", "metadata": {"name": "a"}}),
            "there is no kind Deployment in apps/v2 .it is in apps/v1",
        ),
    ],
)
async def test_what_is_wrong_is_told_where_it_is_said(use: Callable[[Cluster], Any], told: str) -> None:
    async with Cluster(nodes=2) as cluster:
        await cluster.run_for("10s")
        with pytest.raises(InputError, match=told):
            use(cluster)
        await cluster.run_for("10s")
        assert len(cluster.list("nodes")) == 2


async def test_what_the_api_refuses_is_kept() -> None:
    async with Cluster(nodes=1) as cluster:
        cluster.apply(
            {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}, "spec": {}}
        )
        await cluster.run_for("10s")
        (told,) = cluster.refused
        assert told.startswith("apply deployments/web at ") and ": Invalid: " in told
