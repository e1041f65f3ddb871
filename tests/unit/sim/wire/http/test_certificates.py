"""Certificates of clients: subjects, authorities, times and uses, read of their bytes."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding

from sim.wire.authority import VALID, Authority
from sim.wire.http.certificates import REMEMBERED_MAX, CertificateReader
from sim.wire.tls import Pair

NOW = datetime(2026, 1, 1, tzinfo=UTC)
OURS, PROXIES, OTHERS = Authority("ca", NOW), Authority("front-proxy-ca", NOW), Authority("ca", NOW)


def der(pair: Pair) -> bytes:
    return x509.load_pem_x509_certificate(pair.certificate).public_bytes(Encoding.DER)


def reader() -> CertificateReader:
    return CertificateReader((OURS.pem,), PROXIES.pem)


def test_subject_is_user_and_groups() -> None:
    found = reader().certificate(der(OURS.client("u", ("a", "b"))))
    assert found is not None
    assert (found.name, found.groups) == ("u", ("a", "b"))
    assert (found.client_ca, found.front_proxy_ca, found.for_clients) == (True, False, True)
    assert reader().certificate(None) is None


def test_authorities_are_distinguished_by_their_signature() -> None:
    proxy, other = (reader().certificate(der(each.client("u", ()))) for each in (PROXIES, OTHERS))
    assert proxy is not None and other is not None
    assert (proxy.client_ca, proxy.front_proxy_ca) == (False, True)
    # The name of the authority is the same, its key is not.
    assert (other.client_ca, other.front_proxy_ca) == (False, False)


def test_certificate_of_a_server_is_not_for_clients() -> None:
    found = reader().certificate(der(OURS.server(("host",))))
    assert found is not None and not found.for_clients


def test_certificate_is_valid_while_its_authority_is() -> None:
    old = Authority("ca", NOW - timedelta(days=300))
    found = CertificateReader((old.pem,)).certificate(der(old.client("u", ())))
    assert found is not None
    end = (NOW - timedelta(days=300) + VALID).timestamp()
    assert found.valid_until_us == int(end) * 1_000_000


@pytest.mark.parametrize("data", [b"x", b"0\x82"])
def test_bytes_that_are_no_certificate_are_of_no_authority(data: bytes) -> None:
    found = reader().certificate(data)
    assert found is not None and not found.client_ca and not found.name


def test_reader_remembers_a_bounded_number_of_certificates() -> None:
    read = reader()
    for number in range(REMEMBERED_MAX + 10):
        read.certificate(b"%d" % number)
    assert len(read._read) == REMEMBERED_MAX
