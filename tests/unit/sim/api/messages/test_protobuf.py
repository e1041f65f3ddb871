"""Protobuf bodies: read as the same object in JSON, refused when broken."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sim.api.messages.protobuf import MAGIC, Default, MessageError, ProtobufError, decode
from sim.api.messages.protobuf_encode import encode, frame
from sim.api.protobuf.numbers import numbers, short_name
from sim.api.schema.field_schemas import SchemaNode, schema_of_kind
from sim.api.scheme.scheme import Scheme
from sim.ident import NAMES


def varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def put(number: int, value: bytes | str | int) -> bytes:
    """One field of a message."""
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    data = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(data)) + data


def body(api_version: str, kind: str, message: bytes) -> bytes:
    return MAGIC + put(1, put(1, api_version) + put(2, kind)) + put(2, message)


def test_a_deployment_is_read_as_its_json_would_be() -> None:
    labels = put(1, put(1, "app") + put(2, "web"))
    container = put(1, "c") + put(2, "nginx") + put(6, put(3, 80) + put(4, ""))
    # its handler's fields stand in place: httpGet.port
    probe = put(1, put(2, put(2, put(2, 8080))))
    limits = put(8, put(1, put(1, "cpu") + put(2, put(1, "500m"))))
    containers = put(2, container + put(10, probe)) + put(2, put(1, "d") + limits)
    template = put(1, put(11, labels[2:])) + put(2, containers)
    surge = put(2, put(2, put(1, 1) + put(3, "25%")))
    spec = put(1, 0) + put(2, labels) + put(3, template) + put(4, surge) + put(5, 0)
    created = put(8, put(1, 1_600_000_000) + put(2, 0))
    message = put(1, put(1, "web") + created) + put(2, spec) + put(99, "unknown")
    read = decode(body("apps/v1", "Deployment", message), "apps")
    assert read["apiVersion"] == "apps/v1"
    assert read["kind"] == "Deployment"
    assert read["metadata"] == {"name": "web", "creationTimestamp": "2020-09-13T12:26:40Z"}
    assert read["spec"]["replicas"] == 0  # a pointer: zero is a value
    assert "minReadySeconds" not in read["spec"]
    assert read["spec"]["selector"] == {"matchLabels": {"app": "web"}}
    assert read["spec"]["strategy"] == {"rollingUpdate": {"maxSurge": "25%"}}
    assert read["spec"]["template"]["metadata"] == {"labels": {"app": "web"}}
    first, second = read["spec"]["template"]["spec"]["containers"]
    assert second == {"name": "d", "resources": {"limits": {"cpu": "500m"}}}
    assert first == {
        "name": "c",
        "image": "nginx",
        "ports": [{"containerPort": 80}],
        "livenessProbe": {"httpGet": {"port": 8080}},
    }


def test_bytes_become_base64_and_negative_numbers_stay() -> None:
    data = put(2, put(1, "k") + put(2, b"\x00\x01"))
    read = decode(body("v1", "Secret", put(1, put(1, "s")) + data), "")
    assert read["data"] == {"k": "AAE="}
    value = put(2, (1 << 64) - 5)
    assert decode(body("scheduling.k8s.io/v1", "PriorityClass", value), "scheduling.k8s.io")["value"] == -5


@pytest.mark.parametrize(
    "broken",
    [
        b"",
        b"{}",
        body("v1", "Secret", b"\x0a\x7f"),
        body("v1", "Secret", b"\x0b"),
        body("v1", "Secret", b"\xff" * 12),
        body("v1", "Secret", put(1, 7)),
    ],
)
def test_what_is_no_message_of_its_kind_is_refused(broken: bytes) -> None:
    with pytest.raises(ProtobufError):
        decode(broken, "")


SECRET = put(1, put(1, "v1") + put(2, "Secret"))


@pytest.mark.parametrize(
    ("broken", "why"),
    [
        (b"", "empty data"),
        (MAGIC, "empty body"),
        (b"k8s", "provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]"),
        (MAGIC + put(1, 7), "proto: wrong wireType = 0 for field TypeMeta"),
        (MAGIC + put(1, put(1, 7)), "proto: wrong wireType = 0 for field APIVersion"),
        (MAGIC + SECRET + put(2, 7), "proto: wrong wireType = 0 for field Raw"),
        (MAGIC + SECRET + put(3, 7), "proto: wrong wireType = 0 for field ContentEncoding"),
        (MAGIC + SECRET + put(4, 7), "proto: wrong wireType = 0 for field ContentType"),
        (MAGIC + SECRET + b"\x00", "proto: Unknown: illegal tag 0 (wire type 0)"),
        (MAGIC + SECRET + b"\x4c", "proto: Unknown: wiretype end group for non-group"),
        (MAGIC + SECRET + b"\x4b", "unexpected EOF"),
        (MAGIC + SECRET + b"\x4e", "proto: illegal wireType 6"),
        (MAGIC + b"\x0a\x7f", "unexpected EOF"),
        (MAGIC + b"\x0a" + varint(1 << 63), "proto: negative length found during unmarshaling"),
        (MAGIC + b"\x0a" + b"\xff" * 11, "proto: integer overflow"),
    ],
)
def test_broken_envelope_is_refused_in_gos_words(broken: bytes, why: str) -> None:
    with pytest.raises(ProtobufError) as found:
        decode(broken, "")
    assert str(found.value) == why


@pytest.mark.parametrize(
    ("message", "why"),
    [
        (put(1, 7), "proto: wrong wireType = 0 for field ObjectMeta"),
        (put(1, put(5, 7)), "proto: wrong wireType = 0 for field UID"),
        (put(5, "x"), "proto: wrong wireType = 2 for field Immutable"),
        (b"\x0b", "proto: wrong wireType = 3 for field ObjectMeta"),
        (b"\x00", "proto: Secret: illegal tag 0 (wire type 0)"),
        (b"\x0c", "proto: Secret: wiretype end group for non-group"),
        (b"\x0a\x7f", "unexpected EOF"),
    ],
)
def test_broken_message_is_refused_with_its_kind(message: bytes, why: str) -> None:
    with pytest.raises(MessageError) as found:
        decode(body("v1", "Secret", message), "")
    assert (str(found.value), found.value.kind, found.value.version) == (why, "Secret", "v1")


def test_envelope_without_kind_or_version_takes_those_of_the_request() -> None:
    default = Default("v1", "Secret")
    wanted = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "x"}}
    message = put(2, put(1, put(1, "x")))
    for sent in (b"", put(1, ""), put(1, put(1, "v1")), put(1, put(2, "Secret")), put(1, put(1, "a/b/c"))):
        assert decode(MAGIC + sent + message, "", default) == wanted
    parts = put(1, put(1, "v1")) + put(1, put(2, "Secret"))
    assert decode(MAGIC + parts + message + b"\x4b\x4c" + put(3, "gzip"), "") == wanted


def test_numbers_of_a_list_may_be_one_field() -> None:
    """Go reads lists of numbers in both forms."""
    kind = {"apiVersion": "v1", "kind": "Pod"}
    for groups in (put(4, 3) + put(4, 5), put(4, varint(3) + varint(5))):
        spec = put(2, put(14, groups))
        wanted = {"securityContext": {"supplementalGroups": [3, 5]}}
        assert decode(body("v1", "Pod", spec), "") == kind | {"spec": wanted}


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=200))
def test_no_bytes_raise_anything_else(data: bytes) -> None:
    for whole in (MAGIC + data, body("v1", "Pod", data), body("v1", "Pod", put(1, data) + put(2, data))):
        try:
            msgspec.json.encode(decode(whole, ""))
        except ProtobufError:
            pass


@pytest.mark.parametrize(
    ("seconds", "wanted"),
    [(-1, "1969-12-31T23:59:59.000001Z"), (1_600_000_000, "2020-09-13T12:26:40.000001Z")],
)
def test_micro_time_on_either_side_of_1970_is_read(seconds: int, wanted: str) -> None:
    time = put(1, seconds % (1 << 64)) + put(2, 1000)
    read = decode(body("coordination.k8s.io/v1", "Lease", put(2, put(4, time))), "coordination.k8s.io")
    assert read["spec"]["renewTime"] == wanted


@pytest.mark.parametrize("seconds", [1 << 62, 253_402_300_800, (1 << 64) - 62_135_596_801])
def test_time_outside_of_the_years_1_to_9999_is_refused(seconds: int) -> None:
    with pytest.raises(ProtobufError, match="year"):
        decode(body("v1", "Pod", put(1, put(8, put(1, seconds)))), "")


def test_integer_wraps_around_at_the_size_of_its_type() -> None:
    for number, wanted in ((1 << 31, -(1 << 31)), ((1 << 32) + 5, 5), ((1 << 64) - 1, -1)):
        assert (
            decode(body("apps/v1", "Deployment", put(2, put(1, number))), "apps")["spec"]["replicas"]
            == wanted
        )


def test_zero_and_the_empty_message_behind_a_pointer_are_values() -> None:
    volume = put(1, "v") + put(2, put(2, b""))
    spec = put(1, volume) + put(14, b"")
    read = decode(body("v1", "Pod", put(2, spec)), "")
    assert read["spec"] == {"volumes": [{"name": "v", "emptyDir": {}}], "securityContext": {}}
    zero = put(1, 0) + put(2, 0)
    budget = decode(body("policy/v1", "PodDisruptionBudget", put(2, put(2, b"") + put(3, zero))), "policy")
    assert budget["spec"] == {"selector": {}, "maxUnavailable": 0}
    rolling = put(4, put(1, "RollingUpdate") + put(2, put(1, zero)))
    deployment = decode(body("apps/v1", "Deployment", put(2, rolling)), "apps")
    assert deployment["spec"]["strategy"]["rollingUpdate"] == {"maxUnavailable": 0}


def test_lists_as_values_of_a_map_are_read() -> None:
    extra = put(5, put(1, "scopes") + put(2, put(1, "a") + put(1, "b")))
    group = "authorization.k8s.io"
    read = decode(body(f"{group}/v1", "SubjectAccessReview", put(2, extra)), group)
    assert read["spec"] == {"extra": {"scopes": ["a", "b"]}}


def test_a_pointer_to_no_time_is_no_time() -> None:
    read = decode(body("coordination.k8s.io/v1", "Lease", put(2, put(4, b""))), "coordination.k8s.io")
    assert "renewTime" not in read.get("spec", {})


def served_messages() -> Iterator[SchemaNode]:
    """Every message that a body for a served resource may hold."""
    asked = [("", "v1", "DeleteOptions")]
    for resource in Scheme(NAMES["kubernetes"]).resources:
        if resource.json_only:
            continue
        asked.append((resource.upstream_group, resource.version, resource.kind))
        asked += [(sub.group, sub.version, sub.kind) for sub in resource.subresources if sub.version]
    left: list[SchemaNode | None] = [schema_of_kind(*kind) for kind in asked]
    seen: set[str] = set()
    while left:
        node = left.pop()
        if node is None or node.name in seen:
            continue
        if node.properties:
            seen.add(node.name)
            yield node
        left += [*node.properties.values(), node.items, node.values]


def test_each_field_of_the_served_kinds_has_its_number() -> None:
    for node in served_messages():
        missing = set(node.properties) - {"apiVersion", "kind"} - _fields_of(node.name)
        assert not missing, f"{node.name}: {missing}"


def _fields_of(name: str) -> set[str]:
    package, _, _ = name.rpartition(".")
    columns = numbers()[short_name(name)].values()
    below = [
        _fields_of(f"{package}.{column.inline.rpartition('.')[2]}") for column in columns if column.inline
    ]
    return {column.field for column in columns}.union(*below)


NAMING = NAMES["kubernetes"]
WEB = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {
        "name": "web",
        "creationTimestamp": "2020-09-13T12:26:40Z",
        "labels": {"app": "web"},
        "managedFields": [{"manager": "m", "fieldsV1": {"f:spec": {}}}],
    },
    "spec": {
        "replicas": 0,
        "selector": {"matchLabels": {"app": "web"}},
        "strategy": {"rollingUpdate": {"maxSurge": "25%", "maxUnavailable": 1}},
        "template": {
            "spec": {
                "securityContext": {},
                "volumes": [{"name": "v", "emptyDir": {}}],
                "containers": [
                    {
                        "name": "c",
                        "image": "nginx",
                        "resources": {"limits": {"cpu": "500m"}},
                        "livenessProbe": {"httpGet": {"port": 8080}, "initialDelaySeconds": 3},
                        "lifecycle": {"preStop": {"exec": {"command": ["a", "b"]}}},
                    }
                ],
            }
        },
    },
}


def test_what_is_written_is_read_as_it_was() -> None:
    assert decode(encode(WEB, NAMING), "apps") == WEB
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "data": {"k": "AAEC"}}
    assert decode(encode(secret, NAMING), "") == secret
    lease = {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": "l"},
        "spec": {"renewTime": "2022-08-23T00:00:00.000250Z", "leaseDurationSeconds": 15},
    }
    assert decode(encode(lease, NAMING), "coordination.k8s.io") == lease
    terminating = {"metadata": {"deletionGracePeriodSeconds": -1}, "kind": "Pod", "apiVersion": "v1"}
    assert decode(encode(terminating, NAMING), "") == terminating


def test_rules_of_the_core_group_survive_protobuf() -> None:
    group = "rbac.authorization.k8s.io"
    rule = {"verbs": ["get"], "apiGroups": ["", "apps"], "resources": ["pods"], "resourceNames": ["a"]}
    paths = {"verbs": ["get"], "nonResourceURLs": ["/x/*"]}
    gathers = {"clusterRoleSelectors": [{"matchLabels": {"a": "b"}}]}
    role = {"apiVersion": f"{group}/v1", "kind": "ClusterRole", "metadata": {"name": "r"}}
    role |= {"rules": [rule, paths], "aggregationRule": gathers}
    assert decode(encode(role, NAMING), group) == role
    binding = {"apiVersion": f"{group}/v1", "kind": "RoleBinding", "metadata": {"name": "b"}}
    binding["roleRef"] = {"apiGroup": group, "kind": "ClusterRole", "name": "r"}
    binding["subjects"] = [{"kind": "ServiceAccount", "name": "s", "namespace": "n"}]
    assert decode(encode(binding, NAMING), group) == binding


def test_lists_in_messages_of_their_own_are_written_as_such() -> None:
    extra = {"scopes": ["a", "b"]}
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SubjectAccessReview",
        "spec": {"extra": extra},
    }
    assert decode(encode(review, NAMING), "authorization.k8s.io") == review
    listed = {
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": "v1",
        "resources": [{"name": "pods", "verbs": ["get", "list"]}],
    }
    resource = put(1, "pods") + put(4, put(1, "get") + put(1, "list"))
    assert put(1, "v1") + put(2, resource) in encode(listed, NAMING)


def test_an_event_of_a_watch_is_a_frame_with_its_length() -> None:
    data = frame("ADDED", b"object")
    assert data == len(data[4:]).to_bytes(4, "big") + put(1, "ADDED") + put(2, put(1, b"object"))


@pytest.mark.parametrize("time", ["1969-12-31T23:59:59.999999Z", "0001-01-01T00:00:00.000001Z"])
def test_micro_time_before_1970_survives_protobuf(time: str) -> None:
    lease = {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": "l", "creationTimestamp": "1969-07-20T20:17:40Z"},
        "spec": {"renewTime": time},
    }
    assert decode(encode(lease, NAMING), "coordination.k8s.io") == lease


def test_revision_data_have_the_text_of_gos_encoder() -> None:
    revision = {
        "apiVersion": "apps/v1",
        "kind": "ControllerRevision",
        "metadata": {"name": "r"},
        "data": {"spec": {"template": {"metadata": {"annotations": {"a": "<&>"}}}}},
        "revision": 1,
    }
    assert b'{"annotations":{"a":"\\u003c\\u0026\\u003e"}}' in encode(revision, NAMES["kubernetes"])


def test_a_definition_survives_protobuf() -> None:
    text = {"type": "string"}
    schema = {
        "type": "object",
        "properties": {
            "a": {"type": "array", "items": text, "x-kubernetes-list-type": "set", "maxItems": 0},
            "b": {"type": "number", "minimum": 1.5, "maximum": 3, "default": 2.5, "enum": [2.5, None, "x"]},
            "c": {"type": "object", "additionalProperties": text},
            "d": {"type": "object", "additionalProperties": True, "nullable": True},
            "e": {"x-kubernetes-preserve-unknown-fields": True, "not": {"required": ["x"]}},
        },
        "x-kubernetes-validations": [{"rule": "true", "message": "m"}],
    }
    version = {"name": "v1", "served": True, "storage": False, "schema": {"openAPIV3Schema": schema}}
    version["subresources"] = {"status": {}, "scale": {"specReplicasPath": ".a", "statusReplicasPath": ".b"}}
    obj = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Cluster",
            "names": {"plural": "widgets", "kind": "Widget", "shortNames": ["w"]},
            "versions": [version],
            "conversion": {"strategy": "None"},
        },
    }
    assert decode(encode(obj, NAMES["kubernetes"]), "apiextensions.k8s.io") == obj


@pytest.mark.parametrize("version", ["policy/v1", "policy/v1beta1"])
def test_eviction_of_an_older_version_is_read_by_the_same_fields(version: str) -> None:
    options = put(1, 5) + put(4, "Background")
    message = put(1, put(1, "p") + put(3, "n")) + put(2, options)
    read = decode(body(version, "Eviction", message), "policy")
    assert read == {
        "apiVersion": version,
        "kind": "Eviction",
        "metadata": {"name": "p", "namespace": "n"},
        "deleteOptions": {"gracePeriodSeconds": 5, "propagationPolicy": "Background"},
    }
