"""Defaults of FlowSchemas and PriorityLevelConfigurations (`defaults` for all others).

Holds: path copy only; nothing missing means the object itself comes back.

Mirrors  kubernetes v1.25 pkg/apis/flowcontrol/v1beta2/defaults.go.
"""

from __future__ import annotations

from collections.abc import Mapping

from sim.api.types import Json, Obj

PRECEDENCE, SHARES = 1000, 30
QUEUING = {"queues": 64, "handSize": 8, "queueLengthLimit": 50}


def flow_schema(obj: Obj) -> Obj:
    """Quirk: a list of namespaces that is not there is written as null."""
    spec = _filled(obj.get("spec") or {}, {"matchingPrecedence": PRECEDENCE})
    rules = spec.get("rules")
    if rules:
        spec = {**spec, "rules": [_with_namespaces(rule) for rule in rules]}
    return _made(obj, spec)


def _with_namespaces(rule: Obj) -> Obj:
    covered = rule.get("resourceRules")
    return {**rule, "resourceRules": [{"namespaces": None, **one} for one in covered]} if covered else rule


def priority_level(obj: Obj) -> Obj:
    spec = obj.get("spec") or {}
    limited = spec.get("limited")
    if limited is not None:
        limited = _filled(limited, {"assuredConcurrencyShares": SHARES})
        response = limited.get("limitResponse") or {}
        if response.get("queuing") is not None:
            response = {**response, "queuing": _filled(response["queuing"], QUEUING)}
            limited = {**limited, "limitResponse": response}
        spec = {**spec, "limited": limited}
    return _made(obj, spec)


def _filled(obj: Obj, defaults: Mapping[str, Json]) -> Obj:
    """Plain integers of upstream's types: 0 is not set either."""
    return {**obj, **{key: value for key, value in defaults.items() if not obj.get(key)}}


def _made(obj: Obj, spec: Obj) -> Obj:
    made = {"status": {}, **obj, "spec": spec}
    return obj if made == obj else made
