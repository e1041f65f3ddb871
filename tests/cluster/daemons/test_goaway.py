"""Connections and identities of API servers that run alone."""

from __future__ import annotations

from pathlib import Path
from uuid import UUID

import httpx
import pytest

from tests.cluster.daemons.running import api_server, client_of, config_of

REQUESTS_MAX = 2000  # at a chance of 2 % none ends its connection in 1 of 10^17 runs


@pytest.mark.slow
def test_a_chance_ends_connections_of_http2_after_an_answer(tmp_path: Path) -> None:
    with (
        api_server(tmp_path, "--goaway-chance=0.02") as (_, url),
        client_of(config_of(tmp_path, url, "admin"), http2=True) as client,
    ):
        idents, left = set(), ""
        for _ in range(REQUESTS_MAX):
            try:
                answer = client.get("/version")
            except httpx.RemoteProtocolError as error:
                left = str(error)
                break
            assert answer.status_code == 200
            idents.add(UUID(answer.headers["Audit-Id"]))
        assert "error_code:0, last_stream_id:2147483647" in left
        assert client.get("/version").status_code == 200
        assert {ident.version for ident in idents} == {4}
        assert min(ident.int & (1 << 62) - 1 for ident in idents) > 1 << 32  # no running numbers
