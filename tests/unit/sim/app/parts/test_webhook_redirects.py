"""Requests that follow redirects of webhooks, as Go's client sends them."""

from __future__ import annotations

import pytest

from sim.app.parts.webhooks import redirected
from sim.kernel import OutsideRequest

SENT = OutsideRequest("POST", "https://a.b.svc:443/x/y?z", body=b"{}", connect_to=("127.0.0.1", 8))


@pytest.mark.parametrize(
    ("code", "place", "method", "url", "address"),
    [
        (307, "/c", "POST", "https://a.b.svc:443/c", ("127.0.0.1", 8)),
        (302, "../d?e#f", "GET", "https://a.b.svc:443/d?e", ("127.0.0.1", 8)),
        (308, "http://u:p@h:0", "POST", "http://h:0", None),
        (303, "//\xc3\xa4/", "GET", "https://%C3%A4/", None),
    ],
)
def test_redirect_is_followed_to_the_place_that_it_names(
    code: int, place: str, method: str, url: str, address: tuple[str, int] | None
) -> None:
    found = redirected(SENT, code, place, 1)
    assert isinstance(found, OutsideRequest)
    assert (found.method, found.url, found.connect_to) == (method, url, address)
    assert found.body == (b"{}" if method == "POST" else b"")


@pytest.mark.parametrize(
    ("place", "failure"),
    [
        ("https://[x/", 'failed to parse Location header "https://[x/": parse "https://[x/": missing \']\' in host'),
        ("//[", 'failed to parse Location header "//[": parse "//[": missing \']\' in host'),
        ("https://h:x", 'failed to parse Location header "https://h:x": parse "https://h:x": invalid port ":x" after host'),
    ],
)  # fmt: skip
def test_redirect_to_no_place_is_a_failure_of_the_call(place: str, failure: str) -> None:
    assert redirected(SENT, 302, place, 1) == failure


def test_tenth_redirect_is_not_followed() -> None:
    assert isinstance(redirected(SENT, 302, "/a", 9), OutsideRequest)
    assert redirected(SENT, 302, "/a", 10) == "stopped after 10 redirects"
