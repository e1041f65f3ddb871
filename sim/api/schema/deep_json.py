"""JSON texts that nest deeper than recursive code can follow.

Turns a text into one of limited depth: what nests deeper is an empty list or object.

Holds: the work takes no stack, for any depth; the part that is left out is checked to be JSON.

Why this is exact for the fixed kinds: their known fields are far less deep than the limit, so that
what is left out lies within a field that no schema has; such a field is reported and dropped as a
whole.

Mirrors  golang encoding/json scanner.go (maxNestingDepth).
"""

from __future__ import annotations

from sim.patterns import pattern

NESTING_MAX = 10_000  # of Go's scanner
_TOKEN = pattern(
    rb'[ \t\r\n]*+(?:(?P<string>"(?:[^"\\\x00-\x1f]++|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*+")'
    rb"|(?P<number>-?(?:0|[1-9][0-9]*+)(?:\.[0-9]++)?(?:[eE][+-]?[0-9]++)?)"
    rb"|(?P<word>true|false|null)|(?P<mark>[\[\]{},:]))"
)
# What may follow, by state.
_VALUE, _FIRST_VALUE, _KEY, _FIRST_KEY, _COLON, _NEXT = range(6)


def cut(text: bytes, depth_max: int) -> bytes | None:
    """The text with empty lists and objects at the first level beyond `depth_max`.

    None if the text is no JSON, or nests deeper than Go reads.
    """
    kept: list[bytes] = []
    opened: list[bytes] = []  # the ends of what is open
    state, at, from_ = _VALUE, 0, 0
    while opened or state == _VALUE:
        found = _TOKEN.match(text, at)
        if found is None:
            return None
        at, token = found.end(), found[found.lastgroup or 0]
        following = _step(state, found.lastgroup or "", token, opened)
        if following is None or len(opened) > NESTING_MAX:
            return None
        state = following
        if token in b"[{" and found.lastgroup == "mark" and len(opened) == depth_max + 1:
            kept.append(text[from_:at])
        elif token in b"]}" and found.lastgroup == "mark" and len(opened) == depth_max:
            from_ = found.start("mark")
        if not opened:
            break
    return None if text[at:].strip(b" \t\r\n") else b"".join([*kept, text[from_:]])


def _step(state: int, kind: str, token: bytes, opened: list[bytes]) -> int | None:
    """The state after a token, None if it may not be there."""
    if kind == "mark" and token in b"[{":
        if state not in (_VALUE, _FIRST_VALUE):
            return None
        opened.append(b"]" if token == b"[" else b"}")
        return _FIRST_VALUE if token == b"[" else _FIRST_KEY
    if kind == "mark" and token in b"]}":
        if not opened or opened.pop() != token or state not in (_NEXT, _FIRST_VALUE, _FIRST_KEY):
            return None
        return _NEXT
    if token == b":" and kind == "mark":
        return _VALUE if state == _COLON else None
    if token == b"," and kind == "mark":
        if state != _NEXT or not opened:
            return None
        return _VALUE if opened[-1] == b"]" else _KEY
    if state in (_KEY, _FIRST_KEY):
        return _COLON if kind == "string" else None
    return _NEXT if state in (_VALUE, _FIRST_VALUE) else None
