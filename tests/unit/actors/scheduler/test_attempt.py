from random import Random

import pytest

from actors.scheduler.attempt import Attempts, Failed, Placed
from actors.scheduler.cluster import LOG_MAX, Cluster
from actors.scheduler.messages import fit_error, note
from actors.scheduler.pods import image_name
from actors.scheduler.preempt import Budget
from sim.ident import NAMES

N = NAMES["orch"]


class World:
    """A cluster view and the attempts on it."""

    def __init__(self, added=(), by_changes=True):
        self.cluster = Cluster(N, whole_objects=bool(added))
        self.attempts = Attempts(self.cluster, 0, added, by_changes=by_changes)
        self.made = 0

    def node(self, name, cpu="2", taints=(), **labels):
        self.cluster.set_node(
            {
                "metadata": {"name": name, "labels": {N.label_hostname: name, **labels}},
                "spec": {"taints": list(taints)},
                "status": {"allocatable": {"cpu": cpu, "memory": "8Gi", "pods": "110"}},
            }
        )

    def pod(self, cpu="1", priority=0, app="a", start="2026-01-01T00:00:00Z", ports=(), **spec):
        self.made += 1
        container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}
        container["ports"] = [{"hostPort": port} for port in ports]
        nominated = spec.pop("nominated", "")
        status = {"startTime": start, "nominatedNodeName": nominated}
        return {
            "metadata": {"namespace": "default", "name": f"p{self.made}", "labels": {"app": app}},
            "spec": {"containers": [container], "priority": priority, **spec},
            "status": status,
        }

    def put(self, node, **shape):
        pod = self.pod(nodeName=node, **shape)
        self.cluster.set_pod(self.cluster.templates.info(pod))
        return f"default/{pod['metadata']['name']}"

    def place(self, budgets=(), **shape):
        self.info = self.cluster.templates.info(self.pod(**shape))
        return self.attempts.place(self.info, lambda: list(budgets), lambda count: 0)


def victims(answer):
    return answer.candidate.node, [victim.key for victim in answer.candidate.victims]


def names_node(name):
    field = {"key": "metadata.name", "operator": "In", "values": [name]}
    required = {"nodeSelectorTerms": [{"matchFields": [field]}]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}


def placements(seed, by_changes):
    """Where pods go that come and leave at random, on nodes of three zones."""
    world, random, places = World(by_changes=by_changes), Random(seed), []
    for number in range(9):
        world.node(f"n{number}", cpu="4", **{N.label_zone: "abc"[number % 3]})
    for _ in range(40):
        if places and random.random() < 0.4:
            world.cluster.remove_pod(random.choice(places)[0])
            continue
        app = random.choice("ab")
        spread = {
            "maxSkew": 1,
            "topologyKey": N.label_zone,
            "whenUnsatisfiable": "ScheduleAnyway",
            "labelSelector": {"matchLabels": {"app": app}},
        }
        info = world.cluster.templates.info(world.pod(app=app, topologySpreadConstraints=[spread]))
        answer = world.attempts.place(info, list, random.randrange)
        if isinstance(answer, Placed):
            info.node_name = answer.node
            world.cluster.set_pod(info)
            places.append((info.key, answer.node))
    return places


@pytest.mark.parametrize("seed", range(8))
def test_a_search_by_changes_chooses_as_one_of_all_nodes(seed):
    assert placements(seed, by_changes=True) == placements(seed, by_changes=False)


def test_without_nodes_the_message_says_so():
    assert World().place().message == "no nodes available to schedule pods"


def test_a_pod_that_names_an_unknown_node_is_a_scheduler_error():
    world = World()
    world.node("a")
    answer = world.place(affinity=names_node("b"))
    assert (answer.reason, answer.message) == ("SchedulerError", 'nodeinfo not found for node name "b"')


def test_only_the_node_that_a_pod_names_is_looked_at():
    world = World()
    world.node("a")
    world.node("b")
    assert world.place(affinity=names_node("b")) == Placed("b")
    assert world.place(cpu="3", affinity=names_node("b")).message == (
        "0/2 nodes are available: 1 Insufficient cpu. "
        "preemption: 0/2 nodes are available: 2 No preemption victims found for incoming pod."
    )


AT_ONCE = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [name]} for name in "ab"]}
OF_ALL = {"matchExpressions": [{"key": "disk", "operator": "DoesNotExist"}]}


@pytest.mark.parametrize("others", [[], [{"matchFields": AT_ONCE["matchFields"][:1]}], [OF_ALL]])
def test_contradictory_affinity_term_rejects_all_nodes_before_later_terms(others):
    world = World()
    world.node("a")
    required = {"nodeSelectorTerms": [AT_ONCE, *others]}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}
    assert world.place(affinity=affinity).message == (
        "0/1 nodes are available: 1 pod affinity terms conflict. "
        "preemption: 0/1 nodes are available: 1 Preemption is not helpful for scheduling."
    )


def test_reasons_are_sorted_as_text_and_a_node_gives_each_of_its_own():
    world = World()
    world.node("a", cpu="1")
    world.node("b", taints=[{"key": "k", "value": "v", "effect": "NoSchedule"}])
    for name in "cdefghijklm":
        world.node(name, cpu="1")
    assert world.place(cpu="4", preemptionPolicy="Never").message == (
        "0/13 nodes are available: 1 node(s) had untolerated taint {k: v}, 12 Insufficient cpu. "
        "preemption: not eligible due to preemptionPolicy=Never."
    )


def test_a_long_note_is_cut_with_dots():
    assert note("x" * 1025) == "x" * 1020 + " ..."
    assert note("x" * 1024) == "x" * 1024
    assert fit_error(0, []) == "0/0 nodes are available:"


def test_room_is_made_where_the_victims_are_of_the_lowest_priority():
    world = World()
    for node, priority in (("a", 30), ("b", 10), ("c", 20)):
        world.node(node)
        world.put(node, cpu="2", priority=priority)
    assert victims(world.place(cpu="2", priority=100))[0] == "b"


def test_room_is_made_where_the_fewest_pods_have_to_go():
    world = World()
    for node in "ab":
        world.node(node)
    world.put("a", priority=10)
    world.put("a", priority=10)
    alone = world.put("b", cpu="2", priority=10)
    assert victims(world.place(cpu="2", priority=100)) == ("b", [alone])


def test_the_pods_that_started_last_have_to_go_where_all_else_is_equal():
    world = World()
    for node, start in (("a", "2026-01-01T00:00:00Z"), ("b", "2026-01-02T00:00:00Z")):
        world.node(node)
        world.put(node, cpu="2", start=start)
    assert victims(world.place(cpu="2", priority=1))[0] == "b"


def test_pods_of_higher_priority_are_spared_when_lower_ones_make_room_enough():
    world = World()
    world.node("a", cpu="3")
    world.put("a", priority=20)
    low = world.put("a", priority=5)
    world.put("a", priority=10)
    assert victims(world.place(priority=100)) == ("a", [low])


def test_a_budget_sends_the_preemption_to_another_node():
    world = World()
    for node, app in (("a", "guarded"), ("b", "free")):
        world.node(node)
        world.put(node, cpu="2", app=app, priority=1 if app == "free" else 0)
    budget = Budget("default", (("app", "In", ("guarded",)),), 0, frozenset())
    assert victims(world.place(cpu="2", priority=9))[0] == "a"
    assert victims(world.place([budget], cpu="2", priority=9))[0] == "b"


def test_a_victim_is_taken_for_its_host_port():
    world = World()
    world.node("a")
    holder = world.put("a", ports=(80,))
    assert victims(world.place(priority=1, ports=(80,))) == ("a", [holder])


def test_a_victim_is_taken_for_its_anti_affinity():
    world = World()
    world.node("a", cpu="9")
    term = {"topologyKey": N.label_hostname, "labelSelector": {"matchLabels": {"app": "a"}}}
    far = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    world.put("a", app="b")
    enemy = world.put("a", app="b", affinity=far)
    assert victims(world.place(priority=1)) == ("a", [enemy])


def test_room_kept_for_a_pod_of_no_lower_priority_is_not_given_away():
    world = World()
    world.node("a")
    waiting = world.cluster.templates.info(world.pod(cpu="2", priority=5))
    world.cluster.nominate(waiting, "a")
    answer = world.place(cpu="1", priority=5)
    assert isinstance(answer, Failed)
    assert answer.message.startswith("0/1 nodes are available: 1 Insufficient cpu.")
    assert world.place(cpu="1", priority=6) == Placed("a")


def test_a_pod_goes_first_to_the_node_on_which_room_was_made_for_it():
    world = World()
    world.node("a")
    world.node("b", cpu="64")
    assert world.place(nominated="a") == Placed("a")


def test_a_second_preemption_waits_for_the_victims_of_the_first():
    world = World()
    world.node("a")
    victim = world.pod(cpu="2", nodeName="a")
    victim["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    world.cluster.set_pod(world.cluster.templates.info(victim))
    answer = world.place(cpu="2", priority=9, nominated="a")
    assert answer.candidate is None
    assert answer.nominate is None
    assert answer.message.endswith("preemption: not eligible due to a terminating pod on the nominated node.")


def test_nodes_are_listed_zone_by_zone_in_turn_and_keep_their_places():
    world = World()
    for name, zone in (("a1", "a"), ("a2", "a"), ("a3", "a"), ("b1", "b"), ("c1", "c"), ("c2", "c")):
        world.node(name, **{N.label_zone: zone})

    def listed():
        return [node.name for node in world.cluster.list_nodes()]

    assert listed() == ["a1", "b1", "c1", "a2", "c2", "a3"]
    world.node("a1", disk="ssd", **{N.label_zone: "a"})
    assert listed() == ["a1", "b1", "c1", "a2", "c2", "a3"]
    world.node("b1", **{N.label_zone: "c"})  # its zone goes, and returns as the last one
    world.node("a2", **{N.label_zone: "b"})
    assert listed() == ["a1", "c1", "a2", "a3", "c2", "b1"]
    world.cluster.delete_node("a1")
    world.node("a1", **{N.label_zone: "a"})
    assert listed() == ["a3", "c1", "a2", "a1", "c2", "b1"]


def test_a_service_that_comes_together_with_a_node_spreads_the_pods_it_selects():
    world = World()
    for name in "ab":
        world.node(name, cpu="64")
    for _ in range(3):
        world.put("a", cpu="0")
    world.put("b", cpu="32", app="other")
    service = {"spec": {"selector": {"app": "a"}}}
    world.cluster.set_service("elsewhere", "web", service)
    assert world.place() == Placed("a")
    world.node("c", cpu="0")
    world.cluster.set_service("default", "web", service)
    assert world.place() == Placed("b")


def test_searches_begin_where_the_last_one_ended():
    world = World()
    for index in range(200):
        world.node(f"n{index}", cpu="4")
    seen = []
    for _ in range(3):
        world.place()
        seen.append(world.attempts.start)
    assert seen == [100, 0, 100]


def test_pod_with_named_nodes_restarts_searches_at_their_number():
    world = World()
    for index in range(200):
        world.node(f"n{index}", cpu="4")
    term = {"topologyKey": N.label_hostname, "labelSelector": {"matchLabels": {"app": "x"}}}
    far = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    for affinity in (names_node("n7"), {**names_node("n7"), **far}):
        world.attempts.start = 77
        assert world.place(affinity=affinity) == Placed("n7")
        assert world.attempts.start == 0


def test_searches_restart_also_after_a_remembered_refusal():
    world = World()
    for index in range(200):
        world.node(f"n{index}", cpu="4")
    for _ in range(2):
        world.attempts.start = 77
        assert isinstance(world.place(cpu="5", affinity=names_node("n7")), Failed)
        assert world.attempts.start == 0


@pytest.mark.parametrize(
    ("image", "name"), [("a", "a:latest"), ("r:5000/a", "r:5000/a:latest"), ("a:1", "a:1")]
)
def test_an_image_without_a_tag_is_the_latest(image, name):
    assert image_name(image) == name


@pytest.mark.parametrize("labels", [[N.label_zone], [N.label_beta_zone], [N.label_beta_zone, N.label_zone]])
def test_nodes_are_taken_from_each_zone_in_turn(labels):
    """The beta label's, where they have both."""
    world = World()
    for index, zone in enumerate("aaabbc"):
        world.node(f"{zone}{index}", **dict(zip(labels, (zone, f"other-{index % 2}"), strict=False)))
    assert [node.name for node in world.cluster.list_nodes()] == ["a0", "b3", "c5", "a1", "b4", "a2"]


def test_a_refusal_is_remembered_until_something_changes():
    world = World()
    world.node("a")
    first = world.place(cpu="3")
    assert world.place(cpu="3") is first
    world.node("b", cpu="4")
    assert world.place(cpu="3") == Placed("b")
    assert world.place(cpu="3") is not first


def test_a_namespace_that_gets_the_selected_labels_counts_from_then_on():
    world = World()
    for name in "ab":
        world.node(name)
    other = world.pod(nodeName="b")
    other["metadata"]["namespace"] = "other"
    world.cluster.set_pod(world.cluster.templates.info(other))
    term = {
        "topologyKey": N.label_hostname,
        "labelSelector": {"matchLabels": {"app": "a"}},
        "namespaceSelector": {"matchLabels": {"team": "x"}},
    }
    near = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    world.cluster.set_namespace("other", {})
    assert isinstance(world.place(app="b", affinity=near), Failed)
    world.cluster.set_namespace("other", {"team": "x"})
    assert world.place(app="b", affinity=near) == Placed("b")


def test_pods_that_differ_in_an_unused_label_share_a_class_until_it_is_used():
    world = World()
    world.node("n1")
    infos = world.cluster.templates
    first, second = world.pod(), world.pod()
    first["metadata"]["labels"] = {"app": "db", "ordinal": "0"}
    second["metadata"]["labels"] = {"app": "db", "ordinal": "1"}
    one, two = infos.info(first), infos.info(second)
    assert one.template is not two.template
    assert world.attempts.state(one) is world.attempts.state(two)
    selecting = {"metadata": {"namespace": "default", "name": "zero"}, "spec": {"selector": {"ordinal": "0"}}}
    world.cluster.set_service("default", "zero", selecting)
    assert world.attempts.state(one) is not world.attempts.state(two)
    world.cluster.set_service("default", "zero", None)
    assert world.attempts.state(one) is world.attempts.state(two)


def test_class_for_an_unused_label_is_not_shared_after_a_selector_uses_it():
    world = World()
    world.node("n1", cpu="8")
    assert world.place(app="db") == Placed("n1")
    term = {"topologyKey": N.label_hostname, "labelSelector": {"matchLabels": {"app": "db"}}}
    far = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    world.put("n1", app="loner", affinity=far)
    unlabelled = world.pod()
    unlabelled["metadata"]["labels"] = {}
    info = world.cluster.templates.info(unlabelled)
    assert world.attempts.place(info, list, lambda count: 0) == Placed("n1")
    assert isinstance(world.place(app="db"), Failed)


def test_current_class_does_not_recheck_every_node_when_the_log_is_cut():
    world = World()
    world.node("n1")
    info = world.cluster.templates.info(world.pod())
    state = world.attempts.state(info)
    made, late = state.position, world.cluster.changes.end
    for _ in range(LOG_MAX // 1000 + 2):
        for _ in range(1000):
            world.cluster.touch("n1")
        assert world.attempts.state(info).position is made
    assert world.cluster.changes.base > late  # it was cut
    for _ in range(LOG_MAX + 1):
        world.cluster.touch("n1")
    assert world.attempts.state(info).position is not made


def size(operator, value):
    term = {"matchExpressions": [{"key": "size", "operator": operator, "values": [value]}]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}}


@pytest.mark.parametrize(
    ("label", "operator", "value", "fits"),
    [
        ("10", "Gt", "9", True),  # by number, not as text
        ("9", "Gt", "9", False),
        ("007", "Lt", "8", True),
        ("1_000", "Gt", "9", False),
        ("9" * 20, "Gt", "9", False),
        ("9", "Lt", "9" * 5000, False),
        ("9", "Gt", "few", False),
    ],
)
def test_labels_are_compared_as_integers_of_64_bits_or_not_at_all(label, operator, value, fits):
    world = World()
    world.node("a", size=label)
    assert isinstance(world.place(affinity=size(operator, value)), Placed) is fits


def test_an_empty_preference_makes_others_count_no_less():
    world = World()
    world.node("a", cpu="4", size="1")
    world.node("b", cpu="64")
    preferences = [
        {"weight": 90, "preference": {}},
        {"weight": 10, "preference": {"matchExpressions": [{"key": "size", "operator": "Exists"}]}},
    ]
    preferred = {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": preferences}}
    assert world.place(affinity=preferred) == Placed("a")


def test_no_budget_covers_a_pod_without_labels():
    world = World()
    for node, priority in (("a", 1), ("b", 2)):
        world.node(node)
        pod = world.pod(cpu="2", priority=priority, nodeName=node)
        del pod["metadata"]["labels"]
        world.cluster.set_pod(world.cluster.templates.info(pod))
    budget = Budget("default", (("app", "DoesNotExist", ()),), 0, frozenset())
    assert victims(world.place([budget], cpu="2", priority=9))[0] == "a"


def test_room_is_kept_for_a_pod_that_waits_for_it_also_when_victims_are_looked_for():
    world = World()
    world.node("a")
    victim = world.put("a", cpu="2")
    world.cluster.nominate(world.cluster.templates.info(world.pod(cpu="2", priority=9)), "a")
    answer = world.place(cpu="1", priority=9)
    assert answer.candidate is None
    assert answer.message.endswith("preemption: 0/1 nodes are available: 1 Insufficient cpu.")
    assert victims(world.place(cpu="1", priority=10)) == ("a", [victim])


def test_those_under_a_budget_without_room_are_spared_before_more_important_ones():
    world = World()
    world.node("a")
    guarded = world.put("a", app="guarded", priority=1)
    free = world.put("a", app="free", priority=9)
    budget = Budget("default", (("app", "In", ("guarded",)),), 0, frozenset())
    assert victims(world.place([budget], priority=100)) == ("a", [free])
    assert victims(world.place(priority=100)) == ("a", [guarded])


def test_text_of_a_refusal_counts_and_names_what_preemption_found_on_each_node():
    world = World()
    for number in range(10):
        world.node(f"a{number}", cpu="1")
    for number in range(2):
        world.node(f"b{number}", taints=[{"key": "k", "effect": "NoSchedule"}])
    assert world.place(cpu="2").message == (
        "0/12 nodes are available: 10 Insufficient cpu, 2 node(s) had untolerated taint {k: }. "
        "preemption: 0/12 nodes are available: 10 No preemption victims found for incoming pod, "
        "2 Preemption is not helpful for scheduling."
    )
    world.put("a0", cpu="500m")
    assert world.place(cpu="2", priority=1).message.endswith(
        "preemption: 0/12 nodes are available: 1 Insufficient cpu, 2 Preemption is not helpful for scheduling, "
        "9 No preemption victims found for incoming pod."
    )
