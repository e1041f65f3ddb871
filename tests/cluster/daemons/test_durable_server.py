"""An API server with a data directory, which is killed and started again."""

from __future__ import annotations

import json
from pathlib import Path

import httpx
import pytest

from tests.bench.server_kills import run
from tests.cluster.daemons.running import api_server, client_of, config_of, daemon, process

KILLS = 20
FULL = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (400_000, 400_000))"
MAPS = "/api/v1/namespaces/default/configmaps"


def create(client: httpx.Client, name: str, content: str = "") -> dict[str, str]:
    answer = client.post(MAPS, json={"metadata": {"name": name}, "data": {"content": content}})
    assert answer.status_code == 201, answer.text
    return dict(answer.json()["metadata"])


def watched(client: httpx.Client, revision: int) -> list[tuple[str, str]]:
    """Type and name of what a watch from a revision shows within a second."""
    query = {"watch": "1", "resourceVersion": str(revision), "timeoutSeconds": "1"}
    events = [json.loads(line) for line in client.get(MAPS, params=query).text.splitlines()]
    return [(event["type"], event["object"]["metadata"].get("name", "")) for event in events]


@pytest.mark.slow
def test_a_killed_server_continues_with_all_that_was_acknowledged(tmp_path: Path) -> None:
    data = f"--data-dir={tmp_path / 'data'}"
    kept = {}
    for start in range(2):
        with (
            api_server(tmp_path, data) as (server, url),
            client_of(config_of(tmp_path, url, "admin")) as client,
        ):
            for number in range(5):
                name = f"map-{start}-{number}"
                kept[name] = create(client, name)
            server.kill()  # the next line does not run before the process has ended
            server.wait()
    with api_server(tmp_path, data) as (_, url), client_of(config_of(tmp_path, url, "admin")) as client:
        listed = {each["metadata"]["name"]: each["metadata"] for each in client.get(MAPS).json()["items"]}
        found = {name: (listed[name]["uid"], listed[name]["resourceVersion"]) for name in kept}
        assert found == {name: (meta["uid"], meta["resourceVersion"]) for name, meta in kept.items()}
        newest = max(int(meta["resourceVersion"]) for meta in kept.values())
        assert int(create(client, "last")["resourceVersion"]) > newest
        assert watched(client, newest) == [("ADDED", "last")]
        # As upstream's watch caches, those of a new process begin at its start.
        assert watched(client, newest - 1)[0][0] == "ERROR"


@pytest.mark.slow
def test_kills_at_any_instant_lose_nothing_that_was_acknowledged(tmp_path: Path) -> None:
    assert run(KILLS, 1, tmp_path) > KILLS


@pytest.mark.slow
def test_full_disk_ends_the_process_with_one_line_and_loses_nothing(tmp_path: Path) -> None:
    words, log = f"--data-dir={tmp_path / 'data'}", tmp_path / "api-server.log"
    kept: dict[str, str] = {}
    with (
        api_server(tmp_path, words, first=FULL) as (server, url),
        client_of(config_of(tmp_path, url, "admin")) as client,
    ):
        with pytest.raises(httpx.TransportError):
            for number in range(1_000):
                kept[f"map-{number}"] = create(client, f"map-{number}", "x" * 2_000)["uid"]
        assert server.wait() == 1
        (line,) = [line for line in log.read_text().splitlines() if line.startswith(("E", "F", "T"))]
        assert line.endswith(
            f"{tmp_path / 'data' / 'log'} cannot be written: File too large;"
            " what was not acknowledged may be lost"
        )
    assert len(kept) > 10
    with (
        api_server(tmp_path, words) as (_, url),
        client_of(config_of(tmp_path, url, "admin")) as client,
    ):
        listed = {
            each["metadata"]["name"]: each["metadata"]["uid"] for each in client.get(MAPS).json()["items"]
        }
        assert kept.items() <= listed.items()
        with process(
            daemon("kube-apiserver", words, f"--cert-dir={tmp_path}"), tmp_path / "second.log"
        ) as second:
            assert second.wait() == 1
        assert "is used by another process" in (tmp_path / "second.log").read_text()
