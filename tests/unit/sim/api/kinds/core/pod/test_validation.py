"""Validation of pods."""

from __future__ import annotations

from typing import Any

import pytest

from sim.api.kinds.common.pods import spec as pod_specs
from sim.api.types import Obj
from tests.unit.sim.api.kinds.samples import TEMPLATE, created, made, updated


def test_spec_that_pods_share_is_checked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    spec = made("pods")["spec"]
    assert created("pods", {"metadata": {"name": "a", "namespace": "d"}, "spec": spec}) == []
    monkeypatch.setattr(pod_specs, "_pod_spec", lambda *_: pytest.fail("looked at again"))
    assert created("pods", {"metadata": {"name": "b", "namespace": "d"}, "spec": spec}) == []


def test_errors_of_a_pod_come_in_the_order_of_upstream():
    spec = {
        "containers": [
            {"name": "B", "image": "", "ports": [{"containerPort": 0}], "volumeMounts": [{"name": "v"}]}
        ],
        "tolerations": [{"operator": "In", "key": "k"}],
        "hostname": "A",
    }
    assert [e.partition(": ")[0] for e in created("pods", made("pods", spec=spec))] == [
        "spec.containers[0].name",
        "spec.containers[0].image",
        "spec.containers[0].ports[0].containerPort",
        "spec.containers[0].volumeMounts[0].name",
        "spec.containers[0].volumeMounts[0].mountPath",
        "spec.hostname",
        "spec.tolerations[0].operator",
    ]


def test_pod_update_may_change_images_tolerations_and_deadline_only():
    old = made("pods")

    def to(**fields: Any) -> list[str]:
        return updated("pods", {**old, "spec": {**old["spec"], **fields}}, old)

    container = old["spec"]["containers"][0]
    assert to(containers=[{**container, "image": "j"}]) == []
    assert to(tolerations=[{"key": "k", "operator": "Exists"}]) == []
    assert to(activeDeadlineSeconds=5) == []
    assert to(containers=[container, {**container, "name": "d"}]) == [
        "spec.containers: Forbidden: pod updates may not add or remove containers"
    ]
    (refused,) = to(hostname="h", activeDeadlineSeconds=5)
    assert refused.startswith("spec: Forbidden: pod updates may not change fields other than")
    marked = [line.replace(" ", "") for line in refused.splitlines() if line[0] in "+-"]
    assert marked == ['-\tHostname:"",', '+\tHostname:"h",']  # the deadline may change


def test_empty_init_containers_are_no_difference_of_a_refused_update():
    old = made("pods")
    spec = {**old["spec"], "initContainers": [], "hostname": "h"}
    (refused,) = updated("pods", {**old, "spec": spec}, old)
    marked = [line.replace(" ", "") for line in refused.splitlines() if line[0] in "+-"]
    assert marked == ['-\tHostname:"",', '+\tHostname:"h",']


def test_empty_limits_of_a_pod_make_its_requests_empty():
    container = {"name": "c", "image": "i", "resources": {"limits": {}}}
    spec = made("pods", spec={"containers": [container]})["spec"]
    assert spec["containers"][0]["resources"] == {"limits": {}, "requests": {}}


def test_changed_ephemeral_container_is_refused_with_the_difference() -> None:
    held = {"name": "e", "image": "i", "imagePullPolicy": "Always", "terminationMessagePolicy": "File"}
    old = made("pods")
    old = {**old, "spec": {**old["spec"], "ephemeralContainers": [held]}}
    new = {**old, "spec": {**old["spec"], "ephemeralContainers": [{**held, "image": "j"}]}}
    (refused,) = updated("pods", new, old, "ephemeralcontainers")
    assert 'existing ephemeral containers "e" may not be changed\n  core.EphemeralContainer{' in refused
    assert '+ \t\tImage:   "j",' in refused.splitlines()


def test_container_that_ended_for_good_may_not_run_again():
    def status(**state: Any) -> Obj:
        return {"containerStatuses": [{"name": "c", "state": state}]}

    old = {
        **made("pods", spec={**TEMPLATE["spec"], "restartPolicy": "Never"}),
        "status": status(terminated={"exitCode": 0}),
    }
    assert updated("pods", {**old, "status": status(running={})}, old, "status") == [
        "status.containerStatuses[0].state: Forbidden: may not be transitioned to non-terminated state"
    ]
    assert updated("pods", {**old, "status": status(terminated={"exitCode": 1})}, old, "status") == []
