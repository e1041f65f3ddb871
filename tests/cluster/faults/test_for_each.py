"""A step that goes over nodes or names, and upgrades with the skew of versions that is supported."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from sim.app.checked import checked_plan
from sim.app.run import Result
from sim.errors import InputError
from sim.kernel import read
from sim.scenario.actions.upgrade import skew
from sim.units import SECOND
from tests.cluster.scenario import RUNNING, WEB, run

READY = "nodes named {name} have Ready=True"


async def turns(
    folder: Path, expect: list[Any], objects: tuple[Any, ...] = (), **step: Any
) -> tuple[Result, list[Any]]:
    """The run of a step that begins at 2m, and the name and time of its parts, in microseconds."""
    timeline = [{"at": "2m", "name": "turn", "forEach": step}]
    result = await run(folder, timeline, [RUNNING, *expect], objects=[WEB, *objects])
    records = [each for each in read(folder / "trace") if each.kind in ("step", "step-end")]
    return result, [(each.values["name"], each.at_us - 120 * SECOND) for each in records]


async def test_for_each_node_begins_a_turn_when_the_last_is_over(tmp_path: Path) -> None:
    parts = ["drain", {"reboot": {"downtime": "50s"}}, "uncordon"]
    expect = [
        {"name": "one at a time", "never": "at least 2 nodes are cordoned"},
        {"name": "all are open", "always": "no nodes are cordoned", "after": "end of turn"},
    ]
    _, steps = await turns(tmp_path, expect, nodes={}, do=parts, until=READY)
    begun = {name: at for name, at in steps[::-1] if name.count("/") == 2}
    assert sorted(begun) == [
        f"turn/{n}/{m}" for n in (1, 2, 3) for m in ("1-drain", "2-reboot", "3-uncordon")
    ]
    assert all(begun[f"turn/{n}/3-uncordon"] - begun[f"turn/{n}/2-reboot"] == 50 * SECOND for n in (1, 2, 3))
    assert begun["turn/2/1-drain"] >= begun["turn/1/3-uncordon"]
    assert steps[-1][0] == "turn" and steps[-1][1] >= begun["turn/3/3-uncordon"]


async def test_for_each_begins_as_many_turns_as_may_be_under_way(tmp_path: Path) -> None:
    _, steps = await turns(tmp_path, [], nodes={}, atOnce=2, do=[{"reboot": {"downtime": "30s"}}])
    assert [at for name, at in steps if name.endswith("-reboot")] == [
        at * SECOND for at in (0, 0, 30, 30, 30, 60)
    ]


async def test_for_each_stops_at_a_turn_that_takes_too_long_and_says_so(tmp_path: Path) -> None:
    wait = {"wait": "nodes named {name} have Ready=Unknown"}
    result, steps = await turns(tmp_path, [], nodes={}, timeout="20s", do=["cordon", wait])
    assert [name for name, _ in steps] == ["turn", "turn/1/1-cordon", "turn"]
    (refused,) = result.refused
    assert "turn node-a-0 at 2m20s: not done after 20s: nodes named node-a-0 have Ready=Unknown" in refused
    assert "the step stops with 2 left" in refused


async def test_for_each_continues_after_a_drain_that_times_out(tmp_path: Path) -> None:
    budget = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "web"},
        "spec": {"minAvailable": 6, "selector": {"matchLabels": {"app": "web"}}},
    }
    drain = {"drain": {"timeout": "15s"}}
    result, steps = await turns(
        tmp_path, [], (budget,), nodes={}, otherwise="continue", do=[drain, "uncordon"]
    )
    assert [name for name, _ in steps if "/" in name] == [f"turn/{number}/1-drain" for number in (1, 2, 3)]
    assert sum("drain: timed out" in text for text in result.refused) == 3


async def test_for_each_name_fills_actions_and_conditions(tmp_path: Path) -> None:
    scale = {"scale": {"resource": "deployments", "name": "{name}", "replicas": 8}}
    wait = "deployments named {name} have status.readyReplicas=8"
    expect = [
        {"name": "scaled", "when": "at least 8 pods are Running", "within": ["0s", "10s"], "after": "turn"}
    ]
    _, steps = await turns(tmp_path, expect, names=["web"], do=[scale], until=wait)
    assert [name for name, _ in steps] == ["turn", "turn/1/1-scale", "turn"] and steps[-1][1] > 0


async def test_upgrade_restarts_agents_and_refuses_unsupported_versions(tmp_path: Path) -> None:
    timeline = [
        {"at": "1m", "upgrade": {"nodes": {"name": "node-a-0"}, "version": "v1.26.0"}},
        {"at": "2m", "name": "old", "upgrade": {"nodes": {"zone": "b"}, "version": "1.23.17"}},
        {"at": "3m", "upgrade": {"apiServer": "apiserver-0", "version": "v1.26.0"}},
        {"at": "4m", "upgrade": {"nodes": {"zone": "b"}, "version": "v1.24.17"}},
        {"at": "5m", "upgrade": {"apiServer": "apiserver-0", "version": "v1.26.0"}},
    ]
    version = "status.nodeInfo.kubeletVersion"
    expect = [
        {
            "name": "older",
            "when": f"nodes in zone b have {version}=v1.23.17",
            "within": ["0s", "15s"],
            "after": "old",
        },
        {"name": "not newer", "never": f"any nodes have {version}=v1.26.0"},
        {"name": "pods stay", "never": {"deleted": "pods"}},
    ]
    result = await run(tmp_path, timeline, [RUNNING, *expect])
    assert [text.partition(": ")[2] for text in result.refused] == [
        "v1.26.0 of node-a-0 is newer than v1.25.16 of apiserver-0",
        "v1.23.17 of node-b-0 is more than 2 minor versions behind v1.26.0 of apiserver-0",
    ]


def test_api_servers_may_be_one_minor_version_apart() -> None:
    agents = {"node": "v1.25.1"}
    assert skew(agents, {"a": "v1.26.0", "b": "v1.25.9"}, "a") == ""
    wanted = "v1.27.0 is more than 1 minor version from v1.25.9 of b"
    assert skew(agents, {"a": "v1.27.0", "b": "v1.25.9"}, "a") == wanted


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{nodes: {}, names: [a], do: [drain]}", "goes over either nodes or names"),
        ("{do: [drain]}", "goes over either nodes or names"),
        ("{names: [], do: [drain]}", "the list is empty"),
        ("{nodes: {}, do: [drian]}", "there is no action 'drian' (did you mean 'drain'?)"),
        ("{nodes: {}, do: [{forEach: {}}]}", "there is no action 'forEach'"),
        ("{nodes: {}, do: [{drain: {nodes: {}}}]}", "'drain' acts on the node of the turn"),
        ("{nodes: {}, do: [{drain: {timout: 3m}}]}", "drain: unknown field 'timout'"),
        ("{nodes: {}, do: [{drain: {timeout: soon}}]}", "'soon' is not a duration"),
        ("{nodes: {}, do: [{drain: {}, uncordon: {}}]}", "an entry has exactly one action"),
        ("{nodes: {}, do: [{drain: {}, for: 3m}]}", "'for' has no effect on drain"),
        ("{nodes: {}, do: [{mark: {}}]}", "'mark' does the same for each"),
        ("{nodes: {}, do: [{wait: 3}]}", "'wait' is a condition"),
        ("{nodes: {}, do: [drain], until: nods named {name} are here}", "there is no resource 'nods'"),
        ("{nodes: {}, do: [{upgrade: {version: new}}]}", "'new' is no version"),
    ],
)
def test_wrong_for_each_is_an_error(text: str, message: str, tmp_path: Path) -> None:
    head = "apiVersion: orrery.dev/v1\nkind: Scenario\nmetadata: {name: t}\nspec:\n  duration: 8m\n"
    file = tmp_path / "s.yaml"
    quoted = text.replace("nods named {name} are here", '"nods named {name} are here"')
    file.write_text(
        f"{head}  cluster: {{nodes: [{{count: 2}}]}}\n  timeline:\n    - {{at: 1m, forEach: {quoted}}}\n"
    )
    with pytest.raises(InputError) as caught:
        checked_plan(file)
    assert message in str(caught.value)
