"""The bytes of protobuf messages.

Mirrors  the protobuf encoding: variable-length numbers, and fields with a length.
"""

from __future__ import annotations

_U64 = (1 << 64) - 1


def varint(value: int) -> bytes:
    """A variable-length number."""
    if 0 <= value < 0x80:
        return bytes((value,))
    value &= _U64  # negative numbers take the full length
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def part(number: int, data: bytes) -> bytes:
    """A field of bytes: a text or a message."""
    return varint(number << 3 | 2) + varint(len(data)) + data
