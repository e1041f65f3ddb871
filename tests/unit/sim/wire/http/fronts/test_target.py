"""Request targets, as Go's net/url reads them."""

from __future__ import annotations

import pytest

from sim.wire.http.fronts.target import origin_form


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        (b"/version", b"/version"),
        (b"/api/v1/pods?limit=1&x=?", b"/api/v1/pods?limit=1&x=?"),
        (b"//version", b"//version"),
        (b"/a:b", b"/a:b"),
        (b"*", b"*"),
        (b"http://x/version", b"/version"),
        (b"HTTPS://user@[::1]:6443/version?a", b"/version?a"),
        (b"http://x:1?a", b"/?a"),
        (b"http://x", b"/"),
        (b"http:///version", b"/version"),
    ],
)
def test_origin_form_is_path_and_query_of_the_target(target: bytes, expected: bytes) -> None:
    assert origin_form(b"GET", target) == expected


@pytest.mark.parametrize(
    "target",
    [b"", b"?", b"?a=/", b"version", b"x:443", b"http://[::1", b"http://[::1]x/", b"http://x:port/", b"1http://x/", b"://x/"],
)  # fmt: skip
def test_malformed_target_has_no_origin_form(target: bytes) -> None:
    assert origin_form(b"GET", target) is None


def test_target_of_connect_is_an_authority() -> None:
    assert origin_form(b"CONNECT", b"x:443") == b"/"
    assert origin_form(b"CONNECT", b"x:port") is None
