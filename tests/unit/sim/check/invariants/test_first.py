"""Invariants that look at commits alone: each holds in one run and is broken in another."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from sim.check import build
from sim.check.build import Mistakes
from sim.check.invariants import INVARIANTS
from sim.ident import NAMES
from sim.scenario.schema.sections import Expectation
from tests.unit.sim.check.test_expect import Run

BUDGET = "/policy/poddisruptionbudgets/default/web"
DEPLOYMENT = "/apps/deployments/default/web"
READY = {"conditions": [{"type": "Ready", "status": "True"}]}


def ready(run: Run, at_s: float, name: str, is_ready: bool = True, **more: Any) -> None:
    """A pod of web that is ready, or not."""
    meta = {"labels": {"app": "web"}, **more}
    if is_ready:
        run.put(
            at_s, f"//pods/default/{name}", {"metadata": meta, "spec": {"nodeName": "n"}, "status": READY}
        )
    else:
        run.put(at_s, f"//pods/default/{name}", {"metadata": meta, "spec": {"nodeName": "n"}})


def budget(run: Run, at_s: float, *disrupted: str) -> None:
    """The budget of web, which needs two pods, with the evictions that it has granted."""
    spec = {"minAvailable": 2, "selector": {"matchLabels": {"app": "web"}}}
    run.put(at_s, BUDGET, {"spec": spec, "status": {"disruptedPods": dict.fromkeys(disrupted, "now")}})


def guarded(entry: Any = "budgets-kept") -> Run:
    """Three pods, of which a budget needs two."""
    run = Run({"invariant": entry})
    for name in "abc":
        ready(run, 1, name)
    budget(run, 2)
    return run


def test_eviction_above_the_minimum_keeps_a_budget() -> None:
    run = guarded()
    budget(run, 10, "a")
    run.put(11, "//pods/default/a", None)
    assert (run.verdict().ok, run.verdict().measured) == (True, "never")


def test_second_eviction_from_an_old_count_breaks_a_budget() -> None:
    run = guarded()
    budget(run, 10, "a")
    run.put(11, "//pods/default/a", None)
    budget(run, 20, "b")  # the controller has not noticed that a is gone
    verdict = run.verdict()
    assert not verdict.ok
    assert verdict.measured == "pods/default/b evicted, with 1 of 2 left of default/web"
    assert (verdict.at_us, verdict.objects) == (20_000_000, ("//pods/default/b",))


@pytest.mark.parametrize(("lost_s", "within", "ok"), [(16, "5s", True), (14, "5s", False), (14, "10s", True)])
def test_recent_loss_is_no_breach_of_a_budget(lost_s: int, within: str, ok: bool) -> None:
    run = guarded({"name": "budgets-kept", "within": within})
    ready(run, lost_s, "c", is_ready=False)
    budget(run, 20, "a")
    assert run.verdict().ok is ok


def test_eviction_of_a_pod_that_is_not_ready_breaks_no_budget() -> None:
    run = guarded()
    ready(run, 5, "c", is_ready=False)
    budget(run, 20, "c")
    assert run.verdict().ok


def test_other_pods_do_not_count_for_a_budget() -> None:
    run = guarded()
    ready(run, 3, "x", labels={"app": "other"})
    budget(run, 10, "a")
    budget(run, 20, "a", "b")
    assert not run.verdict().ok


# --- deletions ------------------------------------------------------------------------------------


def deleted(run: Run, at_s: float, grace_s: int = 0) -> None:
    meta = {"deletionTimestamp": "now", "deletionGracePeriodSeconds": grace_s}
    run.put(at_s, "//pods/default/p", {"metadata": meta})


@pytest.mark.parametrize(
    ("grace_s", "gone_s", "ok"), [(0, 30, True), (0, 71, False), (30, 99, True), (30, 101, False)]
)
def test_deletion_is_stuck_after_its_grace_period_and_more(grace_s: int, gone_s: int, ok: bool) -> None:
    run = Run({"invariant": {"name": "no-stuck-deletion", "within": "1m"}})
    run.pod(1, "p")
    deleted(run, 10, grace_s)
    run.put(gone_s, "//pods/default/p", None)
    assert run.verdict(200).ok is ok


def test_object_that_stays_marked_is_stuck_at_the_end() -> None:
    run = Run({"invariant": {"name": "no-stuck-deletion", "within": "1m"}})
    deleted(run, 10)
    assert run.verdict(60).ok
    verdict = run.verdict(100)
    assert (verdict.ok, verdict.measured) == (False, "pods/default/p for 1m30s, to the end")
    assert verdict.objects == ("//pods/default/p",)


def test_time_before_the_last_disturbance_is_no_stuck_deletion() -> None:
    run = Run({"invariant": {"name": "no-stuck-deletion", "within": "1m"}})
    deleted(run, 10)
    run.checker.step("dark", "fail", 90_000_000)
    assert run.verdict(140).ok
    assert not run.verdict(151).ok


# --- steady ---------------------------------------------------------------------------------------


def test_writes_soon_after_the_last_disturbance_leave_a_cluster_steady() -> None:
    run = Run({"invariant": {"name": "steady", "within": "1m"}})
    run.pod(10, "p")
    run.checker.step("cut", "partition", 100_000_000)
    run.pod(150, "p", "n")
    verdict = run.verdict(400)
    assert (verdict.ok, verdict.measured) == (True, "last write 0m50s after the last disturbance")
    assert verdict.measured_s == (50.0,)


def test_object_that_still_changes_is_named_with_its_fields() -> None:
    run = Run({"invariant": {"name": "steady", "within": "1m"}})
    for at_s in range(10, 100, 10):
        run.pod(at_s, "p", "a" if at_s % 20 else "b")
    verdict = run.verdict()
    assert (verdict.ok, verdict.objects) == (False, ("//pods/default/p",))
    assert verdict.measured == "still changes: pods/default/p (spec.nodeName; 3 times, last at 1m30s)"
    assert verdict.at_us == 70_000_000


def test_heartbeats_of_nodes_are_no_writes() -> None:
    run = Run({"invariant": {"name": "steady", "within": "1m"}})
    for at_s in (1, 301, 601):
        condition = {"type": "Ready", "status": "True", "lastHeartbeatTime": str(at_s)}
        meta = {"resourceVersion": str(at_s)}
        run.put(at_s, "//nodes//n", {"metadata": meta, "status": {"conditions": [condition]}})
    assert run.verdict(700).ok
    run.node(650, "n", "a", "True")
    assert not run.verdict(700).ok


def test_run_that_ends_early_is_not_judged() -> None:
    verdict = Run({"invariant": "steady"}).verdict(30)
    assert (verdict.ok, verdict.measured) == (True, "not judged: the run ended 0m30s after the start")


# --- availability ---------------------------------------------------------------------------------


def deployed(within: str = "1m") -> Run:
    """A Deployment of two pods that are ready at 10 s."""
    run = Run({"invariant": {"name": "available-again", "within": within}})
    run.put(1, DEPLOYMENT, {"spec": {"replicas": 2, "strategy": {"type": "Recreate"}}})
    owner = [{"kind": "Deployment", "name": "web", "uid": "d"}]
    run.put(2, "/apps/replicasets/default/web-1", {"metadata": {"uid": "r", "ownerReferences": owner}})
    for name in "ab":
        serve(run, 10, name)
    return run


def serve(run: Run, at_s: float, name: str, is_ready: bool = True) -> None:
    """A pod of the Deployment."""
    ready(run, at_s, name, is_ready, ownerReferences=[{"kind": "ReplicaSet", "name": "web-1", "uid": "r"}])


@pytest.mark.parametrize(("back_s", "ok"), [(150, True), (161, False)])
def test_deployment_has_to_be_available_again_in_time(back_s: int, ok: bool) -> None:
    run = deployed()
    run.checker.step("crash", "crash", 100_000_000)
    serve(run, 101, "a", is_ready=False)
    serve(run, back_s, "a")
    assert run.verdict(300).ok is ok


def test_deployment_that_stays_short_is_named() -> None:
    run = deployed()
    serve(run, 101, "a", is_ready=False)
    verdict = run.verdict(300)
    assert (verdict.ok, verdict.measured) == (False, "deployments/default/web has 1 of 2 at the end")
    assert verdict.objects == (DEPLOYMENT,)


def test_pod_on_a_dead_machine_is_not_available() -> None:
    run = deployed()
    run.checker.machine("n", False, 20_000_000)
    assert not run.verdict(300).ok
    run.checker.machine("n", True, 50_000_000)
    assert run.verdict(300).ok


# --- custom resources -----------------------------------------------------------------------------

WIDGET = "/example.com/widgets/default/w"


@pytest.mark.parametrize("key", [WIDGET, "/example.com/events/default/w", "/example.com/nodes//w"])
def test_custom_object_that_is_written_ends_the_rest(key: str) -> None:
    run = Run(
        {"invariant": {"name": "steady", "within": "1m"}}, {"eventually": "the cluster is steady for 1m"}
    )
    for at_s in range(10, 200, 10):
        run.put(at_s, key, {"spec": {"size": at_s}})
    verdicts = run.checker.verdicts(200_000_000)
    assert [verdict.ok for verdict in verdicts] == [False, False]
    assert verdicts[0].objects == (key,)


def test_custom_object_that_two_programs_rewrite_breaks_no_endless_rewrite() -> None:
    run = Run({"invariant": "no-endless-rewrite"})
    for at_s in range(10):
        run.put(60 * at_s, WIDGET, {"spec": {"size": at_s % 2}})
    assert run.verdict(1000).measured.startswith("widgets/default/w (spec.size)")


def test_custom_object_with_a_finalizer_is_stuck() -> None:
    run = Run({"invariant": "no-stuck-deletion"})
    run.put(10, WIDGET, {"metadata": {"deletionTimestamp": "now"}})
    assert run.verdict(1000).objects == (WIDGET,)


def test_custom_node_is_no_node_for_other_expectations() -> None:
    run = Run({"always": "nodes have Ready=True"}, {"invariant": "steady"})
    run.put(10, "/example.com/nodes//w", {})
    assert run.checker.world.zone_of_node == {}


# --- windows and entries --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("after", "kind", "begins"),
    [
        ("last fault", "crash", True),
        ("last fault", "end of crash", True),
        ("last fault", "scale", False),
        ("last disturbance", "scale", True),
        ("last disturbance", "end of crash", True),
        ("last disturbance", "mark", False),
    ],
)
def test_window_begins_again_with_the_last_disturbance(after: str, kind: str, begins: bool) -> None:
    specs: list[dict[str, Any]] = [
        {"never": {"created": "pods"}},
        {"count": {"created": "pods"}, "equals": 0},
        {"eventually": {"created": "pods"}},
        {"when": {"created": "pods"}, "within": ["0s", "1h"]},
        {"order": [{"created": "pods"}, {"created": "pods"}]},
        {"always": "no pods exist"},
    ]
    run = Run(*({**spec, "after": after} for spec in specs))
    run.pod(5, "p")
    run.put(6, "//pods/default/p", None)
    before = [verdict.ok for verdict in run.checker.verdicts(8_000_000)]
    run.checker.step("x", kind, 10_000_000)
    after_step = [verdict.ok for verdict in run.checker.verdicts(100_000_000)]
    assert before == [False, False, True, True, True, False]
    assert after_step == ([True, True, False, False, False, True] if begins else before)


@pytest.mark.parametrize(
    ("entry", "error"),
    [
        ("stedy", "there is no invariant 'stedy'; did you mean 'steady'"),
        ({"name": "steady", "atMost": 3}, "'atMost' has no effect on the invariant 'steady'"),
        ({"name": "steady", "within": "soon"}, "'within': 'soon' is no duration"),
    ],
)
def test_wrong_invariant_is_refused_with_a_remedy(entry: Any, error: str) -> None:
    with pytest.raises(Mistakes, match=error):
        build(msgspec.convert({"name": "x", "invariant": entry}, Expectation), NAMES["orch"])


@pytest.mark.parametrize("name", INVARIANTS)
def test_every_invariant_has_documentation_and_holds_in_an_empty_run(name: str) -> None:
    assert len(INVARIANTS[name].__doc__ or "") > 80
    assert name in INVARIANTS[name].example
    assert Run({"invariant": name}).verdict(10_000).ok
