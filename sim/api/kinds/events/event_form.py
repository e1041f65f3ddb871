"""The two forms of an Event: core/v1, in which all are stored, and events.k8s.io/v1.

Turns objects of one form into the other.

Holds: a conversion to the other form and back loses nothing.

Mirrors  kubernetes v1.25 pkg/apis/events/v1/conversion.go, pkg/apis/core/v1/conversion.go.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sim.api.types import Obj

# core name -> name in events.k8s.io; the other names are the same
_NEWER = {
    "involvedObject": "regarding",
    "message": "note",
    "reportingComponent": "reportingController",
    "source": "deprecatedSource",
    "firstTimestamp": "deprecatedFirstTimestamp",
    "lastTimestamp": "deprecatedLastTimestamp",
    "count": "deprecatedCount",
}
_CORE = {newer: core for core, newer in _NEWER.items()}
# Members that the encoding of each form always writes, with their empty values.
_ALWAYS_CORE: Mapping[str, Any] = {
    "involvedObject": {},
    "source": {},
    "firstTimestamp": None,
    "lastTimestamp": None,
    "eventTime": None,
    "reportingComponent": "",
    "reportingInstance": "",
}
_ALWAYS_NEWER: Mapping[str, Any] = {
    "eventTime": None,
    "regarding": {},
    "deprecatedSource": {},
    "deprecatedFirstTimestamp": None,
    "deprecatedLastTimestamp": None,
}


def _renamed(obj: Obj, names: Mapping[str, str], always: Mapping[str, Any]) -> Obj:
    out = {names.get(key, key): value for key, value in obj.items()}
    kept = {key: value for key, value in out.items() if key in always or value not in (None, "", 0, {})}
    return {**kept, **{key: value for key, value in always.items() if kept.get(key) is None}}


def to_core(obj: Obj) -> Obj:
    """An Event in its stored form."""
    return {**_renamed(obj, _CORE, _ALWAYS_CORE), "apiVersion": "v1", "kind": "Event"}


def to_newer(obj: Obj, api_version: str) -> Obj:
    """A stored Event in the form of events.k8s.io."""
    return {**_renamed(obj, _NEWER, _ALWAYS_NEWER), "apiVersion": api_version, "kind": "Event"}
