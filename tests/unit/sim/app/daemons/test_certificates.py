"""Certificates of servers that run alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from sim.app.daemons.certificates import serving_pair
from sim.errors import InputError
from sim.options.groups.listening import CertificateFlags

HOSTS = ("127.0.0.1", "localhost")


def test_a_pair_is_made_once_for_its_owner_alone(tmp_path: Path) -> None:
    flags = CertificateFlags(cert_dir=str(tmp_path / "certs"))
    first = serving_pair(flags, "apiserver", HOSTS)
    key = tmp_path / "certs" / "apiserver.key"
    assert key.stat().st_mode & 0o777 == 0o600
    assert first.certificate.count(b"BEGIN CERTIFICATE") == 2
    assert serving_pair(flags, "apiserver", HOSTS) == first


def test_files_of_options_win_over_the_folder(tmp_path: Path) -> None:
    (tmp_path / "c").write_text("certificate")
    (tmp_path / "k").write_text("key")
    flags = CertificateFlags(
        tls_cert_file=str(tmp_path / "c"), tls_private_key_file=str(tmp_path / "k"), cert_dir=str(tmp_path)
    )
    assert serving_pair(flags, "apiserver", HOSTS).key == b"key"
    assert sorted(file.name for file in tmp_path.iterdir()) == ["c", "k"]


def test_half_a_pair_is_never_replaced(tmp_path: Path) -> None:
    (tmp_path / "apiserver.key").write_text("mine")
    with pytest.raises(InputError, match="--cert-dir"):
        serving_pair(CertificateFlags(cert_dir=str(tmp_path)), "apiserver", HOSTS)
    assert (tmp_path / "apiserver.key").read_text() == "mine"


def test_a_missing_file_is_named_by_its_option(tmp_path: Path) -> None:
    flags = CertificateFlags(tls_cert_file=str(tmp_path / "c"), tls_private_key_file="k")
    with pytest.raises(InputError, match="--tls-cert-file"):
        serving_pair(flags, "apiserver", HOSTS)
