"""The steps of a sync of a DaemonSet: which requests follow each other, and what follows an answer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from actors.controllers.daemonset import decide
from actors.controllers.daemonset.sync import (
    BURST,
    Action,
    Answer,
    BackOff,
    Claim,
    CreatePods,
    DeletePods,
    Expect,
    Relabel,
    Seen,
    sync_set,
)
from actors.controllers.shared.steps import Create, Delete, Event, Get, Requeue, Update
from sim.api.status import status as refusal
from sim.api.store import Item
from sim.api.types import Obj, Reply
from sim.ident import NAMES
from sim.units import SECOND, format_time, parse_time

N = NAMES["orch"]
HASH = N.label_controller_revision_hash
REF = {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "ds", "uid": "d"}
NOW = parse_time("2026-01-01T00:10:00Z")
AWAY = Reply(503, body=refusal(503, "ServiceUnavailable", "away"))
GONE = Reply(404, body=refusal(404, "NotFound", "gone"))
EXISTS = Reply(409, body=refusal(409, "AlreadyExists", "exists"))
CONFLICT = Reply(409, body=refusal(409, "Conflict", "conflict"))
STATUS = {
    "currentNumberScheduled": 1,
    "numberMisscheduled": 0,
    "desiredNumberScheduled": 1,
    "numberReady": 1,
    "updatedNumberScheduled": 1,
    "numberAvailable": 1,
    "observedGeneration": 2,
}
Given = Callable[[Action], Answer | Reply | None]


def daemon_set(status: Obj | None = None, **spec: Any) -> Obj:
    template = {"metadata": {"labels": {"app": "ds"}}, "spec": {"containers": []}}
    return {
        "metadata": {"name": "ds", "namespace": "default", "uid": "d", "generation": 2},
        "spec": {"selector": {"matchLabels": {"app": "ds"}}, "template": template, **spec},
        "status": STATUS if status is None else status,
    }


def node(name: str = "a") -> Obj:
    return {"metadata": {"name": name, "labels": {}}, "spec": {}}


def revision(name: str, number: int = 1, hashed: str | None = None, **data: Any) -> Obj:
    """A revision of the template of `daemon_set`, or of another one."""
    made = decide.new_revision(daemon_set(), REF, number, N)
    labels = {"app": "ds", HASH: hashed or name}
    meta = {**made["metadata"], "name": name, "labels": labels, "uid": name}
    return {**made, "metadata": meta, "data": data or made["data"]}


def unlabelled(made: Obj) -> Obj:
    return {**made, "metadata": {**made["metadata"], "labels": {"app": "ds"}}}


def pod(
    name: str = "p", on: str = "a", hashed: str = "now", phase: str = "Running", ready_s: int | None = 60
) -> Obj:
    """A pod on a node.  ready_s: how long it is ready, None if it is not"""
    meta = {"name": name, "namespace": "default", "uid": name, "labels": {"app": "ds", HASH: hashed}}
    conditions = []
    if ready_s is not None:
        since = format_time(NOW - ready_s * SECOND)
        conditions = [{"type": "Ready", "status": "True", "lastTransitionTime": since}]
    return {
        "metadata": meta,
        "spec": {"nodeName": on},
        "status": {"phase": phase, "conditions": conditions},
    }


def stored(obj: Obj) -> Reply:
    return Reply(200, item=Item("k", obj, 1, 1))


NEW = revision("now")


def drive(
    owner: Obj,
    pods: Sequence[Obj] = (),
    nodes: Sequence[Obj] = (),
    revisions: Sequence[Obj] = (NEW,),
    given: Given = lambda _: None,
    satisfied: Callable[[Action], bool] = lambda _: True,
) -> tuple[list[Action], str | None]:
    """All actions of a sync, and its error.

    given: the answer to an action, None for the usual one: writes are stored, the set is read
    satisfied: True if the cache shows what was expected, after an action
    """
    steps = sync_set(owner, Seen(N, nodes, REF, decide.NodeFit(owner["spec"]["template"], N)))
    actions: list[Action] = []
    answer: Answer | None = None
    while True:
        try:
            action = next(steps) if answer is None else steps.send(answer)
        except StopIteration as end:
            return actions, end.value
        actions.append(action)
        found = given(action)
        if isinstance(found, Answer):
            answer = found
            continue
        answer = Answer(NOW, satisfied(action), found or Reply(200))
        if found is None:
            match action:
                case Claim(resource):
                    answer = answer._replace(objects=pods if resource == "pods" else revisions)
                case Create() | Update():
                    answer = answer._replace(reply=stored(action.obj))
                case Get():
                    answer = answer._replace(reply=stored(owner))
                case _:
                    pass


def kinds(actions: Sequence[Action]) -> list[str]:
    """The actions by their names, with the resources of requests and the kinds of claims."""
    return [f"{type(one).__name__} {getattr(one, 'resource', '')}".rstrip() for one in actions]


def refusing(reply: Reply, *which: str) -> Given:
    """Gives `reply` to actions of these kinds."""
    return lambda action: reply if kinds([action])[0] in which else None


def failing(error: str, *which: str) -> Given:
    """Gives an error to claims, creates and deletes of these kinds."""
    return lambda action: Answer(NOW, True, error=error) if kinds([action])[0] in which else None


REVISIONS, PODS, SETS = "Claim controllerrevisions", "Claim pods", "daemonsets"
# A sync that finds nothing to change.
QUIET = [REVISIONS, PODS, "Expect", PODS, "Expect", PODS, PODS]


# --- order of a sync ------------------------------------------------------------------------------


def test_sync_with_nothing_to_change_claims_and_writes_nothing() -> None:
    actions, error = drive(daemon_set(), [pod()], [node()])
    assert (kinds(actions), error) == (QUIET, None)
    assert [one for one in actions if isinstance(one, Expect)] == [Expect(0, 0)] * 2


def test_set_that_selects_all_pods_is_reported_and_left_alone() -> None:
    (event,), error = drive(daemon_set(selector={}))
    assert isinstance(event, Event) and error is None
    assert (event.kind, event.reason) == ("Warning", "SelectingAll")
    text = "This daemon set is selecting all pods. A non-empty selector is required."
    assert event.message == text


def test_set_that_is_being_deleted_is_left_alone() -> None:
    owner = daemon_set()
    owner["metadata"]["deletionTimestamp"] = format_time(NOW)
    assert drive(owner) == ([], None)


def test_sync_before_the_cache_shows_expected_pods_writes_the_counts_alone() -> None:
    actions, error = drive(daemon_set({}), nodes=[node()], satisfied=lambda _: False)
    assert (kinds(actions), error) == ([REVISIONS, PODS, "Update daemonsets"], None)
    (update,) = [one for one in actions if isinstance(one, Update)]
    assert "observedGeneration" not in update.obj["status"]
    assert (update.subresource, update.obj["status"]["desiredNumberScheduled"]) == ("status", 1)


def test_claim_of_revisions_that_fails_ends_the_sync() -> None:
    assert drive(daemon_set(), given=failing("no", REVISIONS))[1] == "no"
    assert kinds(drive(daemon_set(), given=failing("no", REVISIONS))[0]) == [REVISIONS]


def test_claim_of_pods_that_fails_is_tried_again_for_the_status() -> None:
    actions, error = drive(daemon_set(), given=failing("no", PODS))
    assert (kinds(actions), error) == ([REVISIONS, PODS, PODS], "no")


def test_first_error_of_a_sync_is_returned_after_the_status_is_written() -> None:
    def given(action: Action) -> Answer | Reply | None:
        if isinstance(action, CreatePods):
            return Answer(NOW, False, error="first")
        return AWAY if isinstance(action, Update | Get) else None

    actions, error = drive(daemon_set(), nodes=[node()], given=given)
    names = [REVISIONS, PODS, "Expect", "CreatePods", PODS, "Update daemonsets", "Get daemonsets"]
    assert (kinds(actions), error) == (names, "first")


def test_error_of_the_status_is_that_of_the_sync() -> None:
    assert drive(daemon_set({}), given=refusing(AWAY, "Update daemonsets"))[1] == "away"


# --- pods -----------------------------------------------------------------------------------------


def test_missing_pods_are_created_before_surplus_ones_are_deleted() -> None:
    pods = [pod("p", "a"), pod("q", "a"), pod("r", "a")]
    actions, error = drive(daemon_set(), pods, [node("a"), node("b")])
    assert kinds(actions)[:5] == [REVISIONS, PODS, "Expect", "CreatePods", "DeletePods"]
    expect, create, delete = actions[2:5]
    assert expect == Expect(1, 2) and error is None
    assert isinstance(delete, DeletePods) and isinstance(create, CreatePods)
    assert [one["metadata"]["name"] for one in delete.pods] == ["q", "r"]
    (made,) = create.pods
    assert decide.target_node(made) == "b"
    assert made["metadata"]["labels"] == {"app": "ds", HASH: "now"}
    assert made["metadata"]["ownerReferences"] == [REF]


def test_pods_are_deleted_when_creates_fail_and_the_first_error_counts() -> None:
    pods, nodes = [pod("p"), pod("q")], [node("a"), node("b")]
    actions, error = drive(daemon_set(), pods, nodes, given=failing("no", "CreatePods", "DeletePods"))
    assert "DeletePods" in kinds(actions) and error == "no"
    assert drive(daemon_set(), pods, nodes, given=failing("deletes", "DeletePods"))[1] == "deletes"

    def given(action: Action) -> Answer | None:
        error = {CreatePods: "creates", DeletePods: "deletes"}.get(type(action))
        return None if error is None else Answer(NOW, True, error=error)

    assert drive(daemon_set(), pods, nodes, given=given)[1] == "creates"


def test_failed_deletes_end_the_update_before_a_step_and_the_cleanup() -> None:
    actions, _ = drive(daemon_set(STATUS), [pod("p"), pod("q")], [node()], given=failing("no", "DeletePods"))
    assert kinds(actions) == [REVISIONS, PODS, "Expect", "DeletePods", PODS]


def test_sync_creates_and_deletes_at_most_a_burst() -> None:
    nodes = [node(f"n{index:03}") for index in range(BURST + 1)]
    surplus = [pod(f"p{index:03}", "n000") for index in range(BURST + 2)]
    actions, _ = drive(daemon_set(), surplus, [*nodes, node("last")])
    assert BURST == 250 and Expect(250, 250) in actions
    sizes = [len(one.pods) for one in actions if isinstance(one, CreatePods | DeletePods)]
    assert sizes[:2] == [250, 250]


def test_sync_that_waits_for_its_creates_makes_no_rolling_update_step() -> None:
    pods, nodes = [pod("p", hashed="old")], [node("a"), node("b")]
    actions, error = drive(
        daemon_set(), pods, nodes, satisfied=lambda action: not isinstance(action, CreatePods)
    )
    assert "DeletePods" not in kinds(actions) and error is None
    assert kinds(actions)[:6] == [REVISIONS, PODS, "Expect", "CreatePods", PODS, PODS]


@pytest.mark.parametrize(
    ("strategy", "rolls"),
    [(None, True), ({}, True), ({"type": "RollingUpdate"}, True), ({"type": "OnDelete"}, False)],
)
def test_old_pod_is_replaced_unless_the_strategy_waits_for_its_delete(
    strategy: Obj | None, rolls: bool
) -> None:
    actions, _ = drive(daemon_set(updateStrategy=strategy), [pod(hashed="old")], [node()])
    assert ("DeletePods" in kinds(actions)) is rolls
    assert kinds(actions).count("Expect") == 1 + rolls


def test_step_of_a_rolling_update_sees_the_pods_of_a_second_claim() -> None:
    claims = iter([[pod(hashed="old")], [pod("q")], [], []])

    def given(action: Action) -> Answer | None:
        return Answer(NOW, True, objects=next(claims)) if action == Claim("pods") else None

    assert "DeletePods" not in kinds(drive(daemon_set(), nodes=[node()], given=given)[0])


@pytest.mark.parametrize("place", [2, 3])
def test_later_claim_that_fails_ends_the_update(place: int) -> None:
    claims = iter(range(1, 9))

    def given(action: Action) -> Answer | None:
        fails = action == Claim("pods") and next(claims) == place
        return Answer(NOW, True, error="no") if fails else None

    actions, error = drive(daemon_set(), [pod()], [node()], given=given)
    assert (kinds(actions).count(PODS), error) == (place + 1, "no")


def test_step_that_fails_ends_the_update_before_the_cleanup() -> None:
    actions, error = drive(daemon_set(), [pod(hashed="old")], [node()], given=failing("no", "DeletePods"))
    assert error == "no"
    assert kinds(actions)[:6] == [REVISIONS, PODS, "Expect", PODS, "Expect", "DeletePods"]
    assert kinds(actions)[6:] == [PODS, "Update daemonsets"]


def test_failed_pod_is_reported_and_deleted() -> None:
    actions, _ = drive(daemon_set(), [pod(phase="Failed")], [node()])
    assert kinds(actions)[:6] == [REVISIONS, PODS, "BackOff", "Event", "Expect", "DeletePods"]
    assert actions[2] == BackOff(2, "a") and actions[4] == Expect(0, 1)
    assert isinstance(actions[3], Event)
    assert (actions[3].kind, actions[3].reason) == ("Warning", "FailedDaemonPod")
    assert actions[3].message == "Found failed daemon pod default/p on node a, will try to kill it"
    assert drive(daemon_set({}), [pod(phase="Failed")], [node()])[0][2] == BackOff(0, "a")


def test_failed_pod_waits_for_its_back_off_and_others_do_not() -> None:
    def given(action: Action) -> Answer | None:
        return Answer(NOW, True, wait_us=5) if action == BackOff(2, "a") else None

    failed = [pod("p", "a", phase="Failed"), pod("q", "b", phase="Failed")]
    actions, _ = drive(daemon_set(), failed, [node("a"), node("b")], given=given)
    assert [one.after_us for one in actions if isinstance(one, Requeue)] == [5]
    assert kinds(actions)[2:7] == ["BackOff", "Requeue", "BackOff", "Event", "Expect"]
    deleted = next(one for one in actions if isinstance(one, DeletePods))
    assert [one["metadata"]["name"] for one in deleted.pods] == ["q"]


# --- status ---------------------------------------------------------------------------------------


def statuses(actions: Sequence[Action]) -> list[Obj]:
    return [one.obj["status"] for one in actions if isinstance(one, Update) and one.resource == SETS]


def test_changed_counts_are_written_with_the_observed_generation() -> None:
    actions, error = drive(daemon_set({"collisionCount": 1}), [pod()], [node()])
    assert statuses(actions) == [{**STATUS, "collisionCount": 1}] and error is None
    unnumbered = daemon_set({})
    del unnumbered["metadata"]["generation"]
    (status,) = statuses(drive(unnumbered, [pod()], [node()])[0])
    assert "observedGeneration" not in status


def test_refused_status_is_written_once_more_over_the_live_set() -> None:
    replies = iter([CONFLICT, None])
    live = {**daemon_set({"collisionCount": 7}), "live": True}

    def given(action: Action) -> Reply | None:
        if isinstance(action, Get):
            assert action == Get(SETS, "default", "ds")
            return stored(live)
        return next(replies) if isinstance(action, Update) else None

    actions, error = drive(daemon_set({}), [pod()], [node()], given=given)
    assert kinds(actions)[-3:] == ["Update daemonsets", "Get daemonsets", "Update daemonsets"]
    assert statuses(actions) == [STATUS, {**STATUS, "collisionCount": 7}] and error is None
    assert isinstance(actions[-1], Update) and actions[-1].obj["live"]


@pytest.mark.parametrize(
    ("refused", "error", "last"),
    [("Get daemonsets", "gone", "Get daemonsets"), ("Update daemonsets", "away", "Update daemonsets")],
)
def test_status_that_fails_twice_is_an_error(refused: str, error: str, last: str) -> None:
    def given(action: Action) -> Reply | None:
        if isinstance(action, Update):
            return AWAY
        return GONE if kinds([action]) == [refused] else None

    actions, found = drive(daemon_set({}, minReadySeconds=9), [pod(ready_s=1)], [node()], given=given)
    assert (kinds(actions)[-1], found) == (last, error)
    assert len(statuses(actions)) == (1 if refused.startswith("Get") else 2)


@pytest.mark.parametrize(("min_ready_s", "waits"), [(None, []), (0, []), (59, []), (61, [61 * SECOND])])
def test_set_is_queued_for_the_time_when_ready_pods_become_available(
    min_ready_s: int | None, waits: list[int]
) -> None:
    actions, _ = drive(daemon_set(minReadySeconds=min_ready_s), [pod()], [node()])
    asked = [one for one in actions if isinstance(one, Requeue)]
    assert [(one.key, one.after_us) for one in asked] == [("default/ds", wait) for wait in waits]


# --- history --------------------------------------------------------------------------------------

OLD = revision("old", 3, x=1)


def test_first_revision_is_created_with_the_number_one() -> None:
    actions, error = drive(daemon_set(), [], [node()], revisions=())
    create, pods = actions[1], next(one for one in actions if isinstance(one, CreatePods))
    assert isinstance(create, Create) and error is None
    assert (create.resource, create.namespace, create.obj["revision"]) == (
        "controllerrevisions",
        "default",
        1,
    )
    assert create.obj["metadata"]["ownerReferences"] == [REF]
    assert pods.pods[0]["metadata"]["labels"][HASH] == create.obj["metadata"]["labels"][HASH]


def test_revision_of_a_new_template_gets_the_next_number() -> None:
    actions, _ = drive(daemon_set(), [pod(hashed="old")], [node()], revisions=[OLD])
    assert isinstance(actions[1], Create) and actions[1].obj["revision"] == 4


CREATE, READ = "Create controllerrevisions", "Get controllerrevisions"


def test_refused_create_of_a_revision_ends_the_sync() -> None:
    actions, error = drive(daemon_set(), revisions=(), given=refusing(AWAY, CREATE))
    assert (kinds(actions), error) == ([REVISIONS, CREATE], "away")


def collision(live: Obj, owner: Obj, refused: Sequence[str] = ()) -> Given:
    """The name of the new revision is taken by `live`; `owner` is the live set."""

    def given(action: Action) -> Reply | None:
        kind = kinds([action])[0]
        if kind in refused:
            return AWAY
        return {CREATE: EXISTS, READ: stored(live), "Get daemonsets": stored(owner)}.get(kind)

    return given


def test_revision_that_exists_with_the_same_data_is_used() -> None:
    actions, error = drive(daemon_set(), [pod()], [node()], revisions=(), given=collision(NEW, daemon_set()))
    assert (kinds(actions), error) == ([REVISIONS, CREATE, READ, *QUIET[1:]], None)
    name = decide.new_revision(daemon_set(), REF, 1, N)["metadata"]["name"]
    assert actions[2] == Get("controllerrevisions", "default", name)


@pytest.mark.parametrize(("counted", "raised"), [({}, 1), ({"collisionCount": 4}, 5)])
def test_revision_of_other_data_with_the_same_name_raises_the_collision_count(
    counted: Obj, raised: int
) -> None:
    owner = daemon_set(counted)
    live = {**daemon_set({**counted, "numberReady": 3}), "live": True}
    actions, error = drive(owner, revisions=(), given=collision(OLD, live))
    assert kinds(actions) == [REVISIONS, CREATE, READ, "Get daemonsets", "Update daemonsets"]
    assert actions[-2] == Get(SETS, "default", "ds")
    written = {**live, "status": {"numberReady": 3, "collisionCount": raised}}
    assert (actions[-1], error) == (Update(SETS, written, "status"), "exists")


def test_stale_collision_count_is_not_raised() -> None:
    actions, error = drive(
        daemon_set({}), revisions=(), given=collision(OLD, daemon_set({"collisionCount": 1}))
    )
    assert kinds(actions)[-1] == "Get daemonsets"
    assert error == "found a stale collision count; will retry until it is updated"


@pytest.mark.parametrize("last", [READ, "Get daemonsets", "Update daemonsets"])
def test_refused_request_after_a_collision_ends_the_sync(last: str) -> None:
    given = collision(OLD, daemon_set(), [last])
    actions, error = drive(daemon_set(), revisions=(), given=given)
    assert (kinds(actions)[-1], error) == (last, "away")


UPDATE, DELETE = "Update controllerrevisions", "Delete controllerrevisions"


def test_older_revision_that_is_current_again_gets_the_highest_number() -> None:
    actions, error = drive(daemon_set(), [pod()], [node()], revisions=[OLD, NEW])
    assert (kinds(actions), error) == ([REVISIONS, UPDATE, *QUIET[1:]], None)
    assert actions[1] == Update("controllerrevisions", {**NEW, "revision": 4})
    newest = revision("now", 4)
    assert kinds(drive(daemon_set(), [pod()], [node()], revisions=[newest, OLD])[0]) == QUIET
    actions, error = drive(daemon_set(), revisions=[OLD, NEW], given=refusing(CONFLICT, UPDATE))
    assert (kinds(actions), error) == ([REVISIONS, UPDATE], "conflict")


def test_renumbered_revision_is_used_as_stored() -> None:
    renumbered = stored(revision("now", 4, "other"))
    actions, _ = drive(daemon_set(), nodes=[node()], revisions=[OLD, NEW], given=refusing(renumbered, UPDATE))
    create = next(one for one in actions if isinstance(one, CreatePods))
    assert create.pods[0]["metadata"]["labels"][HASH] == "other"


def test_revision_without_its_label_is_labelled_with_its_name() -> None:
    bare = unlabelled(NEW)
    actions, error = drive(daemon_set(), [pod()], [node()], revisions=[bare])
    assert (kinds(actions), error) == ([REVISIONS, UPDATE, *QUIET[1:]], None)
    assert actions[1] == Update("controllerrevisions", NEW)
    actions, error = drive(daemon_set(), revisions=[bare], given=refusing(AWAY, UPDATE))
    assert (kinds(actions), error) == ([REVISIONS, UPDATE], "away")


def test_twin_is_deleted_after_pods_with_another_label_are_relabelled() -> None:
    pods, nodes = [pod("p", "a", "twin"), pod("q", "b")], [node("a"), node("b")]
    twins = [revision("now", 2), revision("twin", 1)]
    actions, error = drive(daemon_set(), pods, nodes, revisions=twins)
    assert kinds(actions)[:4] == [REVISIONS, PODS, "Relabel", DELETE] and error is None
    assert actions[2:4] == [
        Relabel(pods[0], {HASH: "now"}),
        Delete("controllerrevisions", "default", "twin"),
    ]


@pytest.mark.parametrize(
    ("given", "names", "error"),
    [
        (failing("no", PODS), [REVISIONS, PODS], "no"),
        (refusing(AWAY, "Relabel"), [REVISIONS, PODS, "Relabel"], "away"),
        (refusing(GONE, DELETE), [REVISIONS, PODS, "Relabel", DELETE], "gone"),
    ],
)
def test_merge_of_twins_ends_at_the_first_refusal(given: Given, names: list[str], error: str) -> None:
    twins = [revision("now", 2), revision("twin", 1)]
    actions, found = drive(daemon_set(), [pod(hashed="twin")], [node()], revisions=twins, given=given)
    assert (kinds(actions), found) == (names, error)


def removed(actions: Sequence[Action]) -> list[str]:
    return [one.name for one in actions if isinstance(one, Delete)]


@pytest.mark.parametrize(("limit", "names"), [(0, ["r1", "r3", "r4"]), (2, ["r1", "r3"]), (4, []), (5, [])])
def test_oldest_revisions_without_pods_are_deleted_beyond_the_limit(limit: int, names: list[str]) -> None:
    olds = [revision(f"r{number}", number, x=number) for number in (4, 2, 3, 1)]
    used = pod("q", "gone", "r2")
    owner = daemon_set(revisionHistoryLimit=limit)
    actions, error = drive(owner, [pod(), used], [node()], [revision("now", 9), *olds])
    assert (removed(actions), error) == (names, None)


def test_ten_old_revisions_are_kept_without_a_limit() -> None:
    olds = [revision(f"r{number:02}", number, x=number) for number in range(1, 12)]
    actions, error = drive(daemon_set(), [pod()], [node()], [revision("now", 20), *olds])
    assert (removed(actions), error) == (["r01"], None)
    assert removed(drive(daemon_set(), [pod()], [node()], [revision("now", 20), *olds[1:]])[0]) == []


def test_cleanup_ends_at_the_first_refusal_and_the_status_follows() -> None:
    olds = [revision(f"r{number}", number, x=number) for number in (1, 2)]
    actions, error = drive(
        daemon_set(revisionHistoryLimit=0),
        [pod()],
        [node()],
        [revision("now", 9), *olds],
        refusing(GONE, DELETE),
    )
    assert (removed(actions), error) == (["r1"], "gone")
    assert kinds(actions)[-2:] == [DELETE, PODS]
