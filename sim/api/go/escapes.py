"""JSON text as Go's encoder writes it, byte for byte.

Clients in Go keep the text of some values, such as the data of a ControllerRevision, and compare it
with text of their own encoder. The text of an answer therefore has Go's escapes.

Mirrors  encoding/json (Go 1.19): `HTMLEscape`, which `Encoder` applies by default.
"""

from __future__ import annotations

_LINE_SEPARATORS = b"\xe2\x80"  # the first bytes of U+2028 and U+2029 in UTF-8
_ESCAPES = (
    (b"<", b"\\u003c"),
    (b">", b"\\u003e"),
    (b"&", b"\\u0026"),
)
_SEPARATOR_ESCAPES = ((b"\xe2\x80\xa8", b"\\u2028"), (b"\xe2\x80\xa9", b"\\u2029"))


def escaped(text: bytes) -> bytes:
    """JSON text with `<`, `>`, `&` and two line separators escaped; they occur in strings only."""
    for plain, escape in _ESCAPES:
        if plain in text:
            text = text.replace(plain, escape)
    if _LINE_SEPARATORS in text:
        for plain, escape in _SEPARATOR_ESCAPES:
            text = text.replace(plain, escape)
    return text
