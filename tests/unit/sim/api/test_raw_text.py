"""Values that keep the text of their client."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from sim.api.raw_text import compact, patched, shown, text_of, unknown_part, with_text

KIND = "ControllerRevision"


def revision(data: str) -> Any:
    """A revision that is read from a body with these data."""
    body = b'{"metadata":{"name":"r"},"data":%b,"revision":1}' % data.encode()
    return with_text(KIND, {"kind": KIND, **msgspec.json.decode(body)}, body)


def answered(obj: Any) -> str:
    text = msgspec.json.encode(shown(obj)).decode()
    return text[text.index('"data":') + 7 : text.index(',"revision"')]


@pytest.mark.parametrize(
    ("data", "answer"),
    [
        ('{"b": 1.0,\n "a":1e3, "c":-0, "d": "x\\" : y"}', '{"b":1.0,"a":1e3,"c":-0,"d":"x\\" : y"}'),
        ('{"b":1,"b":2}', '{"b":1,"b":2}'),
        ('{"x":"<&>\\u00e9\\/é"}', '{"x":"\\u003c\\u0026\\u003e\\u00e9\\/é"}'),
        ('[1.50, {"z":1,"a":2}]', '[1.50,{"z":1,"a":2}]'),
        ('"text"', '"text"'),
    ],
)
def test_data_are_answered_as_their_client_wrote_them_without_gaps(data: str, answer: str) -> None:
    made = revision(data)
    assert (answered(made), text_of(made["data"])) == (answer, data.encode())


def test_a_patch_compacts_the_text_and_a_strategic_one_sorts_it() -> None:
    made = revision('{"b": 1.0, "a": 2}')
    merged = patched(KIND, {**made, "data": dict(made["data"])}, made, lambda: pytest.fail("unchanged"))
    assert text_of(merged["data"]) == b'{"b":1.0,"a":2}' == compact(b' {"b": 1.0,\t"a": 2}\n')
    assert text_of(patched(KIND, made, made, None)["data"]) == b'{"a":2,"b":1}'
    changed = {**made, "data": {"z": 1.5, "a": 2}}
    assert (
        text_of(patched(KIND, changed, made, lambda: '{"data":{"z":1.5,"a":2}}')["data"])
        == b'{"z":1.5,"a":2}'
    )


def test_a_strategic_patch_cannot_merge_into_a_map_or_list_of_the_text() -> None:
    made = revision('{"b": {"x": 1}, "a": [1], "c": 1}')
    assert unknown_part(KIND, {"data": {"b": {}, "a": [2]}}, made) == "a"
    assert unknown_part(KIND, {"data": {"b": {}, "a": "x"}}, made) == "b"
    assert unknown_part(KIND, {"data": {"b": 1, "a": None, "c": {}, "z": {}}}, made) == ""
    assert unknown_part("ConfigMap", {"data": {"z": 1}}, made) == unknown_part(KIND, {"data": 1}, made) == ""


def test_other_kinds_and_bodies_of_this_process_are_left_alone() -> None:
    obj = {"kind": "ConfigMap", "data": {"a": "b"}}
    assert with_text("ConfigMap", obj, b'{"data":{"a": "b"}}') is shown(obj) is obj
    assert with_text(KIND, obj, obj) is obj
