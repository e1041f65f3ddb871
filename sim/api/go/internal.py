"""Values of the API as upstream's internal types hold them, where these have another form.

Mirrors  kubernetes v1.25 pkg/apis/core/v1/conversion.go, apiextensions-apiserver v1.25
         pkg/apis/apiextensions/types_jsonschema.go.
"""

from __future__ import annotations

from typing import Any

_OF_HOST = ("hostNetwork", "hostPID", "hostIPC", "shareProcessNamespace", "hostUsers")


def as_internal(kind: str, value: Any) -> Any:
    """The fields of a struct by their keys in JSON."""
    change = _CHANGES.get(kind)
    return value if change is None else change(value)


def _pod_spec(spec: Any) -> Any:
    """The namespaces that a pod shares with its node are part of its security context."""
    moved = {key: spec[key] for key in _OF_HOST if key in spec}
    return {**spec, "securityContext": {**(spec.get("securityContext") or {}), **moved}}


def _node_spec(spec: Any) -> Any:
    first = spec.get("podCIDR")
    return spec if spec.get("podCIDRs") or not first else {**spec, "podCIDRs": [first]}


def _schema_or_list(value: Any) -> Any:
    return {"jsonSchemas": value} if isinstance(value, list) else {"schema": value}


def _schema_or_bool(value: Any) -> Any:
    return {"allows": value} if isinstance(value, bool) else {"allows": True, "schema": value}


def _schema_or_names(value: Any) -> Any:
    return {"property": value} if isinstance(value, list) else {"schema": value}


_CHANGES = {
    "core.PodSpec": _pod_spec,
    "core.NodeSpec": _node_spec,
    "apiextensions.JSONSchemaPropsOrArray": _schema_or_list,
    "apiextensions.JSONSchemaPropsOrBool": _schema_or_bool,
    "apiextensions.JSONSchemaPropsOrStringArray": _schema_or_names,
}
