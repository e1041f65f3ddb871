"""Addresses of connections, and the failures of Go's dialer."""

from __future__ import annotations

import pytest

from sim.api.dialing import refusal_at


@pytest.mark.parametrize(
    ("url", "failure"),
    [
        ("https://127.0.0.1:99999/", "dial tcp: address 99999: invalid port"),
        (f"https://h:{'9' * 5000}/", f"dial tcp: address {'9' * 5000}: invalid port"),
        ("https://h:0/", "dial tcp h:0: connect: connection refused"),
        ("https://h:00080/", "dial tcp h:80: connect: connection refused"),
        ("https://h:/", "dial tcp h:443: connect: connection refused"),
        ("http://h/", "dial tcp h:80: connect: connection refused"),
        ("https://[::1]/", "dial tcp [::1]:443: connect: connection refused"),
        ("https:///x", "http: no Host in request URL"),
        ("ftp://h/", 'unsupported protocol scheme "ftp"'),
        ("https://[h", "parse \"https://[h\": missing ']' in host"),
    ],
)
def test_address_without_a_connection_fails_as_with_go(url: str, failure: str) -> None:
    assert refusal_at(url) == failure
