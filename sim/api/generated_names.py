"""Generated names and uids from a seeded stream.

Mirrors  kubernetes v1.25 apiserver pkg/storage/names/generate.go, apimachinery
         pkg/util/{rand,uuid}.
"""

from __future__ import annotations

from collections.abc import Callable

# rand.go: no vowels, so that no word appears.
ALPHABET = "bcdfghjklmnpqrstvwxz2456789"
# Two of the suffix's five characters at a time.
_PAIRS = [a + b for b in ALPHABET for a in ALPHABET]
_PAIR = len(_PAIRS)
BASE_MAX = 58  # generate.go: maxNameLength 63 - 5


def generated_name(base: str, bits: Callable[[int], int]) -> str:
    """`base` cut to fit, plus five random characters.  `bits(n)` draws n random bits."""
    value, first = divmod(bits(40), _PAIR)
    value, second = divmod(value, _PAIR)
    return f"{base[:BASE_MAX]}{_PAIRS[first]}{_PAIRS[second]}{ALPHABET[value % len(ALPHABET)]}"


def new_uid(bits: Callable[[int], int]) -> str:
    """A version 4 UUID of 122 random bits."""
    value = bits(122)
    text, variant = f"{value:031x}", "89ab"[value & 3]
    return f"{text[0:8]}-{text[8:12]}-4{text[12:15]}-{variant}{text[15:18]}-{text[18:30]}"
