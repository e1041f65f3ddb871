"""What an API server that runs alone says to wrong options and files: one line, and status 1."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from actors.storage.memory import MemoryStore
from sim.app.daemons.commands import main
from sim.app.daemons.durable import DurableStore
from sim.units import Virtual, Wall
from sim.wire.authority import Authority
from tests.cluster.daemons.running import free_port

HEAD = "kube-apiserver: "


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """Files of all sorts, none of which may change."""
    authority = Authority("ca")
    one, other = authority.server(("localhost",)), authority.server(("localhost",))
    files = {
        "one.crt": one.certificate,
        "one.key": one.key,
        "other.key": other.key,
        "text": b"no certificate",
        "users": b"token,user",
        "policy": b"apiVersion: audit.k8s.io/v1\nkind: Policy\nrules: [{level: Everything}]\n",
        "damaged/log": b"no log",
        "half/apiserver.key": one.key,
    }
    for name, content in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(content)
    store = DurableStore(tmp_path / "orch", "orch", Wall(0))
    store.open(MemoryStore(lambda: Virtual(0)))
    store.close()
    before = contents(tmp_path)
    yield tmp_path
    after = contents(tmp_path)
    assert {name: after.get(name) for name in before} == before


def contents(folder: Path) -> dict[str, bytes]:
    return {str(file.relative_to(folder)): file.read_bytes() for file in folder.rglob("*") if file.is_file()}


def said(
    words: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], folder: Path
) -> str:
    """The only line on standard error."""
    monkeypatch.setattr("sys.argv", ["kube-apiserver"])
    given = [word.format(folder=folder) for word in words]
    bound = [] if any("--bind-address" in word for word in given) else ["--bind-address=127.0.0.1"]
    certs = [] if any("--cert-dir" in word for word in given) else [f"--cert-dir={folder / 'certs'}"]
    # Another server of this machine may have the default port.
    assert main([f"--secure-port={free_port()}", *bound, *certs, *given]) == 1
    lines = capsys.readouterr().err.splitlines()
    problems = [line for line in lines if not line.startswith(("I", "See '"))]
    assert len(problems) == 1, lines
    return problems[0]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["--nope=1"], "Error: unknown flag: --nope"),
        (["--secure-port"], "Error: flag needs an argument: --secure-port"),
        (["--secure-port=0"], "--secure-port: option secure-port is '0', must be between 1 and 65535"),
        (["--bind-address=here"], "--bind-address: option bind-address is 'here', failed to parse IP"),
        (["serve"], 'Error: unknown command "serve"'),
        (["--cloud-config=x"], "--cloud-config: has no effect here: v1.25 reads it, and nothing uses it"),
        (["--tls-cert-file={folder}/one.crt"], "tls-cert-file and tls-private-key-file are given together"),
        (
            ["--tls-cert-file={folder}/none.crt", "--tls-private-key-file={folder}/one.key"],
            "none.crt: no such file",
        ),
        (
            ["--tls-cert-file={folder}/one.crt", "--tls-private-key-file={folder}/other.key"],
            "--tls-cert-file: the certificate and its key cannot be used",
        ),
        (
            ["--tls-cert-file={folder}/text", "--tls-private-key-file={folder}/text"],
            "--tls-cert-file: the certificate and its key cannot be used",
        ),
        (["--tls-sni-cert-key={folder}/one.crt"], "comma separated certificate and key file paths"),
        (["--cert-dir={folder}/half"], "the other file of this pair is missing"),
        (["--client-ca-file={folder}/text"], "option client-ca-file"),
        (["--token-auth-file={folder}/users"], "a line needs token, user and uid"),
        (["--kubelet-client-certificate={folder}/one.crt"], "let-client-key are given together"),
        (["--kubelet-certificate-authority={folder}/none"], "none: no such file"),
        (["--authorization-mode=ABAC"], "authorization policy file not passed"),
        (["--oidc-issuer-url=http://x", "--oidc-client-id=a"], "requires https scheme"),
        (
            ["--audit-policy-file={folder}/policy", "--audit-log-path={folder}/audit"],
            "level",
        ),
        (["--data-dir={folder}/damaged"], "damaged/log: "),
        (["--data-dir={folder}/orch"], "holds a cluster with the naming orch"),
    ],
)
def test_wrong_input_ends_with_one_line_and_changes_nothing(
    words: list[str],
    text: str,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    line = said(words, monkeypatch, capsys, folder)
    assert text in line
    assert line.startswith(("Error: ", HEAD))


@pytest.mark.slow
def test_a_port_in_use_is_named(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        line = said([f"--secure-port={port}"], monkeypatch, capsys, folder)
    assert f"failed to listen on 127.0.0.1:{port}: address already in use" in line
    assert not (folder / "certs").exists()
