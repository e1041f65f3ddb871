"""Flags of node agents that their machine or the API does not allow are rejected before the run."""

from dataclasses import replace
from typing import Any

import pytest

from sim.app.options import check_options, node_agent_options
from sim.app.plain_plan import plain_nodes
from sim.errors import InputError
from sim.ident import NAMES
from sim.scenario.plan.plan import ClusterPlan, ComponentPlan

NODE = replace(plain_nodes(1)[0], place="s.yaml:3:1")  # 8 cpus, 32Gi


def agent(flags: dict[str, Any], **more: Any) -> None:
    places = {name: f"s.yaml:{line}:7" for line, name in enumerate(flags, 11)}
    node_agent_options(replace(NODE, flags=flags, places=places, **more), NAMES["orch"])


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        (
            {"orch-reserved": "cpu=5", "system-reserved": "cpu=4"},
            '"cpu" has an allocatable of 9, capacity of -1',
        ),
        ({"eviction-hard": "memory.available<33Gi"}, '"memory" has an allocatable of 33Gi, capacity of -1Gi'),
        (
            {"system-reserved": "ephemeral-storage=100Gi", "eviction-hard": "nodefs.available<1Gi"},
            '"ephemeral-storage" has an allocatable of 101Gi, capacity of -1Gi',
        ),
        ({"reserved-cpus": "0-1,8"}, "reserved-cpus: 8 is not a subset of online-cpus: 0-7"),
        ({"register-with-taints": "a b=c:NoSchedule"}, 'invalid taint: Invalid value: "a b"'),
        (
            {"register-with-taints": "a=b:NoSchedule,a=c:NoSchedule"},
            "taints must be unique by key and effect",
        ),
    ],
)
def test_flags_that_allow_no_node_are_rejected_at_their_place(flags: dict[str, Any], says: str) -> None:
    with pytest.raises(InputError) as refused:
        agent(flags)
    assert says in str(refused.value)
    assert refused.value.place == "s.yaml:11:7"


def test_whole_machine_may_be_reserved() -> None:
    # and 100Mi by eviction-hard
    agent({"orch-reserved": "cpu=8", "system-reserved": "memory=32668Mi"})
    agent(
        {
            "eviction-hard": "memory.available<64Gi",
            "experimental-allocatable-ignore-eviction": True,
        }
    )


def test_taint_in_both_plan_and_flag_is_rejected() -> None:
    with pytest.raises(InputError, match="taints must be unique"):
        agent({"register-with-taints": "a=b:NoSchedule"}, taints=({"key": "a", "effect": "NoSchedule"},))
    agent({"register-with-taints": "a=b:NoSchedule"}, taints=({"key": "a", "effect": "NoExecute"},))


def test_unknown_controller_in_a_flag_is_rejected() -> None:
    def plan(controllers: str) -> ClusterPlan:
        places = {"controllers": "s.yaml:9:5"}
        return ClusterPlan(
            controller_manager=ComponentPlan(flags={"controllers": controllers}, places=places)
        )

    check_options(plan("*,-nodeipam,podgc"))
    with pytest.raises(InputError, match="nodeipam does nothing without allocate-node-cidrs"):
        check_options(plan("*,nodeipam"))
    with pytest.raises(InputError, match="node-ipam") as refused:
        check_options(plan("*,node-ipam"))
    assert refused.value.place == "s.yaml:9:5"
