"""The strategy of namespaces."""

from __future__ import annotations

from typing import Any

from sim.api.kinds.core.namespace import fill_name_label
from sim.api.kinds.strategies import (
    for_create,
    for_subresource,
    for_update,
)
from sim.api.scheme.scheme import Scheme
from sim.ident import NAMES

ORCH = NAMES["orch"]

RESOURCE = Scheme(ORCH).resource


def obj(spec: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    return {"metadata": {"name": "x", "uid": "u", "resourceVersion": "1"}, "spec": spec or {}, **more}


def test_namespace_loses_its_finalizer_by_finalize_only() -> None:
    made = for_create(RESOURCE("namespaces"), obj(), ORCH)
    assert made["spec"]["finalizers"] == [ORCH.finalizer_namespace]
    assert fill_name_label(made, ORCH)["metadata"]["labels"] == {ORCH.label_metadata_name: "x"}
    assert for_update(RESOURCE("namespaces"), {**made, "spec": {}}, made, ORCH)["spec"] == made["spec"]
    assert for_subresource(RESOURCE("namespaces"), "finalize", {**made, "spec": {}}, made, ORCH)["spec"] == {}
