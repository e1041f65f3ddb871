"""Fields of features that can be switched off: dropped from writes unless the stored object has
them.
"""

from __future__ import annotations

from typing import Any

import pytest

from sim.api.kinds.strategies import for_create, for_status, for_update
from sim.api.kinds.validation import validate_create, validate_update
from sim.api.objects import get_in
from sim.api.scheme.scheme import Scheme
from sim.api.types import Obj
from sim.ident import NAMES
from sim.options.features.gates import GATES, is_on

NAMING = NAMES["kubernetes"]
SCHEME = Scheme(NAMING)
POD = {"containers": [{"name": "c", "image": "i"}]}
PROBE = {"httpGet": {"port": 80}, "terminationGracePeriodSeconds": 5}
PROFILE = {f"{NAMING.annotation_apparmor_prefix}c": "runtime/default"}
REF = {"kind": "PersistentVolumeClaim", "name": "c"}
POINT = {"addresses": ["10.0.0.1"]}
CONDITION = {"type": "T", "status": "True"}
TRACKED = {NAMING.annotation_job_tracking: ""}
RULE = {"x-kubernetes-validations": [{"rule": "self > 1"}]}


def obj(**fields: Any) -> Obj:
    return {"metadata": {"name": "x"}, **fields}


def templated(**spec: Any) -> Obj:
    return obj(spec={"template": {"metadata": {}, "spec": {**POD, **spec}}})


CASES = [
    ("CronJobTimeZone", "cronjobs", ("spec", "timeZone"), obj(spec={"timeZone": "UTC"})),
    (
        "EndpointSliceTerminatingCondition",
        "endpointslices",
        ("endpoints", 0, "conditions", "serving"),
        obj(endpoints=[{**POINT, "conditions": {"serving": True}}]),
    ),
    (
        "TopologyAwareHints",
        "endpointslices",
        ("endpoints", 0, "hints"),
        obj(endpoints=[{**POINT, "conditions": {}, "hints": {"forZones": [{"name": "a"}]}}]),
    ),
    ("DynamicKubeletConfig", "nodes", ("spec", "configSource"), obj(spec={"configSource": {"configMap": {}}})),
    (
        "ServiceInternalTrafficPolicy",
        "services",
        ("spec", "internalTrafficPolicy"),
        obj(spec={"type": "ClusterIP", "internalTrafficPolicy": "Local"}),
    ),
    ("AppArmor", "pods", ("metadata", "annotations"), {"metadata": {"name": "x", "annotations": PROFILE}, "spec": POD}),
    (
        "ProbeTerminationGracePeriod",
        "deployments",
        ("spec", "template", "spec", "containers", 0, "livenessProbe", "terminationGracePeriodSeconds"),
        templated(containers=[{"name": "c", "image": "i", "livenessProbe": PROBE}]),
    ),
    (
        "UserNamespacesStatelessPodsSupport",
        "deployments",
        ("spec", "template", "spec", "hostUsers"),
        templated(hostUsers=True),
    ),
    ("CSINodeExpandSecret", "persistentvolumes", ("spec", "csi", "nodeExpandSecretRef"),
     obj(spec={"csi": {"driver": "d", "nodeExpandSecretRef": {"name": "s"}}})),
    ("SELinuxMountReadWriteOncePod", "csidrivers", ("spec", "seLinuxMount"), obj(spec={"seLinuxMount": True})),
    (
        "CustomResourceValidationExpressions",
        "customresourcedefinitions",
        ("spec", "versions", 0, "schema", "openAPIV3Schema", "properties", "a", "x-kubernetes-validations"),
        obj(spec={"versions": [{"schema": {"openAPIV3Schema": {"properties": {"a": {"type": "integer", **RULE}}}}}]}),
    ),
]  # fmt: skip


def found(made: Obj, path: tuple[Any, ...]) -> Any:
    here: Any = made
    for part in path:
        here = here[part] if isinstance(part, int) else (here or {}).get(part)
    return here


@pytest.mark.parametrize(("gate", "plural", "path", "given"), CASES, ids=[case[0] for case in CASES])
def test_field_is_dropped_while_its_gate_is_off_and_no_object_has_it(
    gate: str, plural: str, path: tuple[Any, ...], given: Obj
) -> None:
    resource, default = SCHEME.resource(plural), GATES[gate].default
    on, off = ((), (gate,)) if default else ((gate,), ())
    assert found(for_create(resource, given, NAMING, on), path)
    assert not found(for_create(resource, given, NAMING, off), path)
    bare = for_create(resource, given, NAMING, off)
    assert not found(for_update(resource, given, bare, NAMING, off), path)
    assert found(for_update(resource, given, given, NAMING, off), path)


def test_source_of_any_kind_is_dropped_from_every_write_while_its_gate_is_off() -> None:
    resource, given = SCHEME.resource("persistentvolumeclaims"), obj(spec={"dataSourceRef": REF})
    assert for_create(resource, given, NAMING)["spec"] == {"dataSource": REF, "dataSourceRef": REF}
    assert for_update(resource, given, given, NAMING, ("AnyVolumeDataSource",))["spec"] == {}


def test_changed_gates_have_the_other_value() -> None:
    assert is_on((), "AppArmor") and not is_on(("AppArmor",), "AppArmor")
    assert not is_on((), "NetworkPolicyStatus") and is_on(("NetworkPolicyStatus",), "NetworkPolicyStatus")


def test_status_of_a_policy_can_be_written_while_its_gate_is_on() -> None:
    resource, gate = SCHEME.resource("networkpolicies"), ("NetworkPolicyStatus",)
    old, new = obj(status={}), obj(status={"conditions": [CONDITION]})
    assert for_status(resource, new, old, NAMING)["status"] == {}
    assert for_status(resource, new, old, NAMING, gate)["status"] == new["status"]
    assert for_create(resource, new, NAMING)["status"] == new["status"]  # upstream's quirk
    assert for_create(resource, new, NAMING, gate)["status"] == {}
    assert for_update(resource, obj(status={}), new, NAMING)["status"] == new["status"]
    found = [error.field for error in validate_update(resource, new, old, "status", gate)]
    assert found[-2:] == ["status.conditions[0].lastTransitionTime", "status.conditions[0].reason"]


def test_expansion_is_recorded_while_recovery_is_on() -> None:
    resource, gate = SCHEME.resource("persistentvolumeclaims"), ("RecoverVolumeExpansionFailure",)
    new, old = obj(status={"resizeStatus": "X"}), obj(status={})
    assert for_status(resource, new, old, NAMING)["status"] == {}
    assert for_status(resource, new, old, NAMING, gate)["status"] == {"resizeStatus": "X"}
    assert for_status(resource, new, new, NAMING)["status"] == {"resizeStatus": "X"}


def claim(size: str = "5Gi", **spec: Any) -> Obj:
    wanted = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": size}}, **spec}
    made = obj(spec=wanted, status={"phase": "Bound", "capacity": {"storage": "5Gi"}})
    return {**made, "metadata": {"name": "x", "namespace": "n", "resourceVersion": "1"}}


@pytest.mark.parametrize(
    ("gates", "new", "old", "text"),
    [
        ((), claim("6Gi"), claim("7Gi"), "field can not be less than previous value"),
        (("RecoverVolumeExpansionFailure",), claim("6Gi"), claim("7Gi"), ""),
        (
            ("RecoverVolumeExpansionFailure",),
            claim("5Gi"),
            claim("7Gi"),
            "field can not be less than status.capacity",
        ),
        ((), claim(storageClassName="a"), claim(), "spec is immutable after creation"),
        (("RetroactiveDefaultStorageClass",), claim(storageClassName="a"), claim(), ""),
        (
            ("RetroactiveDefaultStorageClass",),
            claim(storageClassName="a"),
            claim(storageClassName="b"),
            "spec is imm",
        ),
        ((), claim(accessModes=["ReadWriteOncePod"]), claim(accessModes=["ReadWriteOncePod"]), ""),
    ],
)
def test_gates_decide_how_a_claim_may_change(gates: tuple[str, ...], new: Obj, old: Obj, text: str) -> None:
    errors = validate_update(SCHEME.resource("persistentvolumeclaims"), new, old, "", gates)
    assert [text in error.detail for error in errors] == ([True] if text else [])


@pytest.mark.parametrize("plural", ["persistentvolumeclaims", "persistentvolumes"])
def test_volumes_of_one_pod_exist_while_their_gate_is_on(plural: str) -> None:
    resource, gate = SCHEME.resource(plural), ("ReadWriteOncePod",)
    for modes, gates, count in (
        (["ReadWriteOncePod"], (), 1),
        (["ReadWriteOncePod"], gate, 0),
        (["ReadWriteOncePod", "ReadWriteOnce"], gate, 1),
        (["ReadWriteOncePod", "ReadWriteOnce"], (), 2),
    ):
        errors = validate_create(resource, claim(accessModes=modes), gates)
        assert sum("accessModes" in error.field for error in errors) == count


def test_claim_takes_the_class_of_its_annotation_which_is_immutable() -> None:
    resource, key = SCHEME.resource("persistentvolumeclaims"), NAMING.annotation_beta_storage_class

    def annotated(name: str, **spec: Any) -> Obj:
        made = claim(**spec)
        return {**made, "metadata": {**made["metadata"], "annotations": {key: name}}}

    assert validate_update(resource, annotated("a", storageClassName="a"), annotated("a")) == []
    (error,) = validate_update(resource, annotated("b"), annotated("a"))
    assert (error.field, error.detail) == (f"metadata.annotations.{key}", "field is immutable")


def job(**spec: Any) -> Obj:
    wanted = {"suspend": True, "template": {"spec": {**POD, "restartPolicy": "Never", **spec}}}
    meta = {"name": "x", "namespace": "n", "uid": "u", "annotations": TRACKED}
    return for_create(SCHEME.resource("jobs"), {"metadata": meta, "spec": wanted}, NAMING)


def test_suspended_job_is_rescheduled_only_while_that_gate_is_on() -> None:
    resource, old = SCHEME.resource("jobs"), job()
    new = {**job(nodeSelector={"a": "b"}), "metadata": old["metadata"]}
    assert "spec.template" not in [e.field for e in validate_update(resource, new, old)]
    gates = ("JobMutableNodeSchedulingDirectives",)
    assert "spec.template" in [e.field for e in validate_update(resource, new, old, "", gates)]


def test_mark_of_a_tracked_job_follows_its_gate_and_cannot_be_added() -> None:
    resource, gate = SCHEME.resource("jobs"), ("JobTrackingWithFinalizers",)
    plain = {
        "metadata": {"name": "x", "uid": "u", "annotations": TRACKED},
        "spec": {"template": {"spec": POD}},
    }
    assert get_in(for_create(resource, plain, NAMING), ("metadata", "annotations")) == TRACKED
    off = for_create(resource, plain, NAMING, gate)
    assert "annotations" not in off["metadata"]
    assert "annotations" not in for_update(resource, plain, off, NAMING, gate)["metadata"]
    texts = [e.detail for e in validate_update(resource, job(), {**off, "status": {}})]
    assert "cannot add this annotation" in texts


def test_load_balancer_of_mixed_protocols_needs_its_gate() -> None:
    resource, gate = SCHEME.resource("services"), ("MixedProtocolLBService",)
    ports = [{"name": n, "port": 1, "protocol": n.upper(), "targetPort": 1} for n in ("tcp", "udp")]
    spec = {
        "type": "LoadBalancer",
        "ports": ports,
        "sessionAffinity": "None",
        "externalTrafficPolicy": "Cluster",
    }
    service = obj(spec={**spec, "internalTrafficPolicy": "Cluster", "allocateLoadBalancerNodePorts": True})
    text = "may not contain more than 1 protocol when type is 'LoadBalancer'"
    for gates, wanted in (((), False), (gate, True)):
        details = [error.detail for error in validate_create(resource, service, gates)]
        assert (text in details) is wanted


def test_pod_with_users_of_its_own_has_no_namespaces_of_the_host() -> None:
    gate, volumes = ("UserNamespacesStatelessPodsSupport",), [{"name": "v", "hostPath": {"path": "/"}}]
    pod = obj(spec={**POD, "hostUsers": False, "hostPID": True, "hostNetwork": True, "volumes": volumes})
    extra = [error.field for error in validate_create(SCHEME.resource("pods"), pod, gate)]
    assert {"spec.volumes[0]", "spec.hostNetwork", "spec.HostPID"} <= {*extra}
    assert "spec.HostPID" not in [error.field for error in validate_create(SCHEME.resource("pods"), pod)]


def test_service_of_another_kind_has_no_balancer_state_and_no_internal_policy() -> None:
    resource = SCHEME.resource("services")
    old = obj(spec={"type": "LoadBalancer"}, status={"loadBalancer": {"ingress": [{"ip": "1.2.3.4"}]}})
    new = for_update(resource, obj(spec={"type": "NodePort"}), old, NAMING)
    assert new["status"] == {"loadBalancer": {}}
    named = obj(spec={"type": "ExternalName", "internalTrafficPolicy": "Local"})
    assert "internalTrafficPolicy" not in for_create(resource, named, NAMING)["spec"]
