"""The steps of the garbage collector's syncs: which requests follow each other and each answer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from actors.controllers.garbagecollector.decide import (
    AbsentOwners,
    Dependents,
    Ident,
    Item,
    coordinates,
    item_of,
)
from actors.controllers.garbagecollector.sync import (
    Action,
    Enqueue,
    Patch,
    Remove,
    Report,
    Seen,
    Steps,
    attempt_to_delete,
    attempt_to_orphan,
)
from actors.controllers.shared.steps import Get, Sleep, SyncFailed
from sim.api.aggregation.delegation import Delegated
from sim.api.aggregation.requests import served
from sim.api.objects import key_of, uid_of
from sim.api.schema.resource import Resource
from sim.api.status import status as refusal
from sim.api.store import Item as Stored
from sim.api.types import Obj, Reply
from sim.ident import NAMES

N = NAMES["kubernetes"]
OK = Reply(200)
LOST = Reply(0, lost="Timeout")
AWAY = Reply(503, body=refusal(503, "ServiceUnavailable", "away"))
GONE = Reply(404, body=refusal(404, "NotFound", "gone"))
CONFLICT = Reply(409, body=refusal(409, "Conflict", "conflict"))
SWEEP = 30_000_000
FOREGROUND = {"deletionTimestamp": "t", "finalizers": [N.finalizer_foreground]}
ORPHAN = {"deletionTimestamp": "t", "finalizers": [N.finalizer_orphan, "other"]}


def resource(plural: str, kind: str, namespaced: bool = True, custom: bool = False) -> Resource:
    row = {"name": plural, "kind": kind, "namespaced": namespaced, "verbs": ["list"]}
    (found,) = served(Delegated("", "v1", {}), {"resources": [row]})
    return replace(found, custom=custom)


SETS, PODS, NODES = resource("sets", "Set"), resource("pods", "Pod"), resource("nodes", "Node", False)
WIDGETS = resource("widgets", "Widget", custom=True)
EACH = {(each.api_version, each.kind): each for each in (SETS, PODS, NODES, WIDGETS)}
SET, POD, NODE, WIDGET = EACH


def ref(name: str, kind: str = "Set", **more: Any) -> Obj:
    return {"apiVersion": "v1", "kind": kind, "name": name, "uid": f"u-{name}", **more}


def obj(name: str, *refs: Obj, namespace: str = "shop", **meta: Any) -> Obj:
    """An object; namespace: "" for one of the cluster."""
    place = {"namespace": namespace} if namespace else {}
    known = {"name": name, "uid": f"u-{name}", "resourceVersion": "7", "ownerReferences": list(refs)}
    return {"metadata": {**place, **known, **meta}}


def stored(found: Obj) -> Reply:
    return Reply(200, item=Stored("k", found, 1, 1))


def get(kind: Resource, name: str, namespace: str = "shop") -> Get:
    return Get(kind, namespace, name)


class Graph:
    """What syncs see: one object in the cache, and the dependents of every owner."""

    def __init__(self, cached: Obj | None = None, *dependents: tuple[Ident, Obj]) -> None:
        self.cached, self.dependents = cached, list(dependents)
        self.absent = AbsentOwners()

    @property
    def seen(self) -> Seen:
        return Seen(
            N, EACH, (NODE,), self.absent, self._cached, lambda *_: self.dependents, self._all_dependents
        )

    def _cached(self, ident: Ident, key: str, uid: str) -> Obj | None:
        found = self.cached
        return found if found is not None and (key_of(found), uid_of(found)) == (key, uid) else None

    def _all_dependents(self, kind: str, uid: str) -> Dependents:
        return self.dependents

    def delete(self, item: Item | Ident, *replies: Reply) -> tuple[list[Action], str | None]:
        """The check of an item, or of the object in the cache as one of this kind."""
        if not isinstance(item, Item):
            assert self.cached is not None
            item = item_of(item, self.cached)
        return drive(attempt_to_delete(self.seen, item), [[reply] for reply in replies])

    def orphan(self, *replies: Sequence[Reply]) -> tuple[list[Action], str | None]:
        """The release of the dependents of a set."""
        return drive(attempt_to_orphan(self.seen, item_of(SET, obj("s"))), replies)


def drive(steps: Steps[None], replies: Sequence[Sequence[Reply]]) -> tuple[list[Action], str | None]:
    """All actions and the error of a sync that needs exactly these replies to its requests."""
    actions: list[Action] = []
    left = list(replies)
    try:
        action = next(steps)
        while True:
            actions.append(action)
            action = steps.send(() if isinstance(action, Enqueue | Report | Sleep) else left.pop(0))
    except StopIteration:
        error = None
    except SyncFailed as failed:
        error = None if failed.silent else str(failed)
    assert left == []
    return actions, error


def checked(pod: Obj, *replies: Reply, dependents: Dependents = ()) -> tuple[list[Action], str | None]:
    """What a check of a pod does after it was read, and the error."""
    actions, error = Graph(pod, *dependents).delete(POD, stored(pod), *replies)
    assert actions[0] == get(PODS, "p")
    return actions[1:], error


def removal(policy: Any) -> Remove:
    return Remove(PODS, "shop/p", "u-p", policy)


OWNED = obj("p", ref("s"))
GET_SET = get(SETS, "s")
BACKGROUND = removal("Background")

# --- an object that may have lost its owners ------------------------------------------------------


@pytest.mark.parametrize("found", [GONE, stored(obj("s", uid="later"))])
def test_object_is_deleted_when_its_owner_is_absent_or_another_one(found: Reply) -> None:
    assert checked(OWNED, found, OK) == ([GET_SET, BACKGROUND], None)


@pytest.mark.parametrize(("reply", "error"), [(CONFLICT, "conflict"), (AWAY, "away"), (GONE, None)])
def test_refused_delete_is_tried_again_unless_the_object_is_gone(reply: Reply, error: str | None) -> None:
    assert checked(OWNED, GONE, reply) == ([GET_SET, BACKGROUND], error)


def test_object_stays_when_its_owner_cannot_be_read() -> None:
    assert checked(OWNED, AWAY) == ([GET_SET], "away")
    assert checked(obj("p", ref("gone"), ref("s")), GONE, AWAY) == ([get(SETS, "gone"), GET_SET], "away")


def test_object_stays_while_a_kind_of_its_owners_is_unknown() -> None:
    unknown = ref("x", "Gadget")
    assert checked(obj("p", unknown, ref("s"))) == ([], "unable to get REST mapping for v1/Gadget.")
    assert checked(obj("p", ref("s"), unknown), GONE)[0] == [GET_SET]


def test_object_without_owners_or_with_a_solid_one_stays() -> None:
    assert checked(obj("p")) == ([], None)
    assert checked(OWNED, stored(obj("s"))) == ([GET_SET], None)
    assert checked(OWNED, stored(obj("s", deletionTimestamp="t"))) == ([GET_SET], None)


@pytest.mark.parametrize(("reply", "error"), [(OK, None), (GONE, None), (CONFLICT, "conflict")])
def test_references_besides_that_to_a_solid_owner_are_removed(reply: Reply, error: str | None) -> None:
    pod = obj("p", ref("a"), ref("s"), ref("b"))
    waits = stored(obj("b", **FOREGROUND))
    actions, told = checked(pod, GONE, stored(obj("s")), waits, reply, dependents=[(POD, obj("d"))])
    gone = [{"$patch": "delete", "uid": uid} for uid in ("u-a", "u-b")]
    body = {"metadata": {"ownerReferences": gone, "uid": "u-p"}}
    assert (actions[3:], told) == ([Patch(PODS, "shop/p", body, merge=False)], error)


def test_references_of_a_custom_resource_are_removed_by_a_merge_patch() -> None:
    widget = obj("w", ref("a"), ref("s"))
    actions, _ = Graph(widget).delete(WIDGET, stored(widget), GONE, stored(obj("s")), OK)
    body = {"metadata": {"ownerReferences": [ref("s")], "uid": "u-w", "resourceVersion": "7"}}
    assert actions[-1] == Patch(WIDGETS, "shop/w", body, merge=True)


@pytest.mark.parametrize(
    ("finalizers", "policy"),
    [
        (["other"], "Background"),
        ([N.finalizer_orphan, N.finalizer_foreground], "Orphan"),
        ([N.finalizer_foreground], "Foreground"),
    ],
)
def test_finalizers_of_an_object_give_the_policy_of_its_deletion(finalizers: list[str], policy: str) -> None:
    assert checked(obj("p", ref("s"), finalizers=finalizers), GONE, OK) == ([GET_SET, removal(policy)], None)


def test_object_with_dependents_goes_in_the_foreground_if_an_owner_waits_for_it() -> None:
    pod, waits = obj("p", ref("s"), ref("a"), finalizers=[N.finalizer_orphan]), stored(obj("s", **FOREGROUND))
    dependents = [(POD, obj("d"))]
    reads = [GET_SET, get(SETS, "a")]
    assert checked(pod, waits, GONE, OK, dependents=dependents) == ([*reads, removal("Foreground")], None)
    assert checked(pod, waits, GONE, OK)[0] == [*reads, removal("Orphan")]
    assert checked(pod, GONE, GONE, OK, dependents=dependents)[0] == [*reads, removal("Orphan")]


def test_circle_of_foreground_deletions_is_cut_before_the_object_is_deleted() -> None:
    pod, waits = obj("p", ref("s", blockOwnerDeletion=True)), stored(obj("s", **FOREGROUND))
    circle = [(POD, obj("c")), (POD, obj("d", **FOREGROUND))]
    body = {"metadata": {"ownerReferences": [ref("s", blockOwnerDeletion=False)], "uid": "u-p"}}
    cut = Patch(PODS, "shop/p", body, merge=False)
    assert checked(pod, waits, OK, OK, dependents=circle) == ([GET_SET, cut, removal("Foreground")], None)
    assert checked(pod, waits, GONE, dependents=circle) == ([GET_SET, cut], "gone")


def test_absent_owner_is_read_once() -> None:
    graph = Graph(OWNED)
    graph.delete(POD, stored(OWNED), GONE, OK)
    assert graph.delete(POD, stored(OWNED), OK) == ([get(PODS, "p"), BACKGROUND], None)
    assert coordinates(SET, "s", "u-s", "shop") in graph.absent


def test_owner_of_the_cluster_is_read_without_a_namespace() -> None:
    assert checked(obj("p", ref("n", "Node")), GONE, OK)[0] == [get(NODES, "n", ""), BACKGROUND]


def test_object_of_the_cluster_with_a_namespaced_owner_stays() -> None:
    node = obj("n", ref("s"), ref("b"), namespace="")
    assert Graph(node).delete(NODE, stored(node)) == ([get(NODES, "n", "")], None)


@pytest.mark.parametrize(
    ("live", "error"), [(GONE, None), (AWAY, "away"), (stored(obj("p", ref("s"), uid="later")), None)]
)
def test_object_that_is_not_as_in_the_cache_is_left_alone(live: Reply, error: str | None) -> None:
    assert Graph(OWNED).delete(POD, live) == ([get(PODS, "p")], error)


def test_object_that_the_cache_lacks_or_that_is_being_deleted_is_left_alone() -> None:
    assert Graph().delete(item_of(POD, OWNED)) == ([], None)
    assert Graph(obj("p", ref("s"), deletionTimestamp="t")).delete(POD) == ([], None)


# --- an owner that only references know -----------------------------------------------------------


VIRTUAL = Item(*SET, "shop/s", "u-s", virtual=True)


@pytest.mark.parametrize("found", [GONE, stored(obj("s", uid="later"))])
def test_dependents_of_an_absent_owner_are_checked(found: Reply) -> None:
    here, elsewhere = obj("p", ref("s")), obj("q", ref("s"), namespace="away")
    graph = Graph(None, (POD, here), (POD, elsewhere))
    follow = [
        Report(POD, here, ref("s")),
        Enqueue(item_of(POD, here)),
        Enqueue(item_of(POD, elsewhere)),
    ]
    assert graph.delete(VIRTUAL, found) == ([GET_SET, *follow], None)
    assert graph.delete(VIRTUAL) == (follow, None)


@pytest.mark.parametrize(("found", "error"), [(AWAY, "away"), (stored(obj("s")), "owner not observed yet")])
def test_owner_that_may_exist_is_looked_up_again(found: Reply, error: str) -> None:
    assert Graph(None, (POD, OWNED)).delete(VIRTUAL, found) == ([GET_SET], error)


def test_owner_in_the_cache_is_not_read() -> None:
    assert Graph(obj("s"), (POD, OWNED)).delete(VIRTUAL) == ([], None)


def test_owner_of_the_cluster_is_looked_up_without_the_namespace_of_its_dependent() -> None:
    virtual, pod = Item(*NODE, "shop/n", "u-n", virtual=True), obj("p", ref("n", "Node"))
    found = Graph(None, (POD, pod)).delete(virtual, GONE)
    assert found == ([get(NODES, "n", ""), Enqueue(item_of(POD, pod))], None)
    assert Graph(obj("n", namespace=""), (POD, pod)).delete(virtual) == ([], None)
    node = obj("m", ref("n", "Node"), namespace="")
    assert Graph(None, (NODE, node)).delete(replace(virtual, key="n"), GONE)[0][1:] == [
        Enqueue(item_of(NODE, node))
    ]


def test_namespaced_owner_of_an_object_of_the_cluster_is_not_looked_up() -> None:
    assert Graph(None, (NODE, obj("n", namespace=""))).delete(replace(VIRTUAL, key="s")) == ([], None)


def test_owner_of_an_unknown_kind_is_awaited_while_it_has_dependents() -> None:
    virtual = replace(VIRTUAL, kind="Gadget")
    graph = Graph(None, (POD, OWNED))
    assert graph.delete(virtual) == ([], "unable to get REST mapping for v1/Gadget.")
    assert graph.delete(replace(virtual, virtual=False)) == ([], None)
    assert Graph().delete(virtual) == ([], None)


# --- foreground deletion --------------------------------------------------------------------------


ENDING = obj("s", **FOREGROUND)
BLOCKING = ref("s", blockOwnerDeletion=True)


def test_dependents_that_block_a_foreground_deletion_are_checked() -> None:
    blocker, ends = obj("b", BLOCKING), obj("e", BLOCKING, **FOREGROUND)
    graph = Graph(ENDING, (POD, blocker), (POD, OWNED), (POD, ends))
    actions, error = graph.delete(SET, stored(ENDING))
    assert (actions, error) == ([GET_SET, Enqueue(item_of(POD, blocker))], None)


def test_owner_is_checked_again_after_a_sweep_if_no_handler_notices_its_dependent() -> None:
    node = obj("n", BLOCKING, namespace="")
    for each, follow in ((node, [Enqueue(item_of(NODE, node))]), (obj("n", BLOCKING, **FOREGROUND), [])):
        actions, _ = Graph(ENDING, (NODE, each)).delete(SET, stored(ENDING))
        assert actions[1:] == [*follow, Enqueue(item_of(SET, ENDING), SWEEP)]


def test_foreground_deletion_ends_when_nothing_blocks_it() -> None:
    actions, error = Graph(ENDING, (POD, OWNED)).delete(SET, stored(ENDING), stored(ENDING), OK)
    body = {"metadata": {"resourceVersion": "7", "finalizers": []}}
    assert (actions, error) == ([GET_SET, GET_SET, Patch(SETS, "shop/s", body, merge=True)], None)


# --- orphans and finalizers -----------------------------------------------------------------------


LEFT = Patch(SETS, "shop/s", {"metadata": {"resourceVersion": "7", "finalizers": ["other"]}}, merge=True)
RELEASED = stored(obj("s", **ORPHAN))


def test_dependents_are_released_at_once_and_the_finalizer_goes_last() -> None:
    pod, widget = obj("p", ref("s"), ref("a")), obj("w", ref("s"), ref("a"))
    graph = Graph(None, (POD, pod), (WIDGET, widget))
    actions, error = graph.orphan([OK, GONE], [RELEASED], [OK])
    gone = {"metadata": {"ownerReferences": [{"$patch": "delete", "uid": "u-s"}], "uid": "u-p"}}
    kept = {"metadata": {"ownerReferences": [ref("a")], "uid": "u-w", "resourceVersion": "7"}}
    patches = [Patch(PODS, "shop/p", gone, merge=False), Patch(WIDGETS, "shop/w", kept, merge=True)]
    assert (actions, error) == ([patches, GET_SET, LEFT], None)


def test_finalizer_stays_while_a_dependent_is_not_released() -> None:
    actions, error = Graph(None, (POD, OWNED), (POD, obj("q", ref("s")))).orphan([OK, CONFLICT])
    assert (len(actions), error) == (1, "conflict")


def test_owner_of_a_kind_that_was_removed_releases_nothing() -> None:
    steps = attempt_to_orphan(Graph(None, (POD, OWNED)).seen, replace(VIRTUAL, kind="Gadget"))
    assert drive(steps, []) == ([], None)


@pytest.mark.parametrize(
    ("live", "error"),
    [
        (GONE, None),
        (LOST, "Timeout"),
        (stored(obj("s", uid="later", **ORPHAN)), None),
        (stored(obj("s")), None),
    ],
)
def test_finalizer_is_removed_only_from_the_object_that_has_it(live: Reply, error: str | None) -> None:
    assert Graph().orphan([], [live]) == ([[], GET_SET], error)


def test_finalizer_that_conflicts_is_removed_from_the_object_that_is_read_then() -> None:
    newer = stored(obj("s", **{**ORPHAN, "resourceVersion": "8"}))
    actions, error = Graph().orphan([], [RELEASED], [CONFLICT], [newer], [OK])
    assert (actions[1:4], error) == ([GET_SET, LEFT, Sleep(10_000)], None)
    body = {"metadata": {"resourceVersion": "8", "finalizers": ["other"]}}
    assert actions[4:] == [GET_SET, Patch(SETS, "shop/s", body, merge=True)]


def test_finalizer_that_conflicts_four_times_is_an_error() -> None:
    actions, error = Graph().orphan([], *[[RELEASED], [CONFLICT]] * 4)
    assert [each.us for each in actions if isinstance(each, Sleep)] == [10_000, 50_000, 250_000]
    assert (actions[-1], error) == (LEFT, "conflict")


@pytest.mark.parametrize(("reply", "error"), [(AWAY, "away"), (GONE, None)])
def test_other_refusals_of_the_finalizer_are_not_repeated(reply: Reply, error: str | None) -> None:
    assert Graph().orphan([], [RELEASED], [reply]) == ([[], GET_SET, LEFT], error)
