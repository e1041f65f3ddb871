"""URLs as Go parses them."""

from __future__ import annotations

import pytest

from sim.api.crd.urls import BadUrl, parse_request_uri, parse_url


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("https://%zz", 'invalid URL escape "%zz"'),
        ("https://a b", 'invalid character " " in host name'),
        ("a:b/c@1:", ""),
        ("1:2", "first path segment in URL cannot contain colon"),
        ("https://[::1", "missing ']' in host"),
        ("https://[fe80::1%25en%20x]:8", ""),
        ("https://a/b#%z", 'invalid URL escape "%z"'),
        ("https://a:x", 'invalid port ":x" after host'),
        ("https://%41", 'invalid URL escape "%41"'),
        ("https://u ser@a", "net/url: invalid userinfo"),
    ],
)
def test_url_is_refused_in_the_words_of_go(text: str, why: str) -> None:
    said = ""
    try:
        parse_url(text)
    except BadUrl as error:
        said = str(error).partition(": ")[2]
    assert said == why


def test_url_of_a_request_is_absolute_and_others_need_not_be() -> None:
    assert parse_url("a/b?c#d%20e")[1:] == ("", "", "a/b", "c", "", None, "d e")
    assert parse_url("//u:p@a:1/b")[1:] == ("", "a:1", "/b", "", "", "u:p", "")
    with pytest.raises(BadUrl, match="invalid URI for request"):
        parse_request_uri("a/b")
