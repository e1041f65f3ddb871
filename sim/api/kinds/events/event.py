"""Events of events.k8s.io, the newer form of the Events of the core group.

Mirrors  kubernetes v1.25 pkg/apis/core/validation/events.go: ValidateEventCreate,
         ValidateEventUpdate.
"""

from __future__ import annotations

from typing import Any

from sim.api.go.printing import GoValue
from sim.api.kinds.common.fill import present
from sim.api.kinds.core.event import COLUMNS, event_cells, event_errors
from sim.api.kinds.events.event_form import to_core, to_newer
from sim.api.schema.kind import Form, Kind, Row, Strategy
from sim.api.types import Obj
from sim.api.validation import text
from sim.api.validation.errors import IMMUTABLE, Errors, invalid, required
from sim.api.validation.metadata import object_meta, object_meta_update
from sim.ident import Names


def _fill_defaults(obj: Obj) -> Obj:
    times = dict.fromkeys(("eventTime", "deprecatedFirstTimestamp", "deprecatedLastTimestamp"))
    return present(obj, {**times, "regarding": {}, "deprecatedSource": {}})


# --- validation -----------------------------------------------------------------------------------

# (field in the newer form, its name in errors), in the order of ValidateEventUpdate.
_FIXED = (
    ("regarding", "involvedObject"),
    ("reason", "reason"),
    ("note", "message"),
    ("deprecatedSource", "source"),
    ("deprecatedFirstTimestamp", "firstTimestamp"),
    ("deprecatedLastTimestamp", "lastTimestamp"),
    ("deprecatedCount", "count"),
    ("reason", "reason"),  # Quirk: checked twice
    ("type", "type"),
    ("eventTime", "eventTime"),
    ("action", "action"),
    ("related", "related"),
    ("reportingController", "reportingController"),
    ("reportingInstance", "reportingInstance"),
)

_GO_TYPES = {
    "regarding": "core.ObjectReference",
    "deprecatedSource": "core.EventSource",
    "deprecatedFirstTimestamp": "v1.Time",
    "deprecatedLastTimestamp": "v1.Time",
    "eventTime": "v1.MicroTime",
    "related": "*core.ObjectReference",
}


def _validate_create(obj: Obj) -> Errors:
    """Errors of a new Event of events.k8s.io, which may set no field of the older form."""
    errors = event_errors(obj, "regarding", "note", "reportingController")
    errors += object_meta(obj["metadata"], True, text.subdomain)
    errors += _series_errors(obj)
    if not obj.get("eventTime"):
        errors.append(required("eventTime"))
    kind = obj.get("type", "")
    if kind not in ("Normal", "Warning"):
        errors.append(invalid("type", "", f"has invalid value: {kind}"))
    for key, spelled in (
        ("deprecatedFirstTimestamp", "firstTimestamp"),
        ("deprecatedLastTimestamp", "lastTimestamp"),
        ("deprecatedCount", "count"),
        ("deprecatedSource", "source"),
    ):
        if obj.get(key):
            errors.append(invalid(spelled, "", "needs to be unset"))
    return errors


def _series_errors(obj: Obj) -> Errors:
    series = obj.get("series")
    if series is None:
        return []
    errors: Errors = []
    if series.get("count", 0) < 2:
        errors.append(invalid("series.count", "", "should be at least 2"))
    if not series.get("lastObservedTime"):
        errors.append(required("series.lastObservedTime"))
    return errors


def _validate_update(new: Obj, old: Obj) -> Errors:
    errors = event_errors(new, "regarding", "note", "reportingController")
    errors += object_meta_update(new["metadata"], old["metadata"])
    if new.get("series") != old.get("series"):
        errors += _series_errors(new)
    for key, spelled in _FIXED:
        after, before = new.get(key) or None, old.get(key) or None
        if after != before:
            errors.append(invalid(spelled, _shown(key, after), IMMUTABLE))
    return errors


def _shown(key: str, value: Any) -> Any:
    """A field of an Event with its Go type."""
    kind = _GO_TYPES.get(key)
    if kind is not None:
        return GoValue(kind, value)
    return value if value is not None else 0 if key == "deprecatedCount" else ""


def _form(api_version: str, _: Names) -> Form:
    return Form(to_core, lambda obj: to_newer(obj, api_version))


# Both kinds of Event are printed in their stored form, that of the core group.
KIND = Kind(
    rows=(
        Row("events", "v1", "events", "Event", short=("ev",), stored_in="", stored_version="v1", form=_form),
    ),
    strategy=Strategy(create_by_put=True, default_propagation="Unsupported"),
    defaults=_fill_defaults,
    validate_create=_validate_create,
    validate_update={"": _validate_update},
    general_metadata=True,
    columns=COLUMNS,
    described_by=("", "v1"),
    cells=event_cells,
    quota=None,
    errors_in="",
)
