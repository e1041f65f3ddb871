"""URLs as Go parses them."""

from __future__ import annotations

import pytest

from sim.api.crd.urls import BadUrl, of_client, parse_request_uri, parse_url, resolved


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


@pytest.mark.parametrize(
    ("reference", "url"),
    [
        ("/x", "https://a:1/x"),
        ("x?y", "https://a:1/b/x?y"),
        ("../../x/.", "https://a:1/x/"),
        ("", "https://a:1/b/c?d"),
        ("?e", "https://a:1/b/c?e"),
        ("//u:p@h/x#f", "https://u:***@h/x#f"),
        ("http://h", "http://h"),
        ("mailto:x", "mailto:x"),
        ("//\u2100/\xe4", "https://%E2%84%80/%C3%A4"),
        ("//[::1]:2/a//b", "https://[::1]:2/a//b"),
    ],
)
def test_reference_is_resolved_beside_its_base_as_by_go(reference: str, url: str) -> None:
    assert resolved(parse_url("https://a:1/b/c?d"), parse_url(reference)).shown == url


@pytest.mark.parametrize(
    ("address", "url"),
    [
        ("https://h:1//path", "https://h:1/path"),
        ("https://h", "https://h/"),
        ("https://h/a/./b/../c/", "https://h/a/c"),
        ("https://h/a%2Fb%20(c)", "https://h/a/b%20%28c%29"),
        ("https://[x]/", "https://[x]/"),
        ("https://[x/", "https://[x/"),
    ],
)
def test_path_of_an_address_is_joined_as_by_go(address: str, url: str) -> None:
    assert of_client(address) == url
    assert of_client("https://a.b.svc:443", "") == "https://a.b.svc:443/"


@pytest.mark.parametrize(
    ("host", "hostname", "port"),
    [
        ("a", "a", ""),
        ("a:1", "a", "1"),
        ("a:", "a", ""),
        ("[a]b]", "a]b", ""),
        ("[::1]:2", "::1", "2"),
        ("a:b:1", "a:b", "1"),
    ],
)
def test_host_and_port_are_split_at_the_last_colon(host: str, hostname: str, port: str) -> None:
    found = parse_url("https://x")._replace(host=host)
    assert (found.hostname, found.port) == (hostname, port)
