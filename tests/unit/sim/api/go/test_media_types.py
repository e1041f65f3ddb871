"""Media types in headers, as golang's mime package reads them."""

from __future__ import annotations

import pytest

from sim.api.go.media_types import parse_media_type

INVALID = "mime: invalid media parameter"
TWICE = "mime: duplicate parameter name"


@pytest.mark.parametrize(
    "header",
    [
        "a/b",
        " A/B ;",
        "a/b; c=d",
        "a/b;c = d; E=f",
        'a/b; c="d;\\"e"',
        'a/b; c="x\\y"; d=e',
        "a/b; c*0=x; c*1=y",
        "a/b; c*=x",
        'a/b; c=""',
        "a/b; c=d; ",
    ],
)
def test_type_is_read_without_its_parameters(header: str) -> None:
    assert parse_media_type(header) == ("a/b", "")


@pytest.mark.parametrize(
    ("header", "problem"),
    [
        ("", "mime: no media type"),
        ("(a/b", "mime: no media type"),
        ("a b", "mime: expected slash after first token"),
        ("a/", "mime: expected token after slash"),
        ("a/b c", "mime: unexpected content after media subtype"),
        ("a/b, c/d", "mime: unexpected content after media subtype"),
        ("a/b; c=d; C=d", TWICE),
    ],
)
def test_malformed_type_has_gos_error(header: str, problem: str) -> None:
    assert parse_media_type(header) == ("", problem)


@pytest.mark.parametrize(
    "rest", ["c", "=d", "c=", 'c="d', '"c"=d', "c d=e", "; c=d", ";", "c=\xf6", 'c="d\n"', "c=d e"]
)
def test_malformed_parameter_is_gos_error(rest: str) -> None:
    assert parse_media_type(f"a/b; {rest}") == ("a/b", INVALID)
