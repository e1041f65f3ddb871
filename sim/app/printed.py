"""Text on its way to a terminal.

Turns text from files and clients into what a terminal shows and does not obey: a control character
(an escape sequence can rename the window, hide lines, or type for the user) is shown by its
picture.

Holds: line ends and tabs stay; a text without control characters is unchanged; JSON stays the same
value.
"""

from __future__ import annotations

import json
from typing import Any

_KEPT = (ord("\n"), ord("\t"))
_HIGH = range(0x7F, 0xA0)  # DEL and the control characters of 8 bits
_PICTURES = {code: chr(0x2400 + code) for code in range(0x20) if code not in _KEPT}
_PICTURES |= dict.fromkeys(_HIGH, "\N{REPLACEMENT CHARACTER}") | {0x7F: "\N{SYMBOL FOR DELETE}"}
_ESCAPES = {code: f"\\u{code:04x}" for code in _HIGH}


def visible(text: str) -> str:
    """The text with a picture in the place of each control character."""
    return text.translate(_PICTURES)


def json_line(value: Any) -> str:
    """JSON on one line, in which control characters are escaped."""
    return json.dumps(value, ensure_ascii=False).translate(_ESCAPES)
