import pytest

from actors.node.pod_spec import requests_of
from actors.node.pod_work import FINISHED, TERMINATED
from actors.node.pods.admit import Used
from actors.node.pods.preemption import NOT_FOUND, Preemption, Victim, choose, preemptable

BEST, BURST, SURE = "BestEffort", "Burstable", "Guaranteed"


def victim(uid, qos, cpu=0, memory=0):
    return Victim(uid, qos, {"cpu": cpu, "memory": memory, "pods": 1})


@pytest.mark.parametrize(
    ("pods", "missing", "chosen"),
    [
        # a lesser class as far as it helps, a better one for the rest
        ([victim("g", SURE, 900), victim("b", BURST, 500)], {"cpu": 400}, ["b"]),
        ([victim("g", SURE, 900), victim("b", BURST, 300)], {"cpu": 400}, ["g"]),
        ([victim("g", SURE, 900), victim("h", SURE, 100), victim("b", BURST, 300)], {"cpu": 400}, ["b", "h"]),
        # the pod that leaves the least missing, of equal ones the smaller
        ([victim("a", BURST, 100), victim("b", BURST, 300), victim("c", BURST, 400)], {"cpu": 400}, ["c"]),
        ([victim("a", BURST, 600), victim("b", BURST, 500), victim("c", BURST, 900)], {"cpu": 400}, ["b"]),
        ([victim("a", BURST, 500, 9), victim("b", BURST, 600, 1)], {"cpu": 400}, ["b"]),
        ([victim("a", BURST, 300), victim("b", BURST, 200)], {"cpu": 400}, ["a", "b"]),
        # each resource counts by its share
        ([victim("a", BURST, 100, 0), victim("b", BURST, 0, 60)], {"cpu": 100, "memory": 100}, None),
        ([victim("a", BURST, 40, 100), victim("b", BURST, 90, 0)], {"cpu": 100, "memory": 100}, ["a", "b"]),
        # pods without requests are ended when there are too many pods
        ([victim("g", SURE, 100), victim("e", BEST)], {"pods": 1}, ["e"]),
        ([], {"cpu": 1}, None),
    ],
)
def test_choose_takes_needed_pods_of_the_lowest_classes(pods, missing, chosen):
    found = choose(pods, missing)
    assert (found and [pod.uid for pod in found]) == chosen


def test_critical_pod_preempts_others_and_critical_ones_of_lower_priority():
    def pod(priority=None):
        return {"spec": {} if priority is None else {"priority": priority}}

    lowest, highest = 2_000_000_000, 2_000_001_000
    assert preemptable(pod(lowest), False, pod(0), False)
    assert preemptable(pod(highest), False, pod(lowest), False)
    assert not preemptable(pod(lowest), False, pod(lowest), False)
    assert preemptable(pod(), True, pod(5), False)
    assert not preemptable(pod(highest), False, pod(), True)


def test_the_most_shares_are_filled_first_and_then_the_least_requests():
    # squares of the shares that stay: (60 / 70)² against (60 / 100)² + (10 / 70)²
    one, two = victim("one", BURST, 100, 10), victim("two", BURST, 40, 60)
    assert [
        pod.uid for pod in choose([one, two, victim("b", BURST, 100, 100)], {"cpu": 100, "memory": 100})
    ] == ["b"]
    assert [pod.uid for pod in choose([one, two, one], {"cpu": 100, "memory": 70})] == ["two", "one"]
    # of those that leave nothing, the one with less memory, then with less CPU
    by_cpu = [victim("a", BURST, 900, 5), victim("b", BURST, 800, 5), victim("c", BURST, 1, 6)]
    assert [pod.uid for pod in choose(by_cpu, {"pods": 1})] == ["b"]
    by_memory = [victim("a", BURST, 100, 9), victim("b", BURST, 900, 8)]
    assert [pod.uid for pod in choose(by_memory, {"cpu": 50})] == ["b"]
    # one that asks for nothing is smaller than one that asks for a byte or a thousandth of a CPU
    by_nothing = [victim("a", BURST, 1, 1), Victim("b", BURST, {"cpu": 900, "pods": 1})]
    assert [pod.uid for pod in choose(by_nothing, {"pods": 1})] == ["b"]
    by_nothing = [victim("a", BURST, 1, 1), Victim("b", BURST, {"memory": 1, "pods": 1})]
    assert [pod.uid for pod in choose(by_nothing, {"pods": 1})] == ["b"]
    # a single unit that stays missing is more than none
    by_one = [victim("a", BURST, 49, 1), victim("b", BURST, 50, 9)]
    assert [pod.uid for pod in choose(by_one, {"cpu": 50})] == ["b"]


def test_what_is_just_enough_is_enough():
    assert [pod.uid for pod in choose([victim("a", BURST, 400)], {"cpu": 400})] == ["a"]
    assert choose([victim("a", BURST, 399)], {"cpu": 400}) is None
    assert choose([victim("a", BURST, 399)], {}) == []
    assert choose([victim("a", BURST, 400)], {"cpu": 400, "memory": 1}) is None


@pytest.mark.parametrize(
    ("own", "static", "other", "other_static", "wanted"),
    [
        (2_000_000_000, False, 1_999_999_999, False, True),
        (2_000_000_000, False, 2_000_000_000, True, False),
        (1, False, 0, False, True),  # any pod by its priority
        (1, False, 1, False, False),
        (None, False, 0, False, False),
        (1, False, None, False, False),
        (None, True, None, True, False),
        (None, True, None, False, True),
        (1, True, 0, True, True),
    ],
)
def test_priorities_decide_between_critical_pods(own, static, other, other_static, wanted):
    def pod(priority):
        return {"spec": {} if priority is None else {"priority": priority}}

    assert preemptable(pod(own), static, pod(other), other_static) is wanted


class Item:
    """A store item of a pod."""

    def __init__(self, obj):
        self.obj = obj


class Worker:
    """A pod on the agent, as preemption reads it."""

    def __init__(self, uid, priority=0, cpu="1", state="Running", admitted=True):
        resources = {"requests": {"cpu": cpu}}
        spec = {"priority": priority, "containers": [{"name": "c", "image": "i", "resources": resources}]}
        self.uid, self.state = uid, state
        self.pod = {"metadata": {"name": uid, "uid": uid}, "spec": spec, "status": {"qosClass": BURST}}
        self.item = Item(self.pod)
        self.requests = requests_of(self.pod) if admitted else None


class Agent:
    """An agent that notes what preemption asks of it."""

    def __init__(self, *workers):
        self.workers = {worker.uid: worker for worker in workers}
        self.static = []
        self.events, self.ended, self.added = [], [], []
        self.ctx = self

    def is_static(self, uid):
        return uid in self.static

    def event(self, pod, kind, reason, message):
        self.events.append((pod["metadata"]["uid"], kind, reason))

    def end_pod(self, worker, why, ended):
        self.ended.append((worker.uid, ended))

    def call_later_us(self, delay_us, call, uid):
        assert delay_us == 0
        call(uid)

    def pod_added(self, item, obj):
        self.added.append(obj["metadata"]["uid"])


CRITICAL = 2_000_000_000
NODE = {"metadata": {"name": "n"}, "status": {"allocatable": {"cpu": "2", "pods": "9", "memory": "1Gi"}}}


def crowded(*others, cpu="1"):
    """A node of two CPUs that the others use, and a critical pod."""
    agent, used, new = Agent(*others), Used(), Worker("new", CRITICAL, cpu, admitted=False)
    for other in others:
        used.add(requests_of(other.pod))
    return agent, used, new, Preemption(agent, used)


def test_victims_end_one_by_one_and_then_the_pod_is_admitted():
    agent, _, new, preemption = crowded(Worker("a"), Worker("b"), cpu="2")
    assert preemption.make_room(new, requests_of(new.pod), NODE) == ""
    assert preemption.holds("new")
    (first, ended) = agent.ended[0]
    assert agent.events == [(first, "Warning", "Preempting")]
    ended(True)
    assert [uid for uid, _ in agent.ended] == ["a", "b"]
    assert agent.added == []
    agent.ended[1][1](True)
    assert agent.added == ["new"]
    assert not preemption.holds("new")


def test_there_is_room_or_no_set_of_pods_gives_it():
    _, _, new, preemption = crowded(Worker("a"))
    assert preemption.make_room(new, requests_of(new.pod), NODE) is None
    agent, _, new, preemption = crowded(
        Worker("a"),
        Worker("b", CRITICAL),
        Worker("c", state=TERMINATED),
        Worker("d", state=FINISHED),
        cpu="2",
    )
    # four of two CPUs are taken and two are wanted; one pod may end, which leaves 3000
    assert preemption.make_room(new, requests_of(new.pod), NODE) == NOT_FOUND.format("(res: cpu, q: 3000), ")
    assert agent.ended == []
    assert not preemption.holds("new")
    _, _, new, preemption = crowded(Worker("a", admitted=False), Worker("b", CRITICAL))
    assert preemption.make_room(new, requests_of(new.pod), NODE) == NOT_FOUND.format("(res: cpu, q: 1000), ")


def test_the_end_of_a_pod_makes_room_for_one_pod():
    agent, _, new, preemption = crowded(*(Worker(uid, cpu="100m") for uid in "abc"), cpu="100m")
    two = {**NODE, "status": {"allocatable": {"cpu": "2", "pods": "2"}}}
    assert preemption.make_room(new, requests_of(new.pod), two) == ""
    agent.ended[0][1](True)
    assert (len(agent.ended), agent.added) == (2, [])
    agent.ended[1][1](True)
    assert (len(agent.ended), agent.added) == (2, ["new"])


def test_a_pod_is_admitted_once_without_room_if_a_victim_ends_too_late():
    agent, _, new, preemption = crowded(Worker("a"), Worker("b"))
    preemption.make_room(new, requests_of(new.pod), NODE)
    agent.ended[0][1](False)
    assert agent.added == ["new"]
    assert preemption.make_room(new, requests_of(new.pod), NODE) is None
    assert preemption.make_room(new, requests_of(new.pod), NODE) == ""


def test_a_victim_that_has_ended_by_then_is_not_ended_again():
    agent, _, new, preemption = crowded(Worker("a"), Worker("b"), cpu="2")
    preemption.make_room(new, requests_of(new.pod), NODE)
    agent.workers["b"].state = TERMINATED
    agent.ended[0][1](True)
    assert [uid for uid, _ in agent.ended] == ["a"]
    assert agent.added == ["new"]


def test_a_pod_that_is_gone_needs_no_room():
    agent, _, new, preemption = crowded(Worker("a"), Worker("b"), cpu="2")
    preemption.make_room(new, requests_of(new.pod), NODE)
    newer = Item(new.pod)
    assert preemption.holds("new", newer)
    assert preemption._waiting["new"][0] is newer
    assert not preemption.holds("other", newer)
    assert not preemption.holds("other")
    agent.static = ["new"]
    preemption.keep({})
    assert preemption.holds("new")
    agent.static = []
    preemption.keep({"new": None})
    assert preemption.holds("new")
    preemption.keep({"other": None})
    assert not preemption.holds("new")
    agent.ended[0][1](False)
    assert agent.added == []
    assert [uid for uid, _ in agent.ended] == ["a"]
    preemption.make_room(new, requests_of(new.pod), NODE)
    # the end of a victim that is not the one awaited says nothing
    preemption._ended("new", agent.workers["b"], False)
    assert [uid for uid, _ in agent.ended] == ["a", "a"]
    assert preemption.make_room(new, requests_of(new.pod), NODE) == ""


def test_a_static_pod_is_critical_on_its_node():
    agent, _, new, preemption = crowded(Worker("a"), Worker("b", 5))
    new.pod["spec"]["priority"] = None
    agent.static = ["new"]
    assert preemption.make_room(new, requests_of(new.pod), NODE) == ""
    agent.static = ["new", "a", "b"]
    assert preemption.make_room(new, requests_of(new.pod), NODE) == NOT_FOUND.format("(res: cpu, q: 1000), ")
