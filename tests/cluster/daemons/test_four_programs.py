"""A cluster of processes that were started by hand: work continues after `kill -9`."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.cluster.daemons.running import USERS, client_of, config_of, daemon, free_port, until
from tests.cluster.daemons.test_controllers_alone import DEPLOYMENTS, WEB

PODS = "/api/v1/namespaces/default/pods"
NODES = "/api/v1/nodes"
MERGE = {"Content-Type": "application/merge-patch+json"}
ELECTION = (
    "--leader-elect-lease-duration=4s",
    "--leader-elect-renew-deadline=3s",
    "--leader-elect-retry-period=1s",
)


class Programs:
    """The processes of a cluster by name, each of which can be killed and started again."""

    def __init__(self, folder: Path, words: dict[str, Sequence[str]]) -> None:
        self._folder, self._words = folder, words
        self._running: dict[str, subprocess.Popen[bytes]] = {}

    def log(self, name: str) -> Path:
        """What a process has said."""
        return self._folder / f"{name}.log"

    def start(self, *names: str) -> None:
        """Start processes."""
        for name in names:
            with self.log(name).open("ab") as output:
                words = [sys.executable, *self._words[name]]
                self._running[name] = subprocess.Popen(words, stdout=output, stderr=subprocess.STDOUT)

    def kill(self, *names: str) -> None:
        """End processes at once, all before any is waited for."""
        for name in names:
            self._running[name].kill()
        for name in names:
            self._running[name].wait()

    def revive(self) -> None:
        """Start those again that have ended by themselves, as a supervisor of the machine does.

        A process that was the leader ends if the API server is away for longer than its deadline.
        """
        self.start(*[name for name, process in self._running.items() if process.poll() is not None])

    def end(self) -> None:
        """End all."""
        self.kill(*self._running)


@contextmanager
def cluster(folder: Path) -> Iterator[tuple[Programs, httpx.Client, Sequence[str]]]:
    """An API server with a data directory, a controller manager, a scheduler and two agents."""
    url = f"https://127.0.0.1:{free_port()}"
    (folder / "users.csv").write_text(USERS)
    access = {
        user: f"--kubeconfig={config_of(folder, url, user)}" for user in ("manager", "scheduler", "n1", "n2")
    }
    server = daemon(
        "kube-apiserver",
        f"--token-auth-file={folder / 'users.csv'}",
        f"--cert-dir={folder / 'certs'}",
        f"--secure-port={url.rpartition(':')[2]}",
        f"--data-dir={folder / 'data'}",
        "--bind-address=127.0.0.1",
        "--authorization-mode=Node,RBAC",
    )
    own = "--use-service-account-credentials"
    words = {
        "server": server,
        "manager": daemon("kube-controller-manager", access["manager"], own, *ELECTION),
        "scheduler": daemon("kube-scheduler", access["scheduler"], *ELECTION),
    }
    for name in ("n1", "n2"):
        ports = (f"--port={free_port()}", "--read-only-port=0", "--healthz-port=0")
        words[name] = daemon(
            "kubelet", access[name], f"--hostname-override={name}", *ports, f"--cert-dir={folder / name}"
        )
    programs = Programs(folder, words)
    try:
        programs.start("server")
        until(lambda: "Serving securely" in programs.log("server").read_text(), programs.log("server"))
        programs.start("manager", "scheduler", "n1", "n2")
        with client_of(config_of(folder, url, "admin")) as client:
            yield programs, client, tuple(words)
    finally:
        programs.end()


def asked(client: httpx.Client, url: str) -> dict[str, Any]:
    """What a server that may be away answers; {} without an answer."""
    try:
        found = client.get(url)
    except httpx.TransportError:
        return {}
    return dict(found.json()) if found.status_code == 200 else {}


def scale(client: httpx.Client, programs: Programs, replicas: int) -> None:
    """Ask for so many pods, and wait until they are available."""

    def accepted() -> bool:
        try:
            body = {"spec": {"replicas": replicas}}
            return client.patch(f"{DEPLOYMENTS}/web", json=body, headers=MERGE).status_code == 200
        except httpx.TransportError:
            return False

    def available() -> bool:
        programs.revive()
        status = asked(client, f"{DEPLOYMENTS}/web").get("status", {})
        return bool(status.get("availableReplicas") == status.get("replicas") == replicas)

    until(accepted, programs.log("server"))
    until(available, programs.log("manager"))


def boots(client: httpx.Client) -> dict[str, str]:
    """The boot id of each node."""
    found = asked(client, NODES).get("items", ())
    return {node["metadata"]["name"]: node["status"].get("nodeInfo", {}).get("bootID", "") for node in found}


def drain(client: httpx.Client, programs: Programs, node: str) -> None:
    """Cordon a node and evict its pods, and wait until none is left there."""
    assert client.patch(f"{NODES}/{node}", json={"spec": {"unschedulable": True}}, headers=MERGE).is_success
    there = f"{PODS}?fieldSelector=spec.nodeName={node}"
    for pod in client.get(there).json()["items"]:
        name = {"name": pod["metadata"]["name"], "namespace": "default"}
        eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": name}
        assert client.post(f"{PODS}/{name['name']}/eviction", json=eviction).status_code == 201
    until(lambda: asked(client, there).get("items") == [], programs.log(node))


@pytest.mark.slow
def test_work_continues_after_each_process_and_all_are_killed(tmp_path: Path) -> None:
    with cluster(tmp_path) as (programs, client, names):
        until(lambda: len(boots(client)) == 2, programs.log("n1"))
        assert client.post(DEPLOYMENTS, json=WEB).status_code == 201
        scale(client, programs, 2)
        uid = client.get(f"{DEPLOYMENTS}/web").json()["metadata"]["uid"]
        for replicas, name in enumerate(names, 3):
            programs.kill(name)
            programs.start(name)
            scale(client, programs, replicas)
        before = boots(client)
        programs.kill(*names)
        programs.start(*names)
        scale(client, programs, 3)
        until(lambda: {*boots(client).values()}.isdisjoint(before.values()), programs.log("n1"))
        assert client.get(f"{DEPLOYMENTS}/web").json()["metadata"]["uid"] == uid
        drain(client, programs, "n1")
        scale(client, programs, 3)
        for pod in client.get(PODS).json()["items"]:
            # Through the agent of its node.
            log = client.get(f"{PODS}/{pod['metadata']['name']}/log")
            assert (log.status_code, "ready for start up" in log.text) == (200, True)
        client.delete(f"{DEPLOYMENTS}/web", params={"propagationPolicy": "Background"})
        until(lambda: asked(client, PODS).get("items") == [], programs.log("n2"))
