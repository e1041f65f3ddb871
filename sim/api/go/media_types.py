"""Media types in headers, as Go reads them.

Mirrors  golang 1.19 mime/{mediatype,grammar}.go.
Differs  parameters are only checked: no caller asks for their values.
"""

from __future__ import annotations

SPECIAL = '()<>@,;:\\"/[]?='
_SPACES = "\t\n\v\f\r \x85\xa0"  # unicode.IsSpace, of the characters that a header can hold


def parse_media_type(header: str) -> tuple[str, str]:
    """The type in a header, in lower case and without parameters, and what is wrong with the
    header ("" if nothing is).

    The type is "" if it is malformed itself, or if a parameter is named twice.
    """
    base, _, _ = header.partition(";")
    media = base.lower().strip(_SPACES)
    problem = _type_problem(media)
    if problem:
        return "", f"mime: {problem}"
    rest = header[len(base) :]
    seen: dict[str, None] = {}
    while rest := rest.lstrip(_SPACES):
        name, after = _parameter(rest)
        if not name:
            return (media, "") if rest.strip(_SPACES) == ";" else (media, "mime: invalid media parameter")
        if name in seen:
            return "", "mime: duplicate parameter name"
        seen[name] = None
        rest = after
    return media, ""


def _type_problem(media: str) -> str:
    """What is wrong with a type; "" if nothing is (checkMediaTypeDisposition)."""
    token, rest = _token(media)
    if not token:
        return "no media type"
    if not rest:
        return ""
    if rest[0] != "/":
        return "expected slash after first token"
    token, rest = _token(rest[1:])
    if not token:
        return "expected token after slash"
    return "unexpected content after media subtype" if rest else ""


def _parameter(text: str) -> tuple[str, str]:
    """The name of the parameter at the beginning of the text, and what follows it; ("", text) if
    there is none (consumeMediaParam).
    """
    if not text.startswith(";"):
        return "", text
    name, rest = _token(text[1:].lstrip(_SPACES))
    rest = rest.lstrip(_SPACES)
    if not name or not rest.startswith("="):
        return "", text
    rest = rest[1:].lstrip(_SPACES)
    after = _after_value(rest)
    return ("", text) if after is None else (name.lower(), after)


def _after_value(text: str) -> str | None:
    """What follows the value at the beginning of the text; None without a value (consumeValue)."""
    if not text.startswith('"'):
        token, rest = _token(text)
        return rest if token else None
    at = 1
    while at < len(text):
        char = text[at]
        if char == '"':
            return text[at + 1 :]
        if char in "\r\n":
            return None
        at += 2 if char == "\\" and text[at + 1 : at + 2] in tuple(SPECIAL) else 1
    return None


def _token(text: str) -> tuple[str, str]:
    """The token at the beginning of the text, and the rest (consumeToken)."""
    for at, char in enumerate(text):
        if not "!" <= char <= "~" or char in SPECIAL:
            return text[:at], text[at:]
    return text, ""
