"""Connecting subresources: which ports and addresses a request may name."""

import pytest

from sim.api.verbs.connect import is_proxyable, port_problem


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ("80", ""),
        ("80,65535", ""),
        ("", 'parsing "": invalid syntax'),
        ("80,x", 'parsing "x": invalid syntax'),
        ("-1", 'parsing "-1": invalid syntax'),
        ("65536", 'parsing "65536": value out of range'),
    ],
)
def test_port_that_is_no_number_of_16_bits_is_refused(given: str, problem: str) -> None:
    assert port_problem(given) == (f"strconv.ParseUint: {problem}" if problem else "")


@pytest.mark.parametrize(
    ("address", "allowed"),
    [
        ("10.0.0.1", True),
        ("fd00::1", True),
        ("127.0.0.1", False),
        ("169.254.0.1", False),
        ("224.1.1.1", False),
        ("255.255.255.255", False),
        ("0.0.0.0", False),
        ("::1", False),
        ("ff05::1", False),
        ("name", False),
    ],
)
def test_address_of_one_other_host_alone_is_proxied(address: str, allowed: bool) -> None:
    assert is_proxyable(address) is allowed
