"""The values of variables in the paths of mounts."""

from __future__ import annotations

from typing import Any

import pytest

from actors.node.sources.mount_paths import environment, expanded, path_problem

POD: dict[str, Any] = {
    "metadata": {"name": "p", "namespace": "n", "uid": "u", "labels": {"a": "b"}},
    "spec": {"nodeName": "node-0", "containers": [{"name": "c", "resources": {"limits": {"cpu": "1500m"}}}]},
}


def value(source: dict[str, Any], **objects: Any) -> str | None:
    held = {(resource, "x"): {"data": data} for resource, data in objects.items()}
    container = {"name": "c", "env": [{"name": "V", "valueFrom": source}]}
    return environment(POD, container, held, {"status.podIP": "10.0.0.2"}).get("V")


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
        "envFrom": [{"prefix": "P_", "configMapRef": {"name": "x"}}],
        "env": [{"name": "A", "value": "$(P_k)/$(NONE)/$$(P_k)"}],
    }
    found = environment(POD, container, {("configmaps", "x"): {"data": {"k": "v"}}}, {})
    assert found == {"P_k": "v", "A": "v/$(NONE)/$(P_k)"}


def test_empty_value_counts_as_missing_in_a_path() -> None:
    container = {"volumeMounts": [{"subPath": "a"}, {"subPathExpr": "$(A)"}]}
    assert path_problem(container, {"A": ""}) == "missing value for A"
    assert path_problem(container, {"A": "x"}) == ""
    assert expanded("$(", {}.get) == "$("
