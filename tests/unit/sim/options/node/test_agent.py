"""Options of the node agent: what they come to, and what is refused."""

import pytest

from sim.errors import InputError
from sim.options.node.agent import parse_node_agent
from sim.units import SECOND


def test_a_zero_or_a_hundred_percent_removes_a_threshold() -> None:
    options = parse_node_agent(
        {"eviction-hard": "memory.available<0%,nodefs.available<100%,pid.available<5%"}
    )
    assert options.eviction_hard == {"pid.available": "5%"}


def test_thresholds_and_grace_periods_come_as_texts_or_as_mappings() -> None:
    as_text = {
        "eviction-soft": "memory.available<1Gi",
        "eviction-soft-grace-period": "memory.available=1m",
        "eviction-minimum-reclaim": "memory.available=500Mi",
    }
    as_mapping = {
        "eviction-soft": {"memory.available": "1Gi"},
        "eviction-soft-grace-period": {"memory.available": "1m"},
        "eviction-minimum-reclaim": {"memory.available": "500Mi"},
    }
    options = parse_node_agent(as_text)
    assert options == parse_node_agent(as_mapping)
    assert options.eviction_soft_grace_period == {"memory.available": 60 * SECOND}


def test_reserved_cpus_are_listed_one_by_one_or_as_ranges() -> None:
    read = [parse_node_agent({"reserved-cpus": cpus}).reserved_cpus for cpus in ("", 3, "0-1,1,7", "5,2-3")]
    assert read == [(), (3,), (0, 1, 7), (2, 3, 5)]


def test_nothing_or_more_than_all_may_be_the_amount_to_reclaim() -> None:
    given = {"memory.available": "0", "nodefs.available": "150%"}
    assert parse_node_agent({"eviction-minimum-reclaim": given}).eviction_minimum_reclaim == given


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"eviction-hard": "cpu.available<1"}, "unsupported eviction signal cpu.available"),
        ({"eviction-hard": "memory.available<0"}, "eviction threshold memory.available must be positive: 0"),
        ({"eviction-hard": "memory.available<120%"}, "must be >= 0% and <= 100%: 120%"),
        ({"eviction-hard": "cpu.available<0%"}, "unsupported eviction signal cpu.available"),
        ({"eviction-hard": "memory.available<1_0%"}, "1_0% of memory.available is no quantity or percentage"),
        (
            {"eviction-minimum-reclaim": "memory.available=0%"},
            "eviction percentage minimum reclaim memory.available must be positive: 0%",
        ),
        (
            {"eviction-minimum-reclaim": "memory.available=-1"},
            "negative eviction minimum reclaim specified for memory.available",
        ),
        ({"eviction-minimum-reclaim": "cpu.available=1"}, "unsupported eviction signal cpu.available"),
        ({"eviction-hard": "memory.available<much"}, "much of memory.available is no quantity or percentage"),
        ({"orch-reserved": "cpu=banana"}, "banana of cpu is no quantity"),
        ({"orch-reserved": "disk=1Gi"}, 'cannot reserve "disk" resource'),
        ({"system-reserved": {"memory": "-1Gi"}}, 'resource quantity for "memory" cannot be negative: -1Gi'),
        ({"container-log-max-files": 1}, "invalid MaxFiles 1, must be > 1"),
        ({"container-log-max-size": "big"}, "a quantity such as 10Mi"),
        ({"cloud-provider": "aws"}, "unknown cloud provider"),
        ({"file-check-frequency": "0s"}, "must be more than 0"),
        ({"node-ip": "banana"}, "wanted an IP address, or one of each family"),
        ({"node-ip": "127.0.0.1"}, "nodeIP can't be loopback address"),
        ({"node-ip": "169.254.1.1"}, "nodeIP can't be a link-local unicast address"),
        ({"reserved-cpus": "3-1"}, "wanted cpus such as 0-3,8"),
        ({"reserved-cpus": "0-999999"}, "wanted cpus such as 0-3,8"),
        ({"reserved-cpus": "a"}, "wanted cpus such as 0-3,8"),
        (
            {"enforce-node-allocatable": "all"},
            'option "all" specified. Valid options are "pods", "system-reserved"',
        ),
        ({"enforce-node-allocatable": "pods,none"}, "may not contain additional enforcements"),
        ({"enforce-node-allocatable": "pods,system-reserved"}, "system-reserved-cgroup must be specified"),
        ({"sync-frequency": "1m", "--sync-frequency": "2m"}, "option sync-frequency is given twice"),
        ({"log-backtrace-at": ":0"}, "option log-backtrace-at has no effect here: a simulated process has"),
        ({"sync-frequency": "0s"}, "must be at least 1s"),
        ({"registry-qps": -1}, "registry-qps"),
        (
            {"allowed-unsafe-sysctls": "net.core.somaxconn,vm.swappiness"},
            'the sysctl "vm.swappiness" are not known to be namespaced',
        ),
        ({"eviction-pressure-transition-period": "-5m"}, "wanted a duration"),
        ({"eviction-hard": "memory.available=1Gi"}, "thresholds such as memory.available<100Mi"),
        (
            {"eviction-soft": "memory.available<1Gi"},
            "grace period must be specified for the soft eviction threshold memory.available",
        ),
        (
            {"eviction-soft-grace-period": "memory.available=-1m"},
            "wanted a duration",
        ),
        ({"shutdown-grace-period": "500ms"}, "must be either zero or otherwise >= 1 sec"),
        (
            {"shutdown-grace-period": "10s", "shutdown-grace-period-critical-pods": "20s"},
            "shutdown-grace-period-critical-pods must be <= shutdown-grace-period",
        ),
        (
            {"shutdown-grace-period": "10s", "shutdown-grace-period-by-pod-priority": "0=10s"},
            "cannot specify both",
        ),
        ({"image-gc-high-threshold": 101}, "must be between 0 and 100"),
        (
            {"image-gc-low-threshold": 85},
            "image-gc-low-threshold 85 must be less than image-gc-high-threshold 85",
        ),
    ],
)
def test_a_bad_value_is_refused_with_what_is_wrong_with_it(given: dict[str, object], problem: str) -> None:
    with pytest.raises(InputError, match=problem):
        parse_node_agent(given, place="web.yaml:3")


def test_option_without_effect_is_refused() -> None:
    with pytest.raises(InputError, match="no effect"):
        parse_node_agent({"--log-backtrace-at": "a.go:1"})
    with pytest.raises(InputError, match="did you mean 'max-pods'"):
        parse_node_agent({"max-pod": 3})
