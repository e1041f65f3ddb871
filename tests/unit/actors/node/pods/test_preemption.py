import pytest

from actors.node.pods.preemption import Victim, choose, preemptable

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
