"""What an API server that runs alone offers, beside a served cluster."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.cluster.daemons.running import api_server, client_of, config_of, served

# Of a served cluster alone: it collects metrics.
OF_A_CLUSTER = ("metrics.k8s.io", "custom.metrics.k8s.io", "external.metrics.k8s.io")


def documents(client: httpx.Client) -> dict[str, Any]:
    """The documents of discovery by path, without the address of the server."""
    found: dict[str, Any] = {}
    groups = client.get("/apis").json()["groups"]
    versions = [each["groupVersion"] for group in groups for each in group["versions"]]
    for path in ("/api", "/api/v1", "/apis", *(f"/apis/{each}" for each in versions), "/openapi/v3"):
        if not path.startswith(tuple(f"/apis/{each}" for each in OF_A_CLUSTER)):
            found[path] = client.get(path).json()
    found["/api"].pop("serverAddressByClientCIDRs")
    found["/apis"] = [group for group in groups if group["name"] not in OF_A_CLUSTER]
    # The last part of an address is the digest of the document.
    found["/openapi/v3"] = {
        path: each["serverRelativeURL"]
        for path, each in found["/openapi/v3"]["paths"].items()
        if path.removeprefix("apis/").partition("/")[0] not in OF_A_CLUSTER
    }
    return found


@pytest.mark.slow
def test_discovery_is_that_of_a_served_cluster(tmp_path: Path) -> None:
    with served(tmp_path) as config, client_of(config) as client:
        expected = documents(client)
    with api_server(tmp_path) as (_, url), client_of(config_of(tmp_path, url, "admin")) as client:
        found = documents(client)
    assert {path for path in expected if found.get(path) != expected[path]} == set()
    assert found.keys() == expected.keys()
    assert len(found) > 20
