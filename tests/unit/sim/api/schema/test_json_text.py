"""Go's messages about text that is not JSON."""

from __future__ import annotations

import pytest

from sim.api.schema.json_text import END, GO_DEPTH_MAX, syntax_error


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("é", "'Ã' looking for beginning of value"),
        ("\x01", r"'\x01' looking for beginning of value"),
        ('{"a":"\x07"}', r"'\a' in string literal"),
        ('"\\x"', "'x' in string escape code"),
        ('"\\u12x4"', r"'x' in \u hexadecimal character escape"),
        ("nul", "' ' in literal null (expecting 'l')"),
        ("-", "' ' in numeric literal"),
        ("[1.]", "']' after decimal point in numeric literal"),
        ("[1e+]", "']' in exponent of numeric literal"),
        ('{"a" 1}', "'1' after object key"),
        ('{"a":1 2}', "'2' after object key:value pair"),
        ("[1 2]", "'2' after array element"),
        ("1 2", "'2' after top-level value"),
        ("{,}", "',' looking for beginning of object key string"),
        ("{'a':1}", r"'\'' looking for beginning of object key string"),
        ("[1,]", "']' looking for beginning of value"),
        ("[" * (GO_DEPTH_MAX + 1), "'[' exceeded max depth"),
    ],
)
def test_mistake_in_json_is_named_as_gos_scanner_names_it(text: str, says: str) -> None:
    assert syntax_error(text) == f"invalid character {says}"


@pytest.mark.parametrize("text", ["", '"', '{"a"', '{"a":', '{"a":1', "[", "[[],", "[" * GO_DEPTH_MAX])
def test_json_that_ends_too_early_is_named_so(text: str) -> None:
    assert syntax_error(text) == END
