"""Conditions about leases that are led and programs on machines, components, rates, dotted fields."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from sim.check import parse_condition
from sim.check.build import Mistakes
from tests.unit.sim.check.test_expect import NAMES_, Run

LEASE = f"/coordination.orch.io/leases/{NAMES_.system_namespace}/{NAMES_.component('scheduler')}"
LED = f"any leases in namespace {NAMES_.system_namespace} are led"


def renew(run: Run, at_s: float, holder: str = "scheduler-0_x") -> None:
    spec = {"holderIdentity": holder, "renewTime": str(at_s), "leaseDurationSeconds": 15}
    run.put(at_s, LEASE, {"spec": spec})


# --- leases ---------------------------------------------------------------------------------------


def test_lease_is_led_until_its_duration_has_passed() -> None:
    run = Run({"always": LED, "after": "2s"}, {"always": LED.replace("led", "held"), "after": "2s"})
    for at_s in (1, 11, 21):
        renew(run, at_s)
    assert [verdict.ok for verdict in run.checker.verdicts(35_000_000)] == [True, True]
    led, held = run.checker.verdicts(40_000_000)
    assert (led.ok, led.measured, led.objects) == (False, "not at 34.00s", (LEASE,))
    assert held.ok


def test_lease_that_is_released_is_not_led() -> None:
    run = Run({"when": LED.replace("led", "not led"), "within": ["9s", "11s"]})
    renew(run, 1)
    renew(run, 10, "")
    assert run.verdict(12).ok


def test_write_of_a_lease_without_a_renewal_leads_it_no_longer() -> None:
    run = Run({"when": LED.replace("led", "not led"), "within": ["16s", "16s"]})
    renew(run, 1)
    run.put(10, LEASE, {**run.items[LEASE].obj, "metadata": {"labels": {"a": "b"}}})
    assert run.verdict(60).ok


def test_condition_about_led_leases_needs_those_of_its_namespace_only() -> None:
    run = Run({"always": LED})
    assert [one for one in run.checker.resources if "lease" in one] == [f"leases/{NAMES_.system_namespace}"]


# --- programs -------------------------------------------------------------------------------------


class Container:
    """A container on a machine that may have an end."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.exit_us: int | None = None

    def exited(self, now_us: int) -> bool:
        return self.exit_us is not None and self.exit_us <= now_us


def start(
    run: Run, at_s: float, node: str, name: str = "db-0", uid: str = "u", container: str = "c"
) -> Container:
    made = Container(container)
    run.checker.program(node, SimpleNamespace(key=f"default/{name}", uid=uid), made, int(at_s * 1e6))
    return made


NEVER_TWO = {"never": "at least 2 programs of pods named db-0"}


def test_two_machines_that_run_a_pod_have_two_programs() -> None:
    run = Run(NEVER_TWO, {"always": "at most 1 programs of pods named db-0", "after": "1s"})
    start(run, 2, "old")
    assert [verdict.ok for verdict in run.checker.verdicts(4_000_000)] == [True, True]
    start(run, 5, "new", uid="v")
    never, always = run.checker.verdicts(10_000_000)
    assert (never.ok, never.measured, never.objects) == (
        False,
        "once, at 5.00s (pods/default/db-0)",
        ("//pods/default/db-0",),
    )
    assert not always.ok


def test_program_that_has_ended_does_not_count() -> None:
    run = Run(NEVER_TWO)
    old = start(run, 2, "old")
    old.exit_us = 4_000_000
    start(run, 5, "new", uid="v")
    assert run.verdict(10).ok


def test_end_of_a_program_is_seen_at_its_time() -> None:
    run = Run(
        {"when": "no programs of pods on node old", "within": ["4s", "4s"], "after": "2s", "again": True}
    )
    start(run, 1, "old").exit_us = 6_000_000
    run.pod(2, "x")
    assert run.verdict(20).ok


def test_containers_of_one_pod_are_one_program() -> None:
    specs: tuple[dict[str, Any], ...] = (
        {"count": "programs of pods named db-*", "equals": 1},
        {"count": "containers of pods named db-*", "equals": 2},
    )
    run = Run(*specs)
    start(run, 2, "old", container="a")
    start(run, 3, "old", container="b")
    run.pod(4, "x")
    assert [verdict.measured for verdict in run.checker.verdicts(10_000_000)] == ["1", "2"]


def test_programs_are_selected_by_the_labels_of_their_pods() -> None:
    run = Run({"count": "programs of pods labelled app=db", "equals": 1})
    run.put(1, "//pods/default/db-0", {"metadata": {"uid": "u", "labels": {"app": "db"}}})
    start(run, 2, "old")
    start(run, 2, "old", name="other", uid="w")
    run.pod(4, "x")
    assert run.verdict(10).ok


@pytest.mark.parametrize("before", [[], [{"uid": "u"}], [{"uid": "u", "labels": {"app": "web"}}]])
def test_programs_follow_the_labels_that_their_pod_gets_later(before: list[dict[str, Any]]) -> None:
    run = Run({"when": "any programs of pods labelled app=db", "after": "0s", "within": ["3s", "3s"]})
    for meta in before:
        run.put(1, "//pods/default/db-0", {"metadata": meta})
    start(run, 2, "old")
    run.put(3, "//pods/default/db-0", {"metadata": {"uid": "u", "labels": {"app": "db"}}})
    run.pod(4, "x")
    assert run.verdict(10).ok


def test_condition_about_more_than_running_programs_is_refused() -> None:
    with pytest.raises(ValueError, match="programs of pods are running, or there are none"):
        parse_condition("any programs of pods named p are ready", NAMES_)


# --- components -----------------------------------------------------------------------------------


def component(of: str, at_most: str, **more: Any) -> dict[str, Any]:
    return {"unavailability": {"of": of, "atMost": at_most, **more}, "after": "1s"}


def test_leader_without_a_process_is_unavailable_before_its_lease_runs_out() -> None:
    run = Run(component("scheduler", "1m"), component("scheduler", "1m", view="controlPlane"))
    run.checker.process("start", "scheduler-0", 0)
    for at_s in (1, 6, 11):
        renew(run, at_s)
    run.checker.process("crash", "scheduler-0", 12_000_000)
    run.checker.process("start", "scheduler-1", 0)
    renew(run, 40, "scheduler-1_y")
    truth, seen = run.checker.verdicts(45_000_000)
    assert (truth.measured, seen.measured) == ("0m28s, lowest 0", "0m14s, lowest 0")
    assert truth.objects == seen.objects == ()


def test_lease_of_a_process_that_never_ran_leads_for_the_control_plane_only() -> None:
    run = Run(component("scheduler", "0s"), component("scheduler", "0s", view="controlPlane"))
    renew(run, 1, "scheduler-7_x")
    assert [verdict.ok for verdict in run.checker.verdicts(10_000_000)] == [False, True]


def test_api_servers_that_run_are_counted() -> None:
    run = Run(component("apiserver", "0s"), component("apiserver", "9s", below=2))
    for name in ("apiserver-0", "apiserver-1"):
        run.checker.process("start", name, 0)
    run.checker.process("pause", "apiserver-1", 20_000_000)
    run.checker.process("resume", "apiserver-1", 30_000_000)
    one, two = run.checker.verdicts(60_000_000)
    assert (one.ok, two.ok, two.measured) == (True, False, "10.00s, lowest 1")


def test_first_loss_of_a_component_in_the_window_decides() -> None:
    run = Run(component("apiserver", "0s", below=2))
    steps = [("start", 0), ("pause", 0.5), ("slow", 3), ("resume", 5), ("pause", 20), ("resume", 25)]
    run.checker.process("start", "apiserver-0", 0)
    for what, at_s in [*steps, ("pause", 30)]:
        run.checker.process(what, "apiserver-1", int(at_s * 1e6))
    verdict = run.verdict(60)
    assert (verdict.at_us, verdict.witness) == (20_000_000, 0)


@pytest.mark.parametrize(
    ("entry", "error"),
    [
        (component("scheduler", "1m", below=2), "one scheduler leads at a time"),
        (component("apiserver", "1m", below=0), "write below: 1 or more"),
        (component("apiserver", "soon"), "'atMost': 'soon' is no duration"),
        (component("schedule", "1m"), "or a component: apiserver, controller-manager, scheduler"),
    ],
)
def test_wrong_component_is_refused_with_a_remedy(entry: dict[str, Any], error: str) -> None:
    with pytest.raises(Mistakes, match=error):
        Run(entry)


# --- rates and fields -----------------------------------------------------------------------------


@pytest.mark.parametrize(("at_most", "ok"), [(4, False), (5, True)])
def test_rate_is_that_of_the_object_with_most_changes(at_most: int, ok: bool) -> None:
    run = Run({"count": {"changed": "pods"}, "per": "1m", "atMost": at_most})
    for at_s in range(0, 300, 12):
        run.pod(at_s, "p", f"n{at_s}")
        run.pod(at_s, f"q{at_s}")
    verdict = run.verdict(400)
    assert (verdict.ok, verdict.measured) == (ok, "5")
    assert verdict.objects == (() if ok else ("//pods/default/p",))


def test_rate_is_broken_by_the_change_that_first_exceeds_it() -> None:
    run = Run({"count": {"changed": "pods"}, "per": "1m", "atMost": 1})
    for at_s, name in ((1, "p"), (2, "p"), (3, "p"), (90, "q"), (91, "q")):
        run.pod(at_s, name, f"n{at_s}")
    verdict = run.verdict(100)
    assert (verdict.measured, verdict.objects) == ("2", ("//pods/default/p",))


@pytest.mark.parametrize(
    ("entry", "error"),
    [
        ({"count": {"changed": "pods"}, "per": "often", "atMost": 1}, "'per': 'often' is no duration"),
        ({"count": "pods are ready", "per": "1m", "atMost": 1}, "'per' goes with what happens"),
        ({"never": {"changed": "pods"}, "per": "1m"}, "'per' has no effect on 'never'"),
    ],
)
def test_wrong_rate_is_refused_with_a_remedy(entry: dict[str, Any], error: str) -> None:
    with pytest.raises(Mistakes, match=error):
        Run(entry)


@pytest.mark.parametrize(("value", "ok"), [("web", True), ("db", False)])
def test_field_with_dots_in_its_name_is_compared(value: str, ok: bool) -> None:
    run = Run({"always": f"all pods have metadata.labels[app.example.com/name]={value}", "after": "2s"})
    run.pod(1, "p", labels={"app.example.com/name": "web"})
    assert run.verdict().ok is ok
