"""Bindings: a create of one binds a pod; none is stored."""

from __future__ import annotations

from sim.api.schema.kind import Kind, Row

KIND = Kind(rows=(Row("", "v1", "bindings", "Binding", verbs="c"),))
