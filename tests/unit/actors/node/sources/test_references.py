"""The objects that pods refer to, and what can be wrong with them."""

from typing import Any

import pytest

from actors.node.sources.references import (
    Need,
    _by_volume,
    invalid_names,
    problem_of,
    variables_of,
    volumes_of,
)
from sim.api.store import Item
from sim.api.types import Reply


def test_only_mounted_volumes_count() -> None:
    items = [{"key": "a", "path": "x"}]
    spec = {
        "initContainers": [{"name": "i", "volumeMounts": [{"name": "s", "mountPath": "/s"}]}],
        "containers": [{"name": "c", "volumeMounts": [{"name": "m", "mountPath": "/m"}]}],
        "volumes": [
            {"name": "m", "configMap": {"name": "one", "items": items}},
            {"name": "s", "secret": {"secretName": "two"}},
            {"name": "unused", "secret": {"secretName": "three"}},
            {"name": "o", "configMap": {"name": "four", "optional": True}},
            {"name": "e", "emptyDir": {}},
        ],
    }
    assert volumes_of(spec) == [Need("configmaps", "one", ("a",), "m"), Need("secrets", "two", (), "s")]


def test_each_source_of_a_projected_volume_must_exist() -> None:
    sources = [
        {"secret": {"name": "two", "items": [{"key": "k", "path": "k"}]}},
        {"configMap": {"name": "one"}},
        {"downwardAPI": {"items": []}},
        {"configMap": {"name": "none", "optional": True}},
    ]
    mounts = [{"name": "all", "mountPath": "/all"}, {"name": "orch-api-access-x", "mountPath": "/token"}]
    spec = {
        "containers": [{"name": "c", "volumeMounts": mounts}],
        "volumes": [
            {"name": "all", "projected": {"sources": sources}},
            {"name": "orch-api-access-x", "projected": {"sources": [{"configMap": {"name": "root"}}]}},
        ],
    }
    needs = [Need("secrets", "two", ("k",), "all"), Need("configmaps", "one", (), "all")]
    assert volumes_of(spec) == needs
    problems = [("all", problem_of(need, "d", Reply(404))) for need in needs] + [("m", "other")]
    text = '[secret "two" not found, configmap "one" not found]'
    assert _by_volume(problems) == [("all", text), ("m", "other")]


def test_variables_of_whole_objects_come_first() -> None:
    env = [
        {"name": "A", "value": "1"},
        {"name": "B", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}},
        {"name": "C", "valueFrom": {"configMapKeyRef": {"name": "m", "key": "k", "optional": True}}},
        {"name": "D", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
    ]
    assert variables_of({"env": env, "envFrom": [{"configMapRef": {"name": "m"}}]}) == [
        Need("configmaps", "m"),
        Need("secrets", "s", ("k",)),
        Need("configmaps", "m", ("k",), optional=True),
    ]  # fmt: skip


def held(**obj: Any) -> Reply:
    return Reply(200, item=Item("//configmaps/ns/n", {"metadata": {}, **obj}, 0, 0))


@pytest.mark.parametrize(("need", "reply", "text"), [
    (Need("configmaps", "n"), Reply(404), 'configmap "n" not found'),
    (Need("secrets", "n"), Reply(404), 'secret "n" not found'),
    (Need("secrets", "n"), Reply(0, lost="Timeout"), "failed to sync secret cache: timed out waiting for the condition"),
    (Need("secrets", "n", ("k",)), held(data={}), "couldn't find key k in Secret ns/n"),
    (Need("configmaps", "n", ("k",)), held(binaryData={"k": ""}), "couldn't find key k in ConfigMap ns/n"),
    (Need("configmaps", "n", ("k",), "v"), held(binaryData={"k": ""}), ""),
    (Need("configmaps", "n", ("k",), "v"), held(), "configmap references non-existent config key: k"),
    (Need("secrets", "n", ("k",), "v"), held(), "references non-existent secret key: k"),
    (Need("configmaps", "n"), held(), ""),
])  # fmt: skip
def test_problem_of_reference_has_upstream_wording(need: Need, reply: Reply, text: str) -> None:
    assert problem_of(need, "ns", reply) == text


@pytest.mark.parametrize(
    ("keys", "prefix", "names"),
    [
        (["a", "a.b", "-x", "_", ".c"], "", []),
        (["1a", "b", "0"], "", ["0", "1a"]),
        (["1a", "b"], "P_", []),
        ([".c"], ".", ["..c"]),
        (["é"], "", ["é"]),
    ],
)
def test_invalid_variable_names_are_reported(keys: list[str], prefix: str, names: list[str]) -> None:
    assert invalid_names(Need("secrets", "n", prefix=prefix), {"data": dict.fromkeys(keys, "")}) == names
