"""Semantic validation on plain values; the recorded answers are in test_validation_golden."""

from __future__ import annotations

from base64 import b64encode
from typing import Any

import pytest

from sim.api.kinds.common.pods import spec as pod_specs
from sim.api.kinds.defaults import apply_defaults
from sim.api.kinds.validation import FieldError, validate_create, validate_update
from sim.api.schema.scheme import Scheme
from sim.api.types import Obj
from sim.ident import NAMES

SCHEME = Scheme(NAMES["kubernetes"])
TEMPLATE: Obj = {
    "metadata": {"labels": {"a": "b"}},
    "spec": {"containers": [{"name": "c", "image": "i"}]},
}
VALID: dict[str, Obj] = {
    "pods": {"spec": TEMPLATE["spec"]},
    "nodes": {"spec": {"taints": [{"key": "k", "effect": "NoSchedule"}]}},
    "namespaces": {},
    "configmaps": {"data": {"k": "v"}},
    "secrets": {"data": {"k": "dg=="}, "type": "Opaque"},
    "serviceaccounts": {},
    "endpoints": {"subsets": [{"addresses": [{"ip": "10.1.2.3"}], "ports": [{"port": 80}]}]},
    "events": {"involvedObject": {"namespace": "d"}},
    "deployments": {"spec": {"selector": {"matchLabels": {"a": "b"}}, "template": TEMPLATE}},
    "replicasets": {"spec": {"selector": {"matchLabels": {"a": "b"}}, "template": TEMPLATE}},
    "daemonsets": {"spec": {"selector": {"matchLabels": {"a": "b"}}, "template": TEMPLATE}},
    "statefulsets": {"spec": {"selector": {"matchLabels": {"a": "b"}}, "template": TEMPLATE}},
    "jobs": {
        "spec": {
            "manualSelector": True,
            "selector": {"matchLabels": {"a": "b"}},
            "template": {**TEMPLATE, "spec": {**TEMPLATE["spec"], "restartPolicy": "Never"}},
        }
    },
    "leases": {"spec": {"leaseDurationSeconds": 40}},
    "poddisruptionbudgets": {"spec": {"minAvailable": "50%"}},
    "priorityclasses": {"value": 7},
    "controllerrevisions": {"data": {}, "revision": 1},
    "endpointslices": {"addressType": "IPv4", "endpoints": [{"addresses": ["10.1.2.3"]}]},
    "persistentvolumeclaims": {
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    },
}


def made(resource: str, **fields: Any) -> Obj:
    found = SCHEME.resource(resource)
    metadata: Obj = {"name": "x", "namespace": "d"} if found.namespaced else {"name": "x"}
    metadata["resourceVersion"] = "1"
    return apply_defaults(found, {"metadata": metadata, **VALID.get(resource, {}), **fields})


def texts(errors: list[FieldError]) -> list[str]:
    return [f"{error.field}: {error.message}" for error in errors]


def created(resource: str, obj: Obj) -> list[str]:
    return texts(validate_create(SCHEME.resource(resource), obj))


def updated(resource: str, new: Obj, old: Obj, subresource: str = "") -> list[str]:
    return texts(validate_update(SCHEME.resource(resource), new, old, subresource))


@pytest.mark.parametrize("resource", sorted(VALID))
def test_a_valid_object_of_every_kind_passes_and_so_does_its_relabelling(resource: str) -> None:
    obj = made(resource)
    assert created(resource, obj) == []
    assert updated(resource, {**obj, "metadata": {**obj["metadata"], "labels": {"x": "y"}}}, obj) == []


@pytest.mark.parametrize("resource", sorted(VALID))
def test_a_bad_name_is_refused_for_every_kind(resource: str) -> None:
    obj = made(resource)
    bad = {**obj, "metadata": {**obj["metadata"], "name": "a/b"}}
    assert created(resource, bad)


def test_pods_of_one_template_are_looked_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    spec = made("pods")["spec"]
    assert created("pods", {"metadata": {"name": "a", "namespace": "d"}, "spec": spec}) == []
    monkeypatch.setattr(pod_specs, "_pod_spec", lambda *_: pytest.fail("looked at again"))
    assert created("pods", {"metadata": {"name": "b", "namespace": "d"}, "spec": spec}) == []


def test_errors_come_in_the_order_of_the_spec():
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


def test_an_update_of_a_pod_may_change_images_and_little_else():
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
    assert to(hostname="h")[0].startswith("spec: Forbidden: pod updates may not change fields other than")


def test_selectors_must_match_their_template_and_stay():
    for resource in ("deployments", "replicasets", "daemonsets"):
        old = made(resource)
        new = {**old, "spec": {**old["spec"], "selector": {"matchLabels": {"a": "c"}}}}
        assert (
            'spec.template.metadata.labels: Invalid value: map[string]string{"a":"b"}:'
            " `selector` does not match template `labels`"
        ) in updated(resource, new, old)
        assert any(
            "spec.selector: Invalid value: v1.LabelSelector{" in text for text in updated(resource, new, old)
        )


def test_a_container_that_ended_for_good_stays_ended():
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


def test_metadata_that_may_not_change_is_told_by_the_generic_rules_and_the_kinds_own():
    old = made("configmaps")
    new = {**old, "metadata": {**old["metadata"], "uid": "u"}}
    assert updated("configmaps", new, old) == ['metadata.uid: Invalid value: "u": field is immutable'] * 2


def test_an_immutable_config_map_stays_as_it_is():
    old = made("configmaps", immutable=True)
    assert updated("configmaps", {**old, "data": {"k": "w"}, "immutable": False}, old) == [
        "immutable: Forbidden: field is immutable when `immutable` is set",
        "data: Forbidden: field is immutable when `immutable` is set",
    ]


def test_a_claim_keeps_its_volume_mode_and_has_no_less_than_nothing() -> None:
    claim = made("persistentvolumeclaims")
    block = {**claim, "spec": {**claim["spec"], "volumeMode": "Block"}}
    assert updated("persistentvolumeclaims", block, claim)[1:] == [
        'volumeMode: Invalid value: "Block": field is immutable'
    ]
    negative = {**claim, "status": {"capacity": {"storage": "-1Ki", "x": "1"}}}
    assert updated("persistentvolumeclaims", negative, claim, "status") == [
        "status.capacity[storage]: Invalid value: -1024: must be a valid resource quantity"
    ]


@pytest.mark.parametrize(
    "resource", ["events", "configmaps", "leases", "poddisruptionbudgets", "runtimeclasses"]
)
@pytest.mark.parametrize(
    "wrong",
    [
        {"name": ""},
        {"name": "a/b"},
        {"name": "a%b"},
        {"name": ".."},
        {"labels": {"a b": "c"}},
        {"annotations": {"a b": "c"}},
        {"finalizers": ["a b"]},
        {"ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "", "uid": "u"}]},
    ],
)
def test_no_kind_is_made_with_metadata_that_the_generic_rules_refuse(
    resource: str, wrong: dict[str, Any]
) -> None:
    obj = made(resource, **({"involvedObject": {"namespace": "d"}} if resource == "events" else {}))
    if resource == "runtimeclasses":
        obj = {**obj, "handler": "h"}
    assert created(resource, obj) == []
    assert created(resource, {**obj, "metadata": {**obj["metadata"], **wrong}}) != []


@pytest.mark.parametrize(
    ("kind", "problems"),
    [
        ("Pod", []),
        ("example.com/Widget", []),
        ("Widget", ["must be a standard limit type or fully qualified"]),
        ("", ["name part must be non-empty", "name part must consist of"]),
        ("Bad_/x", ["prefix part a lowercase RFC 1123 subdomain must consist of"]),
    ],
)
def test_the_type_of_a_limit_is_a_name_first_and_a_known_one_then(kind: str, problems: list[str]) -> None:
    found = created("limitranges", made("limitranges", spec={"limits": [{"type": kind}]}))
    assert len(found) == len(problems)
    for error, problem in zip(found, problems, strict=True):
        assert error.startswith(f'spec.limits[0].type: Invalid value: "{kind}": {problem}')


def test_how_many_pods_of_a_set_may_be_unavailable() -> None:
    def strategy(unavailable: object) -> list[str]:
        rolling = {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": unavailable}}
        spec = {**made("statefulsets")["spec"], "updateStrategy": rolling}
        return created("statefulsets", made("statefulsets", spec=spec))

    at = "spec.updateStrategy.rollingUpdate.maxUnavailable: Invalid value: "
    none = 'intstr.IntOrString{Type:0, IntVal:0, StrVal:""}: cannot be 0'
    assert strategy(3) == strategy("40%") == []
    assert strategy(0) == [at + none]
    assert strategy(-1) == [f"{at}-1: must be greater than or equal to 0"]
    assert strategy("0%") == [at + 'intstr.IntOrString{Type:1, IntVal:0, StrVal:"0%"}: cannot be 0']
    (odd, as_none) = strategy("all")
    assert odd.startswith(f'{at}"all": a valid percent string') and as_none.endswith("cannot be 0")
    above = "must not be greater than 100%"
    assert strategy("101%") == [f'{at}intstr.IntOrString{{Type:1, IntVal:0, StrVal:"101%"}}: {above}']


def test_claims_are_retained_or_deleted() -> None:
    policy = {"whenDeleted": "Delete", "whenScaled": "Keep"}
    spec = {**made("statefulsets")["spec"], "persistentVolumeClaimRetentionPolicy": policy}
    assert created("statefulsets", made("statefulsets", spec=spec)) == [
        'spec.persistentVolumeClaimRetentionPolicy.whenScaled: Unsupported value: "Keep":'
        ' supported values: "Retain", "Delete"'
    ]


IN_1 = {"operator": "In", "values": [1]}
RULE = "spec.podFailurePolicy.rules[0]"


@pytest.mark.parametrize(
    ("rule", "wrong"),
    [
        ({"action": "FailJob", "onExitCodes": IN_1}, []),
        ({"action": "Ignore", "onPodConditions": [{"type": "x.io/A", "status": "True"}]}, []),
        (
            {"onExitCodes": IN_1},
            [f'{RULE}.action: Required value: valid values: ["Count" "FailJob" "Ignore"]'],
        ),
        (
            {"action": "Stop", "onExitCodes": IN_1},
            [f'{RULE}.action: Unsupported value: "Stop": supported values: "Count", "FailJob", "Ignore"'],
        ),
        (
            {"action": "Count"},
            [f"{RULE}: Invalid value: specifying one of OnExitCodes and OnPodConditions is required"],
        ),
        (
            {
                "action": "Count",
                "onExitCodes": IN_1,
                "onPodConditions": [{"type": "A b", "status": "Maybe"}],
            },
            [
                f'{RULE}.onPodConditions[0].type: Invalid value: "A b": name part must consist of',
                f'{RULE}.onPodConditions[0].status: Unsupported value: "Maybe":'
                ' supported values: "False", "True", "Unknown"',
                f"{RULE}: Invalid value: specifying both OnExitCodes and OnPodConditions is not supported",
            ],
        ),
        (
            {"action": "Count", "onExitCodes": {"operator": "In", "values": [3, 0, 3], "containerName": "d"}},
            [
                f'{RULE}.onExitCodes.containerName: Invalid value: "d": must be one of the container',
                f"{RULE}.onExitCodes.values[1]: Invalid value: 0: must not be 0 for the In operator",
                f"{RULE}.onExitCodes.values[2]: Duplicate value: 3",
                f"{RULE}.onExitCodes.values: Invalid value: []int32{{3, 0, 3}}: must be ordered",
            ],
        ),
        (
            {"action": "Count", "onExitCodes": {"values": []}},
            [
                f'{RULE}.onExitCodes.operator: Required value: valid values: ["In" "NotIn"]',
                f"{RULE}.onExitCodes.values: Invalid value: []int32{{}}: at least one value is required",
            ],
        ),
    ],
)
def test_rules_on_pods_that_fail(rule: dict[str, Any], wrong: list[str]) -> None:
    spec = {**made("jobs")["spec"], "podFailurePolicy": {"rules": [rule]}}
    found = created("jobs", made("jobs", spec=spec))
    assert [text[: len(want)] for text, want in zip(found, wrong, strict=True)] == wrong


def test_rules_on_pods_that_fail_want_pods_that_run_once_and_stay_as_they_are() -> None:
    old = made("jobs")
    rules = [{"action": "FailJob", "onExitCodes": IN_1}]
    spec = {**old["spec"], "podFailurePolicy": {"rules": rules}}
    assert any("spec.podFailurePolicy: " in text for text in updated("jobs", {**old, "spec": spec}, old))
    again = {**spec, "template": {**spec["template"], "spec": {**spec["template"]["spec"]}}}
    again["template"]["spec"]["restartPolicy"] = "OnFailure"
    assert created("jobs", made("jobs", spec=again)) == [
        'spec.template.spec.restartPolicy: Invalid value: "OnFailure":'
        ' only "Never" is supported when podFailurePolicy is specified'
    ]
    many = {**spec, "podFailurePolicy": {"rules": rules * 21}}
    assert created("jobs", made("jobs", spec=many)) == [
        "spec.podFailurePolicy.rules: Too many: 21: must have at most 20 items"
    ]


@pytest.mark.parametrize(
    ("fields", "wrong"),
    [
        ({"minDomains": 2, "nodeAffinityPolicy": "Ignore", "matchLabelKeys": ["x.io/v"]}, []),
        ({"minDomains": 0}, ["minDomains: Invalid value: 0: must be greater than zero"]),
        (
            {"minDomains": 2, "whenUnsatisfiable": "ScheduleAnyway"},
            [
                "minDomains: Invalid value: 2: can only use minDomains if"
                " whenUnsatisfiable=DoNotSchedule, not ScheduleAnyway"
            ],
        ),
        (
            {"nodeTaintsPolicy": "Heed"},
            ['nodeTaintsPolicy: Unsupported value: "Heed": supported values: "Honor", "Ignore"'],
        ),
        (
            {"matchLabelKeys": ["a", "b c"]},
            [
                'matchLabelKeys[0]: Invalid value: "a": exists in both matchLabelKeys and labelSelector',
                'matchLabelKeys[1]: Invalid value: "b c": name part must consist of',
            ],
        ),
    ],
)
def test_fields_of_a_spread_that_have_gates(fields: dict[str, Any], wrong: list[str]) -> None:
    rule = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}
    rule["labelSelector"] = {"matchLabels": {"a": "b"}}
    spec = {**made("pods")["spec"], "topologySpreadConstraints": [{**rule, **fields}]}
    found = created("pods", made("pods", spec=spec))
    at = "spec.topologySpreadConstraints[0]."
    assert [text.removeprefix(at)[: len(want)] for text, want in zip(found, wrong, strict=True)] == wrong


@pytest.mark.parametrize(
    "text, problem",
    [
        ("{}", ""),
        ("null", ""),
        ("", "unexpected end of JSON input"),
        ("[1]", "json: cannot unmarshal array into Go value of type map[string]interface {}"),
        ("x", "invalid character 'x' looking for beginning of value"),
        ("[" * 100_000, "invalid character '[' exceeded max depth"),
    ],
)
def test_what_a_registry_is_asked_with_is_a_mapping(text: str, problem: str) -> None:
    data = {".dockerconfigjson": b64encode(text.encode()).decode()}
    secret = made("secrets", type="kubernetes.io/dockerconfigjson", data=data)
    wanted = f'data[.dockerconfigjson]: Invalid value: "<secret contents redacted>": {problem}'
    assert created("secrets", secret) == ([wanted] if problem else [])
