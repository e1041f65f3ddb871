"""Steps on a drawn number of the pods that a selector matches."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from sim.app.run import run_plan
from sim.errors import InputError
from sim.kernel import read
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


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"selector": "app=web", "pick": "half"}, "'half' is no number and no share"),
        ({"selector": "app=web", "pick": "60%..50%"}, "is no number and no share"),
        ({"selector": "app=web", "pick": "101%"}, "is no number and no share"),
        ({"name": "web-1", "pick": 1}, "leaves nothing to draw"),
    ],
)
def test_wrong_draw_is_an_error(given: dict[str, Any], message: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=message):
        load(scenario(tmp_path, evict=given))
