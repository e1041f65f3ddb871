"""Steps on a drawn number of the pods that a selector matches."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any

import pytest
import yaml

from sim.app.run import run_plan
from sim.errors import InputError
from sim.faults.shared import picks
from sim.kernel import read
from sim.kernel.draws.streams import Drawn
from sim.scenario.compile import load

WEB = {
    "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"},
    "spec": {
        "replicas": 6, "selector": {"matchLabels": {"app": "web"}},
        "template": {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}},
    },
}  # fmt: skip


def scenario(folder: Path, **step: Any) -> Path:
    spec = {
        "duration": "90s", "cluster": {"nodes": [{"count": 2}], "established": True}, "objects": [WEB],
        "timeline": [{"at": "20s", "name": "monkey", **step}],
    }  # fmt: skip
    file = folder / "s.yaml"
    head = {"apiVersion": "orrery.dev/v1", "kind": "Scenario", "metadata": {"name": "s"}}
    file.write_text(yaml.safe_dump({**head, "spec": spec}))
    return file


async def targets(folder: Path, seed: int, what: str, **step: Any) -> list[str]:
    """The objects of the commands of the admin."""
    trace = folder / f"{seed}.trace"
    await run_plan(load(scenario(folder, **step)), seed=seed, trace_file=trace, picture=False)
    commands = [record.values for record in read(trace) if record.kind == "command"]
    return [values["target"] for values in commands if values["what"] == what]


async def test_delete_takes_another_drawn_pod_each_time(tmp_path: Path) -> None:
    step = {"every": "10s", "times": 3, "delete": {"resource": "pods", "selector": "app=web", "pick": 1}}
    found = await targets(tmp_path, 1, "delete", **step)
    assert len(found) == len({*found}) == 3
    assert found != await targets(tmp_path, 2, "delete", **step)


async def test_evict_takes_a_share_of_the_pods(tmp_path: Path) -> None:
    found = await targets(tmp_path, 1, "evict", evict={"selector": "app=web", "pick": "50%"})
    assert len({*found}) == 3


async def selections(folder: Path, **step: Any) -> list[Any]:
    """The nodes or processes of each occurrence of a step."""
    trace = folder / "trace"
    await run_plan(load(scenario(folder, **step)), seed=1, trace_file=trace, picture=False)
    details = [record.values["detail"] for record in read(trace) if record.kind == "step"]
    return [detail.get("nodes") or detail.get("actors") or () for detail in details]


async def test_draw_among_not_yet_takes_each_node_once_and_ends(tmp_path: Path) -> None:
    nodes = {"pick": 1, "among": "not-yet"}
    found = await selections(tmp_path, every="10s", cordon={"nodes": nodes})
    assert sorted(found) == [("node-0",), ("node-1",)]


async def test_draw_among_healthy_spares_a_node_with_a_fault(tmp_path: Path) -> None:
    fail = {"nodes": {"pick": 1, "among": "healthy"}, "how": "network-cut"}
    first, second, third = await selections(tmp_path, every="10s", times=3, fail=fail)
    assert {*first, *second} == {"node-0", "node-1"} and third == ()


async def test_share_of_processes_is_drawn(tmp_path: Path) -> None:
    (found,) = await selections(tmp_path, stall={"actor": "nodes", "pick": "50%"})
    assert len(found) == 1


async def test_workload_among_not_yet_reaches_each_pod_once(tmp_path: Path) -> None:
    """Pods of all nodes: `pick` of a workload draws no nodes."""
    chosen: list[str] = []

    class Counted(Drawn):
        def of(self, names: Sequence[str], source: Random) -> list[str]:
            chosen.extend(found := super().of(names, source))
            return found

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(picks, "Drawn", Counted)
        workload = {"selector": "app=web", "pick": 3, "among": "not-yet", "ready": False}
        plan = load(scenario(tmp_path, every="10s", times=3, workload=workload))
        await run_plan(plan, seed=1, picture=False)
    assert len(chosen) == len({*chosen}) == 6


async def test_delete_among_healthy_takes_ready_pods(tmp_path: Path) -> None:
    """The five pods of a second draw are those that were ready before, not their successors."""
    delete = {"resource": "pods", "selector": "app=web", "pick": "80%", "among": "healthy"}
    found = await targets(tmp_path, 1, "delete", every="200ms", times=2, delete=delete)
    assert len(found) == len({*found}) == 5


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"selector": "app=web", "pick": "half"}, "'half' is no number and no share"),
        ({"selector": "app=web", "pick": "60%..50%"}, "is no number and no share"),
        ({"selector": "app=web", "pick": "101%"}, "is no number and no share"),
        ({"name": "web-1", "pick": 1}, "leaves nothing to draw"),
        ({"selector": "app=web", "among": "healthy"}, "nothing is drawn"),
    ],
)
def test_wrong_draw_is_an_error(given: dict[str, Any], message: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=message):
        load(scenario(tmp_path, evict=given))
