"""Which pairs of volume and node are open, and what nodes report."""

from __future__ import annotations

from actors.controllers.attachdetach.state import World, multi_attach_text, shares
from sim.api.types import Obj

PAIR = ("v", "n1")
DISK: Obj = {"spec": {"accessModes": ["ReadWriteOnce"]}}


def pod(name: str, namespace: str = "default") -> Obj:
    return {"metadata": {"name": name, "namespace": namespace, "uid": f"uid-{name}"}}


def test_pair_is_open_until_it_is_attached_as_wanted() -> None:
    world = World()
    assert world.want(PAIR, DISK, pod("a")) and not world.want(PAIR, DISK, pod("a"))
    assert [*world.open] == [PAIR]
    world.mark(PAIR, DISK, confirmed=False)
    assert [*world.open] == [PAIR] and world.nodes_of("v") == []
    world.mark(PAIR, DISK, confirmed=True)
    assert not world.open and world.nodes_of("v") == ["n1"]


def test_pair_is_wanted_until_its_last_pod_ends() -> None:
    world = World()
    for name in ("a", "b"):
        world.want(PAIR, DISK, pod(name))
    world.mark(PAIR, DISK, confirmed=True)
    assert world.unwant(PAIR, "uid-a") and not world.open
    assert world.unwant(PAIR, "uid-b") and [*world.open] == [PAIR]
    assert not world.unwant(PAIR, "uid-b")
    world.detached(PAIR)
    assert not world.open and not world.attached and not world.volumes_at("n1")


def test_node_reports_what_is_attached_for_certain() -> None:
    world = World()
    world.mark(PAIR, DISK, confirmed=False)
    assert not world.reports
    world.mark(PAIR, DISK, confirmed=True)
    assert [*world.reports["n1"].volumes] == ["v"] and world.reports["n1"].due
    world.reports["n1"].due = False
    world.report(PAIR)
    assert not world.reports["n1"].due
    world.unreport(PAIR)
    assert not world.reports["n1"].volumes and world.reports["n1"].due


def test_attached_volume_counts_as_mounted_until_its_node_reports() -> None:
    world = World()
    world.mark(PAIR, DISK, confirmed=True)
    assert world.attached[PAIR].mounted
    world.set_in_use("n1", ["other"])
    assert not world.attached[PAIR].mounted
    world.set_in_use("n1", ["v"])
    assert world.attached[PAIR].mounted


def test_volume_is_shared_by_its_modes() -> None:
    assert not shares(DISK)
    assert shares({"spec": {"accessModes": ["ReadWriteOnce", "ReadOnlyMany"]}})
    assert shares(None) and shares({"spec": {}})


def test_multi_attach_names_the_pods_of_the_same_namespace() -> None:
    me = pod("me")
    assert "exclusively attached to one node" in multi_attach_text(me, [])
    assert multi_attach_text(me, [pod("a"), pod("b")]) == "Volume is already used by pod(s) a, b"
    mixed = multi_attach_text(me, [pod("a"), pod("c", "other")])
    assert mixed == "Volume is already used by pod(s) a and 1 pod(s) in different namespaces"
    assert (
        multi_attach_text(me, [pod("c", "other")])
        == "Volume is already used by 1 pod(s) in different namespaces"
    )
