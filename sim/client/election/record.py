"""The record of a lease: what a candidate reads in it, decides by it, and writes into it.

Mirrors  client-go v1.25 tools/leaderelection/leaderelection.go, resourcelock/interface.go.
"""

from __future__ import annotations

from typing import Any

from sim.api.schema.typed_objects import LeaseSpec
from sim.dataclass import dataclass
from sim.units import format_micro_time

SECONDS = len("2006-01-02T15:04:05")  # length of a timestamp up to whole seconds


@dataclass(frozen=True, slots=True)
class Observed:
    """The record last read, and when this candidate first read it in this form, by its own clock.

    form: the record as last read, in the form in which records are compared
    """

    spec: LeaseSpec
    at_us: int
    form: Any = None


def holder_of(spec: LeaseSpec) -> str:
    """The identity that holds the record ("": none)."""
    return str(spec.get("holderIdentity") or "")


def decide(observed: Observed, identity: str, lease_duration_us: int, now_us: int) -> bool:
    """True if this candidate may write itself into the record that it observes."""
    holder = holder_of(observed.spec)
    return not holder or holder == identity or observed.at_us + lease_duration_us <= now_us


def record_of(spec: LeaseSpec) -> tuple[Any, ...]:
    """The record in the form in which upstream compares it: as JSON with times in whole seconds
    (interface.go, LeaderElectionRecord).
    """
    times = [str(time or "")[:SECONDS] for time in (spec.get("acquireTime"), spec.get("renewTime"))]
    return holder_of(spec), spec.get("leaseDurationSeconds"), spec.get("leaseTransitions"), *times


def claimed(spec: LeaseSpec, identity: str, lease_duration_us: int, wall_us: int) -> LeaseSpec:
    """The record after this candidate's write; a renewal keeps acquireTime and the transition
    count.
    """
    now = format_micro_time(wall_us)
    mine = holder_of(spec) == identity
    transitions = int(spec.get("leaseTransitions") or 0)
    return {
        "holderIdentity": identity,
        "leaseDurationSeconds": lease_duration_us // 1_000_000,
        "acquireTime": spec["acquireTime"] if mine and spec.get("acquireTime") else now,
        "renewTime": now,
        "leaseTransitions": transitions if mine else transitions + 1,
    }


def released(spec: LeaseSpec, wall_us: int) -> LeaseSpec:
    """The record that a leader writes when it releases the lease."""
    now = format_micro_time(wall_us)
    return {
        "holderIdentity": "",
        "leaseDurationSeconds": 1,
        "acquireTime": now,
        "renewTime": now,
        "leaseTransitions": int(spec.get("leaseTransitions") or 0),
    }
