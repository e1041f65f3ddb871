"""Parts of stored objects that need not be read again, beside objects that are read as a whole."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sim.api.patch.strategic_merge import restore_error
from sim.api.schema.field_schemas import SchemaNode
from sim.api.schema.field_validation import DecodeError, conform_noting_sent, is_sound
from tests.property.test_decoded_sections import BODIES, PLURALS, SCHEME


def read(node: SchemaNode, value: Any, converted: bool, stored: bool) -> Any:
    made, problems, sent = conform_noting_sent(node, value, "Kind", converted, stored)
    if isinstance(made, DecodeError):
        return made.message
    return json.dumps(made), problems, [*map(dict.fromkeys, sent)], sent.quantities, sent.times


@pytest.mark.slow
@settings(max_examples=300, deadline=None)
@given(st.sampled_from(PLURALS), st.lists(BODIES, min_size=1, max_size=3), st.booleans())
def test_object_with_parts_that_are_known_is_read_as_one_without(
    plural: str, bodies: list[dict[str, Any]], converted: bool
) -> None:
    node = SCHEME.resource(plural).schema
    for body in bodies:
        mixed = {**body, **{name: bodies[0][name] for name in ("spec", "status") if name in bodies[0]}}
        for value in (body, mixed, mixed):
            assert read(node, value, converted, True) == read(node, value, converted, False)
            for name, part in value.items():
                below = node.properties.get(name)
                if below is not None and isinstance(part, dict) and is_sound(below, part):
                    assert restore_error(below, {**part}) == ""


def test_part_that_reading_changes_is_not_kept_and_a_sound_one_stays_itself() -> None:
    node = SCHEME.resource("pods").schema
    sound = {"containers": [{"name": "c", "resources": {"limits": {"cpu": "1"}}}]}
    unsound = {"containers": [{"name": "c", "resources": {"limits": {"cpu": "1000m"}}}]}
    for spec, kept in ((sound, True), (unsound, False)):
        for _ in range(2):
            made, _, sent = conform_noting_sent(node, {"spec": spec}, "Pod", True, stored=True)
            assert (made["spec"] is spec, is_sound(node.properties["spec"], spec)) == (kept, kept)
            assert dict(sent.quantities) == ({} if kept else {"1": "1000m"})
