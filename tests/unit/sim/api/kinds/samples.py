"""A valid object of each kind, and the errors of creates and updates."""

from __future__ import annotations

from typing import Any

from sim.api.kinds.defaults import apply_defaults
from sim.api.kinds.validation import FieldError, validate_create, validate_update
from sim.api.scheme.scheme import Scheme
from sim.api.types import Obj
from sim.ident import NAMES

SCHEME = Scheme(NAMES["kubernetes"])

TEMPLATE: Obj = {
    "metadata": {"labels": {"a": "b"}},
    "spec": {"containers": [{"name": "c", "image": "i"}]},
}

VALID: dict[str, Obj] = {
    "pods": {"spec": TEMPLATE["spec"]},
    "nodes": {"spec": {"taints": [{"key": "k", "effect": "NoSchedule"}]}},
    "namespaces": {},
    "configmaps": {"data": {"k": "v"}},
    "secrets": {"data": {"k": "dg=="}, "type": "Opaque"},
    "serviceaccounts": {},
    "endpoints": {"subsets": [{"addresses": [{"ip": "10.1.2.3"}], "ports": [{"port": 80}]}]},
    "events": {"involvedObject": {"namespace": "d"}},
    "deployments": {"spec": {"selector": {"matchLabels": {"a": "b"}}, "template": TEMPLATE}},
    "replicasets": {"spec": {"selector": {"matchLabels": {"a": "b"}}, "template": TEMPLATE}},
    "daemonsets": {"spec": {"selector": {"matchLabels": {"a": "b"}}, "template": TEMPLATE}},
    "statefulsets": {"spec": {"selector": {"matchLabels": {"a": "b"}}, "template": TEMPLATE}},
    "jobs": {
        "spec": {
            "manualSelector": True,
            "selector": {"matchLabels": {"a": "b"}},
            "template": {**TEMPLATE, "spec": {**TEMPLATE["spec"], "restartPolicy": "Never"}},
        }
    },
    "leases": {"spec": {"leaseDurationSeconds": 40}},
    "poddisruptionbudgets": {"spec": {"minAvailable": "50%"}},
    "priorityclasses": {"value": 7},
    "controllerrevisions": {"data": {}, "revision": 1},
    "endpointslices": {"addressType": "IPv4", "endpoints": [{"addresses": ["10.1.2.3"]}]},
    "roles": {"rules": [{"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]}]},
    "clusterroles": {"rules": [{"verbs": ["get"], "nonResourceURLs": ["/healthz"]}]},
    "persistentvolumeclaims": {
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    },
}


def made(resource: str, **fields: Any) -> Obj:
    found = SCHEME.resource(resource)
    metadata: Obj = {"name": "x", "namespace": "d"} if found.namespaced else {"name": "x"}
    metadata["resourceVersion"] = "1"
    return apply_defaults(found, {"metadata": metadata, **VALID.get(resource, {}), **fields})


def texts(errors: list[FieldError]) -> list[str]:
    return [f"{error.field}: {error.message}" for error in errors]


def created(resource: str, obj: Obj) -> list[str]:
    return texts(validate_create(SCHEME.resource(resource), obj))


def updated(resource: str, new: Obj, old: Obj, subresource: str = "") -> list[str]:
    return texts(validate_update(SCHEME.resource(resource), new, old, subresource))
