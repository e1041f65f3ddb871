"""The journal of a server in a process of its own: killed, started twice, on a full disk."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import msgspec
import pytest
import yaml

from sim.app.cli.main import main
from sim.app.serving.journal import read_journal

MAPS = "/api/v1/namespaces/default/configmaps"
WAIT_S = 30
SERVE = """
import resource, sys
from sim.app.cli.main import main
resource.setrlimit(resource.RLIMIT_FSIZE, ({0}, {0}))
sys.exit(main())
"""
OPTIONS = ["--port", "0", "--naming", "kubernetes", "--client-config", "config", "--journal", "j"]


@contextmanager
def serving(folder: Path, *more: str, file_size: int = -1) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A server and its URL.  file_size: bytes that one file of it may have, as on a full disk (-1:
    any).
    """
    command = [sys.executable, "-c", SERVE.format(file_size), "serve", *OPTIONS, *more]
    with subprocess.Popen(
        command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as server:
        try:
            assert server.stdout is not None
            yield server, server.stdout.readline().split()[-1]
        finally:
            server.kill()


def client_of(folder: Path, url: str) -> httpx.Client:
    token = yaml.safe_load((folder / "config").read_text())["users"][0]["user"]["token"]
    headers = {"Authorization": f"Bearer {token}"}
    return httpx.Client(base_url=url, headers=headers, verify=False, timeout=WAIT_S)


def journalled(path: Path) -> set[str]:
    """The names of the config maps created by requests in the journal."""
    bodies = [
        operation.payload[2] for operation in read_journal(path).operations if operation.name == "request"
    ]
    return {msgspec.json.decode(body)["metadata"]["name"] for body in bodies if body}


@pytest.mark.parametrize("count", [1, 20, 60])
def test_killed_server_loses_no_acknowledged_write(
    tmp_path: Path, count: int, capsys: pytest.CaptureFixture[str]
) -> None:
    acknowledged: list[str] = []
    enough = threading.Event()

    def write(client: httpx.Client, writer: int) -> None:
        number = 0
        while True:
            name = f"w{writer}-{number}"
            try:
                if client.post(MAPS, json={"metadata": {"name": name}}).status_code != 201:
                    return
            except httpx.HTTPError:
                return
            acknowledged.append(name)
            number += 1
            if len(acknowledged) >= count:
                enough.set()

    with serving(tmp_path) as (server, url), client_of(tmp_path, url) as client:
        writers = [threading.Thread(target=write, args=(client, writer)) for writer in range(4)]
        for writer in writers:
            writer.start()
        assert enough.wait(WAIT_S)
        server.kill()
        for writer in writers:
            writer.join()
    assert len(acknowledged) >= count
    assert {*acknowledged} <= journalled(tmp_path / "j")
    assert main(["replay", str(tmp_path / "j"), "--json"]) == 0
    assert "the journal has no end to compare with" in capsys.readouterr().err


def test_second_server_does_not_touch_the_journal_of_the_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    with serving(tmp_path) as (server, url), client_of(tmp_path, url) as client:
        for more in ([], ["--force"]):
            assert main(["serve", *OPTIONS, *more]) == 2
            assert "j: another process is writing it" in capsys.readouterr().err
        assert client.post(MAPS, json={"metadata": {"name": "a"}}).status_code == 201
        server.send_signal(signal.SIGTERM)
        assert server.wait(WAIT_S) == 0
    assert journalled(tmp_path / "j") == {"a"}
    data = (tmp_path / "j").read_bytes()
    assert main(["serve", *OPTIONS]) == 2
    assert "j: exists already" in capsys.readouterr().err
    assert (tmp_path / "j").read_bytes() == data


def test_server_that_cannot_listen_leaves_no_journal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    with serving(tmp_path) as (_, url):
        port = url.rpartition(":")[2]
        assert main(["serve", "--port", port, "--journal", "other"]) == 2
        assert "cannot listen" in capsys.readouterr().err
    assert not (tmp_path / "other").exists()


REVIEWS = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
REVIEW = {"spec": {"resourceAttributes": {"verb": "get", "resource": "pods"}}}


def test_writes_are_refused_and_reads_served_once_the_journal_is_full(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with serving(tmp_path, file_size=20_000) as (server, url), client_of(tmp_path, url) as client:
        acknowledged = []
        assert "[+]journal ok" in client.get("/readyz?verbose").text
        for number in range(1000):
            name = f"m{number}"
            answer = client.post(MAPS, json={"metadata": {"name": name}, "data": {"k": "v" * 500}})
            if answer.status_code != 201:
                break
            acknowledged.append(name)
        assert (answer.status_code, answer.json()["reason"]) == (500, "InternalError")
        assert "the journal of this server cannot be written" in answer.json()["message"]
        assert client.delete(f"{MAPS}/m0").status_code == 500
        dry = client.post(f"{MAPS}?dryRun=All", json={"metadata": {"name": "dry"}})
        assert (dry.status_code, client.post(REVIEWS, json=REVIEW).status_code) == (201, 201)
        ready, live = client.get("/readyz"), client.get("/livez")
        assert (ready.status_code, "[-]journal failed" in ready.text, live.status_code) == (500, True, 200)
        names = {each["metadata"]["name"] for each in client.get(MAPS).json()["items"]}
        assert names - {"kube-root-ca.crt"} == {*acknowledged}
        server.send_signal(signal.SIGTERM)
        assert server.wait(WAIT_S) == 0
        assert server.stderr is not None
        assert "j: the journal ends here: File too large; requests" in server.stderr.read()
    assert acknowledged and journalled(tmp_path / "j") == {*acknowledged}
    assert main(["replay", str(tmp_path / "j"), "--json"]) == 0
    said = capsys.readouterr()
    assert msgspec.json.decode(said.out)["as_served"] is True
    assert "left out" not in said.err
    found = re.search(
        r"the journal could not be written from .* on \(File too large\): what was served", said.err
    )
    assert found is not None


def test_client_configuration_with_other_clusters_is_not_replaced_unless_forced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    mine = "clusters: [{name: production}]\ncontexts: [{name: production}]\n"
    (tmp_path / "config").write_text(mine)
    assert main(["serve", *OPTIONS]) == 2
    assert "config: exists already, and was not written" in capsys.readouterr().err
    assert ((tmp_path / "config").read_text(), (tmp_path / "j").exists()) == (mine, False)
    with serving(tmp_path, "--force") as (_, url), client_of(tmp_path, url) as client:
        assert client.get(MAPS).status_code == 200
    (tmp_path / "j").unlink()
    with serving(tmp_path) as (_, url), client_of(tmp_path, url) as client:
        assert client.get(MAPS).status_code == 200
