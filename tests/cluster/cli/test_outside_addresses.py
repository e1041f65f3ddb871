"""Addresses of webhooks that cannot be called, and redirects to such addresses."""

from __future__ import annotations

from math import inf
from typing import Any

import httpx

from sim.app.cluster import Cluster
from sim.app.serving.serve import served
from sim.kernel import NEVER_US, Operation
from sim.kernel.outside import ANSWERED
from sim.wire.http.gateway import Gateway
from tests.cluster.cli.outside_server import ROOT, any_certificate
from tests.cluster.cli.test_outside_webhooks import HOOKS, MAPS, PLAN, configuration

ADDRESSES = {
    "https://127.0.0.1:99999/": "dial tcp: address 99999: invalid port",
    "https://[x]/": "dial tcp: lookup x: no such host",
    "https://℀.invalid/": "dial tcp: lookup ℀.invalid: no such host",
    "https://127.0.0.1:0/": "dial tcp 127.0.0.1:0: connect: connection refused",
}
PLURAL = "validatingwebhookconfigurations"


async def test_address_that_cannot_be_called_fails_its_requests_only() -> None:
    cluster = Cluster(PLAN, seed=1)
    headers = {"Authorization": "Bearer root"}
    async with (
        cluster,
        served(cluster, None, 5, tokens=ROOT) as url,
        httpx.AsyncClient(base_url=url, verify=any_certificate(), headers=headers) as client,
    ):
        cluster.kernel.set_goal(NEVER_US)
        for address, failure in ADDRESSES.items():
            body = configuration("ValidatingWebhookConfiguration", {"url": address})
            assert (await client.post(f"{HOOKS}/{PLURAL}", json=body)).status_code == 201
            made = await client.post(MAPS, json={"metadata": {"name": "a"}})
            assert (made.status_code, made.json()["message"].endswith(failure)) == (500, True), made.text
            await client.delete(f"{HOOKS}/{PLURAL}/{body['metadata']['name']}")
        assert (await client.post(MAPS, json={"metadata": {"name": "a"}})).status_code == 201
        end_us = cluster.kernel.outside_now_us()
        cluster.kernel.set_rate(inf)
        await cluster.kernel.run_until(end_us)
    journal: Any = cluster.kernel.gate.journal
    sha = cluster.kernel.trace.sha256()
    assert await replayed(list(journal), end_us) == (sha, True)
    # The same journal as an older program wrote it, with a redirect as its first answer.
    for place in ("https://[x/", "//[", "https://127.0.0.1:x/"):
        older = [with_redirect(each, place) for each in journal]
        assert (await replayed(older, end_us))[1]


def with_redirect(operation: Operation, place: str) -> Operation:
    if operation.name != ANSWERED:
        return operation
    payload = [operation.payload[0], 307, [["location", place]], b"", ""]
    return Operation(operation.step, operation.at_us, operation.name, payload)


async def replayed(journal: list[Operation], end_us: int) -> tuple[str, bool]:
    """The hash of a replay, and True if the last object was stored."""
    again = Cluster(PLAN, seed=1, replay=journal)
    async with again:
        Gateway(again.kernel, again.api_servers)
        await again.run_until(end_us)
    return again.kernel.trace.sha256(), again.get("configmaps", "a") is not None
