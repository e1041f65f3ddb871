from itertools import pairwise

import pytest

from actors.scheduler.plugins.base import ClusterEvent
from actors.scheduler.plugins.registry import DEFAULT_PLUGINS
from actors.scheduler.pods import Templates
from actors.scheduler.queue import SchedulingQueue
from sim.units import SECOND

TEMPLATES = Templates()
EVENTS = {plugin.name: plugin.events for plugin in DEFAULT_PLUGINS}


def pod(name, priority=0, **spec):
    spec = {"containers": [{"name": "c", "image": "i"}], "priority": priority, **spec}
    return TEMPLATES.info(
        {"metadata": {"namespace": "default", "name": name, "labels": {"app": name}}, "spec": spec}
    )


def queue(*pods, now_us=0):
    made = SchedulingQueue(EVENTS, SECOND, 10 * SECOND, 300 * SECOND)
    for each in pods:
        made.add(each, now_us)
    return made


def fail(made, now_us, *plugins):
    queued = made.pop()
    made.put_back(queued, plugins or ("NodeResourcesFit",), made.cycle, now_us)
    return queued


def test_higher_priority_comes_first_then_the_one_that_waits_longer():
    made = queue(pod("a"), now_us=1)
    made.add(pod("b", priority=5), 2)
    made.add(pod("c"), 2)
    assert [made.pop().pod.key for _ in range(3)] == ["default/b", "default/a", "default/c"]
    assert made.pop() is None


def test_tries_under_constant_events_back_off_by_doubling_up_to_ten_seconds():
    made = queue(pod("a"))
    tries, now_us = [], 0
    while len(tries) < 7:
        made.flush_backoff(now_us)
        if len(made):
            tries.append(now_us)
            fail(made, now_us)
        made.move(ClusterEvent.POD_DELETE, now_us)
        now_us += SECOND
    gaps = [(b - a) // SECOND for a, b in pairwise(tries)]
    assert gaps == [1, 2, 4, 8, 10, 10]


def test_an_event_wakes_only_pods_refused_by_a_plugin_that_registered_it():
    made = queue(pod("fit"), pod("label"))
    fail(made, 0, "NodeResourcesFit")
    fail(made, 0, "NodeAffinity")
    made.move(ClusterEvent.POD_DELETE, 20 * SECOND)
    assert list(made.unschedulable) == ["default/label"]
    made.move(ClusterEvent.NODE_LABEL, 20 * SECOND)
    assert not made.unschedulable
    assert len(made) == 2


def test_an_event_during_the_try_sends_the_pod_to_back_off_not_to_wait():
    made = queue(pod("a"))
    queued = made.pop()
    cycle = made.cycle
    made.move(ClusterEvent.NODE_ADD, 5)
    made.put_back(queued, ("NodeResourcesFit",), cycle, 10)
    assert not made.unschedulable
    made.flush_backoff(10 + SECOND)
    assert len(made) == 1


def test_a_pod_left_over_for_more_than_five_minutes_is_tried_again():
    made = queue(pod("a"))
    fail(made, 0)
    made.flush_leftover(300 * SECOND)
    assert len(made) == 0
    made.flush_leftover(300 * SECOND + 1)
    assert len(made) == 1


def test_a_pod_that_wants_to_be_near_another_wakes_when_that_one_is_placed():
    term = {"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": "db"}}}
    near = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    made = queue(pod("a", affinity=near))
    fail(made, 0, "InterPodAffinity")
    assert not made.assigned_pod(pod("web"), ClusterEvent.POD_ADD, {}, lambda: 20 * SECOND)
    assert made.assigned_pod(pod("db"), ClusterEvent.POD_ADD, {}, lambda: 20 * SECOND)
    assert len(made) == 1


def test_a_failure_that_no_plugin_caused_leaves_what_the_pod_waits_for_as_it_was():
    """A pod that was refused for a label, and then for its node's absence: a pod's end does not
    help it.
    """
    made = queue(pod("never"), pod("refused"))
    for name in ("never", "refused"):
        queued = made.pop()
        if name == "refused":
            made.put_back(queued, ("NodeAffinity",), made.cycle, 0)
            made.move(ClusterEvent.NODE_LABEL, 20 * SECOND)
            assert made.pop() is queued
        made.put_back(queued, None, made.cycle, 20 * SECOND)
    made.move(ClusterEvent.POD_DELETE, 40 * SECOND)
    assert list(made.unschedulable) == ["default/refused"]


@pytest.mark.parametrize("event", [ClusterEvent.POD_ADD, ClusterEvent.POD_UPDATE])
@pytest.mark.parametrize(
    ("plugin", "wakes"),
    [("NodeResourcesFit", False), ("TaintToleration", False), ("PodTopologySpread", True)],
)
def test_a_pod_that_did_not_fit_for_other_reasons_waits_on_when_its_company_comes(
    plugin: str, wakes: bool, event: str
) -> None:
    term = {"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": "db"}}}
    near = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    made = queue(pod("a", affinity=near))
    fail(made, 0, plugin)
    made.assigned_pod(pod("db"), event, {}, lambda: 20 * SECOND)
    assert bool(len(made)) is wakes


def test_pod_deleted_during_its_try_is_not_queued_again():
    made = queue(pod("a"))
    queued = made.pop()
    made.delete("default/a")
    made.put_back(queued, (), made.cycle, 1)
    assert not made.pods


def test_many_updates_do_not_make_the_heap_grow_without_bound():
    made = queue(pod("a"))
    for priority in range(1000):
        made.update(pod("a", priority=priority), True, priority)
    assert len(made._active) < 100
    assert made.pop().pod.template.priority == 999


ANY_NODE = tuple(ClusterEvent.NODE)
ANY_POD = tuple(ClusterEvent.POD)
WAKE = {
    "NodeResourcesFit": (*ANY_NODE, ClusterEvent.POD_DELETE),
    "NodePorts": (*ANY_NODE, ClusterEvent.POD_DELETE),
    "NodeName": ANY_NODE,
    "NodeAffinity": ANY_NODE,
    "TaintToleration": ANY_NODE,
    "NodeUnschedulable": (ClusterEvent.NODE_ADD, ClusterEvent.NODE_TAINT),
    "InterPodAffinity": (ClusterEvent.NODE_ADD, ClusterEvent.NODE_LABEL, *ANY_POD),
    "PodTopologySpread": (ClusterEvent.NODE_ADD, ClusterEvent.NODE_LABEL, *ANY_POD),
}


@pytest.mark.parametrize("plugin", WAKE)
@pytest.mark.parametrize("event", [*ANY_NODE, *ANY_POD])
def test_each_event_wakes_what_the_plugins_that_registered_it_refused(plugin, event):
    made = queue(pod("a"))
    fail(made, 0, plugin)
    made.move(event, 20 * SECOND)
    assert len(made) == (event in WAKE[plugin])
