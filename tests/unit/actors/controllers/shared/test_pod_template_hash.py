"""Hashes of revisions, as recorded from a v1.25 control plane."""

from __future__ import annotations

from typing import Any

import pytest

from actors.controllers.shared.pod_template_hash import (
    dump_pod_template,
    pod_template_hash,
    revision_data,
    revision_hash,
    revision_json,
)


def template(
    app: str, pod: dict[str, Any] | None = None, container: dict[str, Any] | None = None
) -> dict[str, Any]:
    base = {
        "name": "c",
        "image": "i:1",
        "resources": {},
        "terminationMessagePath": "/dev/termination-log",
        "terminationMessagePolicy": "File",
        "imagePullPolicy": "IfNotPresent",
        **(container or {}),
    }
    spec = {
        "containers": [base],
        "restartPolicy": "Always",
        "terminationGracePeriodSeconds": 30,
        "dnsPolicy": "ClusterFirst",
        "securityContext": {},
        "schedulerName": "default-scheduler",
        **(pod or {}),
    }
    return {"metadata": {"creationTimestamp": None, "labels": {"app": app}}, "spec": spec}


AFFINITY = {
    "nodeSelector": {"a": "b", "c": "d"},
    "affinity": {
        "nodeAffinity": {
            "preferredDuringSchedulingIgnoredDuringExecution": [
                {
                    "weight": 1,
                    "preference": {"matchExpressions": [{"key": "k", "operator": "In", "values": ["v"]}]},
                }
            ]
        },
        "podAntiAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": [
                {"labelSelector": {"matchLabels": {"l": "m"}}, "topologyKey": "t"}
            ]
        },
    },
    "tolerations": [{"key": "k", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 5}],
    "topologySpreadConstraints": [
        {
            "maxSkew": 1,
            "topologyKey": "z",
            "whenUnsatisfiable": "ScheduleAnyway",
            "labelSelector": {"matchExpressions": [{"key": "e", "operator": "Exists"}]},
        }
    ],
}
ENV = {
    "envFrom": [{"configMapRef": {"name": "x", "optional": True}}],
    "env": [
        {"name": "A", "value": "b"},
        {"name": "P", "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": "status.podIP"}}},
        {"name": "R", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu", "divisor": "0"}}},
    ],
    "resources": {
        "limits": {"cpu": "1500m", "example.com/x": "1", "memory": "2Gi"},
        "requests": {"cpu": "100m", "memory": "1Gi"},
    },
}


@pytest.mark.parametrize(
    ("stored", "wanted"),
    [
        (template("least"), "75699988d7"),
        (template("affinity", AFFINITY), "86d465b559"),
        (template("env", None, ENV), "7c986bd899"),
    ],
)
def test_pod_template_hash_equals_upstream(stored: dict[str, Any], wanted: str) -> None:
    assert pod_template_hash(stored, None) == wanted


def test_collision_count_changes_the_template_hash() -> None:
    stored = template("least")
    assert len({pod_template_hash(stored, n) for n in (None, 0, 1)}) == 3


def test_probe_port_is_dumped_as_number_or_name() -> None:
    number = template("p", None, {"livenessProbe": {"tcpSocket": {"port": 80}}})
    name = template("p", None, {"livenessProbe": {"tcpSocket": {"port": "m"}}})
    assert "IntVal:(int32)80 StrVal:(string)}" in dump_pod_template(number)
    assert "Type:(intstr.Type)1 IntVal:(int32)0 StrVal:(string)m}" in dump_pod_template(name)


def test_statefulset_revision_has_the_hash_of_its_json() -> None:
    pod = {"automountServiceAccountToken": False, "schedulerName": "none", "terminationGracePeriodSeconds": 0}
    stored = template("web", pod)
    stored["metadata"]["labels"] = {"version": "v1", "app": "web"}
    assert revision_hash(revision_json(revision_data(stored)), 0) == "847d8b4577"


def test_revision_json_escapes_as_go_does() -> None:
    assert revision_json({"b": "<&>", "a": None}) == b'{"a":null,"b":"\\u003c\\u0026\\u003e"}'
