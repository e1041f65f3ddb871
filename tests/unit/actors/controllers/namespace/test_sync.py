"""The steps of an attempt to empty a namespace: which requests follow each other and each answer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from actors.controllers.namespace.sync import (
    CONFLICT_TRIES,
    Action,
    List,
    ListPods,
    Outcome,
    ReadDocument,
    Remove,
    RemoveAll,
    Seen,
    empty_namespace,
)
from actors.controllers.shared.steps import Answer, Get, Update
from sim.api.aggregation.delegation import Delegated
from sim.api.aggregation.requests import served
from sim.api.schema.resource import Resource
from sim.api.status import status as refusal
from sim.api.store import Item
from sim.api.types import Obj, Reply
from sim.units import SECOND, parse_time

DELETED = "2026-01-01T00:00:00Z"
NOW = parse_time("2026-01-01T00:00:10Z")
AWAY = Reply(503, body=refusal(503, "ServiceUnavailable", "away"))
GONE = Reply(404, body=refusal(404, "NotFound", "gone"))
NEVER = Reply(405, body=refusal(405, "MethodNotAllowed", "never"))
CONFLICT = Reply(409, body=refusal(409, "Conflict", "conflict"))
LOST = Reply(0, lost="Timeout")
ALL = ("list", "delete", "deletecollection")
Replies = Callable[[Action], Reply | None]


def resource(plural: str, kind: str, group: str = "", verbs: Sequence[str] = ALL) -> Resource:
    row = {"name": plural, "kind": kind, "namespaced": True, "verbs": list(verbs)}
    (found,) = served(Delegated(group, "v1", {}), {"resources": [row]})
    return found


PODS, MAPS = resource("pods", "Pod"), resource("configmaps", "ConfigMap")
POD_METRICS = resource("pods", "Pod", "metrics.io")
EACH = resource("configmaps", "ConfigMap", verbs=("list", "delete"))
UNLISTED = resource("reviews", "Review", verbs=("delete",))


def namespace(uid: str = "n", phase: str = "Terminating", **meta: Any) -> Obj:
    return {
        "metadata": {"name": "team", "uid": uid, "deletionTimestamp": DELETED, **meta},
        "spec": {"finalizers": ["orch"]},
        "status": {"phase": phase},
    }


def stored(obj: Obj) -> Reply:
    return Reply(200, item=Item("k", obj, 1, 1))


def listed(*objs: Obj) -> Reply:
    return Reply(200, items=[Item("k", obj, 1, 1) for obj in objs])


def named(*names: str, **meta: Any) -> Reply:
    return listed(*({"metadata": {"name": name, **meta}} for name in names))


def served_elsewhere(group: str, available: str = "True") -> Obj:
    conditions = [{"type": "Available", "status": available}]
    return {
        "metadata": {"name": f"v1.{group}"},
        "spec": {"group": group, "version": "v1", "service": {"name": "s"}},
        "status": {"conditions": conditions},
    }


def drive(
    *resources: Resource, answer: Replies = lambda _: None, live: Obj | None = None
) -> tuple[list[Action], Outcome]:
    """All actions of an attempt, ten seconds after the deletion, and its end.

    answer: the reply to an action, None for the usual one: the namespace `live`, and nothing listed
    """
    steps = empty_namespace("team", Seen("orch", lambda: resources or (MAPS,)))
    live = namespace() if live is None else live
    actions: list[Action] = []
    sent: Answer | None = None
    while True:
        try:
            action = next(steps) if sent is None else steps.send(sent)
        except StopIteration as end:
            return actions, end.value
        actions.append(action)
        reply = answer(action)
        if reply is None:
            match action:
                case Get():
                    reply = stored(live)
                case Update(_, obj):
                    reply = stored(obj)
                case _:
                    reply = Reply(200, items=[])
        sent = Answer(reply, NOW)


def kinds(actions: Sequence[Action]) -> list[type]:
    return [type(one) for one in actions]


def updates(actions: Sequence[Action]) -> list[tuple[str, Obj]]:
    return [(one.subresource, one.obj) for one in actions if isinstance(one, Update)]


def conditions(actions: Sequence[Action]) -> dict[str, tuple[str, str]]:
    """The status and message of each condition that is written."""
    (written,) = [obj["status"]["conditions"] for sub, obj in updates(actions) if sub == "status"]
    return {one["type"]: (one["status"], one["message"]) for one in written}


def finalizes(actions: Sequence[Action]) -> bool:
    return any(sub == "finalize" for sub, _ in updates(actions))


def on(kind: type, *replies: Reply) -> Replies:
    """Answers to actions of a kind, one after the other; then the usual one."""
    left = list(replies)
    return lambda action: left.pop(0) if left and type(action) is kind else None


def on_list_of(one: Resource, *replies: Reply) -> Replies:
    """Answers to lists of a resource, one after the other; then the usual one."""
    left = list(replies)
    return lambda action: (
        left.pop(0) if left and isinstance(action, List) and action.resource is one else None
    )


# --- the namespace --------------------------------------------------------------------------------


def test_empty_namespace_is_finalized_as_it_was_read() -> None:
    actions, outcome = drive(PODS, MAPS)
    assert actions[:-2] == [
        Get("namespaces", "", "team"),
        List("apiservices"),
        ListPods(PODS, "team"),
        RemoveAll(PODS, "team"),
        List(PODS, "team"),
        RemoveAll(MAPS, "team"),
        List(MAPS, "team"),
    ]
    assert [sub for sub, _ in updates(actions)] == ["status", "finalize"]
    assert set(conditions(actions).values()) >= {("False", "All content successfully removed")}
    times = {one["lastTransitionTime"] for one in updates(actions)[0][1]["status"]["conditions"]}
    assert times == {"2026-01-01T00:00:10Z"}
    assert updates(actions)[1][1] == {**namespace(), "spec": {"finalizers": []}}
    assert outcome == Outcome()


def test_only_the_finalizer_of_the_controller_is_removed() -> None:
    live = namespace()
    live["spec"] = {"finalizers": ["z", "orch", "a"]}
    actions, _ = drive(live=live)
    assert updates(actions)[1][1]["spec"] == {"finalizers": ["a", "z"]}


def test_unchanged_conditions_are_not_written() -> None:
    written = updates(drive()[0])[0][1]
    assert [sub for sub, _ in updates(drive(live=written)[0])] == ["finalize"]


@pytest.mark.parametrize(("reply", "error"), [(GONE, ""), (AWAY, "away"), (LOST, "Timeout")])
def test_attempt_ends_if_the_namespace_cannot_be_read(reply: Reply, error: str) -> None:
    actions, outcome = drive(answer=on(Get, reply))
    assert (kinds(actions), outcome) == ([Get], Outcome(error))


def test_namespace_that_is_not_being_deleted_is_left_alone() -> None:
    live = namespace(phase="Active")
    del live["metadata"]["deletionTimestamp"]
    assert drive(live=live) == ([Get("namespaces", "", "team")], Outcome())


def test_namespace_without_finalizers_is_left_alone() -> None:
    live = namespace()
    del live["spec"]["finalizers"]
    assert drive(live=live) == ([Get("namespaces", "", "team")], Outcome())


def test_phase_is_set_before_anything_is_deleted() -> None:
    actions, outcome = drive(live=namespace(phase="Active"))
    assert kinds(actions)[:3] == [Get, Update, List]
    assert updates(actions)[0] == ("status", namespace())
    assert outcome == Outcome()


def test_phase_that_conflicts_is_set_on_the_newest_object() -> None:
    newest = namespace(phase="Active", labels={"a": "b"})
    replies = on(Get, stored(namespace(phase="Active")), stored(newest))
    refuse = on(Update, CONFLICT)
    actions, _ = drive(answer=lambda action: refuse(action) or replies(action))
    assert kinds(actions)[:5] == [Get, Update, Get, Update, List]
    assert updates(actions)[1][1] == namespace(labels={"a": "b"})


@pytest.mark.parametrize(
    ("again", "outcome"),
    [
        (GONE, Outcome()),
        (AWAY, Outcome("away")),
        (stored(namespace("other")), Outcome("namespace uid has changed across retries")),
    ],
)
def test_attempt_ends_if_a_namespace_that_conflicts_is_another_one(again: Reply, outcome: Outcome) -> None:
    gets, refuse = on(Get, stored(namespace(phase="Active")), again), on(Update, CONFLICT)
    actions, end = drive(answer=lambda action: refuse(action) or gets(action))
    assert (kinds(actions), end) == ([Get, Update, Get], outcome)


@pytest.mark.parametrize(("reply", "error"), [(AWAY, "away"), (GONE, "")])
def test_attempt_ends_if_the_phase_is_refused(reply: Reply, error: str) -> None:
    actions, outcome = drive(live=namespace(phase="Active"), answer=on(Update, reply))
    assert (kinds(actions), outcome) == ([Get, Update], Outcome(error))


def test_phase_that_another_process_has_set_is_not_set_again() -> None:
    gets, refuse = on(Get, stored(namespace(phase="Active"))), on(Update, CONFLICT)
    actions, _ = drive(answer=lambda action: refuse(action) or gets(action))
    assert kinds(actions)[:4] == [Get, Update, Get, List]


def test_tries_after_conflicts_have_a_bound() -> None:
    live = namespace(phase="Active")
    actions, _ = drive(live=live, answer=on(Update, *[CONFLICT] * CONFLICT_TRIES))
    assert kinds(actions)[: 2 * CONFLICT_TRIES + 2] == [Get, *[Update, Get] * CONFLICT_TRIES, List]


def refusing_to_finalize(*replies: Reply) -> Replies:
    left = list(replies)
    return lambda one: (
        left.pop(0) if left and isinstance(one, Update) and one.subresource == "finalize" else None
    )


@pytest.mark.parametrize(("reply", "error"), [(AWAY, "away"), (GONE, "")])
def test_attempt_fails_if_the_finalizer_stays(reply: Reply, error: str) -> None:
    actions, outcome = drive(answer=refusing_to_finalize(reply))
    assert (kinds(actions)[-2:], outcome) == ([Update, Update], Outcome(error))


def test_finalizer_that_conflicts_is_removed_from_the_newest_object() -> None:
    newest = namespace(labels={"a": "b"})
    gets, refuse = on(Get, stored(namespace()), stored(newest)), refusing_to_finalize(CONFLICT)
    actions, outcome = drive(answer=lambda action: refuse(action) or gets(action))
    assert kinds(actions)[-4:] == [Update, Update, Get, Update]
    assert updates(actions)[-1] == ("finalize", {**newest, "spec": {"finalizers": []}})
    assert outcome == Outcome()


def test_finalizers_that_are_gone_after_a_conflict_stay_gone() -> None:
    newest = {**namespace(), "spec": {}}
    gets, refuse = on(Get, stored(namespace()), stored(newest)), refusing_to_finalize(CONFLICT)
    actions, _ = drive(answer=lambda action: refuse(action) or gets(action))
    assert updates(actions)[-1] == ("finalize", {**newest, "spec": {"finalizers": []}})


def test_conditions_that_are_refused_stop_nothing() -> None:
    actions, outcome = drive(answer=on(Update, CONFLICT))
    assert ([sub for sub, _ in updates(actions)], outcome) == (["status", "finalize"], Outcome())


# --- discovery ------------------------------------------------------------------------------------


def test_attempt_ends_if_the_api_services_cannot_be_listed() -> None:
    actions, outcome = drive(answer=on(List, AWAY))
    assert (kinds(actions), outcome) == ([Get, List], Outcome("away"))


def test_resources_of_other_servers_are_emptied_after_the_own_ones() -> None:
    rows = [
        {"name": "flunders", "kind": "Flunder", "namespaced": True, "verbs": list(ALL)},
        {"name": "fischers", "kind": "Fischer", "namespaced": False, "verbs": list(ALL)},
        {"name": "looks", "kind": "Look", "namespaced": True, "verbs": ["list"]},
    ]
    lists, read = (
        on(List, listed(served_elsewhere("w.io"))),
        on(ReadDocument, Reply(200, body={"resources": rows})),
    )
    actions, outcome = drive(answer=lambda action: lists(action) or read(action))
    lists_of = [one.resource for one in actions if isinstance(one, List)][1:]
    assert [one.group_resource for one in lists_of if isinstance(one, Resource)] == [
        "configmaps",
        "flunders.w.io",
    ]
    assert outcome == Outcome()


def test_own_resource_is_emptied_once_though_another_server_has_it_too() -> None:
    own = resource("flunders", "Flunder", "w.io")
    row = {"name": "flunders", "kind": "Flunder", "namespaced": True, "verbs": list(ALL)}
    lists, read = (
        on(List, listed(served_elsewhere("w.io"))),
        on(ReadDocument, Reply(200, body={"resources": [row]})),
    )
    actions, _ = drive(own, answer=lambda action: lists(action) or read(action))
    assert [one.resource for one in actions if isinstance(one, RemoveAll)] == [own]


def test_groups_that_cannot_be_read_fail_the_attempt_after_the_rest_is_deleted() -> None:
    services = listed(
        *(served_elsewhere(group, available) for group, available in [("x.io", "False"), ("w.io", "True")])
    )
    lists, read = on(List, services), on(ReadDocument, AWAY)
    finish = on_list_of(MAPS, AWAY)
    actions, outcome = drive(answer=lambda action: lists(action) or read(action) or finish(action))
    (document,) = [one for one in actions if isinstance(one, ReadDocument)]
    assert document.delegated.group == "w.io"
    assert RemoveAll(MAPS, "team") in actions
    first, _, second = outcome.error.partition("; ")
    assert ("w.io/v1" in first, "x.io/v1" in first, second) == (True, True, "away")
    assert conditions(actions)["NamespaceDeletionDiscoveryFailure"][0] == "True"
    assert not finalizes(actions)


# --- one resource ---------------------------------------------------------------------------------


def pod(grace_s: int) -> Obj:
    return {
        "metadata": {"name": "p"},
        "spec": {"terminationGracePeriodSeconds": grace_s},
        "status": {"phase": "Running"},
    }


def running(grace_s: int) -> Replies:
    """A pod that is listed before and after the delete."""
    before, after = on(ListPods, listed(pod(grace_s))), on_list_of(PODS, listed(pod(grace_s)))
    return lambda action: before(action) or after(action)


def test_pods_are_awaited_for_half_of_their_grace_period() -> None:
    actions, outcome = drive(PODS, MAPS, answer=running(30))
    assert outcome == Outcome(wait_us=16 * SECOND)
    assert not finalizes(actions)


def test_pods_that_outlive_their_grace_period_fail_the_attempt() -> None:
    assert drive(PODS, answer=running(10))[1].error.startswith("unexpected items still remain")
    assert drive(PODS, answer=running(11))[1] == Outcome(wait_us=6 * SECOND)


def test_pods_of_another_group_have_no_grace_period() -> None:
    assert ListPods not in kinds(drive(POD_METRICS, MAPS)[0])


def test_pods_that_cannot_be_listed_are_not_deleted() -> None:
    actions, outcome = drive(PODS, MAPS, answer=on(ListPods, AWAY))
    assert [one.resource for one in actions if isinstance(one, RemoveAll)] == [MAPS]
    assert outcome == Outcome("away")


def test_longest_wait_of_all_resources_counts() -> None:
    left = on_list_of(MAPS, named("a", finalizers=["f"]))
    actions, outcome = drive(MAPS, PODS, answer=left)
    assert outcome == Outcome(wait_us=8 * SECOND)
    assert conditions(actions)["NamespaceContentRemaining"][0] == "True"
    pods, held = running(30), on_list_of(MAPS, named("a", finalizers=["f"]))
    assert drive(PODS, MAPS, answer=lambda one: pods(one) or held(one))[1] == Outcome(wait_us=16 * SECOND)


def test_object_that_stays_for_no_reason_fails_the_attempt() -> None:
    _, outcome = drive(answer=on_list_of(MAPS, named("a")))
    text = "unexpected items still remain in namespace: team for gvr: /v1, Resource=configmaps"
    assert outcome == Outcome(text)


def test_error_comes_before_a_wait() -> None:
    pods, refuse = on(ListPods, listed(pod(30))), on(RemoveAll, AWAY)
    actions, outcome = drive(PODS, answer=lambda action: pods(action) or refuse(action))
    assert outcome == Outcome("away")
    assert List(PODS, "team") not in actions
    message = "Failed to delete all resource types, 1 remaining: away"
    assert conditions(actions)["NamespaceDeletionContentFailure"] == ("True", message)


@pytest.mark.parametrize("reply", [GONE, NEVER])
def test_objects_are_deleted_one_by_one_if_the_server_cannot_delete_all(reply: Reply) -> None:
    refuse, lists = on(RemoveAll, reply), on_list_of(MAPS, named("a", "b"))
    actions, outcome = drive(answer=lambda action: refuse(action) or lists(action))
    assert kinds(actions)[2:7] == [RemoveAll, List, Remove, Remove, List]
    assert Remove(MAPS, "team", "a") in actions
    assert outcome == Outcome()


def test_objects_are_deleted_one_by_one_without_the_verb() -> None:
    actions, _ = drive(EACH, answer=on_list_of(EACH, named("a")))
    assert kinds(actions)[2:5] == [List, Remove, List]
    assert kinds(drive(EACH)[0])[2:5] == [List, List, Update]


def test_resource_without_lists_counts_as_empty() -> None:
    actions, outcome = drive(UNLISTED)
    assert (kinds(actions), outcome) == ([Get, List, Update, Update], Outcome())


def test_collection_without_lists_is_deleted_only() -> None:
    blind = resource("reviews", "Review", verbs=("delete", "deletecollection"))
    actions, outcome = drive(blind)
    assert (kinds(actions), outcome) == ([Get, List, RemoveAll, Update, Update], Outcome())


@pytest.mark.parametrize(("reply", "error"), [(AWAY, "away"), (GONE, ""), (NEVER, "")])
def test_refused_delete_ends_the_deletion_of_its_resource(reply: Reply, error: str) -> None:
    lists, refuse = on_list_of(EACH, named("a", "b")), on(Remove, reply)
    actions, outcome = drive(EACH, answer=lambda action: lists(action) or refuse(action))
    deleted = [one.name for one in actions if isinstance(one, Remove)]
    assert (deleted, outcome) == (["a"] if error else ["a", "b"], Outcome(error))


@pytest.mark.parametrize(("reply", "error"), [(AWAY, "away"), (GONE, ""), (NEVER, "")])
@pytest.mark.parametrize("one", [MAPS, EACH])
def test_refused_list_fails_unless_the_server_has_no_such_list(
    one: Resource, reply: Reply, error: str
) -> None:
    actions, outcome = drive(one, answer=on_list_of(one, reply))
    assert outcome == Outcome(error)
    assert finalizes(actions) == (not error)
    assert not any(isinstance(each, Remove) for each in actions)


def test_pods_that_remain_without_a_list_are_awaited() -> None:
    unlisted = resource("pods", "Pod", verbs=("delete", "deletecollection"))
    assert drive(unlisted, answer=on(ListPods, listed(pod(30))))[1] == Outcome(wait_us=16 * SECOND)
    pods, lists = on(ListPods, listed(pod(30))), on_list_of(PODS, GONE)
    assert drive(PODS, answer=lambda one: pods(one) or lists(one))[1] == Outcome(wait_us=16 * SECOND)
