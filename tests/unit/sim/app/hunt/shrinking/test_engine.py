"""Shrinking with predicates in place of runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from sim.app.hunt.shrinking.documents import Doc
from sim.app.hunt.shrinking.engine import Shrunk, shrink

POD = {"containers": [{"name": "web", "image": "web:1", "resources": {"requests": {"cpu": "100m"}}}]}
WEB = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "web", "labels": {"team": "a"}},
    "spec": {"replicas": 9, "selector": {"matchLabels": {"app": "web"}}, "template": {"spec": POD}},
}
EXTRA = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "extra"}, "data": {"a": "b"}}
DOCUMENT: dict[str, Any] = {
    "apiVersion": "orrery.dev/v1",
    "kind": "Scenario",
    "metadata": {"name": "night", "description": "many things happen"},
    "spec": {
        "seed": 4711,
        "duration": "1h3m",
        "cluster": {
            "nodes": [
                {"count": 90, "zones": ["a", "b", "c"], "capacity": {"cpu": 8}},
                {"count": 4, "prefix": "spare"},
            ],
            "apiServer": {"replicas": 3},
            "controllerManager": {"flags": {"node-monitor-grace-period": "50s", "v": 2}},
        },
        "objects": [EXTRA, WEB],
        "timeline": [
            {"at": f"{number}m{number}.3s", "name": f"step {number}", "crash": {"actor": "scheduler-0"}}
            for number in range(10, 22)
        ],
        "expect": [{"name": "one", "always": "pods are ready"}, {"name": "two", "never": "pods are ready"}],
    },
}


def _spec(document: Doc) -> Any:
    return document["spec"]


def _shrunk(fails: Callable[[Any], bool], **more: Any) -> tuple[Any, Shrunk]:
    def still_fails(documents: Sequence[Doc]) -> list[bool]:
        return [fails(_spec(each)) for each in documents]

    outcome = shrink(DOCUMENT, still_fails, **more)
    return _spec(outcome.document), outcome


def _names(spec: Any) -> list[str]:
    return [step["name"] for step in spec.get("timeline", ())]


def test_shrink_keeps_the_two_steps_that_a_failure_needs() -> None:
    spec, outcome = _shrunk(lambda spec: {"step 12", "step 19"} <= {*_names(spec)})
    assert outcome.finished
    assert _names(spec) == ["step 12", "step 19"]


def test_shrink_leaves_only_what_has_no_default() -> None:
    spec, outcome = _shrunk(lambda spec: True)
    assert outcome.document["metadata"] == {"name": "night"}
    assert spec == {"duration": "1m", "cluster": {"nodes": []}, "objects": [], "timeline": [], "expect": []}


def test_shrink_finds_the_least_number_of_nodes_and_replicas() -> None:
    def fails(spec: Any) -> bool:
        group = spec["cluster"]["nodes"][:1]
        replicas = [
            each["spec"]["replicas"] for each in spec["objects"] if "replicas" in each.get("spec", {})
        ]
        return (
            bool(group)
            and group[0]["count"] >= 5
            and "b" in group[0].get("zones", ())
            and replicas[-1:] > [2]
        )

    spec, _ = _shrunk(fails)
    assert spec["cluster"]["nodes"] == [{"count": 5, "zones": ["b"]}]
    assert [each["spec"]["replicas"] for each in spec["objects"]] == [3]


def test_shrink_takes_the_first_order_of_arrivals_that_fails() -> None:
    arranged = {"order": 97, "spread": "5ms"}
    document = {**DOCUMENT, "spec": {**DOCUMENT["spec"], "cluster": {"nodes": [], "arrivals": arranged}}}

    def still_fails(documents: Sequence[Doc]) -> list[bool]:
        orders = [each["spec"].get("cluster", {}).get("arrivals", {}).get("order", 0) for each in documents]
        return [order >= 3 for order in orders]

    assert shrink(document, still_fails).document["spec"]["cluster"]["arrivals"] == {"order": 3}


def test_shrink_makes_instants_round_and_early() -> None:
    spec, _ = _shrunk(lambda spec: len(_names(spec)) > 1)
    assert [step["at"] for step in spec["timeline"]] == ["1m", "2m"]


def test_shrink_makes_durations_of_steps_and_parameters_short_and_round() -> None:
    step = {"at": "3m", "crash": {"actor": "scheduler-0", "restartAfter": "1m17.3s"}, "for": "9m41s"}
    document = {**DOCUMENT, "spec": {**DOCUMENT["spec"], "timeline": [step]}}

    def still_fails(documents: Sequence[Doc]) -> list[bool]:
        steps = [each["spec"]["timeline"] for each in documents]
        return [
            bool(each) and "for" in each[0] and "restartAfter" in each[0].get("crash", "") for each in steps
        ]

    outcome = shrink(document, still_fails)
    assert outcome.document["spec"]["timeline"] == [
        {"at": "1m", "crash": {"restartAfter": "1m"}, "for": "1m"}
    ]


def test_shrink_leaves_the_end_of_a_fault_which_else_lasts_for_ever() -> None:
    step = {"at": "3m", "crash": {"actor": "scheduler-0", "restartAfter": "1m", "pick": 1}, "for": "9m"}
    document = {**DOCUMENT, "spec": {**DOCUMENT["spec"], "timeline": [step]}}

    def still_fails(documents: Sequence[Doc]) -> list[bool]:
        steps = [_spec(each).get("timeline") for each in documents]
        return [bool(each) and "crash" in each[0] for each in steps]

    (left,) = _spec(shrink(document, still_fails).document)["timeline"]
    assert "for" in left
    assert [*left["crash"]] == ["restartAfter"]


def test_shrink_keeps_an_option_that_is_needed() -> None:
    def fails(spec: Any) -> bool:
        flags = spec["cluster"].get("controllerManager", {}).get("flags", {})
        return "node-monitor-grace-period" in flags

    spec, _ = _shrunk(fails)
    assert spec["cluster"] == {
        "nodes": [],
        "controllerManager": {"flags": {"node-monitor-grace-period": "50s"}},
    }


def test_shrink_keeps_what_protects_other_objects() -> None:
    budget = {"kind": "PodDisruptionBudget", "metadata": {"name": "one"}, "spec": {"minAvailable": 1}}
    document = {**DOCUMENT, "spec": {**DOCUMENT["spec"], "objects": [EXTRA, budget, WEB]}}
    outcome = shrink(document, lambda documents: [True for _ in documents])
    assert outcome.document["spec"]["objects"] == [budget]


def test_shrink_keeps_the_expectation_that_fails() -> None:
    spec, _ = _shrunk(lambda spec: any(each["name"] == "two" for each in spec["expect"]))
    assert spec["expect"] == [{"name": "two", "never": "pods are ready"}]


@pytest.mark.parametrize("batch", [1, 2, 7])
def test_shrink_gives_the_same_with_any_size_of_batches(batch: int) -> None:
    def fails(spec: Any) -> bool:
        return {"step 11", "step 20"} <= {*_names(spec)} and len(spec["objects"]) > 0

    one, _ = _shrunk(fails)
    other, outcome = _shrunk(fails, batch=batch)
    assert other == one
    for budget in (5, 11, 30):
        assert _shrunk(fails, batch=batch, budget=budget)[0] == _shrunk(fails, budget=budget)[0]
    assert outcome.runs == _shrunk(fails)[1].runs


def test_shrink_ends_with_its_budget() -> None:
    judged: list[Doc] = []

    def still_fails(documents: Sequence[Doc]) -> list[bool]:
        judged.extend(documents)
        return [len(each["spec"]["expect"]) > 1 for each in documents]

    outcome = shrink(DOCUMENT, still_fails, budget=7)
    assert (len(judged), outcome.runs, outcome.finished) == (7, 7, False)


def test_shrink_judges_nothing_that_does_not_compile() -> None:
    judged: list[Doc] = []

    def still_fails(documents: Sequence[Doc]) -> list[bool]:
        judged.extend(documents)
        return [True for _ in documents]

    outcome = shrink(DOCUMENT, still_fails, sound=lambda document: len(_spec(document)["timeline"]) > 3)
    assert len(_spec(outcome.document)["timeline"]) == 4
    assert min(len(_spec(each)["timeline"]) for each in judged) == 4
    assert DOCUMENT["spec"]["seed"] == 4711
