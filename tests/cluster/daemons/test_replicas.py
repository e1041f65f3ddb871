"""Two API servers that share an etcd: their addresses and their leases."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.cluster.daemons.running import api_server, client_of, config_of, etcd, needs_etcd, until

ENDPOINTS = "/api/v1/namespaces/default/endpoints/kubernetes"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases"
ADDRESSES = ("192.0.2.7", "192.0.2.8")


def addresses(client: httpx.Client) -> list[str]:
    """The addresses of the servers, as the Service of the API servers has them."""
    found: dict[str, Any] = client.get(ENDPOINTS).json()
    return [each["ip"] for each in found["subsets"][0]["addresses"]]


def holders(client: httpx.Client) -> set[str]:
    """The servers that have a lease."""
    asked = {"labelSelector": "k8s.io/component=kube-apiserver"}
    leases = client.get(LEASES, params=asked).json()["items"]
    return {each["spec"]["holderIdentity"] for each in leases}


@pytest.mark.slow
@needs_etcd
def test_each_server_keeps_its_address_and_its_lease_until_its_end(tmp_path: Path) -> None:
    folders = [tmp_path / name for name in ("a", "b")]
    for folder in folders:
        folder.mkdir()
    log = folders[0] / "api-server.log"
    with etcd(tmp_path) as (_, url):
        words = [
            (
                f"--etcd-servers={url}",
                f"--advertise-address={address}",
                "--shutdown-send-retry-after",
                "--feature-gates=APIServerIdentity=true",
            )
            for address in ADDRESSES
        ]
        with (
            api_server(folders[0], *words[0]) as (_, first),
            client_of(config_of(folders[0], first, "admin")) as client,
        ):
            with api_server(folders[1], *words[1]) as (second, _):
                until(lambda: addresses(client) == [*ADDRESSES], log)
                until(lambda: len(holders(client)) == 2, log)
                second.send_signal(signal.SIGTERM)
                assert second.wait(60) == 0
            until(lambda: addresses(client) == [ADDRESSES[0]], log)
