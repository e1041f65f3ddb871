"""Counts that are updated pod by pod equal a recount."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.controllers.replicaset import counted_totals, totals_of
from actors.controllers.shared.owned_pod_counts import Counts, OwnedTally

UIDS = ("u1", "u2")
OWNERS = {
    uid: [{"kind": "Owner", "uid": uid, "controller": True}] for uid in UIDS
}  # shared, as stored pods do
LABELS = {app: {"app": app} for app in ("web", "db")}


class FakeInformer:
    def route(self, fn: Any, part: str) -> None: ...

    def on(self, add: Any, update: Any, delete: Any, about: str) -> None:
        self.add, self.update, self.delete = add, update, delete


def pod(name: str, uid: str, phase: str, ready: bool, app: str) -> dict[str, Any]:
    return {
        "metadata": {"name": name, "labels": LABELS[app], "ownerReferences": OWNERS[uid]},
        "status": {"phase": phase, "conditions": [{"type": "Ready", "status": str(ready)}]},
    }


PODS = st.tuples(
    st.sampled_from(["a", "b", "c"]),
    st.sampled_from(UIDS),
    st.sampled_from(["Running", "Failed"]),
    st.booleans(),
    st.sampled_from(["web", "db"]),
)


@given(st.lists(st.tuples(st.booleans(), PODS), max_size=30))
def test_tally_equals_a_recount_after_any_events(
    events: list[tuple[bool, tuple[str, str, str, bool, str]]],
) -> None:
    informer, now = FakeInformer(), dict[str, Any]()
    tally = OwnedTally("Owner", informer)  # type: ignore[arg-type]
    for delete, made in events:
        new = pod(*made)
        name = made[0]
        if delete:
            if name in now:
                informer.delete(now.pop(name))
        elif name in now:
            informer.update(now[name], new)
            now[name] = new
        else:
            informer.add(new)
            now[name] = new
    for uid in UIDS:
        mine = [p for p in now.values() if p["metadata"]["ownerReferences"][0]["uid"] == uid]
        active = [p for p in mine if p["status"]["phase"] == "Running"]
        counts = tally.of(uid)
        assert counts.active == len(active)
        assert counts.ready == sum(p["status"]["conditions"][0]["status"] == "True" for p in active)
        assert sum(counts.labels.values()) == len(active)


def owner(replicas: int, **spec: Any) -> dict[str, Any]:
    labels = {"app": "web"}
    return {
        "metadata": {"uid": "u1"},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}},
            **spec,
        },
    }


@pytest.mark.parametrize("replicas", [1, 2, 3])
def test_totals_from_the_tally_equal_those_of_the_pods(replicas: int) -> None:
    pods = [pod("a", "u1", "Running", True, "web"), pod("b", "u1", "Running", False, "web")]
    counts = Counts(2, 1, {(("app", "web"),): 2})
    assert counted_totals(owner(replicas), counts) == totals_of(owner(replicas), pods, 0)


def test_totals_are_not_counted_if_the_pods_must_be_listed() -> None:
    counts = Counts(2, 1, {(("app", "web"),): 2})
    assert counted_totals(owner(2, minReadySeconds=5), counts) is None
    assert counted_totals(owner(2), Counts(2, 1, {(("app", "db"),): 2})) is None
