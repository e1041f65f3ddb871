"""What a server in a process of its own did with its clients, made again by `orrery replay`."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx
import msgpack
import pytest
import yaml

from sim.app.cli.main import main
from sim.kernel import Blocks, block

SCENARIO = """
apiVersion: orrery.dev/v1
kind: Scenario
metadata: {name: served-night}
spec:
  duration: 1m
  cluster: {naming: kubernetes, nodes: [{count: 2}]}
  expect:
    - {name: somebody makes pods, eventually: "at least 2 pods are Running"}
"""
PODS = "/api/v1/namespaces/default/pods"
ACCOUNT = "/api/v1/namespaces/default/serviceaccounts/default"
POD = {"spec": {"containers": [{"name": "c", "image": "i"}]}}
WAIT_S = 30


def disturb(url: str, config: Path) -> None:
    token = yaml.safe_load(config.read_text())["users"][0]["user"]["token"]
    headers = {"Authorization": f"Bearer {token}"}
    with httpx.Client(base_url=url, headers=headers, verify=False, timeout=WAIT_S) as client:
        while client.get(ACCOUNT).status_code == 404:
            pass  # pods are not let in before
        for name in ("a", "b"):
            assert client.post(PODS, json={"metadata": {"name": name}, **POD}).status_code == 201
        running: set[str] = set()
        with client.stream("GET", PODS, params={"watch": "1"}) as watch:
            lines = watch.iter_lines()
            while len(running) < 2:
                pod = json.loads(next(lines))["object"]
                running |= {pod["metadata"]["name"]} if pod["status"]["phase"] == "Running" else set()
        assert client.delete(f"{PODS}/a").status_code == 200


@pytest.fixture(scope="module")
def journal(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of a server that two pods were made on, watched, and one deleted, while time ran as fast as
    it could.
    """
    folder = tmp_path_factory.mktemp("served")
    (folder / "night.yaml").write_text(SCENARIO)
    options = ["--pace", "max", "--port", "0", "--client-config", "config", "--journal", "night.journal"]
    command = [sys.executable, "-m", "sim.app.cli.main", "serve", "night.yaml", *options]
    with subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            disturb(server.stdout.readline().split()[-1], folder / "config")
        finally:
            server.send_signal(signal.SIGTERM)
        assert server.wait(WAIT_S) == 0
    return folder / "night.journal"


def replayed(capsys: pytest.CaptureFixture[str], journal: Path) -> tuple[int, dict[str, Any], str]:
    status = main(["replay", str(journal), "--json"])
    said = capsys.readouterr()
    return status, json.loads(said.out), said.err


def test_what_was_served_is_made_again_and_judged(journal: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status, result, said = replayed(capsys, journal)
    assert (status, result["ok"], result["as_served"], said) == (0, True, True, "")


def test_a_journal_that_lacks_a_request_is_found_out(
    journal: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    records = list(Blocks().feed(journal.read_bytes()))
    rows = [msgpack.unpackb(record, strict_map_key=False) for record in records]
    requests = [n for n, row in enumerate(rows) if isinstance(row, list) and row[2] == "request"]
    made = next(n for n in requests if rows[n][3][0][0] == "create")
    other = tmp_path / "other.journal"
    other.write_bytes(b"".join(map(block, records[:made] + records[made + 1 :])))
    status, result, _ = replayed(capsys, other)
    assert (status, result["as_served"]) == (1, False)
    first, *causes, before = result["first_difference"]
    assert re.match(r"the first event that differs is number [\d,]+ of the replay, at \dm\d\d\.\d+s:", first)
    assert causes
    assert re.match(r"before it, operation \d+ of \d+ from outside, at .*: [a-z-]+", before)


def test_a_journal_of_a_server_that_was_killed_is_made_again_as_far_as_it_goes(
    journal: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = tmp_path / "other.journal"
    other.write_bytes(journal.read_bytes()[:-10])
    status, result, said = replayed(capsys, other)
    assert (status, "as_served" in result) == (0, False), result
    lost, ended = said.splitlines()
    assert "bytes are left out: the record is incomplete, after" in lost
    assert ended == "orrery: the server was killed or still runs: the journal has no end to compare with"
