"""The steps of the syncs of services and of the nodes behind them, and what follows each answer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from actors.controllers.service.sync import (
    Action,
    Answer,
    Ensure,
    Explain,
    Find,
    Follow,
    Move,
    Patch,
    Remove,
    Seen,
    Steps,
    Syncs,
)
from actors.controllers.shared.cloud import Balancer, Refused
from actors.controllers.shared.steps import Event
from sim.api.status import status as refusal
from sim.api.types import Obj, Reply

DONE = Reply(200)
AWAY = Reply(503, body=refusal(503, "ServiceUnavailable", "away"))
GONE = Reply(404, body=refusal(404, "NotFound", "gone"))
DEAF = Refused("no answer", 7)
MADE = Balancer(("1.2.3.4",))
INGRESS = {"status": {"loadBalancer": {"ingress": [{"ip": "1.2.3.4"}]}}}
NO_INGRESS = {"status": {"loadBalancer": {"ingress": None}}}
ADD = {"metadata": {"finalizers": ["f"]}}
TAKE = {"metadata": {"$deleteFromPrimitiveList/finalizers": ["f"]}}
KEY = "default/web"


def service(uid: str = "u", held: bool = True, shown: Sequence[str] = (), **spec: Any) -> Obj:
    meta = {"name": "web", "namespace": "default", "uid": uid, **({"finalizers": ["f"]} if held else {})}
    status = {"loadBalancer": {"ingress": [{"ip": address} for address in shown]}}
    return {"metadata": meta, "spec": {"type": "LoadBalancer", **spec}, "status": status}


def plain(held: bool = True, shown: Sequence[str] = ()) -> Obj:
    """A service that wants no load balancer."""
    return service(held=held, shown=shown, type="ClusterIP")


def syncs(known: Obj | None = None, nodes: tuple[str, ...] = ("a", "b")) -> Syncs:
    made = Syncs(Seen("f", lambda: nodes))
    made.known = {KEY: known} if known else {}
    return made


def drive(steps: Steps[Any], answers: Sequence[Answer]) -> tuple[list[Action], str | None]:
    """All actions and the error of a sync that needs exactly these answers."""
    actions: list[Action] = []
    left = list(answers)
    try:
        action = next(steps)
        while True:
            actions.append(action)
            is_call = not isinstance(action, Event | Follow | Explain)
            action = steps.send(left.pop(0) if is_call else None)
    except StopIteration as end:
        assert left == []
        return actions, end.value


def brief(actions: Sequence[Action]) -> list[object]:
    """Events by their reasons, patches by what they write, and other actions unchanged."""
    return [
        one.reason if isinstance(one, Event) else one.patch if isinstance(one, Patch) else one
        for one in actions
    ]


def synced(obj: Obj | None, *answers: Answer, by: Syncs | None = None) -> tuple[list[object], str | None]:
    actions, error = drive((by or syncs()).sync(KEY, obj), answers)
    return brief(actions), error


def texts(actions: Sequence[Action]) -> list[tuple[str, str]]:
    return [(one.kind, one.message) for one in actions if isinstance(one, Event)]


# --- load balancers -------------------------------------------------------------------------------


def test_load_balancer_is_made_after_the_finalizer_and_before_its_addresses() -> None:
    new, by = service(held=False), syncs()
    actions, error = drive(by.sync(KEY, new), [DONE, MADE, DONE])
    assert brief(actions) == [
        "EnsuringLoadBalancer",
        ADD,
        Ensure(new, ("a", "b")),
        "EnsuredLoadBalancer",
        INGRESS,
    ]
    assert texts(actions) == [("Normal", "Ensuring load balancer"), ("Normal", "Ensured load balancer")]
    assert (error, by.known) == (None, {KEY: new})
    assert {one.service["metadata"]["uid"] for one in actions if isinstance(one, Patch)} == {"u"}


def test_finalizer_and_addresses_that_are_there_are_not_written() -> None:
    actions, error = synced(service(shown=["1.2.3.4"]), MADE)
    assert (len(actions), error) == (3, None)


def test_load_balancer_without_nodes_is_made_and_reported() -> None:
    actions, _ = drive(syncs(nodes=()).sync(KEY, service()), [MADE, DONE])
    assert brief(actions)[1:3] == ["UnAvailableLoadBalancer", Ensure(service(), ())]
    assert texts(actions)[1] == ("Warning", "There are no available nodes for LoadBalancer")


@pytest.mark.parametrize(
    ("obj", "answers", "told"),
    [
        (service(held=False), [AWAY], "failed to add load balancer cleanup finalizer: away"),
        (service(held=False), [GONE], "failed to add load balancer cleanup finalizer: gone"),
        (service(), [DEAF], "failed to ensure load balancer: no answer"),
        (service(), [MADE, AWAY], "failed to update load balancer status: away"),
        (plain(), [DEAF], "failed to check if load balancer exists before cleanup: no answer"),
        (plain(), [MADE, DEAF], "failed to delete load balancer: no answer"),
        (plain(), [None, AWAY], "failed to remove load balancer cleanup finalizer: away"),
        (plain(), [None, GONE], "failed to remove load balancer cleanup finalizer: gone"),
        (plain(shown=["1.2.3.4"]), [None, DONE, AWAY], "failed to update load balancer status: away"),
    ],
)
def test_failed_sync_is_reported_explains_later_tries_and_stays_known(
    obj: Obj, answers: list[Answer], told: str
) -> None:
    by = syncs()
    actions, error = drive(by.sync(KEY, obj), answers)
    assert (error, by.known) == (told, {KEY: obj})
    assert texts(actions)[-1] == ("Warning", f"Error syncing load balancer: {told}")
    assert brief(actions)[-2:] == ["SyncLoadBalancerFailed", Explain(KEY, True)]
    assert [one for one in actions if isinstance(one, Follow)] == ([Follow(7)] if DEAF in answers else [])


def test_refusal_without_a_trace_record_explains_nothing() -> None:
    actions, _ = synced(service(), Refused("no answer"))
    assert actions[-2:] == ["SyncLoadBalancerFailed", Explain(KEY, True)]
    assert not any(isinstance(one, Follow) for one in actions)


def test_status_of_a_service_that_is_gone_is_no_error() -> None:
    assert synced(service(), MADE, GONE)[1] is None


def test_load_balancer_that_is_not_wanted_is_deleted_before_finalizer_and_addresses() -> None:
    old, by = plain(shown=["1.2.3.4"]), syncs()
    actions, error = drive(by.sync(KEY, old), [MADE, DONE, DONE, DONE])
    assert brief(actions) == [
        Find(old),
        "DeletingLoadBalancer",
        Remove(old),
        TAKE,
        "DeletedLoadBalancer",
        NO_INGRESS,
        Explain(KEY, False),
    ]
    assert texts(actions) == [("Normal", "Deleting load balancer"), ("Normal", "Deleted load balancer")]
    assert (error, by.known) == (None, {})


def test_service_without_finalizer_and_load_balancer_is_only_looked_at() -> None:
    old = plain(held=False)
    assert synced(old, None) == ([Find(old), "DeletedLoadBalancer", Explain(KEY, False)], None)


def test_service_that_is_being_deleted_is_cleaned_up() -> None:
    old = service()
    old["metadata"]["deletionTimestamp"] = "t"
    assert synced(old, None, DONE)[0] == [Find(old), TAKE, "DeletedLoadBalancer", Explain(KEY, False)]


# --- services that are gone -----------------------------------------------------------------------


def test_load_balancer_goes_with_a_service_that_had_no_finalizer() -> None:
    by = syncs(service())
    wanted = ["DeletingLoadBalancer", Remove(service()), "DeletedLoadBalancer"]
    assert (synced(None, None, by=by), by.known) == ((wanted, None), {})
    assert synced(None, by=by) == ([], None)


def test_load_balancer_that_is_not_deleted_stays_known() -> None:
    by = syncs(service())
    actions, error = drive(by.sync(KEY, None), [DEAF])
    assert brief(actions)[2:] == [Follow(7), "DeleteLoadBalancerFailed"]
    assert texts(actions)[-1] == ("Warning", "Error deleting load balancer: no answer")
    assert (error, list(by.known)) == ("no answer", [KEY])


def test_service_that_wanted_no_load_balancer_is_forgotten() -> None:
    by = syncs(plain())
    assert (synced(None, by=by), by.known) == (([], None), {})


def test_load_balancer_of_an_earlier_service_of_the_name_is_deleted_first() -> None:
    later, by = service("later", shown=["1.2.3.4"]), syncs(service())
    actions, error = synced(later, None, MADE, by=by)
    assert (actions[1], actions[4], error) == (Remove(service()), Ensure(later, ("a", "b")), None)
    assert by.known == {KEY: later}


def test_service_waits_for_the_end_of_an_earlier_one_of_its_name() -> None:
    by = syncs(service())
    actions, error = synced(service("later"), DEAF, by=by)
    assert (actions[-1], error) == ("DeleteLoadBalancerFailed", "no answer")
    assert by.known == {KEY: service()}


def test_service_that_is_known_is_synced_in_its_present_form() -> None:
    by = syncs(service(port=80))
    actions, _ = synced(service(port=81, shown=["1.2.3.4"]), MADE, by=by)
    assert (len(actions), by.known[KEY]["spec"]["port"]) == (3, 81)


# --- nodes ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("nodes", "event"),
    [
        (("a", "b"), ("Normal", "Updated load balancer with new hosts")),
        ((), ("Warning", "There are no available nodes for LoadBalancer")),
    ],
)
def test_present_nodes_are_given_to_a_load_balancer(nodes: tuple[str, ...], event: tuple[str, str]) -> None:
    actions, error = drive(syncs(nodes=nodes).move(service()), [None])
    assert (actions[0], texts(actions), error) == (Move(service(), nodes), [event], None)


@pytest.mark.parametrize("found", [MADE, Refused("no answer", 8)])
def test_load_balancer_that_does_not_get_its_nodes_is_reported(found: Answer) -> None:
    actions, error = drive(syncs().move(service()), [DEAF, found])
    assert brief(actions)[1:] == [Follow(7), Find(service()), "UpdateLoadBalancerFailed"]
    wanted = "Error updating load balancer with new hosts [a b]: no answer"
    assert (texts(actions), error) == ([("Warning", wanted)], "no answer")


def test_load_balancer_that_is_gone_needs_no_nodes() -> None:
    actions, error = drive(syncs().move(service()), [DEAF, None])
    assert (actions[1:], error) == ([Follow(7), Find(service())], None)
