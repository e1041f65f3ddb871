"""What `kubectl get -o yaml` prints, as a scenario."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgpack
import pytest

from sim.app.imports.documents import documents_of
from sim.app.imports.dump import import_dump
from sim.app.imports.parts import scenario_text
from sim.errors import InputError
from sim.scenario.compile import compile_plan
from sim.scenario.read.source import parse_documents

Value = dict[str, Any]
SERVER_MADE = {
    "uid": "0b0c7f7e-9d0e-4b8e-8f42-0f8d1f1a3c55",
    "resourceVersion": "812",
    "generation": 3,
    "creationTimestamp": "2026-01-02T03:04:05Z",
    "managedFields": [{"manager": "kubectl", "operation": "Update"}],
}


def served(api_version: str, kind: str, name: str, namespace: str = "", **rest: Any) -> Value:
    """An object as a server returns it."""
    place = {"namespace": namespace} if namespace else {}
    extra = rest.pop("metadata", {})
    return {
        "apiVersion": api_version, "kind": kind,
        "metadata": {"name": name, **place, **SERVER_MADE, **extra}, "status": {"observedGeneration": 3}, **rest,
    }  # fmt: skip


def deployment(**template: Any) -> Value:
    """A Deployment with the defaults that a server fills in."""
    container = {
        "name": "web", "image": "r/web:1", "imagePullPolicy": "IfNotPresent", "resources": {},
        "terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File",
        "ports": [{"containerPort": 80, "protocol": "TCP"}],
    }  # fmt: skip
    pods = {
        "containers": [container], "dnsPolicy": "ClusterFirst", "restartPolicy": "Always",
        "schedulerName": "default-scheduler", "securityContext": {}, "terminationGracePeriodSeconds": 30, **template,
    }  # fmt: skip
    spec = {
        "replicas": 6, "progressDeadlineSeconds": 600, "revisionHistoryLimit": 10,
        "selector": {"matchLabels": {"app": "web"}},
        "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": "25%"}},
        "template": {"metadata": {"creationTimestamp": None, "labels": {"app": "web"}}, "spec": pods},
    }  # fmt: skip
    annotations = {
        "deployment.kubernetes.io/revision": "3",
        "kubectl.kubernetes.io/last-applied-configuration": "{}",
        "shop.example/owner": "team-a",
    }
    return served("apps/v1", "Deployment", "web", "shop", spec=spec, metadata={"annotations": annotations})


def only(objects: list[Value], kind: str) -> Value:
    (found,) = [each for each in objects if each["kind"] == kind]
    return found


def test_deployment_loses_what_the_server_and_its_defaults_made() -> None:
    found = import_dump([deployment()], "cluster.yaml")
    assert only(found.objects, "Deployment") == {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web", "namespace": "shop", "annotations": {"shop.example/owner": "team-a"}},
        "spec": {
            "replicas": 6,
            "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {"containers": [{"name": "web", "image": "r/web:1", "ports": [{"containerPort": 80}]}]},
            },
        },
    }  # fmt: skip


def test_values_that_differ_from_the_defaults_stay() -> None:
    given = deployment(terminationGracePeriodSeconds=5, dnsPolicy="Default")
    given["spec"]["strategy"] = {"type": "Recreate"}
    spec = only(import_dump([given], "c").objects, "Deployment")["spec"]
    assert spec["strategy"] == {"type": "Recreate"}
    pods = spec["template"]["spec"]
    assert (pods["terminationGracePeriodSeconds"], pods["dnsPolicy"]) == (5, "Default")


def test_field_of_a_newer_version_is_left_out_with_a_note() -> None:
    given = deployment()
    given["spec"]["template"]["spec"]["containers"][0]["resizePolicy"] = [{"resourceName": "cpu"}]
    found = import_dump([given], "c")
    container = only(found.objects, "Deployment")["spec"]["template"]["spec"]["containers"][0]
    assert "resizePolicy" not in container
    assert any("resizePolicy is unknown in v1.25" in note for note in found.notes)


def test_owned_ended_and_built_in_objects_are_counted_and_left_out() -> None:
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web-1", "uid": "u", "controller": True}
    pods = [served("v1", "Pod", f"web-{n}", "shop", metadata={"ownerReferences": [owner]}) for n in range(3)]
    foreign = {"apiVersion": "shop.example/v1", "kind": "Basket", "name": "b", "uid": "u", "controller": True}
    plain = {"containers": [{"name": "c", "image": "i"}]}
    kept = served("v1", "Pod", "basket", "shop", spec=plain, metadata={"ownerReferences": [foreign]})
    done = served("v1", "Pod", "once", spec={})
    done["status"] = {"phase": "Succeeded"}
    given = [
        *pods,
        kept,
        done,
        served("v1", "Namespace", "kube-system"),
        served("v1", "Event", "e", "shop"),
        deployment(),
    ]
    found = import_dump(given, "c")
    assert [each["kind"] for each in found.objects] == ["Namespace", "Pod", "Deployment"]
    assert "left out, because their owners make them again: 3 Pods" in found.notes
    assert "left out, because they have ended: 1 Pod" in found.notes
    assert "left out, because the control plane makes them itself: 1 Event, 1 Namespace" in found.notes


def test_name_that_begins_like_a_built_in_one_is_kept() -> None:
    given = deployment()
    given["metadata"]["name"] = "system-upgrade"
    assert only(import_dump([given], "c").objects, "Deployment")["metadata"]["name"] == "system-upgrade"


def test_namespace_and_service_account_that_are_missing_are_added() -> None:
    found = import_dump([deployment(serviceAccountName="runner")], "c")
    assert [(each["kind"], each["metadata"]["name"]) for each in found.objects[:2]] == [
        ("Namespace", "shop"),
        ("ServiceAccount", "runner"),
    ]
    assert any("added" in note and "ServiceAccount shop/runner" in note for note in found.notes)


def test_service_loses_its_addresses_and_a_headless_one_stays_headless() -> None:
    spec = {
        "clusterIP": "10.0.0.7", "clusterIPs": ["10.0.0.7"], "ipFamilies": ["IPv4"], "ipFamilyPolicy": "SingleStack",
        "ports": [{"port": 80, "nodePort": 30080, "protocol": "TCP", "targetPort": 80}], "type": "NodePort",
        "selector": {"app": "web"}, "sessionAffinity": "None",
    }  # fmt: skip
    plain = import_dump([served("v1", "Service", "web", spec=spec)], "c").objects[0]["spec"]
    assert plain == {"ports": [{"port": 80}], "type": "NodePort", "selector": {"app": "web"}}
    headless = {**spec, "clusterIP": "None", "clusterIPs": ["None"], "type": "ClusterIP"}
    kept = import_dump([served("v1", "Service", "web", spec=headless)], "c").objects[0]["spec"]
    assert kept["clusterIP"] == "None"


def test_values_of_secrets_are_not_written() -> None:
    secret = served("v1", "Secret", "key", type="Opaque", data={"password": "aHVudGVyMg=="})
    found = import_dump([secret], "c")
    assert found.objects[0]["data"] == {"password": ""}
    assert "Secret key: its values are left empty" in found.notes


def test_job_loses_the_labels_that_its_controller_generates() -> None:
    labels = {"controller-uid": "u", "job-name": "one", "app": "one"}
    template = {
        "metadata": {"labels": labels},
        "spec": {"containers": [{"name": "c", "image": "i"}], "restartPolicy": "Never"},
    }
    spec = {"selector": {"matchLabels": {"controller-uid": "u"}}, "template": template}
    made = import_dump([served("batch/v1", "Job", "one", spec=spec)], "c").objects[0]["spec"]
    assert "selector" not in made
    assert made["template"]["metadata"]["labels"] == {"app": "one"}


def test_custom_resource_without_its_definition_is_noted() -> None:
    found = import_dump([served("shop.example/v1", "Basket", "b", spec={}), deployment()], "c")
    assert any("Basket b: there is no kind Basket in shop.example/v1" in note for note in found.notes)


def test_autoscaler_brings_the_metrics_apis() -> None:
    spec = {
        "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}, "minReplicas": 2,
        "maxReplicas": 9,
        "metrics": [{"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 60}}}],
    }  # fmt: skip
    assert import_dump([served("autoscaling/v2", "HorizontalPodAutoscaler", "web", "shop", spec=spec), deployment()], "c").metrics  # fmt: skip


def test_text_of_the_scenario_compiles_and_begins_with_the_notes() -> None:
    text = scenario_text(import_dump([deployment()], "c"), "mine", "cluster.yaml")
    assert text.startswith("# What the import left out or changed:\n# - the file describes no nodes")
    (document,) = parse_documents(text, "mine.yaml")
    plan = compile_plan(document, Path())
    assert (len(plan.cluster.nodes), len(plan.cluster.established)) == (6, 2)


def test_lists_within_lists_and_json_are_read() -> None:
    inner = '{"apiVersion": "v1", "kind": "PodList", "items": [{"kind": "Pod"}]}'
    text = f'{{"apiVersion": "v1", "kind": "List", "items": [{inner}, {{"kind": "Node"}}]}}'
    assert documents_of(text.encode(), "f") == [{"kind": "Pod"}, {"kind": "Node"}]


def test_items_of_a_typed_list_take_the_kind_of_the_list() -> None:
    text = """
    {"kind": "NodeList", "apiVersion": "v1", "items": [{"metadata": {"name": "a"}}, {"kind": "Node", "apiVersion": "v1"}]}
    {"kind": "DeploymentList", "apiVersion": "apps/v1", "items": null}
    """
    first = {"kind": "Node", "apiVersion": "v1", "metadata": {"name": "a"}}
    assert documents_of(text.encode(), "f") == [first, {"kind": "Node", "apiVersion": "v1"}]


def test_msgpack_with_a_key_that_is_a_list_is_read() -> None:
    packed = msgpack.packb({"lives": {("v1.Pod", "p"): 1, ("x", ("y",)): 2}})
    assert documents_of(packed, "f") == [{"lives": {("v1.Pod", "p"): 1, ("x", ("y",)): 2}}]


def test_objects_come_after_the_namespace_that_is_in_the_files() -> None:
    hook = served("admissionregistration.k8s.io/v1", "ValidatingWebhookConfiguration", "w", webhooks=[])
    given = [hook, deployment(serviceAccountName="runner"), served("v1", "Namespace", "shop")]
    found = import_dump(given, "c")
    assert [each["kind"] for each in found.objects] == [
        "Namespace", "ServiceAccount", "Deployment", "ValidatingWebhookConfiguration",
    ]  # fmt: skip


def machine(name: str) -> Value:
    return served("v1", "Node", name, metadata={"labels": {"kubernetes.io/hostname": name}}, spec={})


def pod_on(node: str, name: str, **more: Any) -> Value:
    owner = {
        "apiVersion": "apps/v1",
        "kind": more.pop("owner"),
        "name": more.pop("of"),
        "uid": "u",
        "controller": True,
    }
    pod = served("v1", "Pod", name, "shop", spec={"nodeName": node}, metadata={"ownerReferences": [owner]})
    return {**pod, "status": {"phase": more.get("phase", "Running")}}


def stateful_set(**spec: Any) -> Value:
    template = {"metadata": {"labels": {"app": "db"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    whole = {
        "replicas": 3,
        "serviceName": "db",
        "selector": {"matchLabels": {"app": "db"}},
        "template": template,
    }
    return served("apps/v1", "StatefulSet", "db", "shop", spec={**whole, **spec})


def test_pods_keep_the_places_that_they_have() -> None:
    of_web = {"owner": "ReplicaSet", "of": "web-5d8f"}
    placed = [
        pod_on("ip-2", "web-5d8f-a", **of_web), pod_on("ip-1", "web-5d8f-b", **of_web),
        pod_on("ip-1", "web-5d8f-c", **of_web, phase="Failed"), pod_on("ip-9", "web-5d8f-d", **of_web),
        pod_on("ip-1", "db-1", owner="StatefulSet", of="db"), pod_on("ip-2", "db-0", owner="StatefulSet", of="db"),
    ]  # fmt: skip
    nodes = [machine("ip-1"), machine("ip-2")]
    found = import_dump([*nodes, deployment(), stateful_set(), *placed], "c")
    assert found.places == {
        "deployments/shop/web": ["ip-2", "ip-1"],
        "statefulsets/shop/db": ["ip-2", "ip-1"],
    }
    assert "pods of workloads start on the nodes on which they are: 4 Pods" in found.notes
    (document,) = parse_documents(scenario_text(found, "mine", "c"), "mine.yaml")
    plan = compile_plan(document, Path()).cluster
    assert [node.name for node in plan.nodes] == ["ip-1", "ip-2"]
    assert plan.places["deployments/shop/web"] == ("ip-2", "ip-1")


def test_dropped_places_of_pods_of_stateful_sets_with_claims_are_noted() -> None:
    claims = [
        {
            "metadata": {"name": "d"},
            "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
        }
    ]
    given = [
        machine("ip-1"),
        stateful_set(volumeClaimTemplates=claims),
        pod_on("ip-1", "db-0", owner="StatefulSet", of="db"),
    ]
    found = import_dump(given, "c")
    assert found.places == {}
    assert any("StatefulSets with claims" in note and "1 Pods" in note for note in found.notes)


def test_pod_without_a_controller_keeps_its_node() -> None:
    spec = {"nodeName": "ip-1", "containers": [{"name": "c", "image": "i"}]}
    pods = [
        served("v1", "Pod", "one", spec=spec),
        served("v1", "Pod", "two", spec={**spec, "nodeName": "gone"}),
    ]
    one, two = import_dump([machine("ip-1"), *pods], "c").objects
    assert one["spec"]["nodeName"] == "ip-1"
    assert "nodeName" not in two["spec"]


def volume(name: str, claim: str, **spec: Any) -> Value:
    reference = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "namespace": "shop",
        "name": claim,
        "uid": "u",
        "resourceVersion": "3",
    }
    disk = {"driver": "ebs.csi.aws.com", "volumeHandle": name}
    whole = {
        "accessModes": ["ReadWriteOnce"],
        "capacity": {"storage": "1Gi"},
        "storageClassName": "gp3",
        "csi": disk,
        "claimRef": reference,
    }
    marks = {
        "annotations": {
            "pv.kubernetes.io/provisioned-by": "ebs.csi.aws.com",
            "pv.kubernetes.io/bound-by-controller": "yes",
        },
        "finalizers": ["kubernetes.io/pv-protection", "external-attacher/ebs-csi-aws-com"],
    }
    return served("v1", "PersistentVolume", name, spec={**whole, **spec}, metadata=marks)


def claim(name: str, bound_to: str) -> Value:
    spec = {
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "1Gi"}},
        "storageClassName": "gp3",
        "volumeName": bound_to,
    }
    marks = {
        "annotations": {
            "pv.kubernetes.io/bind-completed": "yes",
            "volume.beta.kubernetes.io/storage-provisioner": "ebs.csi.aws.com",
        }
    }
    return served("v1", "PersistentVolumeClaim", name, "shop", spec=spec, metadata=marks)


def test_claim_and_volume_stay_bound_to_each_other() -> None:
    found = import_dump([claim("data", "pv-1"), volume("pv-1", "data")], "c")
    held = only(found.objects, "PersistentVolumeClaim")
    assert held["spec"]["volumeName"] == "pv-1"
    assert held["metadata"] == {"name": "data", "namespace": "shop"}
    kept = only(found.objects, "PersistentVolume")
    assert kept["spec"]["claimRef"] == {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "namespace": "shop",
        "name": "data",
    }
    assert kept["metadata"] == {
        "name": "pv-1",
        "annotations": {"pv.kubernetes.io/provisioned-by": "ebs.csi.aws.com"},
    }


def test_claim_of_a_volume_that_is_not_in_the_files_is_provisioned_again() -> None:
    found = import_dump([claim("data", "pv-1")], "c")
    assert "volumeName" not in only(found.objects, "PersistentVolumeClaim")["spec"]
    assert (
        "claims get new volumes, since theirs are not in the files: 1 PersistentVolumeClaims" in found.notes
    )
    assert found.storage == [{"driver": "ebs.csi.aws.com", "class": "gp3"}]


def test_driver_of_a_class_is_added_and_another_provisioner_is_named() -> None:
    def storage_class(name: str, provisioner: str) -> Value:
        return served("storage.k8s.io/v1", "StorageClass", name, provisioner=provisioner)

    given = [
        storage_class("gp2", "kubernetes.io/aws-ebs"), storage_class("ebs", "ebs.csi.aws.com"),
        storage_class("local", "rancher.io/local-path"), storage_class("none", "kubernetes.io/no-provisioner"),
        volume("pv-1", "data", accessModes=["ReadWriteMany"]),
        served("storage.k8s.io/v1", "CSIDriver", "ebs.csi.aws.com", spec={"attachRequired": False, "storageCapacity": True}),
    ]  # fmt: skip
    found = import_dump(given, "c")
    (entry,) = found.storage
    assert (entry["driver"], entry["class"], entry["attachRequired"]) == (
        "ebs.csi.aws.com",
        "ebs-driver",
        False,
    )
    assert "ReadWriteMany" in entry["accessModes"]
    assert any(note.startswith("no process provisions rancher.io/local-path") for note in found.notes)
    assert not any("no-provisioner" in note for note in found.notes)
    assert [each["kind"] for each in found.objects if each["kind"] == "CSIDriver"] == []


def test_file_without_objects_is_refused() -> None:
    with pytest.raises(InputError, match="holds no API objects"):
        import_dump(["text"], "f")
    with pytest.raises(InputError, match="neither text nor msgpack"):
        documents_of(b"\xff\xc1", "f")


def test_what_pods_need_is_added_with_its_keys() -> None:
    environment = [
        {"name": "A", "valueFrom": {"configMapKeyRef": {"name": "settings", "key": "a"}}},
        {"name": "B", "valueFrom": {"secretKeyRef": {"name": "maybe", "key": "b", "optional": True}}},
    ]
    given = deployment(priorityClassName="high", volumes=[{"name": "v", "secret": {"secretName": "tls"}}])
    given["spec"]["template"]["spec"]["containers"][0]["env"] = environment
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "r", "uid": "u", "controller": True}
    pod = served("v1", "Pod", "p", "shop", metadata={"ownerReferences": [owner]}, spec={"priorityClassName": "high", "priority": 700})  # fmt: skip
    found = import_dump([given, pod], "c")
    assert [each["kind"] for each in found.objects[:-1]] == [
        "Namespace", "PriorityClass", "ConfigMap", "Secret",
    ]  # fmt: skip
    assert only(found.objects, "PriorityClass")["value"] == 700
    assert only(found.objects, "ConfigMap")["data"] == {"a": ""}
    assert any("Secret shop/tls" in note and "maybe" not in note for note in found.notes)
