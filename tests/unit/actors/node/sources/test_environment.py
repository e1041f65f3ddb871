"""The variables of containers, of Services, and in command lines and paths of mounts."""

from __future__ import annotations

from typing import Any

import pytest

from actors.node.sources.environment import (
    Facts,
    environment,
    expanded,
    expanded_words,
    resource_value,
    variables_of_services,
)
from actors.node.sources.mount_paths import path_problem

POD: dict[str, Any] = {
    "metadata": {"name": "p", "namespace": "n", "uid": "u", "labels": {"a": "b"}},
    "spec": {"nodeName": "node-0", "containers": [{"name": "c", "resources": {"limits": {"cpu": "1500m"}}}]},
}
NO_FACTS = Facts({}, {}, {})


def value(source: dict[str, Any], **objects: Any) -> str | None:
    held = {(resource, "x"): {"data": data} for resource, data in objects.items()}
    container = {"name": "c", "env": [{"name": "V", "valueFrom": source}]}
    return environment(POD, container, held, Facts({"status.podIP": "10.0.0.2"}, {}, {})).get("V")


@pytest.mark.parametrize(
    ("source", "text"),
    [
        ({"fieldRef": {"fieldPath": "metadata.labels['a']"}}, "b"),
        ({"fieldRef": {"fieldPath": "metadata.annotations['a']"}}, ""),
        ({"fieldRef": {"fieldPath": "spec.nodeName"}}, "node-0"),
        ({"fieldRef": {"fieldPath": "status.podIP"}}, "10.0.0.2"),
        ({"resourceFieldRef": {"containerName": "c", "resource": "limits.cpu"}}, "2"),
        ({"resourceFieldRef": {"containerName": "c", "resource": "limits.cpu", "divisor": "1m"}}, "1500"),
    ],
)
def test_variable_has_the_value_of_its_source(source: dict[str, Any], text: str) -> None:
    assert value(source) == text


def test_variable_of_a_secret_is_decoded_and_a_missing_key_gives_none() -> None:
    assert value({"secretKeyRef": {"name": "x", "key": "k"}}, secrets={"k": "djE="}) == "v1"
    assert value({"configMapKeyRef": {"name": "x", "key": "k", "optional": True}}, configmaps={}) is None


def test_variables_of_a_whole_object_have_its_prefix_and_are_used_by_later_ones() -> None:
    container = {
        "envFrom": [
            {"prefix": "", "configMapRef": {"name": "x"}},
            {"prefix": "P_", "configMapRef": {"name": "x"}},
        ],
        "env": [{"name": "A", "value": "$(P_k)/$(NONE)/$$(P_k)"}],
    }
    found = environment(POD, container, {("configmaps", "x"): {"data": {"k": "v", "..k": "w"}}}, NO_FACTS)
    assert found == {"k": "v", "P_k": "v", "P_..k": "w", "A": "v/$(NONE)/$(P_k)"}


def test_empty_value_counts_as_missing_in_a_path() -> None:
    container = {"volumeMounts": [{"subPath": "a"}, {"subPathExpr": "$(A)"}]}
    assert path_problem(container, {"A": ""}) == "missing value for A"
    assert path_problem(container, {"A": "x"}) == ""
    assert expanded("$(", {}.get) == "$("


def service(name: str, namespace: str = "n", address: str = "10.0.0.9", **port: Any) -> dict[str, Any]:
    ports = [{"port": 80, "name": "web-ui"}, {"port": 53, "protocol": "UDP", "name": "dns", **port}]
    return {
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"clusterIP": address, "ports": ports},
    }


def test_variables_of_a_service_name_its_address_and_each_port() -> None:
    assert variables_of_services([service("my-db")], "n", links=True, master=("default", "kubernetes")) == {
        "MY_DB_SERVICE_HOST": "10.0.0.9",
        "MY_DB_SERVICE_PORT": "80",
        "MY_DB_SERVICE_PORT_WEB_UI": "80",
        "MY_DB_SERVICE_PORT_DNS": "53",
        "MY_DB_PORT": "tcp://10.0.0.9:80",
        "MY_DB_PORT_80_TCP": "tcp://10.0.0.9:80",
        "MY_DB_PORT_80_TCP_PROTO": "tcp",
        "MY_DB_PORT_80_TCP_PORT": "80",
        "MY_DB_PORT_80_TCP_ADDR": "10.0.0.9",
        "MY_DB_PORT_53_UDP": "udp://10.0.0.9:53",
        "MY_DB_PORT_53_UDP_PROTO": "udp",
        "MY_DB_PORT_53_UDP_PORT": "53",
        "MY_DB_PORT_53_UDP_ADDR": "10.0.0.9",
    }


@pytest.mark.parametrize(
    ("links", "hosts"),
    [
        (True, {"DB_SERVICE_HOST": "10.0.0.9", "KUBERNETES_SERVICE_HOST": "10.0.0.1"}),
        (False, {"KUBERNETES_SERVICE_HOST": "10.0.0.1"}),
    ],
)
def test_pods_get_services_with_an_address_of_their_namespace_and_the_apis(
    links: bool, hosts: dict[str, str]
) -> None:
    services = [
        service("kubernetes", "default", "10.0.0.1"), service("db"), service("other", "m"),
        service("headless", address="None"), service("external", address=""), service("x", "default"),
    ]  # fmt: skip
    found = variables_of_services(services, "n", links=links, master=("default", "kubernetes"))
    assert {name: value for name, value in found.items() if name.endswith("_HOST")} == hosts


def test_variables_of_services_serve_references_and_give_way_to_the_containers_own() -> None:
    container = {"env": [{"name": "A", "value": "$(DB_PORT)"}, {"name": "DB_HOST", "value": "mine"}]}
    facts = Facts({}, {}, {"DB_PORT": "5432", "DB_HOST": "theirs"})
    found = environment(POD, container, {}, facts)
    assert list(found.items()) == [("A", "5432"), ("DB_HOST", "mine"), ("DB_PORT", "5432")]
    assert expanded_words(["sh", "$(DB_HOST):$(DB_PORT)", "$(NO)"], found) == ["sh", "mine:5432", "$(NO)"]


def test_a_limit_that_a_container_lacks_is_what_the_node_offers() -> None:
    offered = {"cpu": "7900m", "memory": "1Gi"}
    container = {"name": "d"}
    assert resource_value(POD, container, {"resource": "limits.memory", "divisor": "1Mi"}, offered) == "1024"
    assert resource_value(POD, container, {"resource": "limits.cpu"}, offered) == "8"
    assert resource_value(POD, container, {"resource": "requests.cpu"}, offered) == "0"
