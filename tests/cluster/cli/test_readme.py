"""The README's Python and YAML, taken word for word as its reader takes them."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from sim.app.options import check_options
from sim.app.possible import expectations_of
from sim.scenario.compile import compile_plan
from sim.scenario.read.source import parse_documents

ROOT = Path(__file__).resolve().parents[3]
README = (ROOT / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
# What a reader's own operator may look like, on an HTTP client alone.
OPERATOR = """\
#!{python}
import base64, ssl, sys, time
import httpx, yaml

(given,) = [each for each in sys.argv[1:] if each != "--kubeconfig"]
config = yaml.safe_load(open(given))
cluster, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
trusted = ssl.create_default_context(cadata=base64.b64decode(cluster["certificate-authority-data"]).decode())
api = httpx.Client(base_url=cluster["server"] + "/api/v1", verify=trusted, headers={{"Authorization": "Bearer " + user["token"]}})
watch = api.stream("GET", "/nodes", params={{"watch": "1"}})
watch.__enter__()
while True:
    for node in api.get("/nodes").json()["items"]:
        if any(each["type"] == "Ready" and each["status"] != "True" for each in node["status"]["conditions"]):
            where = {{"fieldSelector": "spec.nodeName=" + node["metadata"]["name"]}}
            for pod in api.get("/namespaces/default/pods", params=where).json()["items"]:
                api.delete("/namespaces/default/pods/" + pod["metadata"]["name"], params={{"gracePeriodSeconds": "0"}})
    time.sleep(0.05)
"""
# What `go test` may be: a suite that finds its objects as it made them.
GO = """\
#!{python}
import base64, os, ssl, sys
import httpx, yaml

assert sys.argv[1:] == ["test", "./..."] and os.environ["USE_EXISTING_CLUSTER"] == "true"
config = yaml.safe_load(open(os.environ["KUBECONFIG"]))
cluster, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
trusted = ssl.create_default_context(cadata=base64.b64decode(cluster["certificate-authority-data"]).decode())
api = httpx.Client(base_url=cluster["server"], verify=trusted, headers={{"Authorization": "Bearer " + user["token"]}})
pods = "/api/v1/namespaces/default/pods"
made = api.post(pods, json={{"metadata": {{"name": "a"}}, "spec": {{"containers": [{{"name": "c", "image": "i"}}]}}}})
assert "serviceAccountName" not in made.raise_for_status().json()["spec"]
for _ in range(20):
    assert api.get(pods + "/a").json() == made.json()
assert api.get("/api/v1/nodes").json()["items"] == []
"""


def named(name: str) -> str:
    (block,) = [block for block in BLOCKS if block.startswith(f"# {name}\n")]
    return block


def test_the_scenario_is_one() -> None:
    (text,) = re.findall(r"```yaml\n(.*?)```", README, re.DOTALL)
    (document,) = parse_documents(text, "README.md")
    plan = compile_plan(document, ROOT / "scenarios")
    check_options(plan.cluster)
    assert len(plan.cluster.nodes) == 90 and len(expectations_of(plan)) == 2


@pytest.mark.slow
def test_the_library_example_runs(capsys: pytest.CaptureFixture[str]) -> None:
    (example,) = [block for block in BLOCKS if block.startswith("import trio\n")]
    space: dict[str, Any] = {}
    exec(named("test_mover.py"), space)
    exec(example, {"deployment": space["WEB"]})
    (told,) = capsys.readouterr().out.splitlines()
    assert len(re.findall(r"'web-[a-z0-9]+-[a-z0-9]+'", told)) >= 6


@pytest.mark.slow
def test_a_controller_of_ones_own_is_tested_as_shown(tmp_path: Path) -> None:
    for name in ("test_mover.py", "test_operator.py", "test_go.py"):
        (tmp_path / name).write_text(named(name))
    (tmp_path / "pyproject.toml").write_text('[tool.pytest.ini_options]\nfilterwarnings = ["error"]\n')
    programs = tmp_path / "bin"
    programs.mkdir()
    for name, text in (("my-operator", OPERATOR), ("go", GO)):
        (programs / name).write_text(text.format(python=sys.executable))
        (programs / name).chmod(0o755)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "orrery.pytest_plugin", "."],
        cwd=tmp_path,
        env={**os.environ, "PATH": f"{programs}:{os.environ['PATH']}", "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0 and "7 passed" in done.stdout, done.stdout + done.stderr
