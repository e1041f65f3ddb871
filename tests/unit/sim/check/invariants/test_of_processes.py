"""Invariants about processes: leaders, lost work, deletions without a reason, endless rewrites."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from sim.api.store import Change, Item
from sim.check.origins import Origins
from tests.unit.sim.check.test_expect import NAMES_, Run

LEASE = f"/coordination.orch.io/leases/{NAMES_.system_namespace}/{NAMES_.component('controller-manager')}"
NEEDED = "/apps/replicasets/default/web-1"


def lease(run: Run, at_s: float, holder: str, key: str = LEASE) -> None:
    run.put(
        at_s, key, {"spec": {"holderIdentity": f"{holder}_x" if holder else "", "leaseDurationSeconds": 15}}
    )


def process(run: Run, at_s: float, what: str, name: str) -> None:
    run.checker.process(what, name, int(at_s * 1e6))


# --- leaders --------------------------------------------------------------------------------------


def test_leader_that_ended_before_the_next_keeps_one_leader() -> None:
    run = Run({"invariant": "one-leader"})
    lease(run, 1, "m-0")
    process(run, 20, "exit", "m-0")
    lease(run, 30, "m-1")
    assert (run.verdict().ok, run.verdict().measured) == (True, "never")


def test_healthy_leader_beside_a_new_one_breaks_one_leader() -> None:
    run = Run({"invariant": "one-leader"})
    lease(run, 1, "m-0")
    lease(run, 30, "m-1")
    process(run, 31, "exit", "m-0")
    verdict = run.verdict()
    assert (verdict.ok, verdict.objects) == (False, (LEASE,))
    assert verdict.measured == "m-0 led for 1.00s beside m-1, from 0m30s"


@pytest.mark.parametrize("how", ["pause", "slow"])
@pytest.mark.parametrize(("ended_s", "ok"), [(61, True), (73, False)])
def test_hindered_leader_may_act_for_its_renew_deadline(how: str, ended_s: int, ok: bool) -> None:
    run = Run({"invariant": "one-leader"})
    lease(run, 1, "m-0")
    process(run, 10, how, "m-0")
    lease(run, 30, "m-1")
    process(run, 60, "resume", "m-0")
    process(run, ended_s, "exit", "m-0")
    assert run.verdict().ok is ok


@pytest.mark.parametrize(
    ("again", "identity", "ok"), [("x", "x", True), ("start", "x", True), ("start", "y", False)]
)
def test_write_of_a_process_that_has_ended_makes_no_leader(again: str, identity: str, ok: bool) -> None:
    run = Run({"invariant": "one-leader"})
    lease(run, 1, "m-0")
    process(run, 10, "crash", "m-0")
    if again == "start":
        process(run, 11, "start", "m-0")
    run.put(12, LEASE, {"spec": {"holderIdentity": f"m-0_{identity}", "leaseDurationSeconds": 15}})
    lease(run, 30, "m-1")
    assert run.verdict().ok is ok


def test_released_lease_leaves_one_leader() -> None:
    run = Run({"invariant": "one-leader"})
    lease(run, 1, "m-0")
    lease(run, 20, "")
    lease(run, 21, "m-1")
    assert run.verdict().ok


# --- work -----------------------------------------------------------------------------------------


def replica_set(run: Run, at_s: float, has: int, generation: int = 1, observed: int = 1) -> None:
    obj = {
        "metadata": {"generation": generation},
        "spec": {"replicas": 3},
        "status": {"replicas": has, "observedGeneration": observed},
    }
    run.put(at_s, NEEDED, obj)


def led(end_s: int = 1000, gap: Sequence[int] = ()) -> Run:
    """A run with a manager that renews its lease, but for a gap."""
    run = Run({"invariant": {"name": "no-lost-work", "within": "1m"}})
    for at_s in range(0, end_s, 5):
        if at_s not in gap:
            lease(run, at_s, "m-0")
    return run


@pytest.mark.parametrize(("done_s", "ok"), [(60, True), (62, False)])
def test_set_of_too_few_pods_is_lost_work_after_a_time(done_s: int, ok: bool) -> None:
    run = Run({"invariant": {"name": "no-lost-work", "within": "1m"}})
    lease(run, 0, "m-0")
    replica_set(run, 1, 2)
    for at_s in range(5, 60, 5):
        lease(run, at_s, "m-0")
    replica_set(run, done_s, 3)
    assert run.verdict().ok is ok


def test_generation_that_is_not_observed_is_named() -> None:
    run = led()
    replica_set(run, 500, 3, generation=2)
    verdict = run.verdict(1000)
    assert (verdict.ok, verdict.objects) == (False, (NEEDED,))
    assert verdict.measured == "replicasets/default/web-1 for 8m20s: generation 2 is not observed"


def test_work_without_a_leader_is_not_lost() -> None:
    run = led(600)
    replica_set(run, 500, 2)
    assert run.verdict(1000).ok  # the last renewal was at 595 s
    run = led(1000, gap=range(500, 960))
    replica_set(run, 10, 2)
    assert run.verdict(1000).ok  # led again for 40 s


def test_pod_that_the_scheduler_never_looked_at_is_lost_work() -> None:
    run = Run({"invariant": {"name": "no-lost-work", "within": "1m"}})
    scheduler = LEASE.rpartition("/")[0] + f"/{NAMES_.component('scheduler')}"
    run.pod(10, "p")
    for at_s in range(0, 100, 5):
        lease(run, at_s, "s-0", scheduler)
    assert run.verdict().measured == "pods/default/p for 1m30s: the scheduler has not looked at it"


def test_pod_that_a_ready_node_does_not_begin_is_lost_work() -> None:
    run = Run({"invariant": {"name": "no-lost-work", "within": "1m"}})
    run.pod(10, "p", "n")
    assert run.verdict().ok
    run.node(20, "n", "a", "True")
    assert not run.verdict().ok


# --- rewrites -------------------------------------------------------------------------------------


@pytest.mark.parametrize(("every_s", "ok"), [(3, True), (1, False)])
def test_many_writes_a_minute_are_an_endless_rewrite(every_s: int, ok: bool) -> None:
    run = Run({"invariant": "no-endless-rewrite"})
    for number in range(60):
        run.put(number * every_s, NEEDED, {"spec": {"replicas": number}})
    verdict = run.verdict(200)
    assert (verdict.ok, verdict.objects) == (ok, () if ok else (NEEDED,))


def test_field_that_goes_back_and_forth_is_an_endless_rewrite() -> None:
    run = Run({"invariant": "no-endless-rewrite"})
    for number in range(9):
        run.put(number * 60, NEEDED, {"spec": {"replicas": number % 2}})
    assert (
        run.verdict(600).measured
        == "replicasets/default/web-1 (spec.replicas): 1 in a minute, 7 times back and forth"
    )


def test_writes_of_a_status_are_no_endless_rewrite() -> None:
    run = Run({"invariant": "no-endless-rewrite"})
    for number in range(60):
        replica_set(run, number, number)
    assert run.verdict().ok


# --- deletions ------------------------------------------------------------------------------------


class Caused(Run):
    """A run with records: each write has a cause and a user."""

    def __init__(self) -> None:
        super().__init__({"invariant": "no-unasked-deletion"})
        self.origins = self.checker.world.origins = Origins()
        self.ident = 0

    def record(self, kind: str, cause: int, *values: Any) -> int:
        self.ident += 1
        self.origins.see(kind, self.ident, cause, values)
        return self.ident

    def step(self) -> int:
        return self.record("step", 0, "x", "crash", {})

    def write(
        self, key: str, user: str, cause: int, verb: str = "create", deleted: bool = False, **meta: Any
    ) -> int:
        ident = self.record("write", cause, user, verb, key, self.rev)
        name = key.rsplit("/", 1)[1]
        prev = self.items.get(key)
        full = {"metadata": {"name": name, "namespace": "default", "uid": name, **meta}}
        self.rev += 1
        item = self.items[key] = Item(key, full, self.rev, self.rev)
        self.checker.see(Change(self.rev, item, prev, deleted, self.rev, ident))
        return ident


POD, SET, OTHER = "//pods/default/p", "/apps/replicasets/default/r", "/apps/deployments/default/other"
CONTROLLER = "system:serviceaccount:orch-system:replicaset-controller"
COLLECTOR = "system:serviceaccount:orch-system:generic-garbage-collector"
OWNED = [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "r", "uid": "r"}]


def made(run: Caused) -> int:
    """A pod of a set that the administrator makes; the record of its write."""
    return run.write(POD, CONTROLLER, run.write(SET, "admin", 0), ownerReferences=OWNED)


def test_deletion_by_a_user_is_asked_for() -> None:
    run = Caused()
    made(run)
    run.write(POD, "admin", 0, "delete", deleted=True, ownerReferences=OWNED)
    assert run.verdict().ok


def test_deletion_after_no_more_than_the_creation_is_unasked() -> None:
    run = Caused()
    run.write(POD, CONTROLLER, made(run), "delete", deletionTimestamp="now", ownerReferences=OWNED)
    verdict = run.verdict()
    assert (verdict.ok, verdict.objects) == (False, (POD,))
    assert verdict.measured == "pods/default/p by replicaset-controller"


def test_creation_of_a_custom_owner_is_no_reason_to_delete() -> None:
    run = Caused()
    names = {"group": "example.com", "names": {"kind": "Service", "plural": "services"}}
    run.put(1, "/apiextensions.orch.io/customresourcedefinitions//services.example.com", {"spec": names})
    owner = {"apiVersion": "example.com/v1", "kind": "Service", "name": "s", "uid": "s"}
    custom = run.write("/example.com/services/default/s", "admin", 0)
    pod = run.write(POD, CONTROLLER, custom, ownerReferences=[owner])
    run.write(POD, CONTROLLER, pod, "delete", deleted=True, ownerReferences=[owner])
    assert run.verdict().objects == (POD,)


@pytest.mark.parametrize("gone", [True, False])
def test_collector_needs_a_custom_owner_that_is_gone(gone: bool) -> None:
    run = Caused()
    owner = {"apiVersion": "example.com/v1", "kind": "Widget", "name": "w", "uid": "w"}
    cause = run.write("/example.com/widgets/default/w", "admin", 0)
    run.write(POD, CONTROLLER, cause, ownerReferences=[owner])
    if gone:
        run.write("/example.com/widgets/default/w", "admin", 0, "delete", deleted=True)
    run.write(POD, COLLECTOR, cause, "delete", deleted=True, ownerReferences=[owner])
    assert run.verdict().ok is gone


def test_step_among_the_causes_of_a_deletion_is_a_reason() -> None:
    run = Caused()
    made(run)
    run.write(
        POD, CONTROLLER, run.record("decision", run.step(), "m", "evict", POD, {}), "delete", deleted=True
    )
    assert run.verdict().ok


def test_creation_by_a_step_is_no_reason_to_delete() -> None:
    run = Caused()
    pod = run.write(POD, CONTROLLER, run.write(SET, "admin", run.step()), ownerReferences=OWNED)
    run.write(POD, CONTROLLER, pod, "delete", deleted=True, ownerReferences=OWNED)
    assert not run.verdict().ok


def test_write_of_another_object_by_a_user_is_a_reason() -> None:
    run = Caused()
    made(run)
    run.write(POD, CONTROLLER, run.write(OTHER, "admin", 0), "delete", deleted=True, ownerReferences=OWNED)
    assert run.verdict().ok


@pytest.mark.parametrize("gone", [True, False])
def test_garbage_collector_needs_an_owner_that_is_gone(gone: bool) -> None:
    run = Caused()
    made(run)
    cause = run.step()
    if gone:
        run.write(SET, "admin", 0, "delete", deleted=True)
    run.write(POD, COLLECTOR, cause, "delete", deleted=True, ownerReferences=OWNED)
    assert run.verdict().ok is gone


def test_cause_that_is_not_known_is_a_reason() -> None:
    run = Caused()
    made(run)
    run.ident += 1  # a record of a series
    run.write(POD, CONTROLLER, run.ident, "delete", deleted=True, ownerReferences=OWNED)
    assert run.verdict().ok


# --- requests and programs ------------------------------------------------------------------------


@pytest.mark.parametrize(("rate", "ok"), [(15, True), (16, False)])
def test_client_with_many_requests_breaks_their_bound(rate: int, ok: bool) -> None:
    run = Run({"invariant": {"name": "bounded-requests", "within": "1m"}})
    run.checker.step("dark", "fail", 50_000_000)
    for at_s in range(0, 300, 10):
        burst = 1000 if at_s < 100 else 0
        run.checker.requests({"manager": rate * at_s + burst, "other": at_s}, at_s * 1_000_000)
    verdict = run.verdict(300)
    assert (verdict.ok, verdict.measured_s) == (ok, (float(rate),))


def test_requests_of_node_agents_are_those_of_each_node() -> None:
    run = Run({"invariant": {"name": "bounded-requests", "within": "1m"}})
    for name in ("n0", "n1", "n2"):
        run.node(1, name, "a", "True")
    for at_s in range(0, 300, 10):
        run.checker.requests({NAMES_.node_agent: 30 * at_s}, at_s * 1_000_000)
    assert run.verdict(300).measured == "10.0 a second"


class Container:
    """A container that runs until its end."""

    name, exit_us = "c", 20_000_000

    def exited(self, now_us: int) -> bool:
        return now_us >= self.exit_us


@pytest.mark.parametrize(("within", "ok"), [("10s", True), ("9s", False)])
def test_pod_on_two_machines_breaks_one_program(within: str, ok: bool) -> None:
    run = Run({"invariant": {"name": "one-program", "within": within}})
    for at_s, node in ((1, "old"), (10, "new")):
        run.checker.program(
            node, SimpleNamespace(key="default/db-0", uid=node), Container(), at_s * 1_000_000
        )
    verdict = run.verdict(60)
    assert (verdict.ok, verdict.objects) == (ok, () if ok else ("//pods/default/db-0",))


# --- views ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("end_s", "text"),
    [
        (30, "not judged: the run ended 0m30s after the start"),
        (90, "pods/default/p: scheduler-0 still has it"),
    ],
)
def test_process_that_has_an_old_state_breaks_the_convergence(end_s: int, text: str) -> None:
    run = Run({"invariant": "informers-converge"})
    asked: list[int] = []

    def diverged(within_us: int) -> dict[str, str]:
        asked.append(within_us)
        return {POD: "scheduler-0 still has it"}

    assert run.verdict(end_s).measured == "not judged: the run has not ended"
    run.checker.finish(diverged)
    verdict = run.verdict(end_s)
    assert (verdict.ok, asked) == (end_s == 30, [60_000_000])
    assert verdict.measured == text


# --- statuses -------------------------------------------------------------------------------------


def reported(run: Run, at_s: float, phase: str = "Running") -> None:
    """A pod on a node, with a container that runs if the pod does."""
    state = {"running": {}} if phase == "Running" else {"terminated": {}}
    status = {"phase": phase, "containerStatuses": [{"state": state}]}
    run.put(at_s, POD, {"spec": {"nodeName": "n"}, "status": status})


def program(run: Run, at_s: int, ends_s: int = 1000) -> None:
    container = Container()
    container.exit_us = ends_s * 1_000_000
    run.checker.program("n", SimpleNamespace(key="default/p", uid="u"), container, at_s * 1_000_000)


@pytest.mark.parametrize("ready", ["True", "Unknown"])
def test_pod_that_is_said_to_run_and_does_not_has_a_false_status(ready: str) -> None:
    run = Run({"invariant": {"name": "true-status", "within": "1m"}})
    run.node(1, "n", "a", ready)
    program(run, 2, ends_s=100)
    reported(run, 3)
    run.pod(102, "x")
    assert run.verdict(160).ok
    verdict = run.verdict(162)
    assert (verdict.ok, verdict.objects) == ((False, (POD,)) if ready == "True" else (True, ()))


@pytest.mark.parametrize("gone", [True, False])
def test_program_of_a_pod_that_has_finished_or_gone_is_a_false_status(gone: bool) -> None:
    run = Run({"invariant": {"name": "true-status", "within": "1m"}})
    run.node(1, "n", "a", "True")
    reported(run, 2)
    program(run, 2)
    if gone:
        run.put(10, POD, None)
    else:
        reported(run, 10, "Failed")
    verdict = run.verdict(100)
    assert verdict.measured == "pods/default/p is not said to run, and does on n for 1m30s, from 0m10s"


def test_status_that_is_mended_in_time_is_true() -> None:
    run = Run({"invariant": {"name": "true-status", "within": "1m"}})
    run.node(1, "n", "a", "True")
    program(run, 2, ends_s=100)
    reported(run, 3)
    run.pod(102, "x")
    reported(run, 150, "Succeeded")
    assert run.verdict(900).ok
