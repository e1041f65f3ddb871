"""Plugins of library users in a scheduler against a real API server."""

import pytest

from actors.scheduler.plugins import ClusterEvent, PluginError, SchedulerPlugin, Status
from sim.app.cluster import Cluster
from sim.errors import InputError
from sim.ident import NAMES
from tests.actor.test_scheduler import a_rig, condition_of

N = NAMES["orch"]
NO_EVENTS = ClusterEvent(0)


class Approved(SchedulerPlugin):
    """Refuses nodes without the label or annotation `approved`."""

    name = "Approved"

    def __init__(self, where="labels", events=ClusterEvent.ALL):
        self.where, self.events = where, events

    def filter(self, pod, node):
        values = node.obj["metadata"].get(self.where) or {}
        return None if "approved" in values else self.refuse("node(s) were not approved")

    def pod_key(self, pod):
        return None  # all pods share the results


class OneTenant(SchedulerPlugin):
    """Refuses nodes with pods of another tenant; the tenant is an annotation."""

    name = "OneTenant"
    events = ClusterEvent.POD_DELETE

    def filter(self, pod, node):
        tenant = pod["metadata"]["annotations"]["tenant"]
        if any(other["metadata"]["annotations"]["tenant"] != tenant for other in node.pods):
            return self.refuse("node(s) had pods of another tenant")
        return None

    def pod_key(self, pod):
        return pod["metadata"]["annotations"]["tenant"]


class InZone(SchedulerPlugin):
    """Prefers a zone."""

    name = "InZone"
    weight = 10

    def __init__(self, zone):
        self.zone = zone

    def score(self, pod, node):
        return node.labels.get(N.label_zone) == self.zone


def of_tenant(tenant):
    return {"metadata": {"annotations": {"tenant": tenant}}}


async def test_added_filter_keeps_pod_off_node_and_gives_its_reason():
    async with a_rig(plugins=[Approved()]) as rig:
        await rig.node("a")
        await rig.node("b", cpu="1")
        await rig.pod("web", cpu="2")
        await rig.run_s(3)
        assert condition_of(await rig.get("web"))["message"].startswith(
            "0/2 nodes are available: 1 Insufficient cpu, 1 node(s) were not approved. preemption: "
        )
        await rig.node("c", approved="yes")
        await rig.run_s(10)
        assert await rig.node_of("web") == "c"


@pytest.mark.parametrize("zone", ["x", "y"])
async def test_added_score_attracts_pods_to_zone(zone):
    async with a_rig(plugins=[InZone(zone)]) as rig:
        for name, cpu, of in (("a", "64", "x"), ("b", "8", "y")):
            await rig.node(name, cpu=cpu, **{N.label_zone: of})
        for name in ("one", "two", "three"):
            await rig.pod(name)
            await rig.run_s(1)
        assert {await rig.node_of(name) for name in ("one", "two", "three")} == {"a" if zone == "x" else "b"}


@pytest.mark.parametrize(
    ("events", "is_woken"),
    [
        (ClusterEvent.NODE_LABEL, True),
        (ClusterEvent.NODE, True),
        (ClusterEvent.POD, False),
        (NO_EVENTS, False),
    ],
)
async def test_pod_is_woken_by_event_of_added_plugin_only(events, is_woken):
    async with a_rig(plugins=[Approved(events=events)]) as rig:
        await rig.node("a")
        await rig.pod("web")
        await rig.run_s(20)
        await rig.change("nodes", "a", {"metadata": {"labels": {"approved": "yes"}}})
        await rig.run_s(3)
        assert await rig.node_of("web") == ("a" if is_woken else None)


async def test_added_filter_sees_new_annotation_of_node_at_next_attempt():
    async with a_rig(plugins=[Approved("annotations")]) as rig:
        await rig.node("a")
        await rig.pod("first")
        await rig.run_s(3)
        await rig.change("nodes", "a", {"metadata": {"annotations": {"approved": "yes"}}})
        await rig.pod("second")
        await rig.run_s(3)
        assert await rig.node_of("second") == "a"
        # a change of annotations is no event, as upstream
        assert await rig.node_of("first") is None


async def test_added_filter_sees_pods_on_node_and_their_changes():
    async with a_rig(plugins=[OneTenant()]) as rig:
        await rig.node("a")
        await rig.pod("red", **of_tenant("red"))
        await rig.run_s(2)
        assert await rig.node_of("red") == "a"
        await rig.pod("other-red", **of_tenant("red"))
        await rig.run_s(3)
        await rig.pod("blue", **of_tenant("blue"))
        await rig.run_s(3)
        assert await rig.node_of("other-red") == "a"
        assert await rig.node_of("blue") is None
        for name in ("red", "other-red"):
            await rig.change("pods", name, {"metadata": {"annotations": {"tenant": "blue"}}}, "default")
        await rig.pod("other-blue", **of_tenant("blue"))
        await rig.pod("green", **of_tenant("green"))
        await rig.run_s(3)
        assert await rig.node_of("other-blue") == "a"
        assert await rig.node_of("green") is None
        for name in ("red", "other-red", "other-blue"):
            await rig.ask("delete", "pods", "default", name)
        await rig.run_s(15)
        assert [await rig.node_of(name) for name in ("blue", "green")] in (["a", None], [None, "a"])


async def test_preemption_applies_added_filter_without_victims():
    async with a_rig(plugins=[OneTenant()]) as rig:
        await rig.node("a", cpu="4")
        await rig.priority_class("high", 100)
        await rig.pod("red", **of_tenant("red"))
        await rig.run_s(2)
        await rig.pod("blue", priorityClassName="high", **of_tenant("blue"))
        await rig.run_s(15)
        assert await rig.node_of("blue") == "a"
        assert [event["message"] for event in await rig.events("Preempted")] == [
            "Preempted by a pod on node a"
        ]


class Wrong(SchedulerPlugin):
    """A plugin with one wrong part."""

    name = "Wrong"

    def __init__(self, **parts):
        for part, value in parts.items():
            setattr(self, part, value)


@pytest.mark.parametrize(
    ("plugins", "message"),
    [
        ([object()], "<object object at .* is not a scheduler plugin .pass an object of a class derived"),
        ([Wrong], "<class .*Wrong'> is not a scheduler plugin"),
        (Wrong(), "is not a list .pass the plugins in a list"),
        ([Wrong(name="")], 'Wrong has no name .such as name = "Wrong"'),
        ([Wrong(name=7)], "Wrong has no name"),
        ([Wrong(), Wrong()], "the name 'Wrong' of Wrong is in use .choose another name"),
        ([Wrong(name="NodeAffinity")], "the name 'NodeAffinity' of Wrong is in use"),
        ([Wrong(weight=0)], "the weight of Wrong is 0 .a whole number from 1 on"),
        ([Wrong(weight=1.5)], "the weight of Wrong is 1.5"),
        ([Wrong(events=["NODE_ADD"])], "the events of Wrong are .'NODE_ADD'. .a combination of"),
    ],
)
def test_wrong_plugin_is_rejected_when_cluster_is_made(plugins, message):
    with pytest.raises(InputError, match=f"scheduler_plugins: .*{message}"):
        Cluster(nodes=1, scheduler_plugins=plugins)


def raises(*_):
    raise ZeroDivisionError("no zones")


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ({"filter": raises}, "filter of default/web on node-0 raised ZeroDivisionError: no zones"),
        (
            {"filter": lambda *_: True},
            "filter of default/web on node-0 returned True; it must return None or",
        ),
        ({"filter": lambda *_: Status("Other", ("no",))}, "filter of default/web on node-0 returned Status"),
        ({"filter": lambda *_: Status("Wrong", ())}, "filter of default/web on node-0 returned Status"),
        ({"filter": lambda *_: Status("Wrong", "no")}, "filter of default/web on node-0 returned Status"),
        ({"score": raises}, "score of default/web on node-0 raised ZeroDivisionError: no zones"),
        ({"score": lambda *_: 0.5}, "score of default/web on node-0 returned 0.5; it must return a whole"),
        ({"pod_key": raises}, "pod_key of default/web raised ZeroDivisionError: no zones"),
        ({"pod_key": lambda _: []}, "pod_key of default/web raised TypeError: unhashable"),
        ({"score": lambda *_: -1}, "normalize of .-1.* returned .-1.*; it must return as many whole numbers"),
        (
            {"score": lambda *_: 101, "absolute_scores": True},
            "normalize of .101.* returned .101.*; it must return as many whole numbers from 0 to 100",
        ),
        ({"score": lambda *_: 1, "normalize": lambda _: []}, "normalize of .1.* returned ..; it must"),
        ({"score": lambda *_: 1, "normalize": raises}, "normalize of .1.* raised ZeroDivisionError"),
    ],
)
async def test_failing_plugin_ends_run_with_its_name(parts, message):
    expected = pytest.RaisesExc(PluginError, match=f"scheduler plugin Wrong: {message}")
    with pytest.RaisesGroup(expected, flatten_subgroups=True):
        async with Cluster(nodes=1, scheduler_plugins=[Wrong(**parts)]) as cluster:
            await cluster.run_for("30s")
            container = {"name": "c", "image": "i"}
            cluster.apply(
                {
                    "apiVersion": "v1",
                    "kind": "Pod",
                    "metadata": {"name": "web"},
                    "spec": {"containers": [container]},
                }
            )
            await cluster.run_for("1m")
