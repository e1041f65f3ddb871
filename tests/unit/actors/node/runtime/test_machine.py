"""Containers and pod addresses of a machine."""

from actors.node.runtime.machine import Machine
from actors.node.runtime.profile import ContainerBehaviour, NodeSpec
from tests.unit.actors.node.pods.test_pod_status import ENDED


def test_instances_stay_until_dropped_and_are_counted_from_zero_afterwards() -> None:
    machine = Machine(NodeSpec("n"))
    sandbox = machine.run_sandbox("u", "default", "p", "10.0.0.0/24", "")
    for name in ("a", "b", "a", "a", "b"):
        machine.start(sandbox, name, "i", ENDED, 0)
    kept = [("a", 0), ("a", 1), ("a", 2), ("b", 0), ("b", 1)]
    assert [(c.name, c.attempt) for c in sandbox.containers] == kept
    newest = sandbox.newest("a")
    assert newest is not None and newest.attempt == 2 and sandbox.newest("c") is None
    first = sandbox.containers[0].ident
    machine.drop("u", sandbox.instances("a"))
    again = machine.start(sandbox, "a", "i", ENDED, 0)
    assert again.attempt == 0 and again.ident != first


def test_pod_addresses_are_assigned_in_turn_and_reused() -> None:
    machine = Machine(NodeSpec("n"))
    first = [machine.run_sandbox(uid, "ns", uid, "10.0.0.0/29", "").ip for uid in "abcde"]
    assert first == ["10.0.0.2", "10.0.0.3", "10.0.0.4", "10.0.0.5", "10.0.0.6"]
    machine.remove("b")
    assert machine.run_sandbox("f", "ns", "f", "10.0.0.0/29", "").ip == "10.0.0.3"


def test_container_stops_by_itself_or_at_the_end_of_its_grace() -> None:
    machine = Machine(NodeSpec("n"))
    sandbox = machine.run_sandbox("u", "ns", "p", "10.0.0.0/24", "")
    gentle = machine.start(sandbox, "a", "i", ContainerBehaviour(stop_us=50), 0)
    stubborn = machine.start(sandbox, "b", "i", ContainerBehaviour(stop_us=None), 0)
    assert machine.stop(gentle, 1000, 100) == 150 and gentle.exit_code == 0
    assert machine.stop(stubborn, 1000, 100) == 1100 and stubborn.exit_code == 137
    assert stubborn.running(1099) and not stubborn.running(1100)
