"""Errors of pods that come, or go, with feature gates and cluster policy.

To see it fail: let `gated_errors` ignore one of the gates, or the stored spec.
"""

from __future__ import annotations

from typing import Any

import pytest

from sim.api.kinds.defaults import apply_defaults
from sim.api.kinds.validation import validate_create, validate_update
from sim.api.scheme.scheme import Scheme
from sim.api.types import Obj
from sim.ident import NAMES
from sim.options.features.gates import (
    DELETION_COST,
    EXPANDED_DNS,
    HOST_PROCESS,
    HUGE_PAGES,
    NO_PRIVILEGED,
    READ_WRITE_ONCE_POD,
)

KUBE = NAMES["kubernetes"]
SCHEME = Scheme(KUBE)
CLOSED = "not allowed when feature gate 'WindowsHostProcessContainers' is not enabled"


def pod(spec: dict[str, Any] | None = None, container: Obj | None = None, **metadata: Any) -> Obj:
    containers = [{"name": "c", "image": "i", **(container or {})}]
    given = {"metadata": {"name": "p", "namespace": "n", **metadata}, "spec": {"containers": containers}}
    return apply_defaults(SCHEME.resource("pods"), {**given, "spec": {**given["spec"], **(spec or {})}})


def problems(obj: Obj, *gates: str) -> list[str]:
    return [f"{each.field}: {each.message}" for each in validate_create(SCHEME.resource("pods"), obj, gates)]


def host(value: bool) -> Obj:
    return {"securityContext": {"windowsOptions": {"hostProcess": value}}}


HUGE = {"env": [{"name": "A", "valueFrom": {"resourceFieldRef": {"resource": "limits.hugepages-2Mi"}}}]}
SEARCHES = [f"{'s' * 30}{i}" for i in range(20)]
CLAIM = {"accessModes": ["ReadWriteOncePod"], "resources": {"requests": {"storage": "1Gi"}}}
CASES: list[tuple[Obj, str, list[str], list[str]]] = [
    (
        pod(container={"securityContext": {"privileged": True}}),
        NO_PRIVILEGED,
        [],
        ["spec.containers[0].securityContext.privileged: Forbidden: disallowed by cluster policy"],
    ),
    (
        pod({"hostNetwork": True}, host(True)),
        NO_PRIVILEGED,
        [],
        ["spec: Forbidden: hostProcess containers are disallowed by cluster policy"],
    ),
    (
        pod(container=HUGE),
        HUGE_PAGES,
        [],
        [
            "spec.containers[0].env[0].valueFrom.resourceFieldRef.resource: Unsupported value: "
            '"limits.hugepages-2Mi": supported values: "limits.cpu", "limits.ephemeral-storage", "limits.memory", '
            '"requests.cpu", "requests.ephemeral-storage", "requests.memory"'
        ],
    ),
    (
        pod({"hostNetwork": True}, host(True)),
        HOST_PROCESS,
        [],
        [
            f"spec.containers[0].securityContext.windowsOptions.hostProcess: Forbidden: {CLOSED}",
            "spec: Forbidden: pod must not contain Windows hostProcess containers when feature gate "
            "'WindowsHostProcessContainers' is not enabled",
        ],
    ),
    (
        pod({**host(True)}, host(False)),
        HOST_PROCESS,
        [
            "spec.containers[0].securityContext.windowsOptions.hostProcess: Invalid value: false: pod hostProcess "
            "value must be identical if both are specified, was true"
        ],
        [f"spec.securityContext.windowsOptions.hostProcess: Forbidden: {CLOSED}"],
    ),
    (
        pod(annotations={"controller.kubernetes.io/pod-deletion-cost": "+5"}),
        DELETION_COST,
        [
            "metadata.annotations[controller.kubernetes.io/pod-deletion-cost]: Invalid value: "
            '"+5": must be a 32bit integer'
        ],
        [],
    ),
    (
        pod({"volumes": [{"name": "v", "ephemeral": {"volumeClaimTemplate": {"spec": CLAIM}}}]}),
        READ_WRITE_ONCE_POD,
        [
            "spec.volumes[0].ephemeral.volumeClaimTemplate.spec.accessModes: Unsupported value: "
            '"ReadWriteOncePod": supported values: "ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce"'
        ],
        [],
    ),
]


@pytest.mark.parametrize(("obj", "gate", "by_default", "changed"), CASES)
def test_errors_of_pods_follow_gates(obj: Obj, gate: str, by_default: list[str], changed: list[str]) -> None:
    assert problems(obj) == by_default
    assert problems(obj, gate) == changed


def test_more_search_paths_are_allowed_with_their_gate() -> None:
    obj = pod({"dnsConfig": {"searches": SEARCHES}})
    assert [text.rpartition(": ")[2] for text in problems(obj)] == [
        "must not have more than 6 search paths",
        "must not have more than 256 characters (including spaces) in the search list",
    ]
    assert problems(obj, EXPANDED_DNS) == []
    many = pod({"dnsConfig": {"searches": ["a"] * 33}})
    assert [text.rpartition(": ")[2] for text in problems(many, EXPANDED_DNS)] == [
        "must not have more than 32 search paths"
    ]


def test_stored_use_of_a_closed_feature_stays() -> None:
    resource = SCHEME.resource("deployments")
    template = {
        "metadata": {"labels": {"a": "b"}},
        "spec": {"containers": [{"name": "c", "image": "i", **HUGE}]},
    }
    made = {
        "metadata": {"name": "d", "namespace": "n", "resourceVersion": "1"},
        "spec": {"selector": {"matchLabels": {"a": "b"}}, "template": template},
    }
    old = apply_defaults(resource, made)
    new = {**old, "spec": {**old["spec"], "replicas": 3}}
    assert validate_update(resource, new, old, "", (HUGE_PAGES,)) == []
    field = "spec.template.spec.containers[0].env[0].valueFrom.resourceFieldRef.resource"
    assert [each.field for each in validate_create(resource, new, (HUGE_PAGES,))] == [field]
