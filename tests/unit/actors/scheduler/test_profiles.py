"""What profiles change in attempts: plugins that are off, weights, and arguments."""

from __future__ import annotations

from typing import Any

import pytest

from actors.scheduler.attempt import Attempts, Failed, Placed
from sim.options.scheduling.profiles import LEAST, MOST, RATIO, DefaultSpread, Fit, ProfileSpec
from tests.unit.actors.scheduler.test_attempt import N, World

FILTERS = frozenset(("NodeUnschedulable", "NodeName", "TaintToleration", "NodeAffinity", "NodePorts"))
TAINT = {"key": "k", "value": "", "effect": "NoSchedule"}


def world(**fields: Any) -> World:
    made: Any = World()
    made.attempts = Attempts(made.cluster, 0, spec=ProfileSpec(**fields))
    return made


def placed(made: World, **shape: Any) -> str:
    answer = made.place(**shape)
    assert isinstance(answer, Placed), answer
    return answer.node


@pytest.mark.parametrize(("strategy", "node"), [(LEAST, "empty"), (MOST, "used")])
def test_the_strategy_decides_between_empty_and_used_nodes(strategy: str, node: str) -> None:
    made = world(fit=Fit(strategy=strategy), weights={"NodeResourcesFit": 1})
    for name in ("empty", "used"):
        made.node(name, cpu="4")
    made.put("used")
    assert placed(made) == node


@pytest.mark.parametrize(("shape", "node"), [(((0, 0), (100, 10)), "used"), (((0, 10), (100, 0)), "empty")])
def test_a_broken_line_scores_the_use_of_a_resource(shape: tuple[Any, ...], node: str) -> None:
    fit = Fit(strategy=RATIO, resources=(("cpu", 1),), shape=shape)
    made = world(fit=fit, weights={"NodeResourcesFit": 1})
    for name in ("empty", "used"):
        made.node(name, cpu="4")
    made.put("used")
    assert placed(made) == node


@pytest.mark.parametrize(("filters", "fits"), [(None, False), (FILTERS, True)])
def test_a_filter_that_is_off_refuses_no_node(filters: frozenset[str] | None, fits: bool) -> None:
    made = world(filters=filters)
    made.node("a", cpu="1")
    assert isinstance(made.place(cpu="2"), Placed) is fits


@pytest.mark.parametrize(("filters", "fits"), [(None, False), (FILTERS - {"TaintToleration"}, True)])
def test_taints_do_not_matter_to_a_profile_without_them(filters: frozenset[str] | None, fits: bool) -> None:
    made = world(filters=filters)
    made.node("a", taints=[TAINT])
    assert isinstance(made.place(), Placed) is fits


def test_two_profiles_on_one_view_keep_their_results_apart() -> None:
    made: Any = World()
    made.node("a", cpu="1")
    other = Attempts(made.cluster, 0, spec=ProfileSpec(filters=FILTERS))
    for _ in range(2):
        assert isinstance(made.place(cpu="2"), Failed)
        assert isinstance(other.place(made.info, list, lambda count: 0), Placed)


def test_an_added_affinity_restricts_and_prefers_nodes() -> None:
    def term(value: str) -> dict[str, Any]:
        return {"matchExpressions": [{"key": "kind", "operator": "In", "values": [value]}]}

    required = {"nodeSelectorTerms": [term("x"), term("y")]}
    preferred = [{"weight": 10, "preference": term("y")}]
    made = world(
        affinity={
            "requiredDuringSchedulingIgnoredDuringExecution": required,
            "preferredDuringSchedulingIgnoredDuringExecution": preferred,
        },
        weights={"NodeAffinity": 1},
    )
    made.node("none")
    answer = made.place()
    assert isinstance(answer, Failed)
    assert "1 node(s) didn't match scheduler-enforced node affinity" in answer.message
    for name in ("x", "y"):
        made.node(name, kind=name)
    assert placed(made) == "y"


@pytest.mark.parametrize(("is_hard", "fits"), [(True, False), (False, True)])
def test_listed_constraints_count_for_pods_without_their_own(is_hard: bool, fits: bool) -> None:
    made = world(spread=(DefaultSpread("zone", 1, is_hard),))
    made.cluster.set_service(
        "default",
        "s",
        {"metadata": {"namespace": "default", "name": "s"}, "spec": {"selector": {"app": "a"}}},
    )
    made.node("a", cpu="8", zone="a")
    made.node("full", cpu="0", zone="b")
    made.put("a")
    assert isinstance(made.place(), Placed) is fits


@pytest.mark.parametrize(("weight", "node"), [(0, "a"), (100, "b")])
def test_required_affinity_of_pods_on_nodes_has_the_weight_of_the_profile(weight: int, node: str) -> None:
    made = world(required_weight=weight, weights={"InterPodAffinity": 1})
    for name in ("a", "b"):
        made.node(name)
    term = {"topologyKey": N.label_hostname, "labelSelector": {"matchLabels": {"app": "a"}}}
    affinity = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    made.put("b", app="other", affinity=affinity)
    assert placed(made) == node


def test_no_pod_is_preempted_without_the_plugin() -> None:
    for preempts in (True, False):
        made = world(preempts=preempts)
        made.node("a", cpu="1")
        made.put("a")
        answer = made.place(priority=10)
        assert isinstance(answer, Failed)
        assert (answer.candidate is not None) is preempts
        assert ("preemption" in answer.message) is False


@pytest.mark.parametrize(("ignored", "fits"), [((), False), (("example.com/gpu",), True)])
def test_ignored_resources_are_not_compared(ignored: tuple[str, ...], fits: bool) -> None:
    made = world(fit=Fit(ignored=frozenset(ignored)))
    made.node("a")
    pod: Any = made.pod()
    pod["spec"]["containers"][0]["resources"]["requests"]["example.com/gpu"] = "1"
    answer = made.attempts.place(made.cluster.templates.info(pod), list, lambda count: 0)
    assert isinstance(answer, Placed) is fits
