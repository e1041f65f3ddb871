"""Answers joined from kept bytes, beside those that are encoded as a whole."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sim.api.schema.resource import Resource
from sim.api.scheme.scheme import Scheme
from sim.api.store import Item
from sim.api.types import Reply
from sim.ident import NAMES
from sim.units import Revision
from sim.wire.http.forms import rendering
from sim.wire.http.forms.kept import KeptBytes
from sim.wire.http.forms.negotiation import PARTIAL, PARTIAL_LIST, TABLE, Form
from sim.wire.http.forms.rendering import View, partial, prepare, typed

N = NAMES["kubernetes"]
SCHEME = Scheme(N)
RESOURCES = st.sampled_from([SCHEME.resource(each) for each in ("configmaps", "deployments", "pods")])
TEXTS = st.text(max_size=4)
METADATA = st.fixed_dictionaries(
    {"name": st.sampled_from(["a", "b", "<&>"])},
    optional={
        "labels": st.dictionaries(TEXTS, TEXTS, max_size=2),
        "annotations": st.dictionaries(TEXTS, TEXTS),
    },
)
OBJECTS = st.lists(
    st.fixed_dictionaries({"metadata": METADATA}, optional={"data": st.just({"k": "\u2028"})}), max_size=3
)


def answered(view: View, reply: Reply) -> Any:
    body = prepare(view, reply)().body
    assert body.endswith(b"\n") != view.form.pretty
    if not view.form.pretty:
        assert b"\n" not in body[:-1]
    return json.loads(body)


@pytest.mark.slow
@given(RESOURCES, OBJECTS, st.booleans(), st.sampled_from([0, 150, 1 << 20]))
def test_answers_of_kept_bytes_are_those_of_the_objects(
    resource: Resource, objects: list[dict[str, Any]], pretty: bool, kept_max: int
) -> None:
    rendering.KEPT, before = KeptBytes(kept_max), rendering.KEPT
    items = [Item(f"/{n}", obj, Revision(n), Revision(n)) for n, obj in enumerate(objects)]
    reply = Reply(200, items=items, revision=Revision(7))
    try:
        for _ in range(2):  # the second time from what is kept
            for kind in ("", PARTIAL_LIST, TABLE):
                view = View(N, resource, Form(N.media_json, kind, pretty=pretty), 0)
                found = answered(view, reply)
                if kind == "":
                    plain = [{**obj} for obj in objects]
                    assert found["items"] == plain
                elif kind == PARTIAL_LIST:
                    assert found["items"] == ([partial(view, item) for item in items] or None)
                else:
                    shown = [row["object"] for row in found["rows"] or ()]
                    order = resource.behavior.row_order
                    rows = items if order is None else sorted(items, key=lambda each: order(each.obj))
                    assert shown == [partial(view, item) for item in rows]
            for item in items:
                for kind, wanted in (("", typed), (PARTIAL, None)):
                    view = View(N, resource, Form(N.media_json, kind, pretty=pretty), 0)
                    found = answered(view, Reply(200, item=item))
                    assert found == (partial(view, item) if wanted is None else typed(resource, item))
        assert rendering.KEPT.size <= kept_max
    finally:
        rendering.KEPT = before
