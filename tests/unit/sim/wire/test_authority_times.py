"""When the certificates of an authority are valid."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from cryptography import x509

from sim.wire.authority import AUTHORITY_VALID, VALID, Authority

NOW = datetime(2026, 11, 28, tzinfo=UTC)


def test_authority_is_valid_after_a_clock_was_set_back_by_years() -> None:
    authority = Authority("ca", NOW)
    of_authority = x509.load_pem_x509_certificate(authority.pem)
    assert of_authority.not_valid_before_utc == NOW - AUTHORITY_VALID
    assert of_authority.not_valid_after_utc == NOW + AUTHORITY_VALID
    of_server = x509.load_pem_x509_certificate(authority.server(("localhost",)).certificate)
    assert of_server.not_valid_before_utc == NOW - timedelta(hours=1)
    assert of_server.not_valid_after_utc == NOW + VALID
