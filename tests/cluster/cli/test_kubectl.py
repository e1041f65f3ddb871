"""kubectl itself against `orrery serve`: the first commands of a user, and the failure of a zone.

The server runs in a process of its own, as users run it.  Where there is no kubectl this is
skipped, loudly.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from time import monotonic
from typing import Any

import pytest

KUBECTL = shutil.which("kubectl")
WAIT_S = 30.0  # real seconds: far above what anything here takes
SCENARIO = """
apiVersion: orrery.dev/v1
kind: Scenario
metadata: {name: small-outage, description: One zone of three goes dark.}
spec:
  seed: 7
  cluster:
    nodes: [{count: 6, zones: [a, b, c], capacity: {cpu: 8, memory: 32Gi, pods: 110}}]
  objects: [web.yaml]
  timeline:
    - {when: {created: configmaps, where: {name: go}}, name: outage, fail: {nodes: {zone: a}, how: power-loss}}
"""
WEB = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 6
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      tolerations:
        - {key: node.kubernetes.io/unreachable, operator: Exists, effect: NoExecute, tolerationSeconds: 30}
      containers: [{name: c, image: web}]
"""

READER = """
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: reader}
rules:
  - {apiGroups: [""], resources: [pods], verbs: [get, list]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: reader, namespace: readers}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: reader}
subjects:
  - {kind: User, name: alice, apiGroup: rbac.authorization.k8s.io}
"""


class Kubectl:
    """Runs kubectl against one server."""

    def __init__(self, config: Path) -> None:
        self.folder = config.parent
        self.environment = {**os.environ, "KUBECONFIG": str(config), "HOME": str(config.parent)}

    def __call__(self, *arguments: str, text: str = "") -> str:
        return self.says(0, *arguments, text=text)

    def says(self, code: int, *arguments: str, text: str = "") -> str:
        """What it prints, ending with that code."""
        done = self.runs(*arguments, text=text)
        assert done.returncode == code, f"kubectl {' '.join(arguments)}: {done.stderr}"
        return done.stdout + done.stderr if code else done.stdout

    def runs(self, *arguments: str, text: str = "") -> subprocess.CompletedProcess[str]:
        """Run it, whatever its code."""
        assert KUBECTL is not None
        return subprocess.run(
            [KUBECTL, *arguments],
            input=text,
            capture_output=True,
            text=True,
            timeout=WAIT_S,
            env=self.environment,
            check=False,
        )

    def json(self, *arguments: str) -> Any:
        return json.loads(self(*arguments, "-o", "json"))

    def until(self, true: Callable[[], bool]) -> None:
        """Ask again (each call takes its tenth of a second) until it is so."""
        end = monotonic() + WAIT_S
        while not true():
            assert monotonic() < end, "it did not come about"


def serve(folder: Path, *arguments: str) -> tuple[subprocess.Popen[str], Kubectl]:
    config = folder / "config"
    command = [sys.executable, "-m", "sim.app.cli.main", "serve", *arguments]
    options = ["--port", "0", "--naming", "kubernetes"]
    options += [] if "--client-config" in arguments else ["--client-config", str(config)]
    server = subprocess.Popen([*command, *options], stdout=subprocess.PIPE, text=True)
    assert server.stdout is not None
    assert server.stdout.readline().startswith("orrery: serving https://127.0.0.1:")
    return server, Kubectl(config)


@pytest.fixture(scope="module")
def kubectl(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kubectl]:
    """kubectl against three nodes that live sixty times as fast."""
    if KUBECTL is None:
        warnings.warn("there is no kubectl on this machine: nothing of it is tested", stacklevel=1)
        pytest.skip("no kubectl")
    server, found = serve(tmp_path_factory.mktemp("kubectl"), "--nodes", "3", "--pace", "60")
    try:
        found.until(lambda: found("get", "nodes").count(" Ready ") == 3)
        yield found
    finally:
        server.terminate()
        assert server.wait(WAIT_S) == 0
        assert server.stdout is not None
        server.stdout.close()


pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("default:there is no kubectl"),
]


def test_version_and_resources_are_shown(kubectl: Kubectl) -> None:
    assert kubectl.json("version")["serverVersion"]["minor"] == "25"
    assert "deployments" in kubectl("api-resources", "-o", "name")
    assert "replicas" in kubectl("explain", "deployment.spec")


def test_a_deployment_is_created_scaled_watched_and_deleted(kubectl: Kubectl) -> None:
    kubectl("create", "deployment", "one", "--image=nginx", "--replicas=2")
    assert "successfully rolled out" in kubectl("rollout", "status", "deployment/one", "--timeout=20s")
    kubectl("scale", "deployment/one", "--replicas=4")
    kubectl("rollout", "status", "deployment/one", "--timeout=20s")
    pods = kubectl("get", "pods", "-l", "app=one", "-o", "wide")
    assert pods.count("Running") == 4
    assert "node-" in pods
    names = kubectl("get", "pods", "-l", "app=one", "-o", "jsonpath={.items[*].metadata.name}").split()
    assert len(names) == 4
    assert "start worker processes" in kubectl("logs", names[0])
    described = kubectl("describe", "pod", names[0])
    assert "Successfully assigned" in described
    assert "ScalingReplicaSet" in kubectl("describe", "deployment", "one")
    assert "Scaled up replica set" in kubectl("events", "--for", "deployment/one")
    kubectl("set", "image", "deployment/one", "nginx=nginx:2")
    kubectl("rollout", "status", "deployment/one", "--timeout=20s")
    kubectl("rollout", "restart", "deployment/one")
    kubectl("rollout", "status", "deployment/one", "--timeout=20s")
    images = kubectl(
        "get", "pods", "-l", "app=one", "-o", "jsonpath={.items[*].spec.containers[0].image}"
    ).split()
    assert images.count("nginx:2") >= 4
    assert (
        kubectl.json("get", "deployment", "one")["metadata"]["generation"] == 4
    )  # as made, scaled, set, restarted
    kubectl("expose", "deployment/one", "--port=80")
    assert "80/TCP" in kubectl("get", "service", "one")
    watched = kubectl("get", "deployments", "one", "-w", "--request-timeout=1s")
    assert watched.splitlines()[1].startswith("one ")
    kubectl("delete", "deployment/one", "service/one")
    kubectl.until(lambda: "one-" not in kubectl("get", "pods"))


def test_roles_and_bindings_are_created_and_described(kubectl: Kubectl) -> None:
    kubectl("create", "role", "logs", "--verb=get,list", "--resource=pods,pods/log")
    kubectl("create", "rolebinding", "logs", "--role=logs", "--user=alice", "--serviceaccount=default:bot")
    assert "pods/log   []                 []              [get list]" in kubectl("describe", "role", "logs")
    row = kubectl("get", "rolebinding", "logs", "-o", "wide").splitlines()[1].split()
    assert (row[1], row[3:]) == ("Role/logs", ["alice", "default/bot"])
    assert "User            alice" in kubectl("describe", "rolebinding", "logs")
    kubectl("set", "subject", "rolebinding", "logs", "--group=dev")
    refused = kubectl.says(1, "patch", "rolebinding", "logs", "-p", '{"roleRef":{"name":"other"}}')
    assert "cannot change roleRef" in refused
    kubectl("delete", "role/logs", "rolebinding/logs")


def test_auth_reconcile_creates_updates_and_recreates(kubectl: Kubectl) -> None:
    """It makes the namespace of a binding, and replaces a binding that refers to another role."""
    reconcile = ("auth", "reconcile", "-f", "-", "--remove-extra-permissions", "--remove-extra-subjects")

    def stored() -> tuple[Any, Any]:
        return kubectl.json("get", "clusterrole", "reader"), kubectl.json(
            "get", "rolebinding", "reader", "-n", "readers"
        )

    assert kubectl(*reconcile, text=READER).count("reconciled") == 2
    first, bound = stored()
    assert (first["rules"][0]["verbs"], bound["subjects"][0]["name"]) == (["get", "list"], "alice")
    kubectl(*reconcile, text=READER)
    assert stored() == (first, bound)
    changed = READER.replace("get, list", "get, watch").replace("alice", "carol")
    kubectl(*reconcile, text=changed)
    second, rebound = stored()
    assert (second["rules"][0]["verbs"], rebound["subjects"][0]["name"]) == (["get", "watch"], "carol")
    other = changed.replace("kind: ClusterRole, name: reader", "kind: ClusterRole, name: other")
    kubectl(*reconcile, text=other)
    _, recreated = stored()
    assert recreated["roleRef"]["name"] == "other"
    assert recreated["metadata"]["uid"] != rebound["metadata"]["uid"]
    kubectl("delete", "-f", "-", text=other)


def test_objects_are_applied_labelled_and_annotated(kubectl: Kubectl) -> None:
    assert "created" in kubectl("apply", "-f", "-", text=WEB)
    assert "unchanged" in kubectl("apply", "-f", "-", text=WEB)
    assert "configured" in kubectl("apply", "-f", "-", text=WEB.replace("replicas: 6", "replicas: 2"))
    kubectl("label", "deployment", "web", "tier=front")
    kubectl("annotate", "deployment", "web", "note=x")
    web = kubectl.json("get", "deployment", "web")
    assert web["spec"]["replicas"] == 2
    assert web["metadata"]["labels"]["tier"] == "front"
    assert "tier: front" in kubectl("get", "deployment", "web", "-o", "yaml")
    assert "deleted" in kubectl("delete", "-f", "-", text=WEB)


def test_a_three_way_merge_leaves_what_others_own(kubectl: Kubectl) -> None:
    """Client-side apply: the patch is made of what was applied last, what is, and what shall be."""
    text = WEB.replace("name: web", "name: three", 1)
    kubectl("apply", "-f", "-", text=text)
    kubectl("set", "env", "deployment/three", "A=b")
    kubectl("label", "deployment", "three", "tier=front")
    changed = text.replace("image: web", "image: new").replace("  replicas: 6\n", "")
    assert "configured" in kubectl("apply", "-f", "-", text=changed)
    three = kubectl.json("get", "deployment", "three")
    container = three["spec"]["template"]["spec"]["containers"][0]
    assert (container["image"], container["env"]) == ("new", [{"name": "A", "value": "b"}])
    assert three["metadata"]["labels"] == {"tier": "front"}
    assert three["spec"]["replicas"] == 1
    assert "image: newer" in kubectl.says(
        1, "diff", "-f", "-", text=changed.replace("image: new", "image: newer")
    )
    kubectl("delete", "-f", "-", text=text)


def test_objects_are_applied_on_the_servers_side(kubectl: Kubectl) -> None:
    text = WEB.replace("name: web", "name: side", 1)
    apply = ("apply", "--server-side", "-f", "-")
    assert "serverside-applied" in kubectl(*apply, text=text)
    kubectl("scale", "deployment/side", "--replicas=2")
    refused = kubectl.says(1, *apply, text=text)
    assert 'conflict with "kubectl" with subresource "scale" using apps/v1: .spec.replicas' in refused
    assert "serverside-applied" in kubectl(
        *apply, "--field-manager=ci", text=text.replace("  replicas: 6\n", "")
    )
    kubectl(*apply, "--force-conflicts", text=text)
    side = kubectl.json("get", "deployment", "side", "--show-managed-fields")
    assert side["spec"]["replicas"] == 6
    applied = [e["manager"] for e in side["metadata"]["managedFields"] if e["operation"] == "Apply"]
    assert sorted(applied) == ["ci", "kubectl"]
    kubectl("delete", "deployment", "side")


def test_client_side_apply_moves_to_the_server(kubectl: Kubectl) -> None:
    text = WEB.replace("name: web", "name: move", 1)
    kubectl("apply", "-f", "-", text=text)
    kubectl("apply", "--server-side", "-f", "-", text=text.replace("image: web", "image: new"))
    moved = kubectl.json("get", "deployment", "move", "--show-managed-fields")
    managers = [(e["manager"], e["operation"]) for e in moved["metadata"]["managedFields"]]
    assert ("kubectl", "Apply") in managers
    assert moved["spec"]["template"]["spec"]["containers"][0]["image"] == "new"
    kubectl("delete", "deployment", "move")


def test_a_node_is_cordoned_tainted_and_drained(kubectl: Kubectl) -> None:
    kubectl("create", "namespace", "moving")
    kubectl("create", "deployment", "two", "-n", "moving", "--image=nginx", "--replicas=6")
    kubectl("rollout", "status", "deployment/two", "-n", "moving", "--timeout=20s")
    kubectl("cordon", "node-0")
    assert "Ready,SchedulingDisabled" in kubectl("get", "node", "node-0")
    kubectl("drain", "node-0", "--ignore-daemonsets", "--timeout=20s")
    assert " node-0 " not in kubectl("get", "pods", "-n", "moving", "-o", "wide")
    kubectl("uncordon", "node-0")
    kubectl("taint", "nodes", "node-1", "k=v:NoExecute")
    kubectl.until(lambda: " node-1 " not in kubectl("get", "pods", "-n", "moving", "-o", "wide"))
    kubectl("taint", "nodes", "node-1", "k-")
    assert "deleted" in kubectl("delete", "namespace", "moving", "--timeout=20s")


def test_what_kubectl_creates_by_protobuf_is_read_whole(kubectl: Kubectl) -> None:
    kubectl("create", "cronjob", "nightly", "--image=busybox", "--schedule=1 2 3 4 *", "--", "true")
    kubectl("create", "job", "by-hand", "--from=cronjob/nightly")
    assert "nightly" in kubectl("get", "cronjobs")
    job = kubectl.json("get", "job", "by-hand")
    assert job["spec"]["template"]["spec"]["containers"][0]["command"] == ["true"]
    kubectl("create", "deployment", "scaled", "--image=nginx")
    kubectl("autoscale", "deployment/scaled", "--min=1", "--max=4", "--cpu-percent=50")
    autoscaler = kubectl.json("get", "hpa", "scaled")
    assert autoscaler["spec"]["metrics"][0]["resource"]["target"]["averageUtilization"] == 50
    kubectl("create", "pdb", "none", "--selector=app=scaled", "--max-unavailable=0")
    assert kubectl.json("get", "pdb", "none")["spec"]["maxUnavailable"] == 0
    kubectl("create", "namespace", "bounded")
    kubectl("create", "quota", "few", "-n", "bounded", "--hard=pods=1")
    assert kubectl.json("get", "quota", "few", "-n", "bounded")["spec"]["hard"] == {"pods": "1"}
    kubectl("delete", "cronjob/nightly", "deployment/scaled", "hpa/scaled", "pdb/none")
    kubectl("delete", "namespace", "bounded")


def test_auth_can_i_shows_what_the_user_may_do(kubectl: Kubectl) -> None:
    assert kubectl("auth", "can-i", "create", "pods") == "yes\n"
    assert kubectl.says(1, "auth", "can-i", "impersonate", "users", "--as=somebody") == "no\n"
    assert "*.*" in kubectl("auth", "can-i", "--list")


def test_pods_keep_to_the_standard_of_their_namespace(kubectl: Kubectl) -> None:
    kubectl("create", "namespace", "strict")
    kubectl("label", "namespace", "strict", "pod-security.kubernetes.io/enforce=restricted")
    refused = kubectl.says(1, "run", "p", "-n", "strict", "--image=nginx")
    assert 'pods "p" is forbidden: violates PodSecurity "restricted:latest"' in refused
    kubectl("delete", "namespace", "strict")


def test_kubectl_shows_a_zone_fail_and_its_pods_run_elsewhere(tmp_path: Path) -> None:
    if KUBECTL is None:
        pytest.skip("no kubectl")
    (tmp_path / "zone.yaml").write_text(SCENARIO)
    (tmp_path / "web.yaml").write_text(WEB)
    server, kubectl = serve(tmp_path, str(tmp_path / "zone.yaml"), "--pace", "60")

    def pods() -> list[list[str]]:
        return [line.split() for line in kubectl("get", "pods", "-o", "wide", "--no-headers").splitlines()]

    def standing(zone: str, status: str) -> int:
        return sum(row[2] == status and f" node-{zone}-" in f" {row[-3]}" for row in pods() if len(row) > 4)

    try:
        kubectl.until(lambda: sum(row[2] == "Running" for row in pods()) == 6)
        lost = standing("a", "Running")  # two, or three where other nodes became ready later
        assert lost > 0
        watch = subprocess.Popen(
            [str(KUBECTL), "get", "nodes", "-w"], stdout=subprocess.PIPE, text=True, env=kubectl.environment
        )
        kubectl("create", "configmap", "go")
        kubectl.until(lambda: kubectl("get", "nodes").count("NotReady") == 2)
        kubectl.until(lambda: standing("a", "Terminating") == lost)
        kubectl.until(lambda: standing("b", "Running") + standing("c", "Running") == 6)
        watch.terminate()
        seen, _ = watch.communicate(timeout=WAIT_S)
        assert "NotReady" in seen
    finally:
        server.terminate()
        assert server.wait(WAIT_S) == 0
        assert server.stdout is not None
        server.stdout.close()


def test_an_ingress_is_made_shown_and_explained(kubectl: Kubectl) -> None:
    kubectl("create", "ingress", "front", "--rule=a.example.com/x*=svc:80", "--class=nginx")
    assert "a.example.com" in kubectl("get", "ingress", "front")
    assert "svc:80" in kubectl("describe", "ingress", "front")
    assert "IngressRule" in kubectl("explain", "ingress.spec.rules")
    kubectl("delete", "ingress", "front")
