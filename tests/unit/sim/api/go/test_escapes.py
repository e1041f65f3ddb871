"""JSON text with the escapes of Go's encoder."""

from __future__ import annotations

import json

from sim.api.go.escapes import escaped


def test_html_characters_and_line_separators_are_escaped_as_in_go() -> None:
    text = '{"a<b":"<&>\u2028\u2029\u20ac"}'
    assert escaped(text.encode()) == b'{"a\\u003cb":"\\u003c\\u0026\\u003e\\u2028\\u2029\xe2\x82\xac"}'
    assert json.loads(escaped(text.encode())) == json.loads(text)
