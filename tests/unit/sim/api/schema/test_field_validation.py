"""Bodies to objects: types, unknown and duplicate fields, canonical text."""

from __future__ import annotations

import pytest

from sim.api.schema.decoding import decode
from sim.api.schema.field_validation import STRICT, DecodeError, conform
from sim.api.schema.json_text import syntax_error
from sim.api.scheme.scheme import Scheme
from sim.ident import NAMES

SCHEME = Scheme(NAMES["kubernetes"])
POD, CONFIG_MAP, LEASE = (SCHEME.resource(name) for name in ("pods", "configmaps", "leases"))


def test_unknown_and_duplicate_fields_are_dropped_and_reported_in_text_order():
    decoded = decode(CONFIG_MAP, b'{"metadata":{"name":"a","nope":1},"data":{"k":"1","k":"2"},"more":{}}')
    assert decoded.obj == {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "a"},
        "data": {"k": "2"},
    }
    assert decoded.problems == [
        'unknown field "metadata.nope"',
        'duplicate field "data.k"',
        'unknown field "more"',
    ]


def test_repeated_keys_of_yaml_come_first_and_only_strict_reports_them() -> None:
    assert decode(CONFIG_MAP, {"q": 1}, repeated="yaml: r").problems == ['unknown field "q"']
    with pytest.raises(DecodeError, match=r'strict decoding error: yaml: r, unknown field "q"$'):
        decode(CONFIG_MAP, {"q": 1}, STRICT, "yaml: r")


def test_hundred_unknown_fields_are_reported_once_each_in_go_quotes() -> None:
    many = decode(POD, {"spec": {"containers": [{}, {}]}} | {f"k{n}": 1 for n in range(300)})
    assert [many.problems[0], many.problems[99], len(many.problems)] == [
        'unknown field "k0"',
        'unknown field "k99"',
        100,
    ]
    odd = decode(POD, {'a"\\': 1, "\0\n\x7f": 1, "é\u2028": 1}).problems
    assert odd == [
        r'unknown field "a\"\\"',
        r'unknown field "\x00\n\x7f"',
        r'unknown field "é\u2028"',
    ]


def test_strict_refuses_what_others_warn_of():
    body = b'{"spec":{"containers":[{"name":"c","nope":1}]}}'
    assert decode(POD, body).problems == ['unknown field "spec.containers[0].nope"']
    with pytest.raises(
        DecodeError, match=r'strict decoding error: unknown field "spec.containers\[0\].nope"'
    ):
        decode(POD, body, STRICT)


def test_nulls_say_nothing_but_are_empty_text_in_maps():
    obj = decode(
        CONFIG_MAP,
        b'{"metadata":{"name":"a","labels":{},"finalizers":[]},"data":{"k":null},"immutable":null}',
    ).obj
    assert obj["metadata"] == {"name": "a"}
    assert obj["data"] == {"k": ""}
    assert "immutable" not in obj


def test_zero_optional_scalars_are_dropped_unless_pointers_or_always_written():
    container = {"name": "c", "image": "", "tty": False, "ports": [{"containerPort": 0, "hostPort": 0}]}
    spec = {
        "hostNetwork": False,
        "priorityClassName": "",
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": 0,
    }
    obj = decode(
        POD, {"metadata": {"name": "a", "generateName": ""}, "spec": {**spec, "containers": [container]}}
    ).obj
    assert obj["metadata"] == {"name": "a"}
    assert obj["spec"] == {
        "containers": [{"name": "c", "ports": [{"containerPort": 0}]}],
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": 0,
    }
    counts = {"replicas": 0, "availableReplicas": 0, "readyReplicas": 0}
    for resource, wanted in (
        ("deployments", {}),
        ("replicasets", {"replicas": 0}),
        ("statefulsets", {"replicas": 0, "availableReplicas": 0}),
    ):
        assert decode(SCHEME.resource(resource), {"status": counts}).obj["status"] == wanted


def test_quantities_and_times_come_out_canonical():
    text = b'{"spec":{"containers":[{"name":"c","resources":{"limits":{"cpu":2,"memory":"1.5Gi"}}}]}}'
    assert decode(POD, text).obj["spec"]["containers"][0]["resources"]["limits"] == {
        "cpu": "2",
        "memory": "1536Mi",
    }
    lease = decode(LEASE, b'{"spec":{"renewTime":"2020-01-01T01:00:00.123456+01:00"}}').obj
    assert lease["spec"]["renewTime"] == "2020-01-01T00:00:00.123456Z"


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (b'{"spec":[]}', "json: cannot unmarshal array into Go struct field Pod.spec of type v1.PodSpec"),
        (
            b'{"spec":{"containers":[{"ports":[{"containerPort":80.5}]}]}}',
            "json: cannot unmarshal number 80.5 into Go struct field"
            " ContainerPort.spec.containers.ports.containerPort of type int32",
        ),
        (
            b'{"metadata":{"labels":{"a":1}}}',
            "json: cannot unmarshal number into Go struct field ObjectMeta.metadata.labels of type string",
        ),
        (
            b'{"spec":{"containers":[{"resources":{"limits":{"cpu":"x"}}}]}}',
            "quantities must match the regular expression",
        ),
        (
            b'{"metadata":{"creationTimestamp":"2020-01-01T00:00:00+24:00"}}',
            'parsing time "2020-01-01T00:00:00+24:00": time zone offset hour out of range',
        ),
        (
            b'{"status":{"startTime":"2020-01-01T00:00:00-01:60"}}',
            'parsing time "2020-01-01T00:00:00-01:60": time zone offset minute out of range',
        ),
    ],
)
def test_wrong_types_are_reported_as_by_gos_decoder(body: bytes, text: str) -> None:
    with pytest.raises(DecodeError) as caught:
        decode(POD, body)
    assert caught.value.message.startswith('Pod in version "v1" cannot be handled as a Pod: ' + text)


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("", "unexpected end of JSON input"),
        ("{", "unexpected end of JSON input"),
        ("{}x", "invalid character 'x' after top-level value"),
        ("[1 2]", "invalid character '2' after array element"),
        ("{a:1}", "invalid character 'a' looking for beginning of object key string"),
        ('{"a" 1}', "invalid character '1' after object key"),
        ("- {op: add}", "invalid character ' ' in numeric literal"),
        ("nul!", "invalid character '!' in literal null (expecting 'l')"),
    ],
)
def test_broken_json_is_reported_as_by_gos_scanner(text: str, error: str) -> None:
    assert syntax_error(text) == error


def test_a_body_of_another_kind_is_refused():
    for body, text in (
        (
            b'{"kind":"Secret","apiVersion":"v1"}',
            "converting (v1.Secret) to (core.ConfigMap): unknown conversion",
        ),
        (b'{"kind":"Foo"}', 'no kind "Foo" is registered for version "v1"'),
        (b'{"kind":1}', "couldn't get version/kind"),
        (b"[]", "couldn't get version/kind"),
    ):
        with pytest.raises(DecodeError) as caught:
            decode(CONFIG_MAP, body)
        assert text in caught.value.message


def test_the_core_group_may_be_written_as_none_and_nothing_else_for_it():
    body = b'{"apiVersion":"/v1","kind":"ConfigMap","metadata":{"name":"a"}}'
    assert decode(CONFIG_MAP, body).obj["apiVersion"] == "v1"
    empty = decode(CONFIG_MAP, b'{"apiVersion":"","kind":"","metadata":{"name":"a"}}').obj
    assert (empty["apiVersion"], empty["kind"]) == ("v1", "ConfigMap")
    older = b'{"apiVersion":"autoscaling/v1","kind":"HorizontalPodAutoscaler"}'
    with pytest.raises(DecodeError) as caught:
        decode(SCHEME.resource("horizontalpodautoscalers"), older)
    assert caught.value.message == (
        "the API version in the data (autoscaling/v1) does not match the expected API version (autoscaling/v2)"
    )


@pytest.mark.parametrize(
    ("plural", "version", "says"),
    [
        ("subjectaccessreviews", "authorization.k8s.io/v1beta1", "the API version in the data"),
        ("clusterroles", "rbac.authorization.k8s.io/v1alpha1", "the API version in the data"),
        ("networkpolicies", "networking.k8s.io/v1beta1", 'no kind "NetworkPolicy" is registered'),
        ("subjectaccessreviews", "authorization.k8s.io/v1alpha1", "no kind"),
        ("leases", "policy/v1beta1", "no kind"),
    ],
)
def test_version_that_is_known_and_not_served_is_another_version(
    plural: str, version: str, says: str
) -> None:
    with pytest.raises(DecodeError) as refused:
        decode(SCHEME.resource(plural), {"apiVersion": version})
    assert says in refused.value.message


@pytest.mark.parametrize(
    ("body", "error"),
    [
        ({"spec": {"restartPolicy": 1}}, "number into Go struct field PodSpec.spec.restartPolicy of type v1.RestartPolicy"),
        ({"metadata": {"uid": True}}, "bool into Go struct field ObjectMeta.metadata.uid of type types.UID"),
        (
            {"spec": {"containers": [{"resources": {"limits": 1}}]}},
            "number into Go struct field ResourceRequirements.spec.containers.resources.limits of type v1.ResourceList",
        ),
    ],
)  # fmt: skip
def test_wrong_value_is_reported_with_the_go_type_of_its_field(body, error):
    with pytest.raises(DecodeError) as refused:
        decode(POD, body)
    assert refused.value.message.endswith(f"json: cannot unmarshal {error}")


def test_error_of_a_type_with_its_own_reader_ends_the_reading():
    """encoding/json: such an error is returned, one of a wrong type is only noted."""
    for late in (
        b'"creationTimestamp":"x"',
        b'"creationTimestamp":"x","generation":"y"',
    ):
        with pytest.raises(DecodeError, match="parsing time"):
            decode(POD, b'{"metadata":{"name":1,' + late + b"}}")
    with pytest.raises(DecodeError, match="number 1e3 into Go struct field"):
        decode(POD, b'{"spec":{"activeDeadlineSeconds":1e3,"priority":"x"}}')


def test_fields_given_twice_are_merged():
    """encoding/json decodes the second value into the first; null unsets pointers, lists and maps."""
    spec = (
        b'{"nodeSelector":{"a":"b","a":"c"},"nodeSelector":{"d":"e"},"containers":[{"name":"a","image":"i"}],'
        b'"containers":[{"name":"b"}],"securityContext":{"fsGroup":1},"securityContext":null,'
        b'"hostname":"h","hostname":null,"unknown":1,"unknown":2}'
    )
    decoded = decode(POD, b'{"spec":' + spec + b"}")
    assert decoded.obj["spec"] == {
        "nodeSelector": {"a": "c", "d": "e"},
        "containers": [{"name": "b", "image": "i"}],
        "hostname": "h",
    }
    assert decoded.problems == [
        *(f'duplicate field "spec.{name}"' for name in ("nodeSelector.a", "nodeSelector", "containers")),
        'duplicate field "spec.securityContext"',
        'duplicate field "spec.hostname"',
        'unknown field "spec.unknown"',
    ]


@pytest.mark.parametrize(
    ("second", "containers"),
    [(b'{"nodeName":"n"}', [{"name": "c"}]), (b'{"containers":[]}', None), (b'{"containers":null}', None)],
)
def test_list_of_a_struct_given_twice_is_kept_unless_the_second_has_one(second, containers):
    decoded = decode(POD, b'{"spec":{"containers":[{"name":"c"}]},"spec":' + second + b"}")
    assert decoded.obj["spec"]["containers"] == containers


def test_quantity_keeps_the_text_of_its_number():
    limits = decode(POD, b'{"spec":{"overhead":{"cpu":1e3,"memory":1.5}}}')
    assert limits.obj["spec"]["overhead"] == {"cpu": "1e3", "memory": "1500m"}
    assert limits.sent.quantities == {"1500m": "1.5"}


def test_structs_and_lists_that_go_always_writes_are_filled_in():
    affinity = {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1}]}}
    spec = decode(POD, {"spec": {"affinity": affinity, "volumes": [{"name": "v", "projected": {}}]}}).obj[
        "spec"
    ]
    (term,) = spec["affinity"]["nodeAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"]
    assert term == {"weight": 1, "preference": {}}
    assert spec["volumes"] == [{"name": "v", "projected": {"sources": None}}] and spec["containers"] is None


def test_converted_numbers_lose_their_fraction_and_wrap_around():
    """runtime/converter.go: a strategic merge patch gives a map with converted numbers."""
    spec = {"spec": {"replicas": 2147483648, "minReadySeconds": 5.0}}
    made, _ = conform(SCHEME.resource("deployments").schema, spec, "Deployment", converted=True)
    assert (made["spec"]["replicas"], made["spec"]["minReadySeconds"]) == (-2147483648, 5)
