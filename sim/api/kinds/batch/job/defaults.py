"""Defaults of Jobs, and of the Jobs that CronJobs make.

Mirrors  kubernetes v1.25 pkg/apis/batch/v1/defaults.go.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sim.api.kinds.common.fill import Fn, all_of, fill, present, within
from sim.api.types import Obj

# Counters of a status that upstream's encoding leaves out where they are 0.
_LEFT_OUT = ("active", "succeeded", "failed")

_CHANGED: Mapping[str, Any] = {"lastProbeTime": None, "lastTransitionTime": None}


def job(templates: Fn) -> Fn:
    """A Job's defaults: one completion by one pod, unless the spec gives either."""

    def spec(value: Obj) -> Obj:
        if value.get("completions") is None and value.get("parallelism") is None:
            value = {**value, "completions": 1, "parallelism": 1}
        value = present(
            value, {"parallelism": 1, "backoffLimit": 6, "completionMode": "NonIndexed", "suspend": False}
        )
        value = within(value, "podFailurePolicy", fill_failure_policy)
        return within(present(value, {"template": {}}), "template", templates)

    def status(value: Obj) -> Obj:
        if any(value.get(name) == 0 for name in _LEFT_OUT):
            value = {k: v for k, v in value.items() if k not in _LEFT_OUT or v}
        return all_of(value, "conditions", lambda condition: present(condition, _CHANGED))

    def defaults(obj: Obj) -> Obj:
        obj = within(present(obj, {"spec": {}, "status": {}}), "spec", spec)
        labels = (obj["spec"].get("template", {}).get("metadata") or {}).get("labels")
        if labels and not (obj.get("metadata") or {}).get("labels"):
            obj = {**obj, "metadata": {**(obj.get("metadata") or {}), "labels": labels}}
        return within(obj, "status", status)

    return defaults


def fill_failure_policy(policy: Obj) -> Obj:
    """A pattern of a pod's condition matches the status True unless it says otherwise."""

    def rule(given: Obj) -> Obj:
        given = present(given, {"onExitCodes": None, "onPodConditions": None})
        given = within(given, "onExitCodes", lambda codes: present(codes, {"containerName": None}))
        return all_of(given, "onPodConditions", lambda pattern: fill(pattern, {"status": "True"}))

    return all_of(policy, "rules", rule)
