"""Two processes of a kind, one of which leads: a leader that is killed, and one that ends."""

from __future__ import annotations

import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import httpx
import pytest

from tests.cluster.daemons.running import api_server, client_of, config_of, daemon, process, until

LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases"
LEASE_S = 8
TIMES = (
    f"--leader-elect-lease-duration={LEASE_S}s",
    "--leader-elect-renew-deadline=6s",
    "--leader-elect-retry-period=1s",
    "--secure-port=0",
)
USERS = {"kube-controller-manager": "manager", "kube-scheduler": "scheduler"}
MIGRATION = """\
apiVersion: controllermanager.config.k8s.io/v1
kind: LeaderMigrationConfiguration
leaderName: moved
controllerLeaders: [{name: ttl, component: kube-controller-manager}]
"""
ROLES = "/apis/rbac.authorization.k8s.io/v1/namespaces/kube-system"
LOCKING = {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["get", "update"]}
BINDING = {
    "metadata": {"name": "moved"},
    "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "moved"},
    "subjects": [
        {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "system:kube-controller-manager"}
    ],
}
Running = dict[str, subprocess.Popen[bytes]]


@contextmanager
def two(folder: Path, command: str, url: str, *words: str) -> Iterator[tuple[Running, Path]]:
    """Two processes of a command; yields them by the name of their log, and the folder of the logs."""
    config = config_of(folder, url, USERS[command])
    with ExitStack() as stack:
        found = {
            name: stack.enter_context(
                process(daemon(command, f"--kubeconfig={config}", *TIMES, *words), folder / name)
            )
            for name in ("one", "two")
        }
        yield found, folder


def record(client: httpx.Client, name: str) -> dict[str, object]:
    spec: dict[str, object] = client.get(f"{LEASES}/{name}").json().get("spec", {})
    return spec


def leaders(folder: Path, lock: str) -> list[str]:
    """The processes that have said that they lead."""
    said = f"successfully acquired lease kube-system/{lock}"
    return [name for name in ("one", "two") if said in (folder / name).read_text()]


@pytest.mark.slow
@pytest.mark.parametrize("command", sorted(USERS))
def test_the_other_process_leads_after_a_kill(command: str, tmp_path: Path) -> None:
    with (
        api_server(tmp_path) as (_, url),
        two(tmp_path, command, url) as (running, logs),
        client_of(config_of(tmp_path, url, "admin")) as client,
    ):
        until(lambda: leaders(logs, command) != [], logs / "one")
        (first,) = leaders(logs, command)
        time.sleep(LEASE_S)  # an undisturbed lease stays with its holder
        assert leaders(logs, command) == [first]
        before = record(client, command)
        running[first].kill()
        killed_s = time.monotonic()
        until(lambda: record(client, command)["holderIdentity"] != before["holderIdentity"], logs / "one")
        took_s = time.monotonic() - killed_s
        # Not before the lease of the killed leader is over; a renewal may be a retry period old.
        assert took_s > LEASE_S - 2
        assert record(client, command)["leaseTransitions"] == 1
        assert leaders(logs, command) == ["one", "two"]


@pytest.mark.slow
def test_a_scheduler_that_ends_gives_its_lease_away_at_once(tmp_path: Path) -> None:
    lock = "kube-scheduler"
    with api_server(tmp_path) as (_, url), two(tmp_path, lock, url) as (running, logs):
        until(lambda: leaders(logs, lock) != [], logs / "one")
        (first,) = leaders(logs, lock)
        running[first].send_signal(signal.SIGTERM)
        assert running[first].wait(30) == 0
        until(lambda: leaders(logs, lock) == ["one", "two"], logs / "one")


@pytest.mark.slow
def test_migrated_controllers_have_a_lease_of_their_own(tmp_path: Path) -> None:
    command, file = "kube-controller-manager", tmp_path / "migration.yaml"
    file.write_text(MIGRATION)
    words = ("--enable-leader-migration", f"--leader-migration-config={file}")
    with (
        api_server(tmp_path) as (_, url),
        two(tmp_path, command, url, *words) as (_, logs),
        client_of(config_of(tmp_path, url, "admin")) as client,
    ):
        # Upstream's roles name the lock of the component alone, and so administrators add a role.
        refused = "error retrieving resource lock kube-system/moved"
        until(lambda: any(refused in (logs / name).read_text() for name in ("one", "two")), logs / "one")
        role = {"metadata": {"name": "moved"}, "rules": [LOCKING]}
        assert client.post(f"{ROLES}/roles", json=role).status_code == 201
        assert client.post(f"{ROLES}/rolebindings", json=BINDING).status_code == 201
        until(lambda: leaders(logs, "moved") != [], logs / "one")
        assert leaders(logs, "moved") == leaders(logs, command)
        assert record(client, "moved")["holderIdentity"] == record(client, command)["holderIdentity"]


@pytest.mark.slow
def test_both_processes_work_without_an_election(tmp_path: Path) -> None:
    command = "kube-controller-manager"
    with (
        api_server(tmp_path) as (_, url),
        two(tmp_path, command, url, "--leader-elect=false", "-v=6") as (_, logs),
        client_of(config_of(tmp_path, url, "admin")) as client,
    ):

        def working() -> list[str]:
            """The processes that have written something."""
            return [name for name in ("one", "two") if "HTTP Request: POST" in (logs / name).read_text()]

        until(lambda: working() == ["one", "two"], logs / "one")
        assert client.get(f"{LEASES}/{command}").status_code == 404
