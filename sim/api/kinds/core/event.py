"""Events of the core group, the form in which all Events are stored.

Mirrors  kubernetes v1.25 pkg/apis/core/validation/events.go (legacyValidateEvent),
         pkg/registry/core/event/strategy.go.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sim.api.kinds.common.fill import present, within
from sim.api.objects import get_in, name_of
from sim.api.schema.kind import Cells, Kind, Row, Strategy
from sim.api.types import Obj
from sim.api.validation import text
from sim.api.validation.errors import Errors, checked, invalid, required
from sim.ident import NAMES, Names
from sim.units import human_duration, parse_time

_EVENT_TEXT_MAX, _EVENT_NOTE_MAX = 128, 1024

_EVENT: Mapping[str, Any] = {
    **dict.fromkeys(("firstTimestamp", "lastTimestamp", "eventTime")),
    "involvedObject": {},
    "source": {},
    "reportingComponent": "",
    "reportingInstance": "",
}


_SYSTEM = tuple(names.system_namespace for names in NAMES.values())


def _fill_defaults(obj: Obj) -> Obj:
    obj = present(obj, _EVENT)
    return within(obj, "series", lambda series: present(series, {"lastObservedTime": None}))


def _validate_create(obj: Obj) -> Errors:
    return event_errors(obj, "involvedObject", "message", "reportingComponent")


def _validate_update(new: Obj, old: Obj) -> Errors:
    return _validate_create(new)


def event_errors(obj: Obj, about: str, note: str, reporter: str) -> Errors:
    """Errors that both forms of an Event share; the arguments name its fields in the form."""
    errors: Errors = []
    namespace = obj["metadata"].get("namespace", "")
    involved = (obj.get(about) or {}).get("namespace", "")
    # Quirk: an Event with a time may be about an object in any namespace.
    timed = bool(obj.get("eventTime"))
    homes = ("default", *_SYSTEM) if timed else ("", "default")
    if (involved != namespace and not timed) if involved else namespace not in homes:
        errors.append(invalid("involvedObject.namespace", involved, "does not match event.namespace"))
    if timed:
        errors += _timed_errors(obj, note, reporter)
    return errors + checked("namespace", namespace, text.subdomain)


def _timed_errors(obj: Obj, note: str, reporter: str) -> Errors:
    errors: Errors = []
    controller = obj.get(reporter, "")
    if not controller:
        errors.append(required(reporter))
    errors += checked(reporter, controller, text.qualified_name)
    for key in ("reportingInstance", "action", "reason"):
        value = obj.get(key) or ""
        if not value:
            errors.append(required(key))
        if len(value) > _EVENT_TEXT_MAX:
            errors.append(invalid(key, "", f"can have at most {_EVENT_TEXT_MAX} characters"))
    if len(obj.get(note) or "") > _EVENT_NOTE_MAX:
        errors.append(invalid("message", "", f"can have at most {_EVENT_NOTE_MAX} characters"))
    return errors


def event_cells(obj: Obj, now_us: int, _: Names) -> Cells:
    """The cells of an Event."""

    def since(*fields: tuple[str, ...]) -> str:
        text = next((t for t in (get_in(obj, f) for f in fields) if t), None)
        return human_duration(now_us - parse_time(text)) if text else "<unknown>"

    last = since(("series", "lastObservedTime"), ("lastTimestamp",), ("eventTime",))
    first = since(("firstTimestamp",), ("eventTime",))
    involved, source = obj.get("involvedObject") or {}, obj.get("source") or {}
    kind = str(involved.get("kind", "")).lower()
    target = f"{kind}/{involved['name']}" if involved.get("name") else kind
    origin = source.get("component") or obj.get("reportingComponent") or ""
    if place := source.get("host") or obj.get("reportingInstance"):
        origin += f", {place}"  # Quirk: also where there is no component
    count = get_in(obj, ("series", "count")) or obj.get("count") or 1
    head = [last, obj.get("type", ""), obj.get("reason", ""), target, involved.get("fieldPath", "")]
    tail = [
        origin,
        str(obj.get("message", "")).strip(),
        first,
        count,
        name_of(obj),
    ]
    return [*head, *tail]


COLUMNS = (
    "Last Seen=lastTimestamp",
    "Type=type",
    "Reason=reason",
    "Object=involvedObject",
    "*Subobject",
    "*Source=source",
    "Message=message",
    "*First Seen=firstTimestamp",
    "*Count=count",
    "*Name=metadata.name",
)


KIND = Kind(
    rows=(Row("", "v1", "events", "Event", short=("ev",)),),
    strategy=Strategy(create_by_put=True, default_propagation="Unsupported"),
    defaults=_fill_defaults,
    validate_create=_validate_create,
    validate_update={"": _validate_update},
    general_metadata=True,
    columns=COLUMNS,
    cells=event_cells,
    quota=None,
    errors_in="",
)
