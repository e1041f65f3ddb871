"""Programs of this checkout as processes, for tests of components that run alone."""

from __future__ import annotations

import shutil
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest
import yaml

from sim.wire.rest.access import access_of
from sim.wire.tls import client_context

PROGRAM = "import sys; sys.argv = sys.argv[1:]; from sim.app.daemons.commands import main; sys.exit(main())"
LIMIT_S = 60.0  # real seconds, of a machine that does much else
STEP_S = 0.05
CONTROL_PLANE_AWAY = """\
apiVersion: orrery.dev/v1
kind: Scenario
metadata: {name: alone}
spec:
  duration: 24h
  cluster: {nodes: [{count: 2}], controllerManager: {replicas: 0}, scheduler: {replicas: 0}}
"""


@contextmanager
def process(words: Sequence[str], log: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A process of Python with these words, ended at the end.  log: takes what it says"""
    with log.open("wb") as output:
        running = subprocess.Popen([sys.executable, *words], stdout=output, stderr=subprocess.STDOUT)
        try:
            yield running
        finally:
            running.kill()
            running.wait()


def daemon(command: str, *words: str, first: str = "") -> list[str]:
    """The words of a component that runs alone under the name of a command.

    first: a statement that runs before it
    """
    return ["-c", f"{first}\n{PROGRAM}", command, *words]


def until(condition: Callable[[], bool], log: Path) -> None:
    """Wait for a condition.  Fails with what a process has said."""
    end_s = time.monotonic() + LIMIT_S
    while not condition():
        assert time.monotonic() < end_s, log.read_text()
        time.sleep(STEP_S)


@contextmanager
def served(folder: Path, scenario: str = CONTROL_PLANE_AWAY) -> Iterator[Path]:
    """`orrery serve` of a scenario; yields the client configuration of its administrator."""
    file, config, log = folder / "alone.yaml", folder / "config", folder / "serve.log"
    file.write_text(scenario)
    words = ["-m", "sim.app.cli.main", "serve", str(file), "--naming", "kubernetes", "--port", "0"]
    with process([*words, "--client-config", str(config)], log):
        until(config.exists, log)
        yield config


USERS = """\
admin,admin,1,"system:masters"
manager,system:kube-controller-manager,2
scheduler,system:kube-scheduler,3
n1,system:node:n1,4,"system:nodes"
n2,system:node:n2,5,"system:nodes"
someone,someone,6
"""


def config_of(folder: Path, url: str, user: str) -> Path:
    """Write the client configuration of a user of `USERS` for an API server that runs alone."""
    file = folder / f"{user}.config"
    file.write_text(
        "current-context: c\ncontexts: [{name: c, context: {cluster: c, user: u}}]\n"
        f"clusters: [{{name: c, cluster: {{server: '{url}', certificate-authority: certs/apiserver.crt}}}}]\n"
        f"users: [{{name: u, user: {{token: {user}}}}}]\n"
    )
    return file


def free_port() -> int:
    """A port that nothing uses now."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


@contextmanager
def api_server(folder: Path, *words: str, first: str = "") -> Iterator[tuple[subprocess.Popen[bytes], str]]:
    """An API server that runs alone, with the users of `USERS`; yields its process and its URL.

    first: a statement that runs before it
    """
    users, log, port = folder / "users.csv", folder / "api-server.log", free_port()
    users.write_text(USERS)
    common = (f"--token-auth-file={users}", f"--cert-dir={folder / 'certs'}", f"--secure-port={port}")
    command = daemon("kube-apiserver", *common, "--bind-address=127.0.0.1", *words, first=first)
    with process(command, log) as server:
        until(lambda: "Serving securely" in log.read_text(), log)
        yield server, f"https://127.0.0.1:{port}"


def client_of(config: Path, *, http2: bool = False) -> httpx.Client:
    """A client with a client configuration."""
    access = access_of(yaml.safe_load(config.read_text()), config.parent)
    pair = access.certificate.read() + b"\n" + access.key.read() if access.certificate else b""
    context = client_context(access.authorities.read(), pair)
    headers = {"Authorization": f"Bearer {access.token.read().decode()}"} if access.token else {}
    if http2:
        context.set_alpn_protocols(["h2"])
    return httpx.Client(
        base_url=access.server, verify=context, timeout=30, headers=headers, http1=not http2, http2=http2
    )


ETCD = shutil.which("etcd")
needs_etcd = pytest.mark.skipif(
    ETCD is None, reason="etcd is not installed: install etcd-server of Debian to test API servers over it"
)


@contextmanager
def etcd(
    folder: Path, *words: str, port: int = 0, context: ssl.SSLContext | None = None
) -> Iterator[tuple[subprocess.Popen[bytes], str]]:
    """A real etcd of one member; yields its process and its URL.

    port: 0 for a free one
    context: TLS of its clients, if it is reached by https
    """
    assert ETCD is not None
    peer = f"http://127.0.0.1:{free_port()}"
    client = f"{'https' if context else 'http'}://127.0.0.1:{port or free_port()}"
    log = folder / "etcd.log"
    options = (
        f"--data-dir={folder / 'etcd'}",
        f"--listen-client-urls={client}",
        f"--advertise-client-urls={client}",
        f"--listen-peer-urls={peer}",
        f"--initial-advertise-peer-urls={peer}",
        f"--initial-cluster=default={peer}",
    )
    with log.open("ab") as output:
        running = subprocess.Popen([ETCD, *options, *words], stdout=output, stderr=subprocess.STDOUT)
    try:
        until(lambda: _answers(f"{client}/health", context), log)
        yield running, client
    finally:
        running.kill()
        running.wait()


def _answers(url: str, context: ssl.SSLContext | None) -> bool:
    try:
        return httpx.get(url, verify=context or True).status_code == httpx.codes.OK
    except httpx.HTTPError:
        return False
