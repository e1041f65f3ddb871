"""Feature gates: which may be set, to what, and what is said of the others."""

from collections.abc import Callable
from typing import Any

import pytest

from sim.app.options import api_server_options
from sim.errors import InputError
from sim.options.api_server import parse_api_server
from sim.options.controller_manager import parse_controller_manager
from sim.options.gates import enabled
from sim.options.node_agent import parse_node_agent
from sim.options.scheduler import parse_scheduler


@pytest.mark.parametrize(
    ("gates", "says"),
    [
        ("PodDeletionCosts=false", "unrecognized feature gate: PodDeletionCosts"),
        ("PodSecurity=false", "cannot set feature gate PodSecurity to false, feature is locked to true"),
        (
            "PodDeletionCost=off",
            'invalid value of PodDeletionCost=off, err: strconv.ParseBool: parsing "off"',
        ),
        ("PodDeletionCost", "wanted pairs such as key=value"),
        ("HPAScaleToZero=true", "HPAScaleToZero=true has no effect here yet"),
        ("TopologyAwareHints=false", "TopologyAwareHints=false has no effect here yet"),
        ("AllAlpha=true", "AllAlpha=true has no effect here yet"),
        ("AllBeta=false", "AllBeta=false has no effect here yet"),
    ],
)
def test_a_gate_that_cannot_be_set_is_refused_with_why(gates: str, says: str) -> None:
    with pytest.raises(InputError) as refused:
        parse_controller_manager({"feature-gates": gates}, place="s.yaml:3")
    assert says in str(refused.value)
    assert refused.value.place == "s.yaml:3"


@pytest.mark.parametrize(
    "parse", [parse_api_server, parse_controller_manager, parse_scheduler, parse_node_agent]
)
def test_every_daemon_takes_what_a_gate_is_anyway(parse: Callable[[dict[str, Any]], Any]) -> None:
    parse({"feature-gates": "PodSecurity=true,AllAlpha=false,HPAScaleToZero=0,CPUManager=T"})
    parse({"feature-gates": {"PodDeletionCost": True}})
    parse({"feature-gates": ""})


def test_a_daemon_that_does_not_act_on_a_gate_refuses_it() -> None:
    with pytest.raises(InputError, match="PodDeletionCost=false has no effect here yet"):
        parse_scheduler({"feature-gates": "PodDeletionCost=false"})


def test_a_gate_is_what_is_given_or_its_default() -> None:
    given = parse_controller_manager({"feature-gates": {"PodDeletionCost": False}}).feature_gates
    assert not enabled(given, "PodDeletionCost")
    assert enabled(given, "LogarithmicScaleDown")
    assert not enabled(given, "HPAScaleToZero")


def test_seats_take_the_option_and_its_gate() -> None:
    def seats(**given: object) -> int:
        return api_server_options(
            parse_api_server({k.replace("_", "-"): v for k, v in given.items()}), ""
        ).seats

    assert seats() == 600
    assert seats(feature_gates="APIPriorityAndFairness=false") == 0
    assert seats(enable_priority_and_fairness=False) == 0
    off = parse_api_server({"feature-gates": "APIPriorityAndFairness=false"})
    assert api_server_options(off, "").max_requests_inflight == 400


@pytest.mark.parametrize(
    ("gate", "given"),
    [
        ("GracefulNodeShutdown", {"shutdown-grace-period": "30s"}),
        ("GracefulNodeShutdownBasedOnPodPriority", {"shutdown-grace-period-by-pod-priority": "0=10s"}),
    ],
)
def test_periods_of_a_shutdown_require_their_gate(gate: str, given: dict[str, str]) -> None:
    parse_node_agent(given)
    parse_node_agent({"feature-gates": f"{gate}=false"})
    with pytest.raises(InputError, match=f"requires feature gate {gate}$"):
        parse_node_agent({"feature-gates": f"{gate}=false", **given})
