"""The secure ports of a controller manager and a scheduler: rights of clients."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from sim.wire.authority import Authority
from sim.wire.tls import client_context
from tests.cluster.daemons.running import (
    api_server,
    client_of,
    config_of,
    daemon,
    free_port,
    process,
    until,
)

PAGES = ("/metrics", "/configz", "/debug/pprof/", "/debug/flags/v", "/debug/pprof/profile", "/", "/nothing")
ROLE = {
    "apiVersion": "rbac.authorization.k8s.io/v1",
    "kind": "ClusterRole",
    "metadata": {"name": "reader"},
    "rules": [{"nonResourceURLs": ["/metrics"], "verbs": ["get"]}],
}
BINDING = {
    "apiVersion": "rbac.authorization.k8s.io/v1",
    "kind": "ClusterRoleBinding",
    "metadata": {"name": "reader"},
    "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "reader"},
    "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "someone"}],
}
RBAC = "/apis/rbac.authorization.k8s.io/v1"
USERS = {"kube-controller-manager": "manager", "kube-scheduler": "scheduler"}


@contextmanager
def component(folder: Path, command: str, url: str, *words: str) -> Iterator[tuple[str, Path]]:
    """A component with a secure port; yields the URL of the port and the log."""
    port, log, config = free_port(), folder / f"{command}.log", config_of(folder, url, USERS[command])
    given = [
        f"--{name}={config}"
        for name in ("kubeconfig", "authentication-kubeconfig", "authorization-kubeconfig")
    ]
    secure = (f"--secure-port={port}", "--bind-address=127.0.0.1", f"--cert-dir={folder / command}")
    with process(daemon(command, *given, *secure, *words), log):
        until(lambda: "Serving securely" in log.read_text(), log)
        yield f"https://127.0.0.1:{port}", log


def client(folder: Path, command: str, token: str = "", pair: bytes = b"") -> httpx.Client:
    """A client that trusts the certificate of a component."""
    trusted = (folder / command / f"{command}.crt").read_bytes()
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    return httpx.Client(verify=client_context(trusted, pair), headers=headers, timeout=30)


@pytest.mark.slow
@pytest.mark.parametrize("command", sorted(USERS))
def test_the_port_gives_only_what_the_api_server_allows(command: str, tmp_path: Path) -> None:
    authority, ca = Authority("clients"), tmp_path / "clients.pem"
    ca.write_bytes(authority.pem)
    known = f"--client-ca-file={ca}"
    with api_server(tmp_path, known) as (_, api), component(tmp_path, command, api) as (url, log):
        key = tmp_path / command / f"{command}.key"
        assert key.stat().st_mode & 0o777 == 0o600
        with client_of(config_of(tmp_path, api, "admin")) as admin:
            for plural, body in (("clusterroles", ROLE), ("clusterrolebindings", BINDING)):
                assert admin.post(f"{RBAC}/{plural}", json=body).status_code == 201
        with client(tmp_path, command) as unknown:
            found = {path: unknown.get(url + path).status_code for path in PAGES}
            assert found == dict.fromkeys(PAGES, 403)
            assert unknown.put(f"{url}/debug/flags/v", content=b"9").status_code == 403
            assert {unknown.get(f"{url}/{path}").text for path in ("healthz", "livez", "readyz")} == {"ok"}
            assert unknown.get(f"{url}/healthz/leaderElection").status_code == 403
            refused = unknown.get(f"{url}/metrics").json()
            assert refused["message"] == 'forbidden: User "system:anonymous" cannot get path "/metrics"'
        with client(tmp_path, command, "nobody's") as wrong:
            assert {wrong.get(url + path).status_code for path in (*PAGES, "/healthz")} == {401}
        with client(tmp_path, command, "someone") as reader:
            assert reader.get(f"{url}/configz").status_code == 403
            assert "kubernetes_build_info" in reader.get(f"{url}/metrics").text
        with client(tmp_path, command, "admin") as master:
            until(lambda: "leaderElection ok" in master.get(f"{url}/healthz?verbose").text, log)
            assert "leader_election_master_status" in master.get(f"{url}/metrics").text
            resources = master.get(f"{url}/metrics/resources").status_code
            assert resources == (200 if command == "kube-scheduler" else 404)
            assert list(master.get(f"{url}/configz").json()) != []
            assert master.get(f"{url}/debug/flags/v").status_code == 406
            done = master.put(f"{url}/debug/flags/v", content=b"7").text
            assert done == "successfully set klog.logging.verbosity to 7\n"
            assert master.get(f"{url}/debug/pprof/profile?seconds=1").content[:2] == b"\x1f\x8b"
        made = authority.client("x", ("system:masters",))  # by an authority of the API server
        with client(tmp_path, command, pair=made.certificate + b"\n" + made.key) as certified:
            assert certified.get(f"{url}/metrics").status_code == 200
        assert "nobody's" not in log.read_text()


@pytest.mark.slow
def test_certificates_of_clients_and_proxies_are_believed(tmp_path: Path) -> None:
    command, clients, proxies = "kube-scheduler", Authority("clients"), Authority("proxies")
    for name, authority in (("clients", clients), ("proxies", proxies)):
        (tmp_path / f"{name}.pem").write_bytes(authority.pem)
    words = (
        f"--client-ca-file={tmp_path / 'clients.pem'}",
        f"--requestheader-client-ca-file={tmp_path / 'proxies.pem'}",
        "--requestheader-allowed-names=front",
        "--tls-min-version=VersionTLS13",
    )
    with api_server(tmp_path) as (_, api), component(tmp_path, command, api, *words) as (url, _):

        def status(made: Authority, user: str, groups: tuple[str, ...] = (), **headers: str) -> int:
            pair = made.client(user, groups)
            with client(tmp_path, command, pair=pair.certificate + b"\n" + pair.key) as one:
                shown = {name.replace("_", "-"): value for name, value in headers.items()}
                return one.get(f"{url}/metrics", headers=shown).status_code

        assert status(clients, "x", ("system:masters",)) == 200
        assert status(clients, "x") == 403
        as_master = {"x_remote_user": "x", "x_remote_group": "system:masters"}
        assert status(proxies, "front", **as_master) == 200
        assert status(proxies, "another", **as_master) == 401
        assert status(clients, "front", **as_master) == 403  # it is no proxy's
        old = client_context((tmp_path / command / f"{command}.crt").read_bytes())
        old.maximum_version = ssl.TLSVersion.TLSv1_2
        with httpx.Client(verify=old) as late, pytest.raises(httpx.ConnectError):
            late.get(f"{url}/healthz")


@pytest.mark.slow
def test_no_port_is_opened_where_none_is_wanted(tmp_path: Path) -> None:
    log = tmp_path / "log"
    with api_server(tmp_path) as (_, api):
        config = config_of(tmp_path, api, "scheduler")
        with (
            process(daemon("kube-scheduler", f"--kubeconfig={config}", "--secure-port=0"), log),
            client_of(config_of(tmp_path, api, "admin")) as admin,
        ):
            lease = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/kube-scheduler"
            until(lambda: admin.get(lease).status_code == 200, log)
        assert "Serving securely" not in log.read_text()
        with socket.create_server(("127.0.0.1", 0)) as other:
            port = other.getsockname()[1]
            words = (f"--kubeconfig={config}", f"--secure-port={port}", "--bind-address=127.0.0.1")
            with process(daemon("kube-scheduler", *words), log) as taken:
                assert taken.wait(60) == 1
        assert "failed to listen on 127.0.0.1" in log.read_text()
