"""`orrery whatif`: from a kubectl dump to what is lost, for how long, and why."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from sim.app.cli.main import main

DUMP = """
apiVersion: v1
kind: List
items:
NODES
- {apiVersion: v1, kind: Namespace, metadata: {name: shop}}
- apiVersion: apps/v1
  kind: Deployment
  metadata: {name: web, namespace: shop}
  spec:
    replicas: 3
    selector: {matchLabels: {app: web}}
    template: {metadata: {labels: {app: web}}, spec: {containers: [{name: web, image: "r/web:1"}]}}
- apiVersion: apps/v1
  kind: Deployment
  metadata: {name: cart, namespace: shop}
  spec:
    selector: {matchLabels: {app: cart}}
    template: {metadata: {labels: {app: cart}}, spec: {containers: [{name: cart, image: "r/cart:1"}]}}
- apiVersion: v1
  kind: Pod
  metadata:
    name: cart-6b9f7c5d4b-abcde
    namespace: shop
    labels: {app: cart}
    ownerReferences: [{apiVersion: apps/v1, kind: ReplicaSet, name: cart-6b9f7c5d4b, uid: r, controller: true}]
  spec: {nodeName: ip-10-0-1-1, containers: [{name: cart, image: "r/cart:1"}]}
  status: {phase: Running}
- apiVersion: v1
  kind: Pod
  metadata: {name: tool, namespace: shop}
  spec: {nodeName: ip-10-0-1-1, containers: [{name: tool, image: "r/tool:1"}]}
  status: {phase: Running}
- apiVersion: policy/v1
  kind: PodDisruptionBudget
  metadata: {name: web, namespace: shop}
  spec: {minAvailable: 60%, selector: {matchLabels: {app: web}}}
- apiVersion: admissionregistration.k8s.io/v1
  kind: ValidatingWebhookConfiguration
  metadata: {name: policy}
  webhooks:
  - name: policy.example.com
    clientConfig: {service: {name: policy, namespace: shop}}
    rules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [pods]}]
    failurePolicy: Fail
    sideEffects: None
    admissionReviewVersions: [v1]
- apiVersion: v1
  kind: Service
  metadata: {name: policy, namespace: shop}
  spec: {selector: {app: web}, ports: [{port: 443}]}
"""
NODE = """
- apiVersion: v1
  kind: Node
  metadata: {name: ip-10-0-INDEX-1, labels: {topology.kubernetes.io/zone: eu-west-1ZONE}}
  status: {capacity: {cpu: "4", memory: 16Gi, pods: "58"}}
"""
SERVES, WHOLE = "shop/web serves, with the 2 pods of its budget", "shop/web has all 3 pods again"
CART, TOOL = "shop/cart serves, with a pod", "pod shop/tool stays"
NEW = "a new Deployment in shop gets its pod"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    nodes = "".join(
        NODE.replace("INDEX", str(index)).replace("ZONE", "abc"[index - 1]) for index in (1, 2, 3)
    )
    (tmp_path / "cluster.yaml").write_text(DUMP.replace("NODES", nodes))
    return tmp_path


def judged(capsys: pytest.CaptureFixture[str], *arguments: str, status: int) -> dict[str, Any]:
    """The verdicts of a question by their names."""
    assert main(["whatif", "cluster.yaml", *arguments, "--json"]) == status
    return {each["name"]: each for each in json.loads(capsys.readouterr().out)["expectations"]}


@pytest.mark.slow
def test_loss_of_a_zone_is_measured_for_each_workload(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = judged(capsys, "--lose", "zone=eu-west-1a", status=1)
    assert {name: each["ok"] for name, each in found.items()} == {
        SERVES: True, WHOLE: True, CART: False, TOOL: False,
    }  # fmt: skip
    # The zone is found dead after 30 to 50 s, and pods are evicted 5 min after its taint.
    assert all(330 <= found[name]["values"][0] <= 360 for name in (WHOLE, CART))
    assert found[TOOL]["objects"] == ["pods/shop/tool"]


@pytest.mark.slow
def test_loss_that_no_workload_feels_ends_with_status_0(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = judged(capsys, "--lose", "node=ip-10-0-3-1", "--for", "10m", status=0)
    assert found[WHOLE]["values"][0] > 300 and found[SERVES]["values"] == [0.0]


@pytest.mark.slow
def test_allowed_time_is_the_bound_of_lost_service(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for allowed, ok in (("6m", True), ("5m", False)):
        found = judged(capsys, "--lose", "zone=eu-west-1a", "--allow", allowed, status=1)
        assert found[CART]["ok"] is ok


@pytest.mark.slow
@pytest.mark.parametrize("part", ["controller-manager", "scheduler", "webhook", "webhook=policy"])
def test_new_pods_wait_for_the_end_of_a_loss_of_the_control_plane(
    folder: Path, capsys: pytest.CaptureFixture[str], part: str
) -> None:
    found = judged(capsys, "--lose", part, "--for", "5m", status=1)
    assert [name for name, each in found.items() if not each["ok"]] == [NEW]
    assert found[NEW]["since_after_s"] > 299


@pytest.mark.slow
@pytest.mark.parametrize("part", ["apiserver", "storage"])
def test_change_is_refused_while_the_api_is_lost(
    folder: Path, capsys: pytest.CaptureFixture[str], part: str
) -> None:
    assert main(["whatif", "cluster.yaml", "--lose", part, "--json"]) == 1
    refused = json.loads(capsys.readouterr().out)["refused"]
    assert any(line.startswith("apply deployments/orrery-whatif") for line in refused)


@pytest.mark.slow
def test_answer_shows_scenario_causes_and_report(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["whatif", "cluster.yaml", "--lose", "node=ip-10-0-1-1", "--save", "mine.yaml"]) == 1
    shown = capsys.readouterr().out
    assert "# what if node ip-10-0-1-1 is lost for 20m" in shown and "  fail:\n" in shown
    assert "FAILED pod shop/tool stays" in shown and "its time on a tainted node is over" in shown
    assert "report: out/cluster-without-node-ip-10-0-1-1.html" in shown
    first = next(line for line in shown.splitlines() if line.startswith("trace sha256"))
    assert main(["run", "mine.yaml", "--no-report"]) == 1
    assert first in capsys.readouterr().out


@pytest.mark.slow
def test_settings_are_part_of_the_saved_scenario(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    settings = ["--set", "cluster.controllerManager.replicas=2", "--set", "timeline.loss.for=5m"]
    asked = ["--lose", "scheduler", "--for", "1m", "--save", "mine.yaml", "--no-report"]
    assert main(["whatif", "cluster.yaml", *asked, *settings]) == 1
    text = (folder / "mine.yaml").read_text()
    assert "controllerManager: {replicas: 2}" in text and "for: 5m\n" in text
    assert main(["whatif", "cluster.yaml", *asked]) == 2
    assert "mine.yaml: exists already and is kept" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (
            ["--lose", "zone=eu-west-1d"],
            "--lose zone=eu-west-1d: the cluster has no such zone (there are eu-west-1a, ",
        ),
        (["--lose", "node=db-7"], "no such node (there are ip-10-0-1-1, ip-10-0-2-1"),
        (["--lose", "zone"], "--lose zone: has no name (write zone=NAME)"),
        (["--lose", "scheduler=a"], "--lose scheduler=a: takes no name (write scheduler)"),
        (["--lose", "schedule"], "names nothing that can be lost (did you mean 'scheduler'?)"),
        (["--lose", "webhook=polcy"], "no such webhook (there are policy, policy.example.com)"),
        (["--lose", "scheduler", "--for", "soon"], "--for soon: is no duration (write it as 90s or 20m)"),
        (["--lose", "scheduler", "--for", "0s"], "--for 0s: is out of bounds"),
        (
            ["--lose", "zone=eu-west-1a", "--how", "hangs"],
            "is no way in which nodes fail (did you mean 'hang'?)",
        ),
        (["--lose", "scheduler", "--set", "cluster.scheduler.replicsa=2"], "replicsa"),
    ],
)
def test_wrong_question_is_refused_in_one_line(
    folder: Path, capsys: pytest.CaptureFixture[str], arguments: Sequence[str], says: str
) -> None:
    assert main(["whatif", "cluster.yaml", *arguments, "--no-report"]) == 2
    shown = capsys.readouterr()
    assert says in shown.err and shown.out == ""


def test_dump_without_webhooks_names_what_to_get(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = (folder / "cluster.yaml").read_text().replace("ValidatingWebhookConfiguration", "ConfigMap")
    (folder / "cluster.yaml").write_text(text)
    assert main(["whatif", "cluster.yaml", "--lose", "webhook"]) == 2
    assert "add validatingwebhookconfigurations,mutatingwebhookconfigurations" in capsys.readouterr().err
