"""Bodies of which all but the metadata is remembered, beside those that are read as a whole."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sim.api.schema import decoding
from sim.api.schema.field_validation import STRICT, WARN, DecodeError
from sim.api.scheme.scheme import Scheme
from sim.ident import NAMES

SCHEME = Scheme(NAMES["kubernetes"])
PLURALS = ("pods", "configmaps", "deployments", "secrets")
QUANTITIES = st.sampled_from(["1", "0.5", "1000m", "1Gi", 2, 1.50, None, "x"])
TIMES = st.sampled_from([None, "2026-01-01T00:00:00Z", "2026-01-01T00:00:00.5Z", "soon"])
METADATA = st.fixed_dictionaries(
    {"name": st.sampled_from(["a", "b", 7])},
    optional={
        "labels": st.dictionaries(st.sampled_from("ab"), st.sampled_from(["x", "", None])),
        "creationTimestamp": TIMES,
        "finalizers": st.lists(st.just("f"), max_size=1),
        "unknown": st.just(1),
    },
)
CONTAINER = st.fixed_dictionaries(
    {"name": st.just("c")},
    optional={
        "resources": st.fixed_dictionaries({"limits": st.dictionaries(st.just("cpu"), QUANTITIES)}),
        "env": st.lists(
            st.fixed_dictionaries({"name": st.just("E"), "value": st.sampled_from(["é", "", 1])}), max_size=1
        ),
        "image": st.just("i\u2028"),
        "Ports": st.just([]),
    },
)
SPEC = st.fixed_dictionaries(
    {},
    optional={"containers": st.lists(CONTAINER, max_size=2), "replicas": st.just(3), "nodeName": st.none()},
)
BODIES = st.fixed_dictionaries(
    {},
    optional={
        "metadata": METADATA | st.none(),
        "spec": SPEC | st.just([]),
        "status": st.just({}),
        "data": st.dictionaries(st.just("k"), st.sampled_from(["aGk=", "%"])),
        "kind": st.sampled_from(["Pod", "ConfigMap", "", None, 3]),
        "apiVersion": st.sampled_from(["v1", "apps/v1", "v2"]),
        "stray": st.just({"a": 1}),
    },
)
FORMS = st.sampled_from([(",", ":"), (", ", ": "), (" ,", ":")])


def outcome(plural: str, text: bytes, directive: str) -> Any:
    """The result in the order of its members, or the refusal."""
    try:
        found = decoding.decode(SCHEME.resource(plural), text, directive)
    except DecodeError as refused:
        return refused.message, refused.problems
    return json.dumps(found.obj), found.problems, [*map(dict.fromkeys, found.sent)], found.sent.quantities


@pytest.mark.slow
@settings(max_examples=300, deadline=None)
@given(
    st.sampled_from(PLURALS), st.lists(BODIES, min_size=1, max_size=3), FORMS, st.booleans(), st.booleans()
)
def test_body_read_by_sections_is_that_read_as_a_whole(
    plural: str, bodies: list[dict[str, Any]], form: tuple[str, str], plain: bool, twice: bool
) -> None:
    smallest = decoding.SPLIT_MIN
    for body in bodies * 2:  # the second time from what is remembered
        text = json.dumps(body, separators=form, ensure_ascii=plain).encode()
        if twice:
            text = text.replace(b'"metadata"', b'"spec":{"containers":[]},"metadata"', 1)
        for directive in (WARN, STRICT):
            try:
                decoding.SPLIT_MIN = 0
                found = outcome(plural, text, directive)
                decoding.SPLIT_MIN = 1 << 30
                assert found == outcome(plural, text, directive)
            finally:
                decoding.SPLIT_MIN = smallest


def test_what_differs_in_metadata_alone_shares_its_other_parts() -> None:
    made = [
        decoding.decode(
            SCHEME.resource("pods"),
            b'{"metadata":{"name":"%b"},"spec":{"containers":[{"name":"%b"}]}}' % (name, b"c" * 300),
        ).obj
        for name in (b"a", b"b")
    ]
    assert made[0]["spec"] is made[1]["spec"]
    assert [each["metadata"]["name"] for each in made] == ["a", "b"]
