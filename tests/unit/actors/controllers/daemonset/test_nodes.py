"""Which pods of a node stay, go, or are missing."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from actors.controllers.daemonset.decide import View, decide_nodes
from sim.api.types import Obj
from sim.ident import NAMES
from sim.units import SECOND

N = NAMES["orch"]
NOW_US = 1_000 * SECOND


def pod(name: str, revision: str = "new", ready: bool = True, created: int = 1, **more: Any) -> Obj:
    labels = {N.label_controller_revision_hash: revision}
    time = f"1970-01-01T00:0{created}:00Z"
    condition = {"type": "Ready", "status": str(ready), "lastTransitionTime": time}
    return {
        "metadata": {"name": name, "labels": labels, "creationTimestamp": time, **more.pop("meta", {})},
        "spec": {"nodeName": "n"},
        "status": {"phase": "Running", "conditions": [condition], **more},
    }


def view(
    run: bool = True,
    stay: bool = True,
    surge: int = 0,
    generation: str | None = None,
    wait: int | None = None,
) -> View:
    strategy = {"rollingUpdate": {"maxSurge": surge, "maxUnavailable": 1 - min(surge, 1)}}
    owner: Obj = {"metadata": {}, "spec": {"updateStrategy": strategy, "minReadySeconds": wait}}
    return View(owner, "new", generation, N, lambda node: (run, stay), NOW_US)


def decided(found: View, *pods: Obj) -> tuple[list[str], list[str], list[str]]:
    """The nodes that need a pod, the pods to delete, and the failed pods, by name."""
    by_node: Any = {"n": list(pods)} if pods else {}
    changes = decide_nodes(found, [{"metadata": {"name": "n"}}], by_node)
    named = [each["metadata"]["name"] for each in changes.delete]
    return changes.create, named, [each["metadata"]["name"] for each, _ in changes.failed]


DYING = {"deletionTimestamp": "t"}


@pytest.mark.parametrize(
    ("run", "stay", "pods", "wanted"),
    [
        (True, True, [], (["n"], [], [])),
        (False, True, [], ([], [], [])),
        (False, False, [], ([], [], [])),
        (True, True, [pod("a")], ([], [], [])),
        (False, True, [pod("a")], ([], [], [])),
        (False, False, [pod("a"), pod("b", meta=DYING)], ([], ["a"], [])),
        (True, True, [pod("b", created=2), pod("a", created=1), pod("c", created=3)], ([], ["b", "c"], [])),
        (True, True, [pod("a", meta=DYING)], ([], [], [])),
        (True, True, [pod("a", phase="Failed"), pod("b")], ([], [], ["a"])),
        (True, True, [pod("a", phase="Failed", meta=DYING)], ([], [], [])),
    ],
)
def test_a_node_that_is_selected_has_one_pod(run: bool, stay: bool, pods: list[Obj], wanted: Any) -> None:
    assert decided(view(run, stay), *pods) == wanted


@pytest.mark.parametrize(
    ("pods", "wanted"),
    [
        ([pod("a", meta=DYING)], (["n"], [], [])),
        ([pod("a", phase="Failed")], (["n"], [], ["a"])),
        ([pod("a", "old")], ([], [], [])),
        # the old one goes when the new one is available, or when it is not ready itself
        ([pod("a", "old"), pod("b")], ([], ["a"], [])),
        ([pod("a", "old"), pod("b", ready=False)], ([], [], [])),
        ([pod("a", "old", ready=False), pod("b", ready=False)], ([], ["a"], [])),
        # of several of one kind the oldest stays
        ([pod("a"), pod("b", created=2)], ([], ["b"], [])),
        ([pod("a", "old"), pod("b", "older", created=2)], ([], ["b"], [])),
        ([pod("a", "old"), pod("c", ready=False, created=2), pod("b", created=3)], ([], ["b"], [])),
        ([pod("a", ready=False), pod("b", created=2)], ([], ["b"], [])),
        ([pod("a", meta={"labels": None}), pod("b")], ([], ["a"], [])),
    ],
)
def test_with_surge_an_old_and_a_new_pod_may_stay(pods: list[Obj], wanted: Any) -> None:
    assert decided(view(surge=1), *pods) == wanted


def test_without_a_selected_node_surge_creates_no_pod() -> None:
    assert decided(view(run=False, surge=1), pod("a", meta=DYING)) == ([], [], [])


def test_pods_on_no_node_go_and_those_on_unknown_nodes_stay() -> None:
    unbound = {**pod("a"), "spec": {}}
    by_node: Any = {"": [unbound], "gone": [pod("b")], "n": [pod("c")]}
    changes = decide_nodes(view(), [{"metadata": {"name": "n"}}], by_node)
    assert [each["metadata"]["name"] for each in changes.delete] == ["a"]


@pytest.mark.parametrize(
    ("generation", "labels", "is_updated"),
    [
        (None, {N.label_controller_revision_hash: "new"}, True),
        (None, {N.label_controller_revision_hash: "old"}, False),
        (None, {}, False),
        ("3", {N.label_pod_template_generation: "3"}, True),
        ("3", {N.label_pod_template_generation: "2"}, False),
        ("3", {N.label_pod_template_generation: "2", N.label_controller_revision_hash: "new"}, True),
        (None, {N.label_pod_template_generation: "3"}, False),
        (None, None, False),
    ],
)
def test_a_pod_is_updated_by_its_generation_or_its_hash(
    generation: Any, labels: Any, is_updated: bool
) -> None:
    assert view(generation=generation).is_updated({"metadata": {"labels": labels}}) is is_updated
    bare = View({}, "", None, N, lambda node: (True, True), 0)
    assert not bare.is_updated({"metadata": {"labels": {N.label_controller_revision_hash: ""}}})


@pytest.mark.parametrize(("wait", "available"), [(None, True), (0, True), (939, True), (940, False)])
def test_a_pod_is_available_after_its_ready_seconds(wait: int | None, available: bool) -> None:
    assert view(wait=wait).is_available(pod("a")) is available


def test_ready_pod_is_available_at_once_without_ready_seconds() -> None:
    assert replace(view(), wall_us=60 * SECOND).is_available(pod("a"))
