"""Why something did not happen: pods that wait, refused writes, and the end of an obstacle."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from sim.app.inspect.why import find_story
from sim.app.run import Result, run_plan
from sim.kernel import read
from sim.report.failure import failure_of
from sim.report.story import Book
from sim.scenario.compile import load

Value = dict[str, Any]


def deployment(name: str, namespace: str = "default", replicas: int = 1, **container: Any) -> Value:
    whole = {"name": "c", "image": "r/web:1", **container}
    template = {"metadata": {"labels": {"app": name}}, "spec": {"containers": [whole]}}
    return {
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name, "namespace": namespace},
        "spec": {"replicas": replicas, "selector": {"matchLabels": {"app": name}}, "template": template},
    }  # fmt: skip


async def run(
    folder: Path, objects: list[Value], timeline: list[Value], expect: list[Value], **cluster: Any
) -> tuple[Result, Path]:
    spec = {
        "duration": "4m", "cluster": {"naming": "kubernetes", "nodes": [{"count": 2}], **cluster},
        "objects": objects, "timeline": timeline, "expect": expect,
    }  # fmt: skip
    head = {"apiVersion": "orrery.dev/v1", "kind": "Scenario", "metadata": {"name": "s"}}
    file, trace = folder / "s.yaml", folder / "s.trace"
    file.write_text(yaml.safe_dump({**head, "spec": spec}))
    return await run_plan(load(file), trace_file=trace), trace


MARK = {"at": "2m", "name": "outage", "mark": {}}
NAMESPACE = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "q"}}
QUOTA = {
    "apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "tight", "namespace": "q"},
    "spec": {"hard": {"pods": "1"}},
}  # fmt: skip
BIG = deployment("web", resources={"requests": {"cpu": 20}})
READY = "all pods labelled app=web are ready"


@pytest.mark.parametrize(
    ("objects", "expectation", "target", "reason"),
    [
        ([BIG], {"when": READY, "within": ["0s", "1m"]}, "pod/web-*", "2 Insufficient cpu"),
        (
            [deployment("web", image="r/web:404")],
            {"eventually": READY},
            "pod/web-*",
            "cannot pull image r/web:404",
        ),
        (
            [NAMESPACE, QUOTA, deployment("web", "q", 3)],
            {"unavailability": {"of": "deployments/q/web", "atMost": "1m"}},
            "deployment/q/web",
            "exceeded quota: tight",
        ),
    ],
)
async def test_failed_verdict_names_the_reason_for_which_pods_wait(
    objects: list[Value], expectation: Value, target: str, reason: str, tmp_path: Path
) -> None:
    expect = [{"name": "up", "after": "outage", **expectation}]
    found, trace = await run(tmp_path, objects, [MARK], expect)
    (verdict,) = found.verdicts
    assert not verdict.ok
    assert reason in failure_of(verdict, Book(read(trace))).causes[-1].text
    kind, *namespace, name = target.split("/")
    assert reason in find_story(trace, f"{kind}/{name}", *namespace).lines[-1].text


HOOK = {
    "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration",
    "metadata": {"name": "policy"},
    "webhooks": [
        {
            "name": "policy.example.com", "clientConfig": {"service": {"name": "gone", "namespace": "default"}},
            "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}],
            "failurePolicy": "Fail", "sideEffects": "None", "admissionReviewVersions": ["v1"],
        }
    ],
}  # fmt: skip


async def test_end_of_an_obstacle_is_a_cause_of_the_write_after_it(tmp_path: Path) -> None:
    timeline: list[Value] = [
        {"at": "1m", "name": "bare", "apply": {"objects": [HOOK]}},
        {"at": "70s", "name": "more", "scale": {"resource": "deployments", "name": "web", "replicas": 2}},
        {"at": "2m", "name": "help", "delete": {"resource": "validatingwebhookconfigurations", "name": "policy"}},
    ]  # fmt: skip
    _, trace = await run(tmp_path, [deployment("web")], timeline, [])
    book = Book(read(trace))
    (refused,) = [record for record in book.records if record.kind == "refused"]
    assert 'failed calling webhook "policy.example.com"' in refused.values["message"]
    pods = [r for r in book.records if r.kind == "write" and r.values["key"].startswith("//pods/")]
    made = [r for r in pods if r.values["verb"] == "create"]
    texts = [line.text for line in book.story(made[-1])]
    assert any("refused: " in text for text in texts)
    assert any('step "help"' in text for text in texts)


async def test_failing_unmount_is_the_reason_why_a_pod_stays(tmp_path: Path) -> None:
    claim: Value = {
        "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "data"},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
    }  # fmt: skip
    mount = {"name": "v", "mountPath": "/v"}
    pod: Value = {
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "disky"},
        "spec": {
            "containers": [{"name": "c", "image": "r/web:1", "volumeMounts": [mount]}],
            "volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}],
        },
    }  # fmt: skip
    driver = "disk.csi.example.com"
    timeline: list[Value] = [
        {"at": "2m", "name": "broken", "driver": {"name": driver, "operation": "unmount", "how": "failing"}},
        {"at": "150s", "name": "rm", "delete": {"resource": "pods", "name": "disky"}},
    ]
    storage = [{"driver": driver, "default": True}]
    _, trace = await run(tmp_path, [claim, pod], timeline, [], storage=storage)
    text = find_story(trace, "pod/disky").lines[-1].text
    assert text.startswith("(cannot unmount volume v of pods/default/disky: rpc error")
    mended = [{**timeline[0], "for": "60s"}, timeline[1]]
    expect: list[Value] = [
        {"name": "goes", "invariant": {"name": "no-stuck-deletion", "within": "1s"}, "after": "rm"}
    ]
    found, trace = await run(tmp_path, [claim, pod], mended, expect, storage=storage)
    texts = [line.text for line in find_story(trace, "pod/disky").lines[-2:]]
    assert texts[0].startswith("(cannot unmount volume v")
    assert texts[1].startswith('(end of step "broken"')
    (verdict,) = found.verdicts
    assert verdict.measured.startswith("pods/default/disky for ")
    told = [line.text for line in failure_of(verdict, Book(read(trace))).causes]
    assert any(text.startswith("(cannot unmount volume v") for text in told)


async def test_condition_that_never_held_before_the_fault_says_so(tmp_path: Path) -> None:
    expect: list[Value] = [
        {"name": "when", "when": READY, "within": ["0s", "1m"], "after": "outage"},
        {"name": "always", "always": READY, "after": "outage"},
        {"name": "up", "unavailability": {"of": "deployments/web", "atMost": "1m"}, "after": "outage"},
    ]
    found, _ = await run(tmp_path, [BIG], [MARK], expect)
    when, always, up = (verdict.measured for verdict in found.verdicts)
    assert when == "never, not even before"
    assert always.endswith("when the window opened, and never did before")
    assert "was never ready, not even before" in up


async def test_workload_that_was_ready_before_the_fault_says_nothing_of_before(tmp_path: Path) -> None:
    down = {"at": "2m", "name": "outage", "fail": {"nodes": {}, "how": "power-loss"}}
    expect: list[Value] = [
        {"name": "up", "unavailability": {"of": "deployments/web", "atMost": "1m"}, "after": "outage"},
        {"name": "again", "eventually": READY, "after": "outage", "again": True},
    ]
    found, _ = await run(tmp_path, [deployment("web")], [down], expect)
    assert not any("before" in verdict.measured for verdict in found.verdicts)


def pod_with(volume: Value, name: str = "disky", **container: Any) -> Value:
    mounted = {
        "name": "c",
        "image": "r/web:1",
        "volumeMounts": [{"name": "v", "mountPath": "/v"}],
        **container,
    }
    spec = {"containers": [mounted], "volumes": [{"name": "v", **volume}]}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": {"app": "web"}},
        "spec": spec,
    }


def claim_of(storage_class: str | None = None) -> Value:
    spec: Value = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    if storage_class is not None:
        spec["storageClassName"] = storage_class
    return {
        "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "data"}, "spec": spec,
    }  # fmt: skip


DRIVER = "disk.csi.example.com"
STORAGE = [{"driver": DRIVER, "default": True, "bindingMode": "WaitForFirstConsumer"}]
CONFIG: Value = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "conf"}, "data": {"k": "v"}}
CLASS: Value = {
    "apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": "later"},
    "provisioner": DRIVER,
}  # fmt: skip
CLAIMED = {"persistentVolumeClaim": {"claimName": "data"}}
FROM_CONFIG = {"valueFrom": {"configMapKeyRef": {"name": "conf", "key": "k"}}}


def broken(operation: str) -> Value:
    return {
        "at": "1s",
        "name": "broken",
        "driver": {"name": DRIVER, "operation": operation, "how": "failing"},
    }


@pytest.mark.slow
@pytest.mark.parametrize(
    ("objects", "before", "help_", "reason"),
    [
        ([pod_with({"configMap": {"name": "conf"}})], [], {"apply": {"objects": [CONFIG]}},
         'FailedMount of pods/default/disky: MountVolume.SetUp failed for volume "v" : configmap "conf" not found'),
        ([pod_with({"emptyDir": {}}, env=[{"name": "E", **FROM_CONFIG}])], [], {"apply": {"objects": [CONFIG]}},
         'CreateContainerConfigError of pods/default/disky: configmap "conf" not found'),
        ([claim_of(), pod_with(CLAIMED)], [broken("mount")], {"end": "broken"}, "FailedMount of pods/default/disky: "),
        ([claim_of(), pod_with(CLAIMED)], [broken("attach")], {"end": "broken"},
         "FailedAttachVolume of pods/default/disky: AttachVolume.Attach failed for volume "),
        ([claim_of("later"), pod_with(CLAIMED)], [], {"apply": {"objects": [CLASS]}},
         'ProvisioningFailed of persistentvolumeclaims/default/data: storageclass.storage.k8s.io "later" not found'),
        ([claim_of(), pod_with(CLAIMED)], [broken("provision")], {"end": "broken"},
         "ProvisioningFailed of persistentvolumeclaims/default/data: "),
    ],
)  # fmt: skip
async def test_failing_volume_is_the_cause_of_a_wait_and_its_end_that_of_the_start(
    objects: list[Value], before: list[Value], help_: Value, reason: str, tmp_path: Path
) -> None:
    expect = [{"name": "up", "after": "outage", "when": READY, "within": ["0s", "1m"]}]
    begin = [{"at": "5s", "name": "begin", "apply": {"objects": objects}}]
    found, trace = await run(tmp_path, [], [*before, *begin, MARK], expect, storage=STORAGE)
    (verdict,) = found.verdicts
    assert not verdict.ok
    assert reason in failure_of(verdict, Book(read(trace))).causes[-1].text
    assert reason in find_story(trace, "pod/disky").lines[-1].text
    if "end" in help_:
        before = [{**before[0], "for": "29s"}]
        timeline, end = [*before, *begin], 'end of step "broken"'
    else:
        timeline, end = [*begin, {"at": "30s", "name": "help", **help_}], 'step "help"'
    _, trace = await run(tmp_path, [], timeline, [], storage=STORAGE)
    told = [line.text for line in find_story(trace, "pod/disky", what="ready=True").lines]
    assert any(reason in text for text in told)
    assert any(end in text for text in told)


@pytest.mark.slow
async def test_forbidden_request_of_a_controller_is_a_record_and_a_cause(tmp_path: Path) -> None:
    role = "system:controller:replicaset-controller"
    timeline: list[Value] = [
        {"at": "1m", "name": "cleanup", "delete": {"resource": "clusterroles", "name": role}},
        {"at": "70s", "name": "more", "scale": {"resource": "deployments", "name": "web", "replicas": 2}},
    ]
    expect = [
        {"name": "up", "after": "more", "eventually": "deployments named web have status.readyReplicas=2"}
    ]
    found, trace = await run(tmp_path, [deployment("web")], timeline, expect)
    book = Book(read(trace))
    refused = [record for record in book.records if record.kind == "refused"]
    assert {record.values["user"].rpartition(":")[2] for record in refused} == {"replicaset-controller"}
    assert "create" in {record.values["verb"] for record in refused}
    (verdict,) = found.verdicts
    reason = f'RBAC: clusterrole.rbac.authorization.k8s.io "{role}" not found'
    assert reason in failure_of(verdict, book).causes[-1].text
    assert reason in find_story(trace, "deployment/web").lines[-1].text


@pytest.mark.slow
@pytest.mark.parametrize("ends", [False, True])
async def test_unavailability_after_a_loss_names_what_keeps_the_pods_in_its_place(
    ends: bool, tmp_path: Path
) -> None:
    timeline: list[Value] = [
        {"at": "1m", "name": "bare", "apply": {"objects": [HOOK]}},
        {"at": "70s", "name": "outage", "delete": {"resource": "pods", "selector": "app=web"}},
        *([{"at": "2m", "name": "help", "delete": {"resource": "validatingwebhookconfigurations", "name": "policy"}}] if ends else []),
    ]  # fmt: skip
    expect: list[Value] = [
        {"name": "up", "unavailability": {"of": "deployments/web", "atMost": "10s"}, "after": "outage"},
    ]
    found, trace = await run(tmp_path, [deployment("web")], timeline, expect)
    (verdict,) = found.verdicts
    texts = [line.text for line in failure_of(verdict, Book(read(trace))).causes]
    assert any('step "outage"' in text for text in texts)
    refusal = texts[-2] if ends else texts[-1]
    assert "refused: " in refusal and 'failed calling webhook "policy.example.com"' in refusal
    assert ('step "help"' in texts[-1]) is ends


@pytest.mark.slow
async def test_container_without_its_profile_on_the_node_waits_and_says_so(tmp_path: Path) -> None:
    profile = {"seccompProfile": {"type": "Localhost", "localhostProfile": "audit.json"}}
    pod = pod_with({"emptyDir": {}}, securityContext=profile)
    nodes = [{"count": 1, "runtime": {"seccompProfiles": ["other.json"]}}]
    waits = {"name": "waits", "when": {"event": "Failed"}, "within": ["0s", "3m"], "after": "outage"}
    found, trace = await run(tmp_path, [pod], [{**MARK, "at": "1s"}], [waits], nodes=nodes)
    assert found.ok
    book = Book(read(trace))
    waiting = [
        r.values["after"] for r in book.records if r.kind == "change" and r.values["what"] == "waiting"
    ]
    assert waiting[-1] == "CreateContainerError"
    text = find_story(trace, "pod/disky").lines[-1].text
    assert 'cannot load seccomp profile "/var/lib/kubelet/seccomp/audit.json"' in text
