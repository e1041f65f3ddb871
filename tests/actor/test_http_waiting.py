"""Virtual time waits for programs outside, and a cluster has what envtest has."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from math import inf
from pathlib import Path
from typing import Any

import httpx
import pytest
import trio
import trio.testing
import yaml

from sim import Cluster, InputError
from sim import served as serve
from tests.actor.test_http import MAPS, config_map

END_US = 3_000_000
PODS = "/api/v1/namespaces/default/pods"
POD = {"metadata": {"name": "a"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}


@asynccontextmanager
async def going(
    folder: Path, pace: float, profile: str = "", **given: Any
) -> AsyncIterator[tuple[Cluster, httpx.AsyncClient]]:
    """A served cluster in which virtual time passes by itself, for some seconds."""
    config = folder / "config"
    async with (
        Cluster(naming="kubernetes", profile=profile) as cluster,
        serve(cluster, config, pace, **given) as url,
    ):
        cluster.kernel.set_goal(END_US)
        token = yaml.safe_load(config.read_text())["users"][0]["user"]["token"]
        headers = {"Authorization": f"Bearer {token}"}
        async with httpx.AsyncClient(base_url=url, headers=headers, verify=False) as client:
            yield cluster, client


@pytest.mark.parametrize("pace", [1000, inf])
async def test_time_rests_until_a_client_watches(tmp_path: Path, pace: float) -> None:
    async with going(tmp_path, pace, wait_for_client=1) as (cluster, client):
        for name in ("a", "b"):
            assert (await client.post(MAPS, json=config_map(name))).status_code == 201
        assert cluster.kernel.now_us == cluster.kernel.outside_now_us() == 0
        assert cluster.clients.watches == 0
        async with client.stream("GET", f"{MAPS}?watch=1"):
            await cluster.wait_for_client()
            await cluster.kernel.run_until(END_US)


async def test_time_passes_at_once_without_a_client_to_wait_for(tmp_path: Path) -> None:
    async with going(tmp_path, inf) as (cluster, _):
        await cluster.kernel.run_until(END_US)
        assert cluster.kernel.now_us == END_US


@pytest.mark.parametrize("pace", [1000, inf])
async def test_time_rests_while_a_client_reacts(tmp_path: Path, pace: float) -> None:
    async with going(tmp_path, pace, reaction=1e6) as (cluster, client):
        await client.post(MAPS, json=config_map("a"))
        rests_us = cluster.kernel.now_us
        for name in ("b", "c"):
            await client.post(MAPS, json=config_map(name))
        assert cluster.kernel.now_us == rests_us


@pytest.mark.parametrize("pace", [1000, inf])
async def test_time_passes_again_after_a_reaction(tmp_path: Path, pace: float) -> None:
    async with going(tmp_path, pace, reaction=0.001) as (cluster, client):
        for name in ("a", "b"):
            assert (await client.post(MAPS, json=config_map(name))).status_code == 201
        await cluster.kernel.run_until(END_US)
        assert cluster.kernel.now_us >= END_US


async def test_event_for_a_client_lets_time_rest_at_its_instant(tmp_path: Path) -> None:
    async with going(tmp_path, inf, wait_for_client=2) as (cluster, client):
        cluster.apply({"apiVersion": "v1", "kind": "ConfigMap", **config_map("b")})
        async with client.stream("GET", f"{MAPS}?watch=1"), client.stream("GET", f"{MAPS}?watch=1"):
            cluster.clients.reaction_s = 1e6
            await trio.testing.wait_all_tasks_blocked(0.05)
            assert 0 < cluster.kernel.now_us < END_US


async def test_wait_for_a_client_that_does_not_come_has_an_end(tmp_path: Path) -> None:
    async with going(tmp_path, 1) as (cluster, _):
        with pytest.raises(trio.TooSlowError):
            await cluster.wait_for_client(limit_s=0.001)


async def test_profile_envtest_leaves_objects_as_clients_made_them(tmp_path: Path) -> None:
    async with going(tmp_path, inf, "envtest") as (cluster, client):
        made = (await client.post(PODS, json=POD)).json()
        assert "serviceAccountName" not in made["spec"]
        await cluster.kernel.run_until(20 * END_US)
        found = (await client.get(f"{PODS}/a")).json()
        assert found == made


def test_unknown_profile_is_refused() -> None:
    with pytest.raises(InputError, match="there is no profile 'envtests'"):
        Cluster(profile="envtests")
