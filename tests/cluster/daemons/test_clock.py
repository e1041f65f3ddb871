"""Processes that follow the virtual time of a served cluster: at any pace, paused, stepped."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

import httpx
import pytest

from sim.app.cli.main import main
from sim.app.serving.journal import read_journal
from sim.wire.http.gateway import unpack
from tests.cluster.daemons.running import (
    CONTROL_PLANE_AWAY,
    api_server,
    client_of,
    config_of,
    daemon,
    free_port,
    process,
    until,
)
from tests.cluster.daemons.test_controllers_alone import DEPLOYMENTS, LEASES, WEB, available

TIME = "/orrery/v1/time"
NAMES = ("kube-controller-manager", "kube-scheduler")


@contextmanager
def followed(folder: Path, *words: str) -> Iterator[httpx.Client]:
    """A served cluster, with time at rest, and two processes that follow it."""
    file, config, log = folder / "alone.yaml", folder / "config", folder / "serve.log"
    file.write_text(CONTROL_PLANE_AWAY)
    serve = ["-m", "sim.app.cli.main", "serve", str(file), "--naming=kubernetes", "--port=0", "--pace=0"]
    with process([*serve, f"--client-config={config}", *words], log) as server:
        until(config.exists, log)
        with client_of(config) as client:
            access = f"--kubeconfig={config}", f"--clock={client.base_url}", "--secure-port=0"
            manager_log = folder / "manager.log"
            with (
                process(daemon(NAMES[0], *access, "--use-service-account-credentials"), manager_log),
                process(daemon(NAMES[1], *access), folder / "scheduler.log"),
            ):
                until(lambda: len(clocks(client)) == 2, manager_log)
                yield client
        server.send_signal(signal.SIGINT)
        assert server.wait(60) == 0


def clocks(client: httpx.Client) -> list[str]:
    found: list[str] = client.get("/orrery/v1/state").json()["clocks"]
    return found


def move(client: httpx.Client, path: str, **body: Any) -> dict[str, Any]:
    method = "PUT" if path == "pace" else "POST"
    answer = client.request(method, f"{TIME}/{path}", json=body, timeout=120)
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


def leases(client: httpx.Client) -> dict[str, tuple[str, int]]:
    """Holder and changes of hands of the leases of both processes."""
    found = {}
    for name in NAMES:
        spec = client.get(f"{LEASES}/{name}").json().get("spec", {})
        found[name] = spec.get("holderIdentity", ""), spec.get("leaseTransitions", 0)
    return found


def conditions(client: httpx.Client) -> list[tuple[str, str, str]]:
    """Name, readiness and its last change of each node."""
    return [
        (node["metadata"]["name"], each["status"], each["lastTransitionTime"])
        for node in client.get("/api/v1/nodes").json()["items"]
        for each in node["status"]["conditions"]
        if each["type"] == "Ready"
    ]


@pytest.mark.slow
def test_neither_pace_nor_pauses_nor_steps_lose_a_lease_or_a_node(tmp_path: Path) -> None:
    with followed(tmp_path) as client:
        assert move(client, "run", **{"for": "1m", "fast": True})["reached"]
        assert client.post(DEPLOYMENTS, json=WEB).status_code == 201
        assert move(client, "run", **{"for": "1m", "fast": True})["reached"]
        assert available(client) == 2
        held, ready = leases(client), conditions(client)
        assert [holder != "" for holder, _ in held.values()] == [True, True]
        assert {status for _, status, _ in ready} == {"True"}
        move(client, "pace", pace=60)
        move(client, "resume")
        time.sleep(2)
        paused_us = move(client, "pause")["virtual_us"]
        time.sleep(2)
        assert move(client, "step", events=100)["virtual_us"] >= paused_us
        assert move(client, "run", **{"for": "2m", "fast": True})["reached"]
        assert leases(client) == held
        assert conditions(client) == ready


END_US = 60_000_000  # of a run: the server may have ended when what is sent at that instant comes


def writes(journal: Path) -> list[tuple[Any, ...]]:
    """What the operations of a journal write before its end: instant, user, verb and object."""
    return [
        (operation.at_us, request.user.name, request.verb, request.resource, request.namespace, request.name)
        for operation in read_journal(journal).operations
        if operation.name == "request" and operation.at_us < END_US
        for request in [unpack(operation.payload[:4])]
        if request.verb not in ("get", "list", "watch")
    ]


@pytest.mark.slow
def test_writes_repeat_in_lockstep_and_the_journal_replays_to_its_hash(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    runs = []
    for number in range(2):
        folder = tmp_path / str(number)
        folder.mkdir()
        journal = folder / "journal"
        with followed(folder, f"--journal={journal}", "--seed=7", "--wait-for-clocks=2") as client:
            assert move(client, "run", **{"for": "30s", "fast": True})["reached"]
            assert client.post(DEPLOYMENTS, json=WEB).status_code == 201
            assert move(client, "run", **{"for": "30s", "fast": True})["reached"]
            assert available(client) == 2
        runs.append(writes(journal))
    assert {write[1] for write in runs[0]} != set()
    assert len(runs[0]) > 50
    assert runs[0] == runs[1]
    assert main(["replay", str(journal), "-q"]) == 0
    assert "differs" not in capsys.readouterr().out


EMPTY = """\
apiVersion: orrery.dev/v1
kind: Scenario
metadata: {name: clock}
spec:
  duration: 24h
  cluster: {nodes: [{count: 1}]}
"""


@contextmanager
def four_followers(folder: Path) -> Iterator[tuple[httpx.Client, httpx.Client]]:
    """A clock that is served, and a cluster of four processes in its time.

    Yields clients of both.
    """
    (folder / "clock").mkdir()
    file, config, log = folder / "clock.yaml", folder / "clock.config", folder / "clock.log"
    file.write_text(EMPTY)
    serve = ["-m", "sim.app.cli.main", "serve", str(file), "--naming=kubernetes", "--port=0", "--pace=0"]
    with process([*serve, f"--client-config={config}"], log):
        until(config.exists, log)
        with client_of(config) as clock:
            own = f"--clock={clock.base_url}", f"--clock-config={config}"
            with (
                api_server(folder, *own) as (_, url),
                client_of(config_of(folder, url, "admin")) as client,
                process(
                    follower(folder, url, NAMES[0], "manager", "--secure-port=0"), folder / "manager.log"
                ),
                process(follower(folder, url, NAMES[1], "scheduler", "--secure-port=0"), folder / "s.log"),
                process(
                    follower(folder, url, "kubelet", "n1", *AGENT, f"--cert-dir={folder}"), folder / "n.log"
                ),
            ):

                def registered() -> bool:
                    move(clock, "run", **{"for": "10s", "fast": True})
                    return client.get("/api/v1/nodes/n1").status_code == 200

                until(registered, folder / "n.log")
                yield clock, client


AGENT = ("--hostname-override=n1", f"--port={free_port()}", "--read-only-port=0", "--healthz-port=0")


def follower(folder: Path, url: str, command: str, user: str, *words: str) -> list[str]:
    """The words of a component that follows the API server, with the rights of an administrator."""
    access = (
        f"--kubeconfig={config_of(folder, url, user)}",
        f"--clock-config={config_of(folder, url, 'admin')}",
    )
    return daemon(command, *access, f"--clock={url}", *words)


@pytest.mark.slow
def test_a_cluster_of_four_processes_lives_in_the_time_of_another(tmp_path: Path) -> None:
    with four_followers(tmp_path) as (clock, client):
        assert clocks(clock) == ["apiserver"]
        assert move(clock, "run", **{"for": "2m", "fast": True})["reached"]
        assert client.post(DEPLOYMENTS, json=WEB).status_code == 201
        begun_us = move(clock, "run", **{"for": "1m", "fast": True})["virtual_us"]
        assert available(client) == 2
        held, ready = leases(client), conditions(client)
        assert [holder != "" for holder, _ in held.values()] == [True, True]
        assert move(clock, "run", **{"for": "3m", "fast": True})["virtual_us"] == begun_us + 180_000_000
        assert leases(client) == held
        assert conditions(client) == ready
        made = client.post("/api/v1/namespaces", json={"metadata": {"name": "late"}}).json()["metadata"]
        begun = client.get(f"{DEPLOYMENTS}/web").json()["metadata"]
        times = [datetime.fromisoformat(each["creationTimestamp"]) for each in (begun, made)]
        assert 240 <= (times[1] - times[0]).total_seconds() <= 241
