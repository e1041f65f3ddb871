"""The victims that preemption finds, and the state of nodes with nominated pods."""

import pytest

from actors.scheduler.match import from_label_selector
from actors.scheduler.preempt import Budget
from sim.ident import NAMES
from tests.unit.actors.scheduler.test_attempt import World, names_node, victims

N = NAMES["orch"]


def guard(*apps, disrupted=(), namespace="default"):
    """A budget that lets none of these go."""
    wanted = {"matchExpressions": [{"key": "app", "operator": "In", "values": list(apps)}]}
    return Budget(namespace, from_label_selector(wanted), 0, frozenset(disrupted))


def test_nodes_that_a_pod_does_not_name_are_tried_all_the_same():
    world = World()
    for name in ("a", "b", "c"):
        world.node(name)
    world.node("d", taints=[{"key": "k", "value": "v", "effect": "NoSchedule"}])
    world.put("c", priority=-1)
    world.put("d", priority=-1)
    assert world.place(cpu="3", affinity=names_node("b")).message == (
        "0/4 nodes are available: 1 Insufficient cpu. preemption: 0/4 nodes are available: "
        "1 node(s) didn't match Pod's node affinity/selector, 1 node(s) had untolerated taint {k: v}, "
        "2 No preemption victims found for incoming pod."
    )


def test_the_node_on_which_a_pod_waits_is_asked_though_the_pod_does_not_name_it():
    world = World()
    for name in "ab":
        world.node(name)
    assert world.place(cpu="3", nominated="a", affinity=names_node("b")).message == (
        "0/2 nodes are available: 1 Insufficient cpu, 1 node(s) didn't match Pod's node affinity/selector. "
        "preemption: 0/2 nodes are available: 1 No preemption victims found for incoming pod, "
        "1 Preemption is not helpful for scheduling."
    )


def test_preemption_state_of_a_node_includes_its_nominated_pods():
    world = World()
    world.node("a", cpu="1")
    waiting = world.cluster.templates.info(world.pod(cpu="1", priority=5, ports=(80,)))
    assert world.place(cpu="2", priority=5, ports=(80,)).message.startswith(
        "0/1 nodes are available: 1 Insufficient cpu. "
    )
    world.cluster.nominate(waiting, "a")
    told = "0/1 nodes are available: 1 node(s) didn't have free ports for the requested pod ports. "
    for _ in range(2):
        assert world.place(cpu="2", priority=5, ports=(80,)).message.startswith(told)
    assert world.place(cpu="2", priority=6, ports=(80,)).message.startswith(
        "0/1 nodes are available: 1 Insufficient cpu. "
    )
    world.put("a", cpu="0", priority=9, ports=(81,))
    assert world.place(cpu="2", priority=5, ports=(81,)).message.startswith(told)
    world.cluster.nominate(waiting, "")
    assert world.place(cpu="2", priority=5, ports=(80,)).message.startswith(
        "0/1 nodes are available: 1 Insufficient cpu. "
    )


def test_victims_that_violate_a_budget_come_first_and_speak_for_their_node():
    world = World()
    for name in "ab":
        world.node(name)
    guarded = world.put("a", priority=1, app="guarded")
    free = world.put("a", priority=7, app="free")
    world.put("b", priority=2, app="guarded")
    world.put("b", priority=2, app="free")
    answer = world.place([guard("guarded")], cpu="2", priority=9)
    # By its most important victim b would be chosen; it is the first that counts.
    assert victims(answer) == ("a", [guarded, free])
    assert answer.candidate.violations == 1


def test_a_pod_that_is_deleted_already_makes_room_in_its_zone_a_second_time():
    """It does not count there any more, and yet is missed when it is thought away (updateWithPod)."""
    world = World()
    for name, zone in (("a", "x"), ("b", "y")):
        world.node(name, cpu="4", zone=zone)
    world.put("a", app="web", priority=9)
    going = world.pod(app="web", nodeName="a")
    going["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    world.cluster.set_pod(world.cluster.templates.info(going))
    world.put("b", cpu="4", app="other", priority=9)
    constraint = {"topologyKey": "zone", "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"}
    constraint["labelSelector"] = {"matchLabels": {"app": "web"}}
    answer = world.place(app="web", priority=1, topologySpreadConstraints=[constraint])
    assert victims(answer) == ("a", [f"default/{going['metadata']['name']}"])


def test_a_pod_does_not_wait_for_the_victims_on_a_node_that_is_gone():
    world = World()
    for name in "ab":
        world.node(name)
    going = world.pod(cpu="2", nodeName="a")
    going["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    world.cluster.set_pod(world.cluster.templates.info(going))
    other = world.put("b", cpu="2")
    assert world.place(cpu="2", priority=9, nominated="a").message.endswith(
        "preemption: not eligible due to a terminating pod on the nominated node."
    )
    world.cluster.delete_node("a")
    assert victims(world.place(cpu="2", priority=9, nominated="a")) == ("b", [other])


def test_search_continues_beyond_a_hundred_candidates_until_one_spares_budgets():
    world = World()
    for number in range(130):
        world.node(f"n{number:03}", cpu="1")
        world.put(f"n{number:03}", app="free" if number in (105, 120) else "guarded", priority=number % 7)
    # 105 % 7 is 0, 120 % 7 is 1
    assert victims(world.place([guard("guarded")], priority=9))[0] == "n105"
    world.cluster.delete_node("n105")
    assert victims(world.place([guard("guarded")], priority=9))[0] == "n120"


def test_a_hundred_candidates_are_enough_where_the_first_spares_the_budgets():
    world = World()
    for number in range(130):
        world.node(f"n{number:03}", cpu="1")
        world.put(
            f"n{number:03}", priority=2 if number < 100 else 1, start=f"2026-01-01T00:00:{number % 60:02}Z"
        )
    assert victims(world.place(priority=9))[0] == "n059"


@pytest.mark.parametrize(
    ("budget", "violations"),
    [
        (guard("a"), 2),
        (guard("a", disrupted=("p1",)), 1),  # it is counted already
        (guard("b"), 0),
        (guard("a", namespace="other"), 0),
        (Budget("default", (), 0, frozenset()), 0),  # an empty selector selects none here
        (Budget("default", None, 0, frozenset()), 0),
        (guard("a")._replace(allowed=1), 1),  # the second is one too many
    ],
)
def test_a_budget_is_violated_by_the_pods_that_it_selects_beyond_what_it_allows(budget, violations):
    world = World()
    world.node("n")
    for _ in range(2):
        world.put("n")
    assert world.place([budget], cpu="2", priority=9).candidate.violations == violations


def test_one_terminating_pod_of_several_makes_its_preemptor_wait():
    world = World()
    world.node("a", cpu="4")
    world.put("a", cpu="2")
    going = world.pod(cpu="2", nodeName="a")
    going["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    world.cluster.set_pod(world.cluster.templates.info(going))
    assert world.place(cpu="3", priority=9, nominated="a").message.endswith(
        "preemption: not eligible due to a terminating pod on the nominated node."
    )
