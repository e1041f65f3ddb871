"""Digests of plans: equal for plans that give equal runs, regardless of the file they come from."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from hashlib import sha256
from typing import Any

import msgspec

from sim.scenario.plan.plan import ClusterPlan, Plan


def plan_digest(plan: Plan) -> str:
    """A digest that is equal for plans that differ only in seed or origin."""
    return sha256(msgspec.json.encode(_plain(plan), order="deterministic")).hexdigest()


def _plain(value: Any) -> Any:
    """A plan without the places of its values in files."""
    if is_dataclass(value):
        return {
            field.name: _plain(getattr(value, field.name))
            for field in fields(value)
            if field.name not in ("place", "places", "file", "seed", "settings", "document")
            or (field.name == "places" and isinstance(value, ClusterPlan))  # those of pods
        }
    return [_plain(item) for item in value] if isinstance(value, tuple) else value
