"""Pressure and the order of eviction, on plain values."""

import re

import pytest

from actors.node.pressure.eviction_decide import (
    Candidate,
    LocalUse,
    Observed,
    Past,
    Threshold,
    eviction_message,
    first,
    judge,
    kind_of,
    over_local_limit,
    rank,
    thresholds_of,
    whole_limit,
)
from sim.errors import InputError
from sim.options.node.agent import parse_node_agent
from sim.units import SECOND

MI = 1 << 20
MEMORY = Threshold("memory.available", "100Mi")
TRANSITION_US = 300 * SECOND


def memory(mebibytes: int) -> dict[str, Observed]:
    return {"memory.available": Observed(mebibytes * MI, 1024 * MI)}


def test_hard_threshold_is_met_at_once_and_only_strictly_below() -> None:
    assert judge((MEMORY,), Past(), memory(100), 0, TRANSITION_US).quiet
    past = judge((MEMORY,), Past(), memory(99), 0, TRANSITION_US)
    assert past.met == (MEMORY,) and past.conditions == ("MemoryPressure",)


def test_next_check_matters_while_a_threshold_is_met_without_a_transition_period() -> None:
    past = judge((MEMORY,), Past(), memory(99), 0, 0)
    assert past.conditions == () and not past.quiet
    assert judge((MEMORY,), past, memory(100), 1, 0).quiet


def test_condition_is_shown_until_transition_period_after_last_observation() -> None:
    past = judge((MEMORY,), Past(), memory(50), 10, TRANSITION_US)
    past = judge((MEMORY,), past, memory(500), TRANSITION_US + 9, TRANSITION_US)
    assert not past.met and past.conditions == ("MemoryPressure",)
    past = judge((MEMORY,), past, memory(500), TRANSITION_US + 10, TRANSITION_US)
    assert past.quiet and not past.conditions


def test_soft_threshold_shows_condition_at_once_and_acts_after_grace() -> None:
    soft = Threshold("memory.available", "500Mi", 60 * SECOND)
    past = judge((soft,), Past(), memory(400), 0, TRANSITION_US)
    assert past.conditions == ("MemoryPressure",) and not past.met
    assert not judge((soft,), past, memory(400), 59 * SECOND, TRANSITION_US).met
    assert judge((soft,), past, memory(400), 60 * SECOND, TRANSITION_US).met == (soft,)
    relaxed = judge((soft,), past, memory(600), 30 * SECOND, TRANSITION_US)
    again = judge((soft,), relaxed, memory(400), 60 * SECOND, TRANSITION_US)
    assert not again.met  # the grace period starts from the beginning


def test_met_threshold_stays_met_until_minimum_reclaim_is_exceeded() -> None:
    greedy = Threshold("memory.available", "100Mi", 0, "400Mi")
    past = judge((greedy,), Past(), memory(300), 0, TRANSITION_US)
    assert past.quiet
    past = judge((greedy,), past, memory(99), 10, TRANSITION_US)
    past = judge((greedy,), past, memory(499), 20, TRANSITION_US)
    assert past.met == (greedy,)
    assert not judge((greedy,), past, memory(500), 30, TRANSITION_US).met


def test_signals_are_about_memory_process_numbers_or_disks() -> None:
    signals = ("memory.available", "allocatableMemory.available", "pid.available", "nodefs.inodesFree")
    assert [kind_of(signal) for signal in signals] == ["memory", "memory", "pid", "disk"]


def test_percentage_of_threshold_is_of_the_capacity() -> None:
    half = Threshold("nodefs.available", "50%")
    observed = {"nodefs.available": Observed(511, 1024)}
    assert judge((half,), Past(), observed, 0, TRANSITION_US).conditions == ("DiskPressure",)
    observed = {"nodefs.available": Observed(512, 1024)}
    assert judge((half,), Past(), observed, 0, TRANSITION_US).quiet


def test_memory_threshold_precedes_all_other_resources() -> None:
    pid, disk = Threshold("pid.available", "1k"), Threshold("nodefs.available", "10%")
    assert first((pid, disk, MEMORY)) == MEMORY
    assert first((pid, disk)) == disk
    assert first(()) is None


def test_default_thresholds_are_four_and_one_on_allocatable_memory() -> None:
    signals = [t.signal for t in thresholds_of(parse_node_agent({}))]
    assert signals == [
        "allocatableMemory.available", "memory.available", "imagefs.available", "nodefs.available",
        "nodefs.inodesFree",
    ]  # fmt: skip


def test_soft_threshold_takes_grace_and_reclaim_from_options() -> None:
    options = parse_node_agent(
        {
            "eviction-hard": "pid.available<10%",
            "eviction-soft": "pid.available<20%",
            "eviction-soft-grace-period": "pid.available=1m",
            "eviction-minimum-reclaim": "pid.available=5%",
        }
    )
    assert thresholds_of(options) == (
        Threshold("pid.available", "10%", 0, "5%"),
        Threshold("pid.available", "20%", 60 * SECOND, "5%"),
    )


def test_soft_memory_threshold_without_grace_is_hard_and_guards_all_pods() -> None:
    given = {"eviction-hard": "", "eviction-soft": "memory.available<1Gi"}
    for grace, signals in (
        ("0s", ["allocatableMemory.available", "memory.available"]),
        ("1s", ["memory.available"]),
    ):
        options = parse_node_agent({**given, "eviction-soft-grace-period": f"memory.available={grace}"})
        assert [t.signal for t in thresholds_of(options)] == signals
    assert not thresholds_of(parse_node_agent({"eviction-hard": "memory.available<0%"}))


@pytest.mark.parametrize(
    ("given", "wrong"),
    [
        ("memory.available=0Mi,nodefs.available=5%", ""),
        ("memory.available=-1Mi", "negative eviction minimum reclaim specified for memory.available"),
        ("nodefs.available=0%", "eviction percentage minimum reclaim nodefs.available must be positive"),
        ("nodefs.available=nan%", "nan% of nodefs.available is no quantity or percentage"),
        ("nodefs.available=much", "much of nodefs.available is no quantity or percentage"),
        ("disk.available=1Gi", "unsupported eviction signal disk.available"),
    ],
)
def test_minimum_reclaim_may_be_zero_but_not_negative(given: str, wrong: str) -> None:
    if not wrong:
        (_, memory, *_) = thresholds_of(parse_node_agent({"eviction-minimum-reclaim": given}))
        assert memory.floor(1 << 30, reclaimed=True) == memory.floor(1 << 30, reclaimed=False) == 100 * MI
        return
    with pytest.raises(InputError, match=re.escape(wrong)):
        parse_node_agent({"eviction-minimum-reclaim": given})


def test_rank_orders_by_excess_over_request_then_priority_then_use_then_name() -> None:
    order = rank(
        "memory.available",
        [
            Candidate("under", 0, 50, 100),
            Candidate("important", 100, 1000, 100),
            Candidate("small", 0, 150, 100),
            Candidate("big-b", 0, 400, 100),
            Candidate("big-a", 0, 400, 100),
            Candidate("new", 1000, 0, 100, is_measured=False),
        ],
    )
    assert [c.name for c in order] == ["new", "big-a", "big-b", "small", "important", "under"]


def test_rank_for_process_numbers_uses_priority_and_count() -> None:
    order = rank(
        "pid.available",
        [Candidate("many", 10, 900, 0), Candidate("few", 0, 1, 0), Candidate("some", 0, 5, 0)],
    )
    assert [c.name for c in order] == ["some", "few", "many"]


def test_eviction_message_and_annotations_name_containers_over_request() -> None:
    pod = Candidate("p", 0, 400 * MI, 0, (("a", 300 * MI, "0"), ("b", 100 * MI, "200Mi")))
    text, annotations = eviction_message("memory", pod)
    assert text == (
        "The node was low on resource: memory. Container a was using 300Mi, which exceeds its request of 0. "
    )
    assert annotations == {
        "offending_containers": "a",
        "offending_containers_usage": "300Mi",
        "starved_resource": "memory",
    }


def test_eviction_message_of_pod_with_unknown_use_names_no_container() -> None:
    message = eviction_message("memory", Candidate("p", 0, 0, 0, is_measured=False))
    assert message == ("The node was low on resource: memory. ", {})


def test_eviction_message_keeps_notation_of_requests_and_limits() -> None:
    pod = Candidate("p", 0, 900 * MI, 0, (("a", 900 * MI, "300M"), ("b", 900 * MI, "0.5Gi")))
    text, _ = eviction_message("memory", pod)
    assert "Container a was using 900Mi, which exceeds its request of 300M. " in text
    assert "Container b was using 900Mi, which exceeds its request of 512Mi. " in text
    assert '"1G"' in over_local_limit(LocalUse(volumes=(("tmp", 2 << 30, "1G"),)))
    assert '"1Gi"' in over_local_limit(LocalUse(containers=(("c", 2 << 30, "1024Mi"),)))


@pytest.mark.parametrize(
    ("own", "init", "overhead", "limit"),
    [
        ([], [], "0", ""),
        (["1024Mi"], [], "0", "1024Mi"),
        (["1G", "1Gi"], [], "0", "2073741824"),
        (["1Gi", "1Gi"], ["3072Mi"], "0", "3072Mi"),
        (["1Gi", "1Gi"], ["1Gi"], "512Mi", "2560Mi"),
        ([], ["1Gi"], "0", "1Gi"),
        (["0"], [], "1Gi", "0"),
    ],
)
def test_storage_limit_of_pod_is_sum_of_its_containers_limits(
    own: list[str], init: list[str], overhead: str, limit: str
) -> None:
    assert whole_limit(own, init, overhead) == limit


def test_message_about_local_storage_names_the_exceeded_limit() -> None:
    assert over_local_limit(LocalUse((("tmp", 10, "0"),), (("c", 5, "10"),), 15)) == ""
    assert over_local_limit(LocalUse(containers=(("c", 5, "0"),))) == ""  # no limit
    assert over_local_limit(LocalUse((("tmp", MI, "1Mi"),), (("c", MI, "1Mi"),), MI, "1Mi")) == ""
    assert over_local_limit(LocalUse(volumes=(("tmp", 2 * MI, "1Mi"),))) == (
        'Usage of EmptyDir volume "tmp" exceeds the limit "1Mi". '
    )
    assert over_local_limit(LocalUse((), (("c", 2 * MI, "1Mi"),), 2 * MI, "4Mi")) == (
        'Container c exceeded its local ephemeral storage limit "1Mi". '
    )
    assert over_local_limit(LocalUse((("tmp", 3 * MI, "0"),), (("c", 2 * MI, "4Mi"),), 5 * MI, "4Mi")) == (
        "Pod ephemeral local storage usage exceeds the total limit of containers 4Mi. "
    )
