"""Feature gates: which may be set, to what, and what is said of the others."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from sim.app.options import api_server_options, idle_options
from sim.app.plain_plan import plain_nodes
from sim.errors import InputError
from sim.options.apiserver.server import parse_api_server
from sim.options.controllers.manager import parse_controller_manager
from sim.options.features.gates import SPECIAL, enabled, gates_of, idle_gates, of_api_server
from sim.options.features.idle import REASONS
from sim.options.features.table import ALPHA, BETA, GATES
from sim.options.node.agent import parse_node_agent
from sim.options.scheduler import parse_scheduler
from sim.scenario.plan.plan import ClusterPlan

DAEMONS = [parse_api_server, parse_controller_manager, parse_scheduler, parse_node_agent]


@pytest.mark.parametrize(
    ("gates", "says"),
    [
        ("PodDeletionCosts=false", "unrecognized feature gate: PodDeletionCosts"),
        (
            "PodSecurity=false",
            "cannot set feature gate PodSecurity to false, feature is locked to true",
        ),
        (
            "PodDeletionCost=off",
            'invalid value of PodDeletionCost=off, err: strconv.ParseBool: parsing "off"',
        ),
        ("PodDeletionCost", "wanted pairs such as key=value"),
    ],
)
@pytest.mark.parametrize("parse", DAEMONS)
def test_gate_that_cannot_be_set_is_refused_with_its_reason(
    parse: Callable[..., Any], gates: str, says: str
) -> None:
    with pytest.raises(InputError) as refused:
        parse({"feature-gates": gates}, place="s.yaml:3")
    assert says in str(refused.value)
    assert refused.value.place == "s.yaml:3"


@pytest.mark.parametrize("parse", DAEMONS)
def test_every_daemon_takes_the_gates_of_all(parse: Callable[[dict[str, Any]], Any]) -> None:
    """Every gate, at the other value than its default unless it is locked to that."""
    other = {name: not gate.default for name, gate in GATES.items() if not gate.locked}
    other |= {"GracefulNodeShutdown": True}  # the options of shutdown need it
    assert parse({"feature-gates": other})
    locked = {name: gate.default for name, gate in GATES.items() if gate.locked}
    assert parse({"feature-gates": locked})


def test_gates_have_the_stages_of_their_release() -> None:
    stages = {stage: [n for n, gate in GATES.items() if gate.stage == stage] for stage in (ALPHA, BETA)}
    assert (len(GATES), len(stages[ALPHA]), len(stages[BETA])) == (141, 54, 50)
    assert not any(GATES[name].default for name in stages[ALPHA])
    off = [name for name in stages[BETA] if not GATES[name].default]
    assert off == [
        "AllBeta",
        "CSIMigrationPortworx",
        "ExperimentalHostUserNamespaceDefaulting",
        "MinDomainsInPodTopologySpread",
    ]


def test_gate_is_what_is_given_or_its_default() -> None:
    given = parse_controller_manager({"feature-gates": {"PodDeletionCost": False}}).feature_gates
    assert not enabled(given, "PodDeletionCost")
    assert enabled(given, "LogarithmicScaleDown")
    assert not enabled(given, "HPAScaleToZero")


def test_all_alpha_and_all_beta_set_the_gates_that_are_not_named() -> None:
    given = {"AllAlpha": "true", "AllBeta": "false", "HPAScaleToZero": "false", "JobReadyPods": "true"}
    assert enabled(given, "JobPodFailurePolicy") and not enabled(given, "HPAScaleToZero")
    assert enabled(given, "JobReadyPods") and not enabled(given, "PodDeletionCost")
    assert enabled(given, "PodSecurity")  # neither alpha nor beta
    assert "JobPodFailurePolicy" in of_api_server(given) and "HPAScaleToZero" not in of_api_server(given)


def test_gates_without_effect_are_known_as_such() -> None:
    built = gates_of("ControllerManagerOptions")
    assert "JobReadyPods" in built and "CPUManager" not in built
    given = {"JobReadyPods": "false", "CPUManager": "false", "MemoryManager": "true", "AllAlpha": "true"}
    assert idle_gates(given, built) == ["CPUManager"]


def test_gate_has_an_effect_in_a_daemon_or_a_reason_why_not() -> None:
    daemons = ("ApiServerFlags", "ControllerManagerOptions", "SchedulerOptions", "NodeAgentOptions")
    built = {gate for daemon in daemons for gate in gates_of(daemon)}
    open_gates = {name for name, gate in GATES.items() if not gate.locked and name not in SPECIAL}
    assert open_gates - built == set(REASONS)
    assert built < GATES.keys()


def test_gate_that_changes_nothing_is_noted_with_the_reason() -> None:
    gates = "KubeletTracing=true,JobReadyPods=false,GRPCContainerProbe=false"
    node = replace(plain_nodes(1)[0], flags={"feature-gates": gates}, place="n.yaml:3:1")
    first, second = idle_options(ClusterPlan(nodes=(node,)))
    assert first == "n.yaml:3:1: feature gate KubeletTracing changes nothing: " + REASONS["KubeletTracing"]
    assert second.endswith(
        "feature gate JobReadyPods changes nothing: it is a gate of the controller manager"
    )


def test_seats_take_the_option_and_its_gate() -> None:
    def seats(**given: object) -> int:
        flags = parse_api_server({k.replace("_", "-"): v for k, v in given.items()})
        return api_server_options(flags).seats

    assert seats() == 600
    assert seats(feature_gates="APIPriorityAndFairness=false") == 0
    assert seats(enable_priority_and_fairness=False) == 0
    off = parse_api_server({"feature-gates": "APIPriorityAndFairness=false"})
    assert api_server_options(off).max_requests_inflight == 400


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
