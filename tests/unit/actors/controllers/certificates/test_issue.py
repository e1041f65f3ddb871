"""Certificates that the signers of the cluster issue."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509
from cryptography.x509.oid import ExtendedKeyUsageOID

from actors.controllers.certificates.issue import issue, read_authority, stand_in
from sim.api.kinds.certificates.pem import parse_request
from sim.units import HOUR, MINUTE, SECOND
from tests.unit.sim.api.kinds.certificates.requests import request_pem

NOW = 1_700_000_000 * SECOND
MOMENT = datetime.fromtimestamp(1_700_000_000, UTC)
CA = stand_in("ca", 5, NOW)


def issued(
    duration_us: int = HOUR, usages: tuple[str, ...] = ("client auth",), at_us: int = NOW
) -> x509.Certificate:
    request = parse_request(request_pem("jane", ("dev",), ("a.b", "10.0.0.1")))
    return x509.load_pem_x509_certificate(issue(CA, request, usages, duration_us, at_us))


def test_certificate_has_subject_key_and_names_of_the_request() -> None:
    request, made = parse_request(request_pem("jane", ("dev",), ("a.b", "10.0.0.1"))), issued()
    assert (made.subject, made.public_key()) == (request.subject, request.public_key())
    authority, _ = read_authority(CA.encode())
    made.verify_directly_issued_by(authority)
    names = made.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == ["a.b"]
    assert not made.extensions.get_extension_for_class(x509.BasicConstraints).value.ca


def test_usages_become_extensions() -> None:
    made = issued(usages=("digital signature", "server auth", "client auth"))
    extended = made.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    assert list(extended) == [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
    usage = made.extensions.get_extension_for_class(x509.KeyUsage).value
    assert usage.digital_signature and not usage.key_encipherment


@pytest.mark.parametrize(
    ("duration_us", "end"),
    [(HOUR, timedelta(hours=1)), (24 * HOUR, timedelta(hours=24) - timedelta(minutes=5))],
)
def test_begin_is_backdated_and_the_end_only_of_long_certificates(duration_us: int, end: timedelta) -> None:
    made = issued(duration_us)
    assert made.not_valid_before_utc == MOMENT - timedelta(minutes=5)
    assert made.not_valid_after_utc == MOMENT + end


def test_certificate_ends_with_its_authority_at_the_latest() -> None:
    authority, _ = read_authority(CA.encode())
    assert issued(20 * 365 * 24 * HOUR).not_valid_after_utc == authority.not_valid_after_utc
    with pytest.raises(ValueError, match="refusing to sign"):
        issued(at_us=NOW + 20 * 365 * 24 * HOUR)


def test_same_request_and_time_give_the_same_bytes() -> None:
    assert issued() == issued()
    assert issued().serial_number != issued(at_us=NOW + MINUTE).serial_number
    assert stand_in("ca", 5, NOW) == CA != stand_in("ca", 6, NOW)
