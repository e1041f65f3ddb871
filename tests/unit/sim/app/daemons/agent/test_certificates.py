"""The files of a node agent's certificates, and the client configuration that names them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from sim.app.daemons.agent.access import certificate_of, connected, with_newest
from sim.app.daemons.agent.certificates import Folder, KeptCertificates
from sim.errors import InputError
from sim.ident import NAMES
from sim.wire.authority import Authority
from sim.wire.rest.access import Access

NAMES_ = NAMES["kubernetes"]


def issued(begin: datetime | None = None) -> bytes:
    """A certificate of some authority, PEM."""
    return Authority("ca", begin).server(("n1",)).certificate


def test_a_pair_is_private_and_the_link_names_the_newest(tmp_path: Path) -> None:
    changed: list[str] = []
    folder = Folder(tmp_path / "pki", "kubelet")
    kept = KeptCertificates(folder, changed.append)
    first = kept.secret(1, serving=False, named=True)
    assert kept.secret(2, serving=False, named=True) == first != 1
    kept.keep(issued(), serving=False)
    current = folder.current("client")
    assert current.is_symlink()
    assert current.stat().st_mode & 0o777 == 0o600
    key: Any = load_pem_private_key(current.read_bytes(), None)
    assert key.private_numbers().private_value == first + 1
    assert [file.name for file in current.parent.iterdir() if file.name.endswith(".tmp")] == []
    assert changed == ["client"]
    assert with_newest(Access("https://a"), folder).certificate.file == current
    assert kept.secret(3, serving=False, named=True) != first


def test_keys_do_not_follow_from_the_seed_of_the_run(tmp_path: Path) -> None:
    one, two = (KeptCertificates(Folder(tmp_path / str(n), "kubelet"), lambda _: None) for n in range(2))
    assert one.secret(7, serving=True, named=False) != two.secret(7, serving=True, named=False)


def bootstrap_config(folder: Path) -> Path:
    """A client configuration with a token."""
    file = folder / "first"
    cluster = {"server": "https://127.0.0.1:1", "certificate-authority": "ca.crt"}
    content = {
        "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "k", "user": "u"}}],
        "clusters": [{"name": "k", "cluster": cluster}],
        "users": [{"name": "u", "user": {"token": "abc.def"}}],
    }
    file.write_text(yaml.safe_dump(content))
    return file


def test_bootstrap_writes_a_configuration_that_names_the_certificate(tmp_path: Path) -> None:
    folder, file = Folder(tmp_path / "pki", "kubelet"), tmp_path / "config"
    values = {"kubeconfig": str(file), "bootstrap-kubeconfig": str(bootstrap_config(tmp_path))}
    found = connected(NAMES_, values, folder)
    assert found.bootstrap is not None and found.main is not None
    assert found.bootstrap.token.read() == b"abc.def"
    assert "abc.def" not in file.read_text()
    assert file.stat().st_mode & 0o777 == 0o600
    assert found.main.certificate.file == folder.current("client")
    assert found.main.authorities.file == tmp_path / "ca.crt"


@pytest.mark.parametrize(("days", "asks"), [(0, False), (400, True)])
def test_only_a_valid_certificate_needs_no_bootstrap(days: int, asks: bool, tmp_path: Path) -> None:
    folder, file = Folder(tmp_path / "pki", "kubelet"), tmp_path / "config"
    values = {"kubeconfig": str(file), "bootstrap-kubeconfig": str(bootstrap_config(tmp_path))}
    connected(NAMES_, values, folder)
    kept = KeptCertificates(folder, lambda _: None)
    kept.secret(0, serving=False, named=False)
    kept.keep(issued(datetime.now(UTC) - timedelta(days=days)), serving=False)
    found = connected(NAMES_, values, folder)
    assert found.main is not None and found.bootstrap is not None
    assert bool(found.bootstrap.token) is asks
    assert certificate_of(found.main) is not None


def test_an_agent_without_a_configuration_has_no_server(tmp_path: Path) -> None:
    assert connected(NAMES_, {}, Folder(tmp_path, "kubelet")).main is None
    with pytest.raises(InputError, match="--bootstrap-kubeconfig"):
        connected(NAMES_, {"bootstrap-kubeconfig": "x"}, Folder(tmp_path, "kubelet"))
