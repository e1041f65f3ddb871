"""Small scenarios written in tests: three nodes, six pods of a Deployment, a timeline, expectations
that all hold.
"""

from pathlib import Path
from typing import Any

import yaml

from sim.app.run import Result, run_plan
from sim.scenario.compile import compile_plan
from sim.scenario.read.source import parse_documents

WEB: dict[str, Any] = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "web"},
    "spec": {
        "replicas": 6,
        "selector": {"matchLabels": {"app": "web"}},
        "template": {
            "metadata": {"labels": {"app": "web"}},
            "spec": {"containers": [{"name": "web", "image": "r/web:1"}]},
        },
    },
}


async def run(tmp_path: Path, timeline: list[Any], expect: list[Any], **spec: Any) -> Result:
    cluster = {"nodes": [{"count": 3, "zones": ["a", "b", "c"]}], **spec.pop("cluster", {})}
    body = {
        "seed": 3,
        "duration": "8m",
        "objects": [WEB],
        "cluster": cluster,
        "timeline": timeline,
        "expect": expect,
        **spec,
    }
    whole = {"apiVersion": "orrery.dev/v1", "kind": "Scenario", "metadata": {"name": "t"}, "spec": body}
    (document,) = parse_documents(yaml.safe_dump(whole), "t.yaml")
    result = await run_plan(compile_plan(document, tmp_path), trace_file=tmp_path / "trace")
    failed = [f"{v.name}: {v.measured}, wanted {v.wanted}" for v in result.verdicts if not v.ok]
    assert not failed, failed
    return result


RUNNING = {"name": "it runs first", "eventually": "at least 6 pods are Running", "by": "1m"}


def step(action: str, body: Any, **more: Any) -> dict[str, Any]:
    return {"at": "2m", "name": "it", action: body, **more}


def within(what: Any, low: str, high: str) -> dict[str, Any]:
    return {"name": str(what), "when": what, "within": [low, high], "after": "it"}
