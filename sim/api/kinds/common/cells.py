"""Columns and cells that the tables of several kinds share.

Mirrors  kubernetes v1.25 pkg/printers/internalversion/printers.go.
"""

from __future__ import annotations

from collections.abc import Sequence

from sim.api.objects import get_in, metadata_of
from sim.api.schema.kind import Cells
from sim.api.types import Obj
from sim.units import human_duration, parse_time

NAME, AGE = "Name=metadata.name", "Age=metadata.creationTimestamp"


WIDE, SELECTOR = ("*Containers", "*Images"), "*Selector=spec.selector"


def age(obj: Obj, now_us: int) -> str:
    """The age of an object as kubectl prints it."""
    created = metadata_of(obj).get("creationTimestamp")
    return human_duration(now_us - parse_time(created)) if created else "<unknown>"


def or_none(text: str) -> str:
    """The text, or "<none>" if it is empty."""
    return text or "<none>"


def cut_list(texts: Sequence[str], limit: int) -> str:
    """The first `limit` texts, and the number of those that are left out."""
    shown = ",".join(texts[:limit])
    return f"{shown} + {len(texts) - limit} more..." if len(texts) > limit else shown


def template_cells(spec: Obj) -> Cells:
    """Names and images of the containers in the template of a spec."""
    found = get_in(spec, ("template", "spec", "containers"), [])
    return [",".join(c["name"] for c in found), ",".join(c.get("image", "") for c in found)]


def container_cells(obj: Obj) -> Cells:
    """Names and images of the containers in the pod template of an object."""
    found = get_in(obj, ("spec", "template", "spec", "containers"), [])
    return [",".join(c["name"] for c in found), ",".join(c.get("image", "") for c in found)]


def count(obj: Obj, *path: str) -> int:
    """The number at a path; 0 if it is missing."""
    return int(get_in(obj, path, 0))
