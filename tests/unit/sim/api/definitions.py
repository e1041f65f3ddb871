"""Definitions for tests, and why they are not created."""

from __future__ import annotations

from typing import Any

from sim.api.types import Obj
from tests.unit.sim.api.golden_api import Api

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
NAME = f"{DEFINITIONS}/widgets.example.com"
MERGE = "application/merge-patch+json"
ROOT = "spec.validation.openAPIV3Schema"
SPEC = f"{ROOT}.properties[spec]"
STRING = {"type": "string"}


def version(name: str = "v1", storage: bool = True, schema: Any = None, **more: Any) -> Obj:
    schema = {"type": "object"} if schema is None else schema
    return {
        "name": name,
        "served": True,
        "storage": storage,
        "schema": {"openAPIV3Schema": schema},
        **more,
    }


def definition(*versions: Obj, **spec: Any) -> Obj:
    names = {"plural": "widgets", "kind": "Widget"}
    spec = {"group": "example.com", "scope": "Namespaced", "names": names, **spec}
    metadata = {"name": f"{spec['names'].get('plural', '')}.{spec['group']}"}
    return {"metadata": metadata, "spec": {**spec, "versions": list(versions) or [version()]}}


def of_spec(schema: Any) -> Obj:
    """A definition of objects with one field."""
    return definition(version(schema={"type": "object", "properties": {"spec": schema}}))


def refusals(body: Obj) -> list[str]:
    """Why it is not created, each cause with its field; [] if it is."""
    reply = Api().ask("POST", DEFINITIONS, body)
    if reply.code == 201:
        return []
    assert reply.code == 422, reply.body
    return [f"{cause['field']}: {cause['message']}" for cause in reply.body["details"]["causes"]]
