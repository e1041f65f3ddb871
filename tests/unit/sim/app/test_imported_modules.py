"""What commands import: the rule of late imports in CONTRIBUTING.md, held by counts.

A command that exceeds its maximum has got an import at the top of a module that it rarely needs.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[4]
OWN = ("sim", "actors", "orrery")
PROGRAM = """
import json, sys
from sim.app.cli.main import main
main(sys.argv[1:])
print(json.dumps(sorted(sys.modules)))
"""
TINY = """\
apiVersion: orrery.dev/v1
kind: Scenario
metadata: {name: tiny}
spec: {duration: 1s, cluster: {nodes: [{count: 1}]}}
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("command", "most", "absent"),
    [
        (["list"], 43, ("trio", "msgspec", "rich", "numpy", "cryptography", "actors")),
        (["validate", "tiny.yaml"], 544, ("rich", "numpy", "cryptography", "quart", "actors.controllers")),
        (
            ["run", "tiny.yaml", "-q", "--no-report"],
            1047,
            ("cryptography", "quart", "hypercorn", "h11", "polars"),
        ),
    ],
)
def test_commands_import_no_more_than_they_need(
    tmp_path: Path, command: list[str], most: int, absent: tuple[str, ...]
) -> None:
    (tmp_path / "tiny.yaml").write_text(TINY)
    done = subprocess.run(
        [sys.executable, "-c", f"import sys; sys.path.insert(0, {str(ROOT)!r})\n{PROGRAM}", *command],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    modules = json.loads(done.stdout.splitlines()[-1])
    assert len([name for name in modules if name.split(".")[0] in OWN]) <= most
    assert [name for name in modules if name in absent] == []


@pytest.mark.slow
def test_an_api_server_alone_imports_no_other_component() -> None:
    program = f"import sys, json; sys.path.insert(0, {str(ROOT)!r})\nimport sim.app.daemons.api_server\n"
    done = subprocess.run(
        [sys.executable, "-c", f"{program}print(json.dumps(sorted(sys.modules)))"],
        capture_output=True,
        text=True,
        check=True,
    )
    modules = json.loads(done.stdout.splitlines()[-1])
    parts = ("actors.controllers.manager", "actors.scheduler.actor", "actors.node.agent", "actors.csi.driver")
    absent = (*parts, "sim.app.serving.serve", "prometheus_client", "quart", "httpx")
    assert [name for name in modules if name in absent] == []
    assert len([name for name in modules if name.split(".")[0] in OWN]) <= 888
