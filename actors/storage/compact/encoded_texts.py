"""Texts of a fixed form as numbers and bytes: times, addresses, revisions, uids, container ids.

Turns a column of texts (one field of many objects; a time may be None) into values that `struct`
packs, and each of those back into text. Very many objects have such fields: a uid takes 96 bytes as
text and 16 as bytes, a time 80 and 4.

Holds: a text is restored exactly, or its column is refused (`ValueError`, `TypeError`) because of a
text in another spelling or form. A column is converted as a whole, because a loop over its texts
would take most of the time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

from sim.units import SECOND, format_micro_time, format_time, parse_time

MEMO_MAX = 4_096
WORD = 1 << 32  # limit of numbers
NO_SECOND = WORD - 1
NO_INSTANT = (1 << 64) - 1
SECOND_CHARS = len("2026-01-02T03:04:05")
UID_CHARS, UID_BYTES = 36, 16
DASHES = (8, 13, 18, 23)
CONTAINER = "containerd://"  # the container runtime with ids of the form below
CONTAINER_CHARS, CONTAINER_BYTES = len(CONTAINER) + 64, 32
Column = Sequence[Any]


class _Numbers(dict[str, int]):
    """Numbers of texts that many objects share: times, and addresses (a pod's address is in two
    fields, a host's in all its pods).
    """

    def __init__(self, read: Callable[[str], int]) -> None:
        super().__init__()
        self._read = read

    def __missing__(self, text: Any) -> int:
        if type(text) is not str:
            raise ValueError(text)
        number = self._read(text)
        if len(self) >= MEMO_MAX:
            self.clear()
        self[text] = number
        return number


def _second(text: str) -> int:
    """Seconds since 1970."""
    at_us = parse_time(text)
    second = at_us // SECOND
    if not 0 <= second < NO_SECOND or format_time(at_us) != text:
        raise ValueError(text)
    return second


def _address(text: str) -> int:
    a, b, c, d = map(int, text.split("."))
    address = (a << 24) + (b << 16) + (c << 8) + d
    if not 0 <= address < WORD or address_text(address) != text:
        raise ValueError(text)
    return address


_seconds, _addresses = _Numbers(_second), _Numbers(_address)


def seconds(texts: Column) -> Sequence[int]:
    """Times in whole seconds, as seconds since 1970; `NO_SECOND` for None."""
    return [NO_SECOND if text is None else _seconds[text] for text in texts]


@lru_cache(maxsize=MEMO_MAX)
def time_text(second: int) -> str | None:
    """The time text of a number of seconds."""
    return None if second == NO_SECOND else format_time(second * SECOND)


def instants(texts: Column) -> Sequence[int]:
    """Times with microseconds, as microseconds since 1970; `NO_INSTANT` for None."""
    found = [NO_INSTANT if text is None else _instant(text) for text in texts]
    if [*map(instant_text, found)] != [*texts] or min(found) < 0:
        raise ValueError(texts)
    return found


def _instant(text: str) -> int:
    return _seconds[text[:SECOND_CHARS] + "Z"] * SECOND + int(text[SECOND_CHARS + 1 : -1])


def instant_text(at_us: int) -> str | None:
    """The time text of a number of microseconds."""
    return None if at_us == NO_INSTANT else format_micro_time(at_us)


def addresses(texts: Column) -> Sequence[int]:
    """IPv4 addresses as numbers of 32 bits."""
    return [*map(_addresses.__getitem__, texts)]


@lru_cache(maxsize=MEMO_MAX)
def address_text(address: int) -> str:
    """The text of an IPv4 address."""
    return f"{address >> 24}.{address >> 16 & 255}.{address >> 8 & 255}.{address & 255}"


def numbers(texts: Column) -> Sequence[int]:
    """Decimal numbers without leading zeros, such as revisions."""
    found = [*map(int, texts)]
    if [*map(str, found)] != [*texts]:
        raise ValueError(texts)
    return found


def uids(texts: Column) -> Sequence[bytes]:
    """Uids as 16 bytes each."""
    joined = _joined(texts, UID_CHARS)
    dashes = "-" * len(texts)
    if any(joined[at::UID_CHARS] != dashes for at in DASHES):
        raise ValueError(texts)
    return _bytes(joined.replace("-", ""), UID_BYTES, len(texts))


def uid_text(uid: bytes) -> str:
    """The text of a uid."""
    digits = uid.hex()
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"


def containers(texts: Column) -> Sequence[bytes]:
    """Container ids as 32 bytes each."""
    joined = _joined(texts, CONTAINER_CHARS)
    return _bytes(joined.replace(CONTAINER, ""), CONTAINER_BYTES, len(texts))


def container_text(ident: bytes) -> str:
    """The text of a container id."""
    return CONTAINER + ident.hex()


def _joined(texts: Column, size: int) -> str:
    if {*map(len, texts)} != {size}:
        raise ValueError(texts)
    return "".join(texts)


def _bytes(digits: str, size: int, count: int) -> Sequence[bytes]:
    """The bytes of hexadecimal digits in lower case, `size` for each of `count` texts."""
    found = bytes.fromhex(digits)
    if len(found) != size * count or found.hex() != digits:
        raise ValueError(digits)
    return [found[at : at + size] for at in range(0, len(found), size)]
