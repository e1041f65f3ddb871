"""Keys and values of etcd as upstream has them."""

from __future__ import annotations

from typing import Any

import pytest

from actors.storage.etcd.keys import Keys
from actors.storage.etcd.mirror import Mirror
from actors.storage.etcd.values import JSON, PROTOBUF, BadValueError, Values
from sim.api.messages import protobuf_encode
from sim.api.ownership.field_sets import of_paths
from sim.api.protobuf.wire import part
from sim.api.scheme.scheme import Scheme
from sim.api.store import Delete, Item, Managed, Put
from sim.ident import NAMES
from sim.units import Revision, Virtual

SCHEME = Scheme(NAMES["kubernetes"])


@pytest.mark.parametrize(
    ("stored", "named"),
    [
        ("//pods/default/web", "/registry/pods/default/web"),
        ("//nodes//n", "/registry/minions/n"),
        ("//services/default/web", "/registry/services/specs/default/web"),
        ("//endpoints/default/web", "/registry/services/endpoints/default/web"),
        ("/apps/deployments/a/b", "/registry/deployments/a/b"),
        ("/networking.k8s.io/ingresses/a/b", "/registry/ingress/a/b"),
        ("/coordination.k8s.io/leases/a/b", "/registry/leases/a/b"),
        ("//events/a/b", "/registry/events/a/b"),
        (
            "/apiextensions.k8s.io/customresourcedefinitions//x.y.z",
            "/registry/apiextensions.k8s.io/customresourcedefinitions/x.y.z",
        ),
        ("/apiregistration.k8s.io/apiservices//v1.", "/registry/apiregistration.k8s.io/apiservices/v1."),
        ("/example.com/widgets/a/b", "/registry/example.com/widgets/a/b"),
        ("/example.com/widgets//b", "/registry/example.com/widgets/b"),
    ],
)
def test_keys_are_those_of_upstream_and_lead_back(stored: str, named: str) -> None:
    keys = Keys(SCHEME, "/registry")
    assert keys.of_etcd(stored) == named
    assert keys.of_store(named) == stored


@pytest.mark.parametrize(
    "key",
    ["/registry/ranges/serviceips", "/registry/masterleases/1.2.3.4", "compact_rev_key", "/other/pods/a/b"],
)
def test_keys_that_are_no_objects_are_left_out(key: str) -> None:
    assert Keys(SCHEME, "registry/").of_store(key) is None


MAP: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "ConfigMap",
    "metadata": {"name": "x", "namespace": "default", "resourceVersion": "3"},
    "data": {"a": "b"},
}
OWNERS = (Managed("me", "Update", "v1", 1_700_000_000, of_paths(("data",))),)


@pytest.mark.parametrize(("media_type", "head"), [(PROTOBUF, b"k8s\0"), (JSON, b'{"apiVersion":"v1"')])
def test_values_lead_back_with_their_owners_and_the_revision_of_the_key(media_type: str, head: bytes) -> None:
    values = Values(SCHEME, media_type)
    value = values.encode("//configmaps/default/x", MAP, OWNERS)
    assert value.startswith(head)
    assert b"resourceVersion" not in value
    item = values.decode("//configmaps/default/x", value, Revision(9), Revision(4))
    assert item.obj == {**MAP, "metadata": {**MAP["metadata"], "resourceVersion": "9"}}
    assert (item.rev, item.created, item.managed) == (9, 4, OWNERS)


def test_values_of_custom_resources_are_json_with_any_media_type() -> None:
    obj = {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "x"}, "spec": {"a": 1}}
    value = Values(SCHEME).encode("/example.com/widgets//x", obj, ())
    assert value.startswith(b'{"apiVersion":"example.com/v1"')


def test_values_of_another_version_are_read_in_the_stored_form() -> None:
    """A real server of v1.25 writes autoscalers as v1."""
    values, key = Values(SCHEME), "/autoscaling/horizontalpodautoscalers/default/x"
    value = (
        b'{"kind":"HorizontalPodAutoscaler","apiVersion":"autoscaling/v1","metadata":{"name":"x",'
        b'"namespace":"default"},"spec":{"maxReplicas":3,"targetCPUUtilizationPercentage":50,'
        b'"scaleTargetRef":{"kind":"Deployment","name":"w","apiVersion":"apps/v1"}}}'
    )
    obj = values.decode(key, value, Revision(2), Revision(2)).obj
    assert obj["apiVersion"] == "autoscaling/v2"
    assert obj["spec"]["metrics"][0]["resource"]["target"]["averageUtilization"] == 50


def test_values_of_another_server_get_the_zero_values_that_json_has() -> None:
    """A real server stores budgets as v1beta1, and protobuf has no zero values."""
    value = protobuf_encode.envelope("policy/v1beta1", "PodDisruptionBudget", part(1, part(1, b"x")))
    obj = Values(SCHEME).decode("/policy/poddisruptionbudgets/a/x", value, Revision(2), Revision(2)).obj
    assert (obj["apiVersion"], obj["metadata"]["name"]) == ("policy/v1", "x")
    assert obj["status"]["expectedPods"] == 0


def test_endpoints_of_an_older_version_have_their_zone() -> None:
    value = (
        b'{"kind":"EndpointSlice","apiVersion":"discovery.k8s.io/v1beta1","metadata":{"name":"x"},"endpoints":'
        b'[{"addresses":["1.2.3.4"],"topology":{"topology.kubernetes.io/zone":"z","a":"b"}}]}'
    )
    key = "/discovery.k8s.io/endpointslices/default/x"
    (found,) = Values(SCHEME).decode(key, value, Revision(2), Revision(2)).obj["endpoints"]
    assert (found["zone"], found["deprecatedTopology"]) == ("z", {"a": "b"})


@pytest.mark.parametrize(
    "value",
    [
        b"",
        b"[]",
        b"k8s\0\xff",
        b'{"kind":"ConfigMap","apiVersion":"v1"}',
        b'{"kind":"ConfigMap","apiVersion":"a/v1","metadata":{}}',
    ],
)
def test_a_value_that_is_no_object_is_an_error(value: bytes) -> None:
    with pytest.raises(BadValueError):
        Values(SCHEME).decode("//configmaps/a/b", value, Revision(1), Revision(1))


def item(name: str, rev: int, created: int = 0) -> Item:
    obj = {"metadata": {"name": name, "namespace": "a", "resourceVersion": str(rev)}}
    return Item(f"//configmaps/a/{name}", obj, Revision(rev), Revision(created or rev))


def test_a_mirror_takes_several_changes_of_one_revision() -> None:
    """The end of a lease deletes all its keys at one revision."""
    mirror = Mirror(lambda: Virtual(0))
    mirror.replace([item("x", 3), item("y", 4)], Revision(5))
    assert (mirror.revision, mirror.floor) == (5, 5)
    mirror.feed(Revision(8), [("//configmaps/a/x", None), ("//configmaps/a/y", None)])
    found = mirror.events(Revision(5), "//configmaps/")
    assert isinstance(found, list)
    assert [(change.rev, change.deleted) for change in found] == [(8, True), (8, True)]


def test_a_mirror_after_a_gap_shows_what_has_changed_and_no_history() -> None:
    mirror = Mirror(lambda: Virtual(0))
    mirror.replace([item("kept", 2), item("gone", 3), item("new", 4), item("anew", 5)], Revision(5))
    heard: list[tuple[str, bool, int]] = []
    mirror.subscribe("", lambda change: heard.append((change.item.key[-4:], change.deleted, change.rev)))
    mirror.replace([item("kept", 2), item("new", 9, 4), item("anew", 8, 7)], Revision(12))
    assert heard == [("anew", True, 7), ("anew", False, 8), ("/new", False, 9), ("gone", True, 12)]
    assert (mirror.revision, mirror.floor) == (12, 12)


def test_direct_writes_of_a_mirror_are_wishes() -> None:
    mirror = Mirror(lambda: Virtual(0))
    mirror.replace([item("x", 3)], Revision(3))
    mirror.put("//configmaps/a/y", {"metadata": {}}, 0)
    mirror.apply(Delete("//configmaps/a/x", 3))
    assert [type(wish) for wish in mirror.wishes] == [Put, Delete]
    assert mirror.get("//configmaps/a/y") is None
    assert mirror.get("//configmaps/a/x") is not None
