"""The bytes of an event are made once for all watches of one form."""

from __future__ import annotations

from typing import Any

import pytest

from sim.api.scheme.scheme import Scheme
from sim.api.store import Item
from sim.api.types import WatchEvent
from sim.ident import NAMES
from sim.units import Revision
from sim.wire.http.forms import rendering
from sim.wire.http.forms.negotiation import Form
from sim.wire.http.forms.rendering import SHARED_MAX, EventWriter, SharedEvents, View

N = NAMES["kubernetes"]
RESOURCE: Any = Scheme(N).resource("configmaps")


def item(name: str) -> Item:
    return Item(f"//configmaps/d/{name}", {"metadata": {"name": name}}, Revision(1), Revision(1))


def written(shared: SharedEvents, kind: Any, found: Item, media: str = N.media_json) -> bytes:
    """What a watch of its own writes for an event."""
    writer = EventWriter(View(N, RESOURCE, Form(media), 0), shared)
    return b"".join(writer.parts([WatchEvent(kind, found, found.rev)], 0))


def test_event_is_encoded_once_for_each_form_and_type(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[str] = []
    for name in ("_text", "_frame"):
        make = getattr(EventWriter, name)
        monkeypatch.setattr(
            EventWriter, name, lambda *rest, make=make: made.append(rest[1].type) or make(*rest)
        )
    shared, a, b = SharedEvents(), item("a"), item("b")
    for _ in range(3):
        first = written(shared, "MODIFIED", a)
        assert first == b'{"type":"MODIFIED","object":%b}\n' % rendering.object_bytes(RESOURCE, a)
        written(shared, "DELETED", a)
        written(shared, "MODIFIED", a, N.media_protobuf)
        assert written(shared, "MODIFIED", b) != first
    assert made == ["MODIFIED", "DELETED", "MODIFIED", "MODIFIED"]


@pytest.mark.parametrize("bound", [4 << 20, 10])
def test_few_events_are_kept(bound: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rendering, "SHARED_BYTES", bound)
    shared = SharedEvents()
    for number in range(3 * SHARED_MAX):
        written(shared, "ADDED", item(f"m{number}"))
    assert len(shared._kept) == (SHARED_MAX if bound > 10 else 1)
    assert shared._size == sum(len(data) for _, data in shared._kept.values())
