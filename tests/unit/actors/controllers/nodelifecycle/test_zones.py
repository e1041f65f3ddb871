"""Zones: states by counts, queues by tokens, and the decisions of a pass."""

from __future__ import annotations

import pytest

from actors.controllers.nodelifecycle.decide import Counted
from actors.controllers.nodelifecycle.zones import (
    Limiter,
    TaintQueue,
    Zone,
    ZoneState,
    decide_disruption,
    taint_rate,
    zone_state,
)
from sim.ident import NAMES
from sim.options.controllers.manager import ControllerManagerOptions, parse_controller_manager

NAMES_ORCH = NAMES["orch"]
OPTIONS = ControllerManagerOptions()
S = 1_000_000


@pytest.mark.parametrize(
    ("size", "edge"), [(4, 3), (5, 3), (6, 4), (7, 4), (8, 5), (9, 5), (10, 6), (11, 7), (20, 11), (100, 55)]
)
def test_zone_is_partially_disrupted_from_three_not_ready_nodes_and_a_share(size: int, edge: int) -> None:
    assert zone_state(size - edge, edge, 0.55) is ZoneState.PARTIAL
    assert zone_state(size - edge + 1, edge - 1, 0.55) is ZoneState.NORMAL


def test_zone_without_ready_node_is_fully_disrupted_and_empty_zone_is_normal() -> None:
    assert zone_state(0, 1, 0.55) is ZoneState.FULL
    assert zone_state(0, 0, 0.55) is ZoneState.NORMAL
    assert zone_state(1, 2, 0.55) is ZoneState.NORMAL


def test_only_large_zone_is_tainted_while_partially_disrupted() -> None:
    assert taint_rate(ZoneState.PARTIAL, 50, OPTIONS) == 0
    assert taint_rate(ZoneState.PARTIAL, 51, OPTIONS) == 0.01
    assert taint_rate(ZoneState.FULL, 10, OPTIONS) == taint_rate(ZoneState.NORMAL, 10, OPTIONS) == 0.1


def test_limiter_gives_one_token_per_ten_seconds_and_saves_none() -> None:
    limiter = Limiter(0.1)
    assert limiter.accept(0)
    assert not limiter.accept(10 * S - 1)
    assert limiter.accept(100 * S)
    assert not limiter.accept(109 * S)


def test_new_limiter_is_empty_if_the_old_one_was() -> None:
    queue = TaintQueue(0.1)
    queue.add("n")
    assert queue.swap(0.01, 0)  # the old bucket had its token
    assert queue.head(0) == "n"
    queue.done("n")
    queue.remove("n")
    queue.add("n")
    assert queue.swap(0.1, 5 * S)  # the old bucket was empty
    assert queue.head(14 * S) is None
    assert queue.head(15 * S) == "n"


def test_limiter_gives_its_first_token_ten_seconds_after_a_full_stop() -> None:
    queue = TaintQueue(0.1)
    queue.add("n")
    assert queue.swap(0, 0)
    assert queue.due_us() is None
    assert queue.head(99 * S) is None
    assert queue.swap(0.1, 100 * S)
    assert queue.due_us() == 110 * S


def test_eviction_rate_of_one_stays_stopped_after_a_full_stop() -> None:
    queue = TaintQueue(1.0)
    queue.swap(0, 0)
    assert not queue.swap(1.0, 10 * S)
    queue.add("n")
    assert queue.head(99 * S) is None


def test_finished_node_is_not_queued_again_until_it_is_removed() -> None:
    queue = TaintQueue(1.0)
    assert queue.add("n")
    assert not queue.add("n")
    assert queue.head(0) == "n"
    queue.done("n")
    assert not queue.add("n")
    assert queue.remove("n")
    assert not queue.remove("n")
    assert queue.add("n")


def test_node_requeued_while_it_is_tainted_takes_no_second_token() -> None:
    queue = TaintQueue(1.0)
    queue.add("a")
    queue.add("b")
    assert queue.head(0) == "a"
    queue.remove("a")
    queue.add("a")
    queue.done("a")
    assert queue.head(S) == "b"
    assert len(queue) == 1


def test_failed_node_moves_to_the_end_of_the_queue() -> None:
    queue = TaintQueue(1.0)
    queue.add("a")
    queue.add("b")
    assert queue.head(0) == "a"
    queue.failed("a")
    assert queue.head(S) == "b"
    queue.done("b")
    assert queue.head(2 * S) == "a"
    queue.remove("a")
    queue.failed("a")
    assert len(queue) == 0


def zone(state: ZoneState, ready: int, not_ready: int) -> Zone:
    return Zone(TaintQueue(0.1), state, ready, not_ready)


def test_single_fully_disrupted_zone_is_tainted_at_the_full_rate() -> None:
    zones = {"a": zone(ZoneState.NORMAL, 0, 5), "b": zone(ZoneState.NORMAL, 5, 0)}
    found = decide_disruption(zones, OPTIONS)
    assert (found.states, found.rates) == ({"a": ZoneState.FULL}, {"a": 0.1})
    assert not found.absolve
    assert not found.fresh


def test_tainting_stops_and_taints_are_removed_when_all_zones_go_dark() -> None:
    zones = {"a": zone(ZoneState.FULL, 0, 5), "b": zone(ZoneState.NORMAL, 0, 1)}
    found = decide_disruption(zones, OPTIONS)
    assert found.absolve
    assert found.rates == {"a": 0.0, "b": 0.0}
    again = {"a": zone(ZoneState.FULL, 0, 5), "b": zone(ZoneState.FULL, 0, 1)}
    assert not decide_disruption(again, OPTIONS).absolve


def test_recovery_sets_every_zone_and_gives_every_node_a_new_grace_period() -> None:
    zones = {"a": zone(ZoneState.FULL, 0, 5), "b": zone(ZoneState.FULL, 1, 0)}
    found = decide_disruption(zones, OPTIONS)
    assert found.fresh
    assert found.states == {"a": ZoneState.FULL, "b": ZoneState.NORMAL}
    assert found.rates == {"a": 0.1, "b": 0.1}


def test_disruption_threshold_follows_the_option() -> None:
    options = parse_controller_manager({"unhealthy-zone-threshold": 0.3})
    zones = {"a": zone(ZoneState.NORMAL, 7, 3)}
    assert decide_disruption(zones, options).states == {"a": ZoneState.PARTIAL}


def test_empty_queue_has_no_head_and_pays_no_token() -> None:
    queue = TaintQueue(0.1)
    assert queue.head(0) is None
    queue.add("n1")
    assert queue.head(0) == "n1"


def test_zone_counts_nodes_by_readiness() -> None:
    zone = Zone(TaintQueue(0.1))
    for counted, more in (
        (Counted.READY, 1),
        (Counted.NOT_READY, 1),
        (Counted.READY, 1),
        (Counted.READY, -1),
    ):
        zone.count(counted, more)
    assert (zone.ready, zone.not_ready, zone.size) == (1, 1, 2)
