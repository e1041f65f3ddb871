"""Pure decisions of taint manager, pod collector, namespaces, shared shell and manager."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from actors.controllers.manager import identity, start_order
from actors.controllers.namespace.decide import (
    Leftover,
    conditions_of,
    leftover,
    pods_estimate_s,
    unavailable_groups,
    with_conditions,
)
from actors.controllers.podgc import QUARANTINE_US, quarantine, surplus, terminated_values, unscheduled_values
from actors.controllers.shared.shell import Claims, Expectations, claim
from actors.controllers.taint_manager.decide import UNTOLERATED, no_execute_taints, stay_us
from actors.controllers.ttlafterfinished import left_us
from sim.ident import NAMES
from sim.options.controllers.manager import parse_controller_manager

N = NAMES["orch"]
S = 1_000_000


def taint(key: str, value: str = "") -> dict[str, str]:
    return {"key": key, "value": value, "effect": "NoExecute"}


# --- taint manager --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("tolerations", "stay"),
    [
        ([], UNTOLERATED),
        ([{"key": "a", "operator": "Exists"}], None),
        ([{"key": "a", "operator": "Exists", "tolerationSeconds": 60}], 60 * S),
        ([{"key": "a", "operator": "Exists", "tolerationSeconds": -5}], 0),
        ([{"operator": "Exists"}], None),
        ([{"key": "a", "operator": "Exists", "effect": "NoSchedule"}], UNTOLERATED),
        ([{"key": "b", "operator": "Exists", "tolerationSeconds": 60}], UNTOLERATED),
    ],
)
def test_pod_stays_as_long_as_its_tolerations_allow(tolerations: list[Any], stay: int | None) -> None:
    assert stay_us([taint("a")], tolerations) == stay


def test_shortest_toleration_counts_and_unlimited_toleration_sets_no_limit() -> None:
    tolerations: list[dict[str, Any]] = [
        {"key": "a", "operator": "Exists"},
        {"key": "b", "operator": "Exists", "tolerationSeconds": 9},
    ]
    assert stay_us([taint("a"), taint("b")], tolerations) == 9 * S


# --- pod collection -------------------------------------------------------------------------------


def pod(name: str, phase: str = "Running", created: str = "1", **meta: Any) -> dict[str, Any]:
    return {
        "metadata": {"name": name, "creationTimestamp": created, **meta},
        "spec": {},
        "status": {"phase": phase},
    }


def test_oldest_finished_pods_beyond_the_threshold_are_surplus() -> None:
    pods = [pod("b", created="2"), pod("a", created="2"), pod("c", created="1")]
    assert [p["metadata"]["name"] for p in surplus(pods, 1)] == ["c", "a"]
    assert surplus(pods, 3) == []
    assert surplus(pods, 0) == []


def test_collector_indexes_finished_and_unscheduled_terminating_pods() -> None:
    finished, left, plain = pod("p", "Succeeded"), pod("p", "Pending", deletionTimestamp="t"), pod("p")
    assert [terminated_values(p) for p in (finished, left, plain)] == [("",), (), ()]
    assert [unscheduled_values(p) for p in (finished, left, plain)] == [(), ("",), ()]


def test_missing_node_is_quarantined_for_forty_seconds() -> None:
    waiting, over = quarantine({}, ["gone", "here"], ["here"], 0)
    assert (waiting, over) == ({"gone": QUARANTINE_US}, [])
    waiting, over = quarantine(waiting, ["gone"], [], QUARANTINE_US - 1)
    assert over == []
    # The node starts another quarantine: some of its pods may still exist.
    assert quarantine(waiting, ["gone"], [], QUARANTINE_US) == ({"gone": 2 * QUARANTINE_US}, ["gone"])
    assert quarantine(waiting, [], [], QUARANTINE_US) == ({}, ["gone"])
    assert quarantine(waiting, ["gone"], ["gone"], QUARANTINE_US) == ({}, [])


def item(**meta: Any) -> dict[str, Any]:
    return {"metadata": {"name": "x", "uid": "u", **meta}}


# --- namespaces -----------------------------------------------------------------------------------


def test_pods_are_awaited_for_their_grace_period_after_the_deletion() -> None:
    pods = [{"spec": {"terminationGracePeriodSeconds": 30}, "status": {"phase": "Running"}}]
    deleted = "1970-01-01T00:00:00Z"
    assert pods_estimate_s(pods, deleted, 30 * S - 1) == 30
    assert pods_estimate_s(pods, deleted, 30 * S) == 0
    assert pods_estimate_s([{"spec": pods[0]["spec"], "status": {"phase": "Failed"}}], deleted, 0) == 0


def test_leftover_without_estimate_or_finalizer_is_an_error() -> None:
    held = item(finalizers=["f"])
    assert leftover("pods.", [held], 0, "n", "gvr") == Leftover("pods.", 1, {"f": 1}, 15)
    assert leftover("pods.", [held], 30, "n", "gvr").estimate_s == 30
    error = leftover("pods.", [item()], 0, "n", "gvr").error
    assert error == "unexpected items still remain in namespace: n for gvr: gvr"


def test_namespace_conditions_name_leftovers_and_change_only_with_content() -> None:
    left = [Leftover("pods.", 1), Leftover("a.b", 2, {"f": 2}, 15)]
    texts = {kind: (status, message) for kind, status, _, message in conditions_of(left)}
    assert texts["NamespaceContentRemaining"] == (
        "True",
        "Some resources are remaining: a.b has 2 resource instances, pods. has 1 resource instances",
    )
    assert texts["NamespaceFinalizersRemaining"] == (
        "True",
        "Some content in the namespace has finalizers remaining: f in 2 resource instances",
    )
    namespace = {"status": {"phase": "Terminating"}}
    changed = with_conditions(namespace, conditions_of(left), "now")
    assert changed is not None
    assert with_conditions(changed, conditions_of(left), "later") is None
    done = with_conditions(changed, conditions_of([]), "later")
    assert done is not None
    assert {c["status"] for c in done["status"]["conditions"]} == {"False"}
    fewer = with_conditions(changed, conditions_of([Leftover("pods.", 1)]), "later")
    assert fewer is not None
    times = {c["type"]: (c["message"], c["lastTransitionTime"]) for c in fewer["status"]["conditions"]}
    # Another message with the same status keeps the transition time.
    assert times["NamespaceContentRemaining"] == (
        "Some resources are remaining: pods. has 1 resource instances",
        "now",
    )
    assert times["NamespaceFinalizersRemaining"][1] == "later"


def test_deletion_errors_are_counted_and_sorted_in_the_condition() -> None:
    left = [Leftover("pods.", 7, error="b"), Leftover("a.b", error="a")]
    texts = {kind: message for kind, _, _, message in conditions_of(left)}
    wanted = "Failed to delete all resource types, 2 remaining: a, b"
    assert texts["NamespaceDeletionContentFailure"] == wanted


# --- shell and manager ----------------------------------------------------------------------------


def test_expectations_are_pending_until_observed_replaced_or_expired() -> None:
    now = [0]
    expected = Expectations(lambda: now[0])
    assert expected.satisfied("o")
    expected.expect_creates("o", 2)
    expected.created("o")
    assert not expected.satisfied("o")
    expected.created("o")
    assert expected.satisfied("o")
    expected.expect_deletes("o", ["a", "b"])
    expected.deleted("o", "a")
    expected.deleted("o", "a")
    assert not expected.satisfied("o")
    now[0] = 300 * S
    assert not expected.satisfied("o")
    now[0] += 1
    assert expected.satisfied("o")
    expected.forget("o")
    assert expected.satisfied("o")


def test_owner_keeps_adopts_and_releases_by_selector() -> None:
    owner = item()

    def thing(uid: str, holder: str = "", match: bool = True, **meta: Any) -> dict[str, Any]:
        refs = [{"uid": holder, "controller": True}] if holder else []
        return {"metadata": {"uid": uid, "ownerReferences": refs, "match": match, **meta}}

    things = [
        thing("ours", "u"),
        thing("strayed", "u", match=False),
        thing("other", "v"),
        thing("orphan"),
        thing("dying", deletionTimestamp="t"),
        thing("foreign", match=False),
    ]
    found = claim(owner, things, lambda obj: bool(obj["metadata"]["match"]))
    assert found == Claims([things[0]], [things[3]], [things[1]])
    leaving = item(deletionTimestamp="t")
    assert claim(leaving, things, lambda obj: bool(obj["metadata"]["match"])) == Claims([things[0]], [], [])


def test_enabled_controllers_start_in_a_seeded_order() -> None:
    loops = dict.fromkeys(["podgc", "namespace", "garbagecollector", "tokencleaner"])
    options = parse_controller_manager({"controllers": "*,-podgc", "enable-garbage-collector": "false"})
    assert start_order(loops, options, Random(1)) == ["namespace"]
    everything = parse_controller_manager({})
    orders = {tuple(start_order(loops, everything, Random(seed))) for seed in range(20)}
    assert len(orders) == 6


def test_identity_is_the_host_and_a_version_4_uuid() -> None:
    host, _, uuid = identity("cm-0", Random(3)).partition("_")
    assert host == "cm-0"
    assert uuid[14] == "4"
    assert identity("cm-0", Random(4)) != identity("cm-0", Random(3))


def test_conditions_without_text_and_time_are_completed() -> None:
    bare = {"type": "NamespaceContentRemaining", "status": "True"}
    namespace = {"status": {"phase": "Terminating", "conditions": [bare]}}
    wanted = [("NamespaceContentRemaining", "False", "ContentRemoved", "All content successfully removed")]
    changed = with_conditions(namespace, wanted, "2026-01-01T00:00:00Z")
    assert changed is not None
    (condition,) = changed["status"]["conditions"]
    assert (condition["status"], condition["reason"]) == ("False", "ContentRemoved")
    assert condition["lastTransitionTime"] == "2026-01-01T00:00:00Z"
    ended = {"metadata": {}, "spec": {"ttlSecondsAfterFinished": 3}}
    complete = {"type": "Complete", "status": "True", "lastTransitionTime": None}
    assert left_us({**ended, "status": {"conditions": [complete]}}, 0) is None


@pytest.mark.parametrize(
    ("graces", "after_s", "wanted"),
    [([], 0, 0), ([None], 0, 0), ([5, 30], 29, 30), ([5, 30], 30, 0), ([0], 0, 0)],
)
def test_the_longest_grace_counts_from_the_deletion(graces: list[Any], after_s: int, wanted: int) -> None:
    pods = [{"spec": {"terminationGracePeriodSeconds": grace}, "status": {}} for grace in graces]
    assert pods_estimate_s(pods, "2026-01-01T00:00:00Z", 1_767_225_600 * S + after_s * S) == wanted


def test_leftovers_count_their_finalizers() -> None:
    assert leftover("pods.", [], 30, "n", "gvr") == Leftover("pods.")
    held = [item(finalizers=["f", "g"]), item(finalizers=["f"]), item()]
    assert leftover("pods.", held, 0, "n", "gvr") == Leftover("pods.", 3, {"f": 2, "g": 1}, 15)
    assert leftover("pods.", [item()], 30, "n", "gvr") == Leftover("pods.", 1, {}, 30)


def test_failing_groups_are_named_in_the_condition() -> None:
    (discovery, *_) = conditions_of([], ["a/v1", "b/v1"])
    assert (discovery[1], discovery[2]) == ("True", "DiscoveryFailed")
    assert discovery[3].startswith("Discovery failed for some groups, 2 failing: ")
    assert [each[1] for each in conditions_of([])] == ["False"] * 5


def served(name: str, service: bool, status: str) -> dict[str, Any]:
    group, _, version = name.rpartition("/")
    spec = {
        "group": group,
        "version": version,
        "service": {"name": "s", "namespace": "n"} if service else None,
    }
    return {
        "metadata": {"name": f"{version}.{group}"},
        "spec": spec,
        "status": {"conditions": [{"type": "Available", "status": status}]},
    }


def test_groups_of_other_servers_that_do_not_answer_are_unavailable() -> None:
    given = [
        served("a.io/v1", True, "False"),
        served("b.io/v1", True, "True"),
        served("c.io/v1", False, "False"),
    ]
    assert unavailable_groups(given) == ["a.io/v1"]
    assert unavailable_groups([]) == []


@pytest.mark.parametrize(
    ("threshold", "names"), [(-1, []), (0, []), (1, ["a", "b"]), (2, ["a"]), (3, []), (4, [])]
)
def test_as_many_finished_pods_as_the_threshold_stay(threshold: int, names: list[str]) -> None:
    pods = [pod(name, "Failed", created) for name, created in (("c", "3"), ("a", "1"), ("b", "2"))]
    assert [each["metadata"]["name"] for each in surplus(pods, threshold)] == names


def test_taints_are_judged_one_by_one() -> None:
    def lasting(key: str, seconds: int | None) -> dict[str, Any]:
        return {
            "key": key,
            "operator": "Exists",
            **({} if seconds is None else {"tolerationSeconds": seconds}),
        }

    both = [taint("a"), taint("b")]
    assert stay_us(both, [lasting("a", 9), lasting("b", 5)]) == 5 * S
    assert stay_us(both, [lasting("a", 5), lasting("b", 9)]) == 5 * S
    assert stay_us(both, [lasting("a", 5)]) == UNTOLERATED
    first = [lasting("a", 5), lasting("a", 1)]
    assert stay_us([taint("a")], first) == 5 * S
    assert stay_us([], []) is None
    assert no_execute_taints([taint("a"), {**taint("b"), "effect": "NoSchedule"}]) == [taint("a")]
