"""The form of an answer by its Accept header."""

from __future__ import annotations

import pytest

from sim.api.scheme.scheme import Scheme
from sim.ident import NAMES
from sim.wire.http.forms.negotiation import (
    NotAcceptable,
    check_route,
    choose,
    has_table,
    parse_accept,
    wants_indentation,
)
from sim.wire.http.routing import parse_query

N = NAMES["kubernetes"]


@pytest.mark.parametrize("header", [";;", "text/html", ",", ";q=1"])
def test_header_without_a_media_range_is_not_acceptable(header: str) -> None:
    with pytest.raises(NotAcceptable):
        check_route(N, header, False)
    with pytest.raises(NotAcceptable):
        choose(N, header, False, convertible=False)


def test_absent_header_accepts_anything() -> None:
    check_route(N, "", False)
    assert choose(N, "", False, convertible=False).media == N.media_json


def media(header: str) -> list[tuple[str, float]]:
    return [(f"{clause.type}/{clause.subtype}", clause.quality) for clause in parse_accept(header)]


@pytest.mark.parametrize(
    ("header", "wanted"),
    [
        ("*", [("*/*", 1)]),
        ("json, application/, a/b/c", []),
        ("application/json/", [("application/json", 1)]),
        ("a/b;q=x, c/d;q=0.5", [("c/d", 0.5), ("a/b", 0)]),
        ("a/b;q, c/d;q=0.5=1", [("a/b", 1), ("c/d", 1)]),
        ("*/*;q=0.9, a/b;q=0.1", [("a/b", pytest.approx(0.1)), ("*/*", pytest.approx(0.9))]),
        ("a/*, a/b", [("a/b", 1), ("a/*", 1)]),
        (
            "a/b;q=0.1, c/d;q=0.2, e/f;q=0.1",
            [("c/d", pytest.approx(0.2)), ("a/b", pytest.approx(0.1)), ("e/f", pytest.approx(0.1))],
        ),
    ],
)
def test_ranges_are_read_and_ordered_as_goautoneg_does(header: str, wanted: list[tuple[str, float]]) -> None:
    assert media(header) == wanted


@pytest.mark.parametrize(
    ("query", "agent", "wanted"),
    [
        ("", "curl/8.0", True),
        ("", "kubectl/v1.25", False),
        ("pretty=", "Wget/1", True),
        ("pretty=0", "curl/8.0", False),
        ("pretty=yes", "curl/8.0", False),
        ("pretty=T", "x", True),
        ("pretty=tRUE", "x", False),
    ],
)
def test_indentation_follows_the_query_and_then_the_agent(query: str, agent: str, wanted: bool) -> None:
    assert wants_indentation(parse_query(query), agent) is wanted


@pytest.mark.parametrize("parameters", ["g=meta.k8s.io", "v=v1", "as=Foo", "sv=v2", "stream=other"])
def test_range_with_other_parameters_is_left_out(parameters: str) -> None:
    header = f"{N.media_json};{parameters}, {N.media_yaml}"
    assert choose(N, header, False, convertible=True).media == N.media_yaml


def test_watch_in_yaml_is_refused_although_json_follows() -> None:
    with pytest.raises(NotAcceptable) as caught:
        choose(N, f"{N.media_yaml}, {N.media_json}", False, convertible=True, watching=True)
    assert "application/json;stream=watch" in caught.value.body["message"]


@pytest.mark.parametrize(
    ("plural", "subresource", "tabular"),
    [
        ("apiservices", "", True),
        ("apiservices", "status", False),
        ("customresourcedefinitions", "status", False),
        ("networkpolicies", "status", False),
        ("deployments", "status", True),
        ("tokenreviews", "", False),
    ],
)
def test_status_of_the_extension_servers_has_no_table(plural: str, subresource: str, tabular: bool) -> None:
    resource = Scheme(NAMES["kubernetes"]).resource(plural)
    assert has_table(resource, subresource) is tabular
