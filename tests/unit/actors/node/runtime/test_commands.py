"""Well-known commands end by themselves; others run on."""

from __future__ import annotations

from typing import Any

import pytest

from actors.node.runtime.commands import commanded
from actors.node.runtime.profile import RUN_TO_END, ContainerBehaviour, Rule, RuntimeProfile
from sim.units import SECOND


@pytest.mark.parametrize(
    ("command", "exit_s", "code"),
    [
        (["true"], 0, 0),
        (["/bin/false"], 0, 1),
        (["sleep", "5"], 5, 0),
        (["sleep", "2m"], 120, 0),
        (["sh", "-c", "exit 3"], 0, 3),
        (["/bin/sh", "-c", "sleep 7"], 7, 0),
        (["sh", "-c", "sleep 15; exit 3"], 15, 3),
        (["/bin/sh", "-c", "date; echo Hello from the cluster"], 0, 0),
        (["sh", "-c", "touch /run/healthy; sleep 30; rm -f /run/healthy; sleep 600"], 630, 0),
        (["sh", "-c", "sleep 2 && sleep 3 && false"], 5, 1),
        (["sh", "-c", "false && sleep 9; sleep 1"], 1, 0),
        (["sh", "-c", "false || exit 4"], 0, 4),
        (["sh", "-c", "true || nginx; sleep 6;"], 6, 0),
        (["sh", "-c", "exit 2; nginx"], 0, 2),
        (["sh", "-c", "false; exit"], 0, 1),
        (["sh", "-c", "sleep 1 &&\n  sleep \\\n  2 && \\\nsleep 3"], 6, 0),
        (["wget", "web:80"], 0, 0),
        (["sh", "-c", "sleep 2; curl -f http://web || exit 1"], 2, 0),
        (["sh", "-c", "echo 'at work;'\nsleep 5\n\nexit 1\n"], 5, 1),
    ],
)
def test_well_known_command_ends_with_its_duration_and_code(
    command: list[str], exit_s: int, code: int
) -> None:
    found = commanded({"name": "c", "command": command})
    assert found is not None
    assert (found["exit_after_us"] // SECOND, found.get("exit_code", 0)) == (exit_s, code)


def test_echo_output_is_in_the_log() -> None:
    found = commanded({"command": ["echo"], "args": ["a", "b"]})
    assert found is not None and found["log"] == "a b"
    assert commanded({"command": ["sleep", "infinity"]}) == {}
    script = "echo one; echo two && sleep infinity; exit 1"
    assert commanded({"command": ["sh", "-c", script]}) == {"log": "one\ntwo"}


def test_sleep_beyond_simulated_time_never_ends_and_overlong_number_is_unknown() -> None:
    assert commanded({"command": ["sleep", "999999999999d"]}) == {}
    assert commanded({"command": ["sleep", "9" * 5000]}) is None
    assert commanded({"command": ["exit", "9" * 5000]}) is None


@pytest.mark.parametrize(
    "container",
    [
        {"args": ["true"]},
        {"command": ["nginx"]},
        {"command": ["sleep", "x"]},
        {"command": ["sh", "-c", "true; nginx"]},
        {"command": ["sh", "-c", "sleep 5 &"]},
        {"command": ["sh", "-c", "sleep 5 | true"]},
        {"command": ["sh", "-c", "sleep $TIME; exit 1"]},
        {"command": ["sh", "-c", "while true; do sleep 1; done"]},
        {"command": ["sh", "-c", "true && && true"]},
        {"command": ["sh", "-c", "sleep 1 ||"]},
        {"command": ["sh", "-c", "sleep 5 # and then"]},
        {"command": ["sh", "-c", "if true; then sleep 5; fi"]},
        {"command": ["sh", "-c", "echo 'a"]},
        {"command": ["sh", "-c", ""]},
        {"command": ["exit", "-1"]},
    ],
)
def test_unknown_program_implies_no_behaviour(container: dict[str, object]) -> None:
    assert commanded(container) is None


def test_rule_of_scenario_precedes_well_known_command() -> None:
    pod = {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "command": ["true"]}]}}
    assert RuntimeProfile().behaviour(pod, "c", init=False) == RUN_TO_END
    told = ContainerBehaviour(exit_code=4)
    assert RuntimeProfile(rules=(Rule(told),)).behaviour(pod, "c", init=False) == told


@pytest.mark.parametrize(
    ("container", "ends"),
    [
        ({"image": "mine"}, True),
        ({"image": "mine", "command": ["/migrate", "--now"]}, True),
        ({"image": "nginx"}, False),
        ({"image": "mine", "command": ["tail", "-f", "/dev/null"]}, False),
        ({"image": "mine", "command": ["sleep", "infinity"]}, False),
        ({"image": "mine", "command": ["python", "train.py"]}, True),
    ],
)
def test_unknown_program_of_a_job_ends_well_after_a_while(container: dict[str, Any], ends: bool) -> None:
    spec = {"containers": [{"name": "c", **container}]}
    pod = {"metadata": {"name": "p", "ownerReferences": [{"kind": "Job", "name": "j"}]}, "spec": spec}
    found = RuntimeProfile().behaviour(pod, "c", init=False)
    assert (found.exit_after_us, found.exit_code) == (5_000_000 if ends else None, 0)
    assert (
        RuntimeProfile().behaviour({**pod, "metadata": {"name": "p"}}, "c", init=False).exit_after_us is None
    )
