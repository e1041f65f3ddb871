"""What an observer needs and passes on, and its hints on suspicious selections."""

from typing import Any

import pytest

from sim.api.store import Change, Item
from sim.check import Trigger, World, parse_condition
from sim.check.tally import Tally, parse_matter, seen_by
from sim.check.world import split_key
from sim.ident import NAMES
from sim.scenario.schema.common import Matter
from tests.unit.sim.check.test_expect import Run

N = NAMES["orch"]
POD = "//pods/default/a"


def commit(obj: dict[str, Any] | None, before: dict[str, Any] | None = None, key: str = POD) -> Change:
    """The commit of an object, or of its removal."""
    meta = {"name": key.rsplit("/", 1)[1], "namespace": "default"}

    def item(given: dict[str, Any] | None) -> Item:
        made = given or {}
        return Item(key, {**made, "metadata": {**meta, **made.get("metadata", {})}}, 1, 1)

    deleted = obj is None
    prev = item(before) if before is not None else None
    return Change(1, item(before if deleted else obj), prev, deleted, 0)


DYING = {"metadata": {"deletionTimestamp": "x"}}


@pytest.mark.parametrize(
    ("what", "change", "happened"),
    [
        ("created", commit({}), True),
        ("created", commit({}, {}), False),
        ("removed", commit(None, {}), True),
        ("removed", commit({}, {}), False),
        ("deleted", commit(None, {}), True),
        ("deleted", commit(DYING, {}), True),
        ("deleted", commit(DYING, DYING), False),
        ("deleted", commit(None, DYING), False),
        ("deleted", commit({}, {}), False),
        ("deleted", commit(DYING), True),
        ("changed", commit({}, {}), True),
        ("changed", commit({}), False),
        ("changed", commit(None, {}), False),
    ],
)
def test_a_matter_is_known_by_the_state_before_and_after(what: str, change: Change, happened: bool) -> None:
    matter = parse_matter(Matter(**{what: "pods"}), N)
    assert not isinstance(matter, str)
    assert matter.happened(World(N), "pods", change) is happened  # type: ignore[union-attr]
    assert not matter.happened(World(N), "nodes", change)  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("change", "happened"),
    [
        (commit({"reason": "Killing"}), True),
        (commit({"reason": "Other"}), False),
        (commit({}), False),
        (commit(None, {"reason": "Killing"}), False),
        (commit({"reason": "Killing"}, {"reason": "Killing"}), True),
    ],
)
def test_an_event_happens_when_it_is_written(change: Change, happened: bool) -> None:
    matter = parse_matter(Matter(event="Killing"), N)
    assert matter.happened(World(N), "events", change) is happened  # type: ignore[union-attr]


def test_what_is_seen_of_a_selection_by_zone_includes_nodes() -> None:
    assert seen_by(parse_condition("pods in zone a exist", N)) == ("pods", "nodes")
    assert seen_by(parse_condition("nodes in zone a exist", N)) == ("nodes",)
    assert seen_by(parse_condition("pods exist", N)) == ("pods",)
    assert seen_by(parse_matter(Matter(created="pods", where={"zone": "a"}), N)) == ("pods",)


@pytest.mark.parametrize(
    ("text", "at_fault"),
    [
        ("no pods are bound", ("a",)),
        ("at most 0 pods are bound", ("a",)),
        ("exactly 0 pods are bound", ("a",)),
        ("exactly 1 pods are bound", ("b",)),
        ("exactly 2 pods are bound", ("b",)),
        ("all pods are bound", ("b",)),
        ("at least 2 pods are bound", ("b",)),
    ],
)
def test_at_fault_are_those_that_are_too_many_or_those_that_are_missing(
    text: str, at_fault: tuple[str, ...]
) -> None:
    tally = Tally(parse_condition(text, N))
    for name, node in (("a", "n"), ("b", "")):
        change = commit({"spec": {"nodeName": node}}, key=f"//pods/default/{name}")
        assert tally.see(World(N), "pods", change)
    assert tally.at_fault == tuple(f"//pods/default/{name}" for name in at_fault)
    assert tally.counted == "1 of 2 pods"
    assert not tally.see(World(N), "nodes", commit({}))


def test_an_object_is_counted_while_it_is_there_and_selected() -> None:
    tally = Tally(parse_condition("pods labelled app=web are bound", N))
    web, other = {"metadata": {"labels": {"app": "web"}}}, {"metadata": {"labels": {"app": "db"}}}
    bound = {**web, "spec": {"nodeName": "n"}}
    found = []
    for obj in (web, bound, bound, other, bound, None):
        tally.see(World(N), "pods", commit(obj, bound))
        found.append((tally.selected, tally.true, tally.holds))
    assert found == [(1, 0, False), (1, 1, True), (1, 1, True), (0, 0, False), (1, 1, True), (0, 0, False)]


def test_the_key_of_an_object_is_split_into_its_parts() -> None:
    assert split_key("/apps/replicasets/default/web") == ("replicasets", "default", "web")
    assert split_key("//nodes//n") == ("nodes", "", "n")
    assert split_key("/g/things/ns/a/b") == ("things", "ns", "a/b")


def test_the_world_follows_pods_only_if_events_are_watched() -> None:
    def needed(spec: dict[str, Any]) -> list[str]:
        return Run(spec).checker.resources

    assert needed({"never": {"created": "jobs"}}) == ["jobs", "nodes", "replicasets"]
    assert needed({"never": {"event": "X"}}) == ["events", "jobs", "nodes", "pods", "replicasets"]
    assert needed({"never": "any leases exist"}) == ["jobs", "leases", "nodes", "replicasets"]


def test_the_place_of_an_object_is_that_of_its_node() -> None:
    world = World(N, {"n0": "a"})
    for resource, obj, node in (
        ("nodes", {"metadata": {"name": "n0"}}, "n0"),
        ("leases", {"metadata": {"name": "n0"}}, "n0"),
        ("pods", {"metadata": {}, "spec": {"nodeName": "n0"}}, "n0"),
        ("pods", {"metadata": {}}, ""),
        ("events", {"involvedObject": {"kind": "Node", "name": "n0"}}, "n0"),
        ("events", {"involvedObject": {"kind": "Pod", "name": "p"}, "source": {"host": "n0"}}, "n0"),
        ("events", {"involvedObject": {"kind": "Job", "name": "n0"}}, ""),
    ):
        assert world.node_of(resource, obj) == node
        assert world.zone_of(resource, obj) == ("a" if node else "")


def test_a_node_that_changes_its_zone_has_moved() -> None:
    world = World(N)

    def moved(zone: str | None) -> str:
        labels = {} if zone is None else {N.label_zone: zone}
        world.see("nodes", commit({"metadata": {"labels": labels}}, key="//nodes//n"))
        return world.moved

    assert [moved(zone) for zone in (None, "a", "a", "b", None)] == ["", "n", "", "n", "n"]


def test_owners_are_those_of_what_lies_between() -> None:
    world = World(N)
    owned = {"metadata": {"ownerReferences": [{"name": "web-1", "uid": "r"}]}}
    deployment = [{"name": "web", "uid": "d"}]
    set_ = {"metadata": {"uid": "r", "ownerReferences": deployment}}
    assert list(world.owners({"metadata": {}})) == []
    assert list(world.owners(owned)) == ["web-1"]
    world.see("services", commit(set_))
    assert list(world.owners(owned)) == ["web-1"]
    world.see("replicasets", commit(set_))
    assert list(world.owners(owned)) == ["web-1", "web"]
    world.see("replicasets", commit(None, {"metadata": {"uid": "r"}}))
    assert list(world.owners(owned)) == ["web-1", "web"]
    world.see("replicasets", commit({"metadata": {"uid": "r"}}))
    assert list(world.owners(owned)) == ["web-1"]


def doubt(spec: dict[str, Any], *labels: dict[str, str]) -> str:
    """What a verdict says in brackets after these pods were written."""
    run = Run(spec)
    for index, each in enumerate(labels):
        run.pod(1, f"p{index}", labels=each)
    return run.verdict().measured.partition(" (")[2].removesuffix(")")


WRONG = {"never": "any pods labelled app=wbe are ready"}


def test_a_label_that_no_object_has_is_shown_with_those_that_there_are() -> None:
    none = "there were no pods labelled app=wbe"
    assert doubt(WRONG) == none
    assert doubt(WRONG, {}) == none
    assert doubt(WRONG, {"app": "web", "pod-template-hash": "7"}) == f"{none}; their labels are app=web"
    many = [{"app": f"a{index}"} for index in range(9)]
    shown = ", ".join(f"app=a{index}" for index in range(8))
    assert doubt(WRONG, *many) == f"{none}; their labels are {shown}"
    assert doubt({"never": "any pods named q are ready"}, {"app": "web"}) == "there were no pods named q"


def test_a_selection_that_matched_once_is_not_doubted() -> None:
    assert doubt({"never": "any pods labelled app=web are ready"}, {"app": "web"}, {"app": "db"}) == ""
    run = Run({"never": "any pods labelled app=web are ready"})
    run.pod(1, "p", labels={"app": "web"})
    run.put(2, "//pods/default/p", None)
    assert "(" not in run.verdict().measured


@pytest.mark.parametrize(
    ("what", "where", "later", "says"),
    [
        ("created", {"zone": "a"}, True, "pods are created before they have a node"),
        ("created", {"node": "n0"}, True, "pods are created before they have a node"),
        ("created", {"name": "p"}, True, ""),
        ("created", {"name": "q"}, True, "there were no pods named q"),
        ("removed", {"node": "n0"}, True, ""),
        ("created", {"node": "n0"}, False, ""),
    ],
)
def test_a_pod_that_is_created_on_a_node_has_to_be_there_at_once(
    what: str, where: dict[str, str], later: bool, says: str
) -> None:
    run = Run({"count": {what: "pods", "where": where}, "atMost": 9}, zones={"n0": "a"})
    if later:
        run.pod(1, "p")
    run.pod(2, "p", "n0")
    assert run.verdict().measured.partition(" (")[2].removesuffix(")") == says


@pytest.mark.parametrize(
    ("reason", "seen", "says"),
    [
        ("Killing", "Killing", ""),
        ("killing", "Killing", "no event killing came; did you mean 'Killing'?"),
        ("NodeReady", "NodeNotReady", ""),
        ("BackOf", "BackOff", "no event BackOf came; did you mean 'BackOff'?"),
        ("Other", "Killing", ""),
    ],
)
def test_a_reason_that_resembles_one_that_came_is_doubted(reason: str, seen: str, says: str) -> None:
    run = Run({"count": {"event": reason}, "atMost": 9}, {"never": {"created": "jobs"}})
    run.put(1, "//events/default/e", {"reason": seen, "involvedObject": {"kind": "Pod", "name": "p"}})
    first, second = run.checker.verdicts(9)
    assert first.measured.partition(" (")[2].removesuffix(")") == says
    assert second.measured == "never"


def trigger(given: Any, after: str = "") -> tuple[Trigger, list[int]]:
    fired: list[int] = []
    return Trigger(given, N, after, lambda: fired.append(1)), fired


def test_a_trigger_fires_again_at_its_step_and_not_after_its_end() -> None:
    on, fired = trigger("any pods exist", after="go")
    world = World(N)
    assert on.resources() == frozenset({"pods"})
    on.see(world, "pods", commit({}))
    on.step("go", "fail", 1, world)
    on.step("go", "fail", 2, world)  # it is open already
    assert len(fired) == 1
    on.close()
    on.see(world, "pods", commit(None, {}))
    on.see(world, "pods", commit({}))
    assert len(fired) == 1
    shut, never = trigger("any pods exist", after="go")
    shut.see(world, "pods", commit({}))
    shut.close()
    shut.step("go", "fail", 1, world)
    assert never == []


def test_a_matter_fires_only_while_the_trigger_is_open() -> None:
    on, fired = trigger(Matter(created="pods"), after="go")
    world = World(N)
    on.see(world, "pods", commit({}))
    assert fired == []
    on.step("go", "fail", 1, world)
    assert fired == []
    on.see(world, "pods", commit({}))
    on.see(world, "nodes", commit({}))
    assert len(fired) == 1


def test_objects_that_were_there_before_are_learned_and_not_seen() -> None:
    run = Run({"count": {"created": "nodes"}, "equals": 0}, zones={})
    node = {"metadata": {"labels": {N.label_zone: "z"}}}
    run.checker.learn(commit(node, key="//nodes//n"))
    run.checker.learn(commit({}, key="//services/default/a/b"))
    assert run.checker.world.zone_of_node == {"n": "z"}
    assert run.verdict().ok
