"""`orrery certs`: the files of a cluster of processes."""

from __future__ import annotations

import ssl
from pathlib import Path

import pytest
import yaml
from cryptography import x509
from cryptography.x509.oid import NameOID

from sim.app.cli.main import main
from sim.wire.rest.access import access_of
from sim.wire.tls import client_context

MADE = ["admin.conf", "apiserver-kubelet-client.crt", "apiserver-kubelet-client.key", "apiserver.crt"]
MADE += ["apiserver.key", "ca.crt", "ca.key", "controller-manager.conf"]
MADE += ["kubelet-a.conf", "sa.key", "sa.pub", "scheduler.conf"]


def contents(folder: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in sorted(folder.iterdir())}


def identity(config: Path) -> tuple[str, list[str]]:
    """User and groups of the certificate in a client configuration."""
    access = access_of(yaml.safe_load(config.read_text()), config.parent)
    subject = x509.load_pem_x509_certificate(access.certificate.read()).subject
    names = [str(each.value) for each in subject.get_attributes_for_oid(NameOID.COMMON_NAME)]
    return names[0], [str(each.value) for each in subject.get_attributes_for_oid(NameOID.ORGANIZATION_NAME)]


def test_files_are_for_their_owner_and_name_kubeadms_users(tmp_path: Path) -> None:
    folder = tmp_path / "certs"
    assert main(["certs", str(folder), "--node", "a"]) == 0
    assert list(contents(folder)) == MADE
    assert {file.stat().st_mode & 0o777 for file in folder.iterdir()} == {0o600}
    assert folder.stat().st_mode & 0o777 == 0o700
    assert {name: identity(folder / name) for name in MADE if name.endswith(".conf")} == {
        "admin.conf": ("kubernetes-admin", ["system:masters"]),
        "controller-manager.conf": ("system:kube-controller-manager", []),
        "scheduler.conf": ("system:kube-scheduler", []),
        "kubelet-a.conf": ("system:node:a", ["system:nodes"]),
    }


def test_files_that_exist_are_kept_and_a_node_is_added(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["certs", str(tmp_path), "--server", "https://10.0.0.1:1", "--node", "a"]) == 0
    first = contents(tmp_path)
    capsys.readouterr()
    assert main(["certs", str(tmp_path), "--server", "https://10.0.0.1:1", "--node", "b"]) == 0
    assert [line for line in capsys.readouterr().out.splitlines() if not line.startswith("kept")] == [
        f"wrote {tmp_path / 'kubelet-b.conf'}"
    ]
    second = contents(tmp_path)
    assert {name: second[name] for name in first} == first
    added = access_of(yaml.safe_load(second["kubelet-b.conf"]), tmp_path)
    assert added.server == "https://10.0.0.1:1"
    pair = added.certificate.read() + b"\n" + added.key.read()
    assert isinstance(client_context(second["ca.crt"], pair), ssl.SSLContext)
    served = x509.load_pem_x509_certificate(second["apiserver.crt"])
    names = served.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert "10.0.0.1" in [str(each) for each in names.get_values_for_type(x509.IPAddress)]


@pytest.mark.parametrize(
    ("file", "content", "text"),
    [
        ("ca.crt", b"mine", "the other file of this pair is missing"),
        ("sa.key", b"mine", "the other file of this pair is missing"),
        ("apiserver.key", b"mine", "the other file of this pair is missing"),
    ],
)
def test_half_a_pair_is_refused_and_kept(
    file: str, content: bytes, text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / file).write_bytes(content)
    assert main(["certs", str(tmp_path)]) == 2
    assert text in capsys.readouterr().err
    assert contents(tmp_path) == {file: content}


def test_an_authority_with_another_key_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for folder in ("a", "b"):
        assert main(["certs", str(tmp_path / folder)]) == 0
    (tmp_path / "a" / "ca.key").replace(tmp_path / "b" / "ca.key")
    assert main(["certs", str(tmp_path / "b"), "--node", "a"]) == 2
    assert "the key is that of another certificate" in capsys.readouterr().err
    assert not (tmp_path / "b" / "kubelet-a.conf").exists()


@pytest.mark.parametrize(
    "words", [("--node", "../x"), ("--node", "A"), ("--server", "http://a"), ("--server", "a")]
)
def test_wrong_names_are_refused(words: tuple[str, str], tmp_path: Path) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["certs", str(tmp_path), *words])
    assert ended.value.code == 2
    assert contents(tmp_path) == {}
