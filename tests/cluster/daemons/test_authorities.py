"""Files of an API server that are replaced while it runs, and its log as JSON."""

from __future__ import annotations

import json
from pathlib import Path

import httpx
import pytest

from sim.wire.authority import Authority
from sim.wire.tls import client_context
from tests.cluster.daemons.running import api_server, until

NODES = "/api/v1/nodes"


def asked(url: str, authority: Authority, name: str) -> int:
    """The code for a user with a certificate of an authority; 0 if TLS refuses it."""
    pair = authority.client(name, ("system:masters",))
    context = client_context(client_pair=pair.certificate + pair.key, verified=False)
    try:
        with httpx.Client(base_url=url, verify=context) as client:
            return client.get(NODES).status_code
    except httpx.TransportError:
        return 0


@pytest.mark.slow
def test_another_authority_of_clients_is_taken_without_a_restart(tmp_path: Path) -> None:
    first, second = Authority("first"), Authority("second")
    file, log = tmp_path / "ca.crt", tmp_path / "api-server.log"
    file.write_bytes(first.pem)
    words = (f"--client-ca-file={file}", "--logging-format=json", "-v=3")
    with api_server(tmp_path, *words) as (_, url):
        assert asked(url, first, "ann") == 200
        assert asked(url, second, "bob") == 0
        file.write_bytes(second.pem)
        until(lambda: asked(url, second, "bob") == 200, log)
        assert asked(url, first, "ann") == 0
        file.write_bytes(b"no certificate")
        until(lambda: asked(url, second, "bob") == 200 and "not read again" in log.read_text(), log)
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    assert lines[0]["msg"].startswith("Version: v1.25.16")
    assert "external host was not specified" in lines[1]["msg"]
    requests = [line for line in lines if line["msg"] == "HTTP"]
    assert {(line["verb"], line["URI"], line["resp"]) for line in requests} == {("LIST", NODES, 200)}
    assert requests[0].keys() >= {"ts", "caller", "v", "latency", "userAgent", "audit-ID", "srcIP"}
