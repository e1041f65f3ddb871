"""Lists that select by a label or field, with postings beside a comparison of each object."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from actors.apiserver.caches.selection import select
from actors.storage import memory
from actors.storage.memory import MemoryStore
from actors.storage.postings import KEPT_MAX
from sim.api.scheme.scheme import Scheme
from sim.api.store import Page, Range
from sim.api.types import Request, UserInfo
from sim.api.verbs.call import Call
from sim.api.verbs.list import ListPlan, page_reply
from sim.ident import NAMES
from sim.units import NO_REVISION, Virtual

SCHEME = Scheme(NAMES["kubernetes"])
PODS = SCHEME.resource("pods")
LABELS = st.dictionaries(st.sampled_from(["app", "tier"]), st.sampled_from(["a", "b", ""]))
SELECTORS = st.just("app=a") | st.sampled_from(
    [
        "app=a",
        "app=none",
        "app in (a,b)",
        "app in (a,b),tier=a",
        "tier notin (a),app=b",
        "app",
        "!app",
        "app=",
        "tier=a",
    ]
)
FIELDS = st.sampled_from(
    ["", "", "spec.nodeName=n1", "spec.nodeName=", "status.phase!=x", "metadata.name=p3"]
)
WRITES = st.tuples(
    st.sampled_from(["x", "y"]),
    st.integers(0, 4),
    st.none() | st.tuples(LABELS, st.sampled_from(["", "n1", "n2"])),
)
STEPS = st.lists(
    WRITES | st.tuples(SELECTORS | st.just(""), FIELDS, st.integers(0, 3)), min_size=6, max_size=40
)


@pytest.fixture(autouse=True, scope="module")
def small() -> object:
    before, memory.ITEMS_MIN = memory.ITEMS_MIN, 1
    yield
    memory.ITEMS_MIN = before


def stores() -> list[MemoryStore]:
    made = [MemoryStore(lambda: Virtual(0)) for _ in range(2)]
    for store in made:
        store.pack(PODS.prefix, young_max=2)
    made[0].selects = True
    return made


def listed(store: MemoryStore, label: str, field: str, limit: int, namespace: str = "") -> object:
    options = {"labelSelector": label, "fieldSelector": field}
    request = Request(verb="list", resource="pods", options=options, namespace=namespace, user=UserInfo("a"))
    selection = select(SCHEME, Call(request, PODS, None, options=options))  # type: ignore[arg-type]
    prefix = SCHEME.prefix(PODS, namespace)
    asked = 0 if selection.matches is not None else limit
    page = store.range(Range(prefix, "", asked, NO_REVISION, selection.only))
    assert isinstance(page, Page)
    reply = page_reply(page, ListPlan(False, limit=limit), selection.matches, prefix)
    return [item.key for item in reply.items or ()], reply.more, reply.remaining, page.count


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(STEPS, st.booleans())
def test_list_by_postings_is_that_of_a_comparison_of_each_object(steps: list[object], compacts: bool) -> None:
    both = stores()
    for step in steps:
        assert isinstance(step, tuple)
        if isinstance(step[1], str):
            for namespace in ("", "x"):
                first, second = (listed(store, *step, namespace=namespace) for store in both)
                assert first == second
            continue
        namespace, number, state = step
        key = SCHEME.key(PODS, namespace, f"p{number}")
        for store in both:
            if state is None:
                store.delete(key, None)
            else:
                metadata = {"namespace": namespace, "name": f"p{number}", "labels": dict(state[0])}
                store.put(key, {"metadata": metadata, "spec": {"nodeName": state[1]}}, None)
            if compacts and number == 0:
                store.compact(store.revision)


def test_few_labels_and_fields_have_postings() -> None:
    store = stores()[0]
    for number in range(3):
        metadata = {"namespace": "x", "name": f"p{number}", "labels": {f"l{number}": "v"}}
        store.put(SCHEME.key(PODS, "x", f"p{number}"), {"metadata": metadata}, None)
    for number in range(KEPT_MAX + 3):
        listed(store, f"l{number}=v", "", 0)
    kept = store.bucket(PODS.prefix)._postings
    assert [*kept] == [f"label l{number}" for number in range(3, KEPT_MAX + 3)]
