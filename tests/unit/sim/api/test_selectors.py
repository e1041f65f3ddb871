"""Label and field selectors, against recorded refusals of upstream."""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Any

import pytest

from sim.api import selectors
from sim.api.scheme.scheme import Scheme
from sim.api.selectors import (
    FEW,
    NOTHING,
    SelectorError,
    format_selector,
    from_selector,
    parse_fields,
    parse_labels,
)
from sim.ident import NAMES

SCHEME = Scheme(NAMES["kubernetes"])
PODS = SCHEME.resource("pods")


@pytest.mark.parametrize(
    ("text", "labels", "matches"),
    [
        ("", {}, True),
        ("app=x", {"app": "x"}, True),
        ("app==x,tier!=db", {"app": "x"}, True),
        ("app=x", {}, False),
        ("app!=x", {}, True),
        ("app in (x, y)", {"app": "y"}, True),
        ("app notin (x,y)", {"app": "y"}, False),
        ("app", {"app": ""}, True),
        ("!app", {"app": ""}, False),
        ("n>3", {"n": "4"}, True),
        ("n<3", {"n": "4"}, False),
        ("n>3", {"n": "many"}, False),
        ("app=", {"app": ""}, True),
        ("app in ()", {"app": ""}, True),
        ("app in (x,)", {"app": ""}, True),
        ("app in (,x)", {"app": ""}, True),
    ],
)
def test_a_label_selector_matches_as_upstream(text, labels, matches):
    assert parse_labels(text).matches(labels) is matches


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a b", "unable to parse requirement: found 'b', expected: in, notin, =, ==, !=, gt, lt"),
        ("app=x,", "found '', expected: identifier after ','"),
        ("app===x", "unable to parse requirement: found '=', expected: identifier"),
        ("app=x=y", "found '=', expected: ',' or 'end of string'"),
        ("=x", "found '=', expected: !, identifier, or 'end of string'"),
        ("app in (=)", "unable to parse requirement: found '=', expected: ',', ')' or identifier"),
        ("app in", "unable to parse requirement: found '' expected: '('"),
        ("app in (x", "unable to parse requirement: found '', expected: ',' or ')'"),
        (
            "app>x",
            'unable to parse requirement: values[0]: Invalid value: "x": '
            "for 'Gt', 'Lt' operators, the value must be an integer",
        ),
        (
            "/app=x",
            'unable to parse requirement: <nil>: Invalid value: "/app": prefix part must be non-empty',
        ),
    ],
)
def test_a_broken_label_selector_is_refused_in_upstream_words(text, message):
    with pytest.raises(SelectorError) as refused:
        parse_labels(text)
    assert str(refused.value) == message


def test_a_selector_object_missing_matches_nothing_and_empty_matches_everything():
    assert from_selector(None) is NOTHING and not from_selector(None).matches({})
    assert from_selector({}).empty and from_selector({}).matches({"a": "b"})
    both = from_selector(
        {"matchLabels": {"app": "x"}, "matchExpressions": [{"key": "t", "operator": "DoesNotExist"}]}
    )
    assert both.matches({"app": "x"}) and not both.matches({"app": "x", "t": ""})


def test_a_selector_object_prints_as_kubectl_shows_it():
    assert format_selector({"matchLabels": {"b": "2", "a": "1"}}) == "a=1,b=2"
    expressions = [{"key": "a", "operator": "In", "values": ["y", "x"]}, {"key": "b", "operator": "Exists"}]
    assert format_selector({"matchExpressions": expressions}) == "a in (x,y),b"
    assert format_selector({}) == format_selector(None) == "<none>"


def test_field_selectors_read_the_fields_of_their_kind():
    pod = {"metadata": {"name": "a"}, "spec": {"nodeName": "n1"}, "status": {"phase": "Running"}}
    assert parse_fields(PODS, "spec.nodeName=n1,status.phase!=Failed").matches(pod)
    assert not parse_fields(PODS, "spec.nodeName=n2").matches(pod)
    assert parse_fields(PODS, "spec.nodeName=").matches({"metadata": {}})
    assert parse_fields(PODS, "metadata.name==a").exact("metadata.name") == "a"
    assert parse_fields(PODS, "metadata.name!=a").exact("metadata.name") is None
    nodes = SCHEME.resource("nodes")
    assert parse_fields(nodes, "spec.unschedulable=false").matches({"spec": {}})
    events = SCHEME.resource("events.events")
    assert parse_fields(events, "regarding.name=p").matches({"regarding": {"name": "p"}})


@pytest.mark.parametrize(
    ("resource", "text", "message"),
    [
        ("pods", "spec.hostname=h", "field label not supported: spec.hostname"),
        (
            "leases",
            "foo=bar,baz=qux",
            '"baz" is not a known field selector: only "metadata.name", "metadata.namespace"',
        ),
        ("leases", "metadata.name", "invalid selector: 'metadata.name'; can't understand 'metadata.name'"),
        ("leases", "metadata.name=a=b", "invalid field selector: unescaped character in value: 61"),
        ("leases", "metadata.name=a\\", "invalid field selector: invalid escape sequence: \\"),
    ],
)
def test_unsupported_field_selectors_are_refused_in_upstream_words(resource, text, message):
    with pytest.raises(SelectorError) as refused:
        parse_fields(SCHEME.resource(resource), text)
    assert str(refused.value) == message


TEXTS = ("a{}", "!a{}", "a{} in (x,y,1)", "a{} notin (x,2)", "a{}!=y", "a{}=x", "a{}>0", "a{}<2")


@pytest.mark.slow
def test_many_requirements_match_as_one_after_the_other() -> None:
    random = Random(1)
    values = ("x", "y", "1", "2", "z")
    found = Counter[bool]()
    for _ in range(600):
        kinds = random.choices(TEXTS, k=random.randint(FEW + 1, 2 * FEW))
        some = random.sample(kinds, random.choice((1, 2)))
        selector = parse_labels(",".join(random.choice(some).format(random.randrange(4)) for _ in kinds))
        labels = {f"a{n}": random.choice(values) for n in range(4) if random.random() < 0.5}
        matches = all(requirement.matches(labels) for requirement in selector.requirements)
        assert selector.matches(labels) == matches
        found[matches] += 1
    assert min(found[True], found[False]) > 50


def test_long_selector_takes_as_much_work_as_there_are_labels(monkeypatch: pytest.MonkeyPatch) -> None:
    labels = parse_labels(",".join(f"a{n}!=x" for n in range(1000)))
    fields = parse_fields(PODS, ",".join(f"metadata.name!=x{n}" for n in range(1000)))
    looks = Counter[str]()
    allow = selectors._Bounds.allow

    def counted(self: Any, have: str | None) -> bool:
        looks["all"] += 1
        return allow(self, have)

    monkeypatch.setattr(selectors._Bounds, "allow", counted)
    assert labels.matches({"a1": "y", "b": "x"})
    assert fields.matches({"metadata": {"name": "x"}})
    assert looks["all"] == 2
