"""Rules of pod specs, each of the function of validation.go that its test names."""

from __future__ import annotations

from typing import Any

import pytest

from sim.api.kinds.common.pods.defaults import fill_pod_spec, pull_policy
from sim.api.kinds.common.pods.spec import pod_spec
from sim.api.types import Obj
from tests.unit.sim.api.kinds.samples import texts


def errors(container: Obj | None = None, **spec: Any) -> list[str]:
    main = {"name": "c", "image": "i", **(container or {})}
    return texts(pod_spec(fill_pod_spec({"containers": [main], **spec}), "spec"))


def heads(found: list[str]) -> list[str]:
    """The errors without their details."""
    return [": ".join(text.split(": ")[: 3 if "value" in text or "found" in text else 2]) for text in found]


def test_names_of_sources_of_the_environment_are_subdomains() -> None:
    """validateConfigMapEnvSource, validateSecretEnvSource: a trailing dash is accepted."""
    found = errors({"envFrom": [{"configMapRef": {"name": "A"}}, {"secretRef": {"name": "a-"}}]})
    assert heads(found) == ['spec.containers[0].envFrom[0].configMapRef.name: Invalid value: "A"']


def test_paths_of_some_errors_of_mounts_lack_the_index() -> None:
    """ValidateVolumeMounts, ValidateVolumeDevices."""
    found = errors(
        {
            "volumeMounts": [{"mountPath": "/m", "subPath": "/a", "mountPropagation": "x"}],
            "volumeDevices": [{"devicePath": "/d"}],
        }
    )
    at = "spec.containers[0]"
    assert heads(found) == [
        f"{at}.volumeMounts[0].name: Required value",
        f'{at}.volumeMounts[0].name: Not found: ""',
        f'{at}.volumeMounts[0].name: Invalid value: ""',
        f'{at}.volumeMounts.subPath: Invalid value: "/a"',
        f'{at}.volumeMounts.mountPropagation: Unsupported value: "x"',
        f"{at}.volumeDevices[0].name: Required value",
        f'{at}.volumeDevices[0].name: Not found: ""',
        f'{at}.volumeDevices[0].name: Invalid value: ""',
    ]


def test_spread_constraints_repeat_at_the_first_and_keep_any_selector() -> None:
    """ValidateSpreadConstraintNotRepeat; their label selectors are not checked."""
    one = {"maxSkew": 1, "topologyKey": "z", "whenUnsatisfiable": "DoNotSchedule"}
    odd = {**one, "labelSelector": {"matchExpressions": [{"key": "-", "operator": "x"}]}}
    assert errors(topologySpreadConstraints=[odd, one]) == [
        "spec.topologySpreadConstraints[0].{topologyKey, whenUnsatisfiable}:"
        ' Duplicate value: "{z, DoNotSchedule}"'
    ]


def test_overhead_is_checked_as_limits() -> None:
    """validateOverhead."""
    assert errors(overhead={"cpu": "-1"}) == [
        'spec.overhead.limits[cpu]: Invalid value: "-1": must be greater than or equal to 0'
    ]


@pytest.mark.parametrize(
    ("system", "error"),
    [
        ({}, "spec.os.name: Required value: cannot be empty"),
        ({"name": "x"}, 'spec.os: Unsupported value: "x": supported values: "linux", "windows"'),
        (
            {"name": "linux"},
            "spec.securityContext.windowsOptions: Forbidden: windows options cannot be set for a linux pod",
        ),
        (
            {"name": "windows"},
            "spec.shareProcessNamespace: Forbidden: cannot be set for a windows pod",
        ),
    ],
)
def test_operating_system_forbids_fields_of_the_other(system: Obj, error: str) -> None:
    """validateOS, validateLinux, validateWindows."""
    security = {"windowsOptions": {}}
    assert errors(os=system, securityContext=security, shareProcessNamespace=False) == [error]


def test_ports_of_the_network_of_the_node_are_checked_after_containers() -> None:
    """validateHostNetwork: of main containers only."""
    port = {"ports": [{"containerPort": 80, "hostPort": 81}]}
    found = errors(port, hostNetwork=True, initContainers=[{"name": "c", "image": "i", **port}])
    assert heads(found) == [
        'spec.initContainers[0].name: Duplicate value: "c"',
        "spec.containers[0].ports[0].containerPort: Invalid value: 80",
    ]


def test_metadata_of_a_claim_template_has_labels_and_annotations_only() -> None:
    """validatePersistentVolumeClaimTemplateObjectMeta: names are those of Go."""
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    metadata = {"labels": {"a": "b c"}, "uid": "u", "managedFields": [{}]}
    claim = {"volumeClaimTemplate": {"metadata": metadata, "spec": spec}}
    at = "spec.volumes[0].ephemeral.volumeClaimTemplate.metadata"
    assert heads(errors(volumes=[{"name": "v", "ephemeral": claim}])) == [
        f'{at}.labels: Invalid value: "b c"',
        f"{at}.uID: Forbidden",
        f"{at}.managedFields: Forbidden",
    ]


def test_field_of_a_resource_has_one_of_a_few_divisors() -> None:
    """validateContainerResourceDivisor compares texts, after any other error."""
    reference = {"resource": "limits.memory", "divisor": "1024"}
    items = [{"path": "p", "resourceFieldRef": reference}]
    found = errors(volumes=[{"name": "v", "downwardAPI": {"items": items}}])
    at = "spec.volumes[0].downwardAPI.resourceFieldRef"
    assert heads(found) == [
        f"{at}.containerName: Required value",
        f'{at}.divisor: Invalid value: "limits.memory"',
    ]


@pytest.mark.parametrize(
    ("image", "policy"),
    [
        *(
            (image, "Always")
            for image in ("i", "a.b/c", "a:5000/b:latest", "localhost/x", "i:latest", "a__b")
        ),
        *(
            (image, "IfNotPresent")
            for image in ("A/b", "i:v1", "x" * 240, "f" * 64, "[::1]/a", "i:", "a___b")
        ),
    ],
)
def test_image_that_cannot_be_parsed_is_not_the_latest(image: str, policy: str) -> None:
    """docker/distribution reference: names of at most 255 bytes with their registry, and no ids."""
    assert pull_policy(image) == policy
