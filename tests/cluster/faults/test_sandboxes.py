"""Pods that get no sandbox, by a fault or because a range of addresses is used up."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from sim.errors import InputError
from sim.scenario.compile import compile_plan
from sim.scenario.read.source import parse_documents
from tests.cluster.scenario import RUNNING, run, step

MORE = {"at": "2m10s", "name": "more", "scale": {"resource": "deployments", "name": "web", "replicas": 26}}
READY = {"name": "nodes are Ready", "always": "all nodes have Ready=True", "after": "1m"}
RANGES = {"allocate-node-cidrs": True, "cluster-cidr": "10.0.0.0/27", "node-cidr-mask-size": 29}


def with_ranges(**flags: Any) -> dict[str, Any]:
    return {"controllerManager": {"flags": {**RANGES, **flags}}}


async def test_sandboxes_fail_with_a_message_until_the_end_of_the_step(tmp_path: Path) -> None:
    fault = step("sandboxes", {"nodes": {}, "message": "no space left"}, **{"for": "60s"})
    expect = [
        {
            "name": "it is said",
            "when": {"event": "FailedCreatePodSandBox"},
            "within": ["0s", "3s"],
            "after": "more",
        },
        {
            "name": "those that run stay",
            "always": "exactly 6 pods are Running",
            "after": "2m1s",
            "until": "3m",
        },
        {
            "name": "they run then",
            "when": "at least 26 pods are Running",
            "within": ["0s", "20s"],
            "after": "end of it",
        },
    ]
    await run(tmp_path, [fault, MORE], [RUNNING, READY, *expect])


async def test_share_of_pods_gets_no_sandbox(tmp_path: Path) -> None:
    expect = [
        {"name": "some run", "always": "at least 12 pods are Running", "after": "2m30s"},
        {"name": "some wait", "always": "at least 5 pods are Pending", "after": "2m30s"},
    ]
    await run(tmp_path, [step("sandboxes", {"nodes": {}, "share": 50}), MORE], [RUNNING, READY, *expect])


async def test_pods_without_the_labels_get_their_sandbox(tmp_path: Path) -> None:
    fault = step("sandboxes", {"nodes": {}, "selector": "app=other"})
    runs = {
        "name": "all run",
        "when": "at least 26 pods are Running",
        "within": ["0s", "10s"],
        "after": "more",
    }
    await run(tmp_path, [fault, MORE], [RUNNING, READY, runs])


async def test_range_of_a_node_holds_so_many_pods(tmp_path: Path) -> None:
    expect = [
        {"name": "five a node", "always": "exactly 15 pods are Running", "after": "2m30s", "until": "4m"},
        {"name": "of an ended pod another gets the address", "when": {"deleted": "pods"}, "within": ["0s", "9s"],
         "after": "evicted"},
        {"name": "then it is full again", "always": "exactly 15 pods are Running", "after": "5m"},
    ]  # fmt: skip
    evicted = {"at": "4m", "name": "evicted", "evict": {"selector": "app=web", "pick": 1, "among": "healthy"}}
    await run(tmp_path, [MORE, evicted], [RUNNING, READY, *expect], cluster=with_ranges())


async def test_node_without_a_range_is_ready_and_runs_no_pod(tmp_path: Path) -> None:
    ranges = with_ranges(**{"cluster-cidr": "10.0.0.0/28"})
    expect = [
        {"name": "it is said", "eventually": {"event": "CIDRNotAvailable"}, "by": "1m"},
        {"name": "no sandbox", "eventually": {"event": "FailedCreatePodSandBox"}, "by": "1m"},
        {"name": "two of three nodes", "always": "at most 4 pods are Running", "after": "1m"},
    ]
    await run(tmp_path, [], [READY, *expect], cluster=ranges)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{}", "the field 'nodes' is missing"),
        ("{nodes: {}, share: 0}", "expected a whole number >= 1"),
        ("{nodes: {}, share: 101}", "expected a whole number <= 100"),
        ("{nodes: {}, message: ''}", "expected text of length >= 1"),
        ("{nodes: {}, selector: app}", "'app' is not made of label=value pairs"),
    ],
)
def test_wrong_sandboxes_are_an_error(text: str, message: str, tmp_path: Path) -> None:
    head = "apiVersion: orrery.dev/v1\nkind: Scenario\nmetadata: {name: t}\nspec:\n  duration: 8m\n"
    body = f"  cluster: {{nodes: [{{count: 1}}]}}\n  timeline:\n    - {{at: 2m, sandboxes: {text}}}\n"
    (document,) = parse_documents(head + body, "t.yaml")
    with pytest.raises(InputError, match=message):
        compile_plan(document, tmp_path)
