"""Base64 texts as Go reads them: the place of the first mistake.

Mirrors  Go 1.19 encoding/base64: Encoding.decodeQuantum.
"""

from __future__ import annotations

import re

from sim.patterns import pattern

_ALPHANUMERIC = "A-Za-z0-9"
LETTERS, URL_LETTERS = pattern(f"[{_ALPHANUMERIC}+/]"), pattern(f"[{_ALPHANUMERIC}_-]")


def corrupt_at(text: str, letters: re.Pattern[str] = LETTERS, *, padded: bool = True) -> int | None:
    """The position of the byte that a decoder complains about; None if the text is valid.

    letters: those of the alphabet
    padded: True if the last group is filled up with "="

    Line breaks are ignored. Quirk: an incomplete last group is reported by its length, not by its
    place.
    """
    plain = len(text) % 4 == 0 and (re.fullmatch(f"(?:{letters.pattern})*", text) is not None)
    if plain:
        return None
    data = text.encode("utf-8", "surrogatepass")
    at, in_group = 0, 0
    while at < len(data):
        letter = chr(data[at])
        at += 1
        if letter in "\r\n":
            continue
        if letters.fullmatch(letter):
            in_group = (in_group + 1) % 4
            continue
        if letter != "=" or not padded or in_group < 2:
            return at - 1
        return _padding_corrupt_at(data, at, in_group)
    if in_group == 0 or (in_group > 1 and not padded):
        return None
    return len(data) - in_group


def _padding_corrupt_at(data: bytes, at: int, in_group: int) -> int | None:
    """As `corrupt_at`, from behind the first "=" of a padded text."""
    if in_group == 2:
        at = _skipped(data, at)
        if at == len(data):
            return at
        if data[at : at + 1] != b"=":
            return at - 1
        at += 1
    at = _skipped(data, at)
    return at if at < len(data) else None


def _skipped(data: bytes, at: int) -> int:
    """The position of the next byte that is no line break."""
    while data[at : at + 1] in (b"\r", b"\n"):
        at += 1
    return at
