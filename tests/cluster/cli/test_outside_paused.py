"""Clients and webhooks outside, while no virtual time passes."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from math import inf
from typing import Any

import httpx
import pytest
import trio

from sim.app.cluster import Cluster
from sim.app.serving.serve import served
from sim.wire.authority import Authority
from tests.cluster.cli.outside_server import ROOT, any_certificate
from tests.cluster.cli.test_outside_webhooks import HOOKS, MAPS, PLAN, configuration

PATIENCE_S = 60.0
MERGE = {"Content-Type": "application/merge-patch+json"}


@asynccontextmanager
async def client_at(pace: float) -> AsyncIterator[httpx.AsyncClient]:
    """A client of a cluster without passing time: it is paused, or not run."""
    async with (
        Cluster(PLAN) as cluster,
        served(cluster, None, pace, tokens=ROOT) as url,
        httpx.AsyncClient(
            base_url=url,
            verify=any_certificate(),
            headers={"Authorization": "Bearer root"},
            timeout=PATIENCE_S,
        ) as client,
    ):
        yield client
        assert cluster.kernel.now_us == 0


async def configure(client: httpx.AsyncClient, url: str, **more: Any) -> None:
    authorities = b64encode(Authority("any").pem).decode()
    config = configuration("MutatingWebhookConfiguration", {"url": url, "caBundle": authorities}, **more)
    made = await client.post(f"{HOOKS}/mutatingwebhookconfigurations", json=config)
    assert made.status_code == 201, made.text


@pytest.mark.parametrize("pace", [0, inf])
async def test_all_verbs_are_answered_while_time_rests_and_a_webhook_exists(pace: float) -> None:
    async with client_at(pace) as client:
        await configure(client, "https://127.0.0.1:1/", failurePolicy="Ignore")
        codes = [
            (await client.post(MAPS, json={"metadata": {"name": "a"}})).status_code,
            (await client.put(f"{MAPS}/a", json={"metadata": {"name": "a"}, "data": {}})).status_code,
            (await client.patch(f"{MAPS}/a", json={"data": {"k": "v"}}, headers=MERGE)).status_code,
            (await client.delete(f"{MAPS}/a")).status_code,
        ]
        assert codes == [201, 200, 200, 200]


@pytest.mark.slow
async def test_silent_webhook_is_given_up_after_its_timeout_while_time_rests() -> None:
    [silent] = await trio.open_tcp_listeners(0, host="127.0.0.1")  # accepts nothing
    async with silent, client_at(0) as client:
        url = f"https://127.0.0.1:{silent.socket.getsockname()[1]}/"
        await configure(client, url, timeoutSeconds=1)
        refused = await client.post(MAPS, json={"metadata": {"name": "a"}})
        assert refused.status_code == 500
        assert "context deadline exceeded" in refused.json()["message"]
