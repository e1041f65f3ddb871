"""Objects of every kind survive protobuf: JSON, protobuf and JSON again are equal."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Any

import msgspec
import pytest

from sim.api.messages.protobuf import decode
from sim.api.messages.protobuf_encode import encode
from sim.api.schema.field_schemas import SchemaNode, schema_of_kind
from sim.api.scheme.scheme import Scheme
from sim.ident import NAMES

N = NAMES["kubernetes"]
DEPTH_MAX = 9  # beyond, only scalars
SCALARS: dict[str, tuple[Any, ...]] = {
    "string": ("s", "é\u2028", " "),
    "integer": (1, -3, 2**31 - 1),
    "number": (1.5,),
    "boolean": (True,),
    "quantity": ("1500m", "2Gi", "7"),
    "int-or-string": (5, "25%"),
    "time": ("2020-09-13T12:26:40Z", "0001-01-01T00:00:01Z"),
    "micro-time": ("2022-08-23T00:00:00.000250Z",),
    "any": ({"b": [1, None, "x"], "a": {}}, [True]),
    "schema-or-list": ({"type": "string"},),
    "schema-or-bool": (True, {"type": "string"}),
    "schema-or-names": (["a"], {"type": "string"}),
}


def kinds() -> Iterator[tuple[str, str, str]]:
    """Group, version and kind of each body that may be protobuf."""
    for resource in Scheme(N).resources:
        if not resource.json_only:
            yield resource.upstream_group, resource.version, resource.kind
            yield from [(s.group, s.version, s.kind) for s in resource.subresources if s.version]


def made(random: Random, node: SchemaNode, depth: int = 0) -> Any:
    """A value of a schema; no part of it is zero or empty, which Go may leave out."""
    if node.type in SCALARS:
        value = random.choice(SCALARS[node.type])
        return "AAEC" if node.format == "byte" else value
    if node.type == "array":
        items = [] if node.items is None else [made(random, node.items, depth + 1) for _ in range(2)]
        return [item for item in items if item not in ({}, [])]
    if node.type == "map":
        value = {} if node.values is None else made(random, node.values, depth + 1)
        return {} if value in ({}, []) else {"k/1": value}
    # Options inside of another object have no kind in protobuf (their TypeMeta is not a field).
    unsent = ("apiVersion", "kind") if node.name.endswith(".DeleteOptions") else ()
    fields = [
        (name, below)
        for name, below in node.properties.items()
        if name not in unsent
        if below is not None and (below.type in SCALARS or (depth < DEPTH_MAX and random.random() < 0.6))
    ]
    values = {name: made(random, below, depth + 1) for name, below in fields}
    return {name: value for name, value in values.items() if value not in ({}, [])}


@pytest.mark.parametrize("group", sorted({group for group, _, _ in kinds()}))
def test_an_object_of_each_kind_survives_protobuf(group: str) -> None:
    for _, version, kind in sorted({each for each in kinds() if each[0] == group}):
        node = schema_of_kind(group, version, kind)
        assert node is not None
        for seed in range(3):
            obj = made(Random(f"{group}/{version}/{kind}/{seed}"), node)
            obj |= {"apiVersion": f"{group}/{version}" if group else version, "kind": kind}
            read = msgspec.json.decode(msgspec.json.encode(decode(encode(obj, N), group)))
            assert read == obj, f"{kind} of seed {seed}"
