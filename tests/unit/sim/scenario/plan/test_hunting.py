"""The section `hunt`: a palette for the cluster at hand, and each mistake with place and remedy."""

from __future__ import annotations

from pathlib import Path

import pytest

from sim.errors import InputError
from sim.scenario.compile import compile_plan
from sim.scenario.plan.plan import HuntPlan
from sim.scenario.read.source import only_document

HEAD = """\
apiVersion: orrery.dev/v1
kind: Scenario
metadata: {name: shop}
spec:
  duration: 20m
"""
THREE = "  cluster: {nodes: [{count: 3}]}\n"
ZONES = "  cluster: {nodes: [{count: 4, zones: [a, b]}], apiServer: {replicas: 2}}\n"


def hunt_of(hunt: str, cluster: str = THREE) -> HuntPlan:
    plan = compile_plan(only_document(f"{HEAD}{cluster}  hunt: {hunt}\n", "f.yaml"), Path())
    assert plan.hunt is not None
    return plan.hunt


def zones_of(plan: HuntPlan) -> list[tuple[str, ...]]:
    return [step.values["fail.nodes.zone"] for step in plan.palette if "fail.nodes.zone" in step.values]


def test_empty_section_draws_the_faults_that_the_cluster_can_have() -> None:
    plain, zoned = hunt_of("{}"), hunt_of("{}", ZONES)
    kinds = {step.kind for step in plain.palette}
    assert {"fail", "crash", "partition", "network", "clock", "lag", "compact"} <= kinds
    assert not kinds & {"cloud", "driver", "scale"}
    assert zones_of(plain) == []
    assert zones_of(zoned) == [("a", "b")]


def test_fault_that_breaks_an_invariant_by_its_nature_is_drawn_by_its_name_only() -> None:
    assert "loseLease" not in {step.kind for step in hunt_of("{}").palette}
    assert [step.kind for step in hunt_of("{palette: [loseLease]}").palette] == ["loseLease"]


def test_sets_of_the_cluster_stand_for_their_members() -> None:
    entry = "{crash: {actor: x, restartAfter: 5s}, values: {crash.actor: servers, crash.pick: [1]}}"
    assert hunt_of(f"{{palette: [{entry}]}}", ZONES).palette[0].values["crash.actor"] == (
        "apiserver-0",
        "apiserver-1",
    )
    entry = '{partition: {between: [x, apiserver]}, values: {"partition.between[0]": ["zone {zones}"]}}'
    assert hunt_of(f"{{palette: [{entry}]}}", ZONES).palette[0].values["partition.between[0]"] == (
        "zone a",
        "zone b",
    )


def test_times_without_a_word_leave_a_quiet_end() -> None:
    plan = hunt_of("{}")
    assert (plan.from_us, plan.for_us, plan.quiet_us) == (120_000_000, 720_000_000, 360_000_000)
    plan = hunt_of("{from: 5m, for: 10m}")
    assert (plan.from_us, plan.for_us, plan.quiet_us) == (300_000_000, 600_000_000, 300_000_000)


def test_ranges_of_values_are_whole_numbers_or_durations() -> None:
    plan = hunt_of('{vary: {"cluster.nodes[0].count": 3..5, cluster.boot: 1s..10s}}')
    assert plan.vary["cluster.nodes[0].count"] == (3, 4, 5)
    assert plan.vary["cluster.boot"][0] == "1s"
    assert plan.vary["cluster.boot"][-1] == "10s"


def test_orders_of_few_names_are_all_there_are() -> None:
    orders = hunt_of("{arrivals: {among: [pods, scheduler-0, node-1], spread: 5ms}}").vary["cluster.arrivals"]
    assert [each["order"] for each in orders] == [*range(6)]
    assert orders[3] == {"order": 3, "among": ["pods", "scheduler-0", "node-1"], "spread": "5ms"}


def test_orders_of_many_names_and_of_none_are_some() -> None:
    many = hunt_of("{arrivals: {among: [pods, nodes, services, leases, events, endpoints]}}")
    numbers = {each["order"] for each in many.vary["cluster.arrivals"]}
    assert 100 < len(numbers) <= 120
    assert max(numbers) < 720
    assert len(hunt_of("{arrivals: {}}").vary["cluster.arrivals"]) == 20


def test_targets_in_words_are_measured_from_the_first_step_on() -> None:
    plan = hunt_of("{maximise: [unavailability of deployment/web, time until all nodes have Ready=True]}")
    assert plan.targets[0]["unavailability"]["of"] == "deployments/web"
    assert plan.targets[1]["when"] == "all nodes have Ready=True"
    assert [one["after"] for one in plan.targets] == ["2m0s", "2m0s"]


@pytest.mark.parametrize(
    ("hunt", "error"),
    [
        ("{palette: []}", r"f.yaml:7:\d+: no step of it has a target in this cluster \(name nodes or"),
        ("{palette: [cloud]}", r"f.yaml:7:\d+: no step of it has a target"),
        ("{palette: [crush]}", r"f.yaml:7:\d+: no kind of step is named 'crush' \(did you mean 'crash'\?\)"),
        ("{palette: [{crash: {actor: nobody}}]}", r"f.yaml:7:\d+: no actor is named 'nobody'"),
        ("{palette: [{weight: 2}]}", r"f.yaml:7:\d+: an entry has exactly one action"),
        (
            "{palette: [{fail: {nodes: {}, how: hang}, values: {fail.nodes.zone: zones}}]}",
            r"f.yaml:7:\d+: there is nothing to draw from in this cluster",
        ),
        (
            "{palette: [{fail: {nodes: {}, how: hang}, values: {fail.nodes.name: knots}}]}",
            r"f.yaml:7:\d+: the cluster has no set 'knots' \(did you mean 'nodes'\?\)",
        ),
        ("{for: 0s}", r"f.yaml:7:\d+: leaves no time in which a step is drawn \(the run takes 20m0s\)"),
        ("{from: 20m}", r"f.yaml:7:\d+: leaves no time in which a step is drawn"),
        (
            "{from: 5m, for: 10m, quiet: 10m}",
            r"f.yaml:7:\d+: from, for and quiet end at 25m0s, after the run",
        ),
        ("{steps: [3, 2]}", r"f.yaml:7:\d+: from 3 to 2 there is no number"),
        ("{vary: {cluster.nodes.count: 3..5}}", r"f.yaml:7:\d+: .*"),
        ("{vary: {cluster.boot: soon}}", r"f.yaml:7:\d+: 'soon' is no range \(write 3..6 or 10s..5m"),
        ("{maximise: [suffering]}", r"f.yaml:7:\d+: 'suffering' measures nothing \(write 'unavailability of"),
        ("{invariants: [{name: x, whenever: y}]}", r"f.yaml:7:\d+: .*whenever"),
        ("{arrivals: {among: [pods, pots]}}", r"f.yaml:7:\d+: 'pots' sends no messages \(there is pods"),
        ("{pallette: []}", r"f.yaml:7:\d+: unknown field 'pallette' \(did you mean 'palette'\?\)"),
    ],
)
def test_mistake_of_the_section_has_its_place_and_remedy(hunt: str, error: str) -> None:
    with pytest.raises(InputError, match=error):
        hunt_of(hunt)


def test_section_does_not_change_the_plan_of_a_run() -> None:
    plan = compile_plan(only_document(f"{HEAD}{THREE}  hunt: {{}}\n", "f.yaml"), Path())
    assert plan.steps == ()
    assert plan.expectations == ()
