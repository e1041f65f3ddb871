"""The groups in which a shutdown ends pods, and their grace periods."""

from actors.node.heartbeat.shutdown import grace_s, group_of
from sim.options.node.agent import parse_node_agent
from sim.units import SECOND


def test_pod_belongs_to_highest_group_not_above_its_priority() -> None:
    groups = ((0, 10), (1000, 20), (2_000_000_000, 30))
    assert [group_of(groups, p) for p in (-5, 0, 999, 1000, 2_000_001_000)] == [0, 0, 0, 1, 2]


def test_pod_gets_its_own_grace_at_most_that_of_its_group() -> None:
    assert grace_s(5, 20 * SECOND) == 5
    assert grace_s(30, 20 * SECOND) == 20
    assert grace_s(None, 20 * SECOND) == 20


def test_two_periods_make_two_groups_and_none_delays_nothing() -> None:
    assert parse_node_agent({}).shutdown_groups == ()
    options = parse_node_agent({"shutdown-grace-period": "30s", "shutdown-grace-period-critical-pods": "10s"})
    assert options.shutdown_groups == ((0, 20 * SECOND), (2_000_000_000, 10 * SECOND))
    options = parse_node_agent(
        {"shutdown-grace-period": "30500ms", "shutdown-grace-period-critical-pods": "10200ms"}
    )
    assert options.shutdown_groups == ((0, 20 * SECOND), (2_000_000_000, 10 * SECOND))
    options = parse_node_agent({"shutdown-grace-period-by-pod-priority": "1000=10s,0=20s"})
    assert options.shutdown_groups == ((0, 20 * SECOND), (1000, 10 * SECOND))
