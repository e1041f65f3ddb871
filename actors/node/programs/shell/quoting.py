"""Where a quotation, an expansion or a word ends in the text of a script.

Every function takes the text and the place of the first character, and returns the place after the
last one.

Holds: nesting is at most `NESTING_MAX` deep, in every mixture.
"""

from __future__ import annotations

from sim.patterns import pattern

NESTING_MAX = 50  # real scripts nest some ten deep; each level takes several frames of Python
META = frozenset(" \t\n;&|<>()")
_WORD = pattern(r"[A-Za-z]+")
_DOCUMENT = pattern(r"<<(-?)[ \t]*([^\s;&|<>()]+)")


class SyntaxFault(Exception):
    """A script that is none.

    token: what was found, or what has no end; "" at the end of the text
    source: the line of the script, for messages
    """

    def __init__(self, token: str, line: int = 1, note: str = "") -> None:
        super().__init__(note or token)
        self.token, self.line, self.note, self.source = token, line, note, ""


def _deeper(depth: int) -> int:
    if depth >= NESTING_MAX:
        raise SyntaxFault("", note="nested too deeply")
    return depth + 1


def _unterminated(text: str, start: int, close: str) -> SyntaxFault:
    return SyntaxFault(close, 1 + text.count("\n", 0, start), "unterminated quoted string")


def skip_single(text: str, at: int) -> int:
    """After `'...'`."""
    end = text.find("'", at + 1)
    if end < 0:
        raise _unterminated(text, at, "'")
    return end + 1


def skip_escaped(text: str, at: int, close: str) -> int:
    """After `...close`, where a backslash protects the next character; `at` is after the opening."""
    start = at
    while at < len(text):
        if text[at] == "\\":
            at += 2
        elif text[at] == close:
            return at + 1
        else:
            at += 1
    raise _unterminated(text, start, close)


def skip_double(text: str, at: int, depth: int = 0) -> int:
    """After `"..."`."""
    start, at, depth = at, at + 1, _deeper(depth)
    while at < len(text):
        character = text[at]
        if character == '"':
            return at + 1
        if character == "\\":
            at += 2
        elif character == "$":
            at = skip_dollar(text, at, depth, quoted=True)
        elif character == "`":
            at = skip_escaped(text, at + 1, "`")
        else:
            at += 1
    raise _unterminated(text, start, '"')


def skip_dollar(text: str, at: int, depth: int = 0, *, quoted: bool = False) -> int:
    """After `$(...)`, `${...}`, `$'...'`; else after the dollar."""
    following = text[at + 1 : at + 2]
    if following == "(":
        return skip_parentheses(text, at + 1, depth)
    if following == "{":
        return skip_braces(text, at + 1, depth, quoted=quoted)
    if following == "'" and not quoted:
        return skip_escaped(text, at + 2, "'")
    return at + 1


def skip_quoted(text: str, at: int, depth: int = 0) -> int:
    """After what begins here: a quotation, an expansion, or one character."""
    character = text[at]
    if character == "\\":
        return min(at + 2, len(text))
    if character == "'":
        return skip_single(text, at)
    if character == '"':
        return skip_double(text, at, depth)
    if character == "$":
        return skip_dollar(text, at, depth)
    if character == "`":
        return skip_escaped(text, at + 1, "`")
    return at + 1


def skip_parentheses(text: str, at: int, depth: int = 0) -> int:
    """After `(...)`: a script or an expression."""
    start, depth = at, _deeper(depth)
    opened: list[str] = []
    documents: list[tuple[str, str]] = []  # delimiters of those that begin after this line
    fresh = True  # True at the begin of a word
    while at < len(text):
        character = text[at]
        calculates = opened[-2:] == ["(", "("] or text.startswith("<<<", at)
        if character == "<" and not calculates and (found := _DOCUMENT.match(text, at)) is not None:
            documents.append((found[1], found[2].translate(_QUOTES)))
            at, fresh = found.end(), False
            continue
        if character == "\n" and documents:
            at, documents, fresh = _skip_documents(text, at + 1, documents), [], True
            continue
        if character == "#" and fresh and opened[-1:] != [""] and at and text[at - 1] in " \t\n;":
            end = text.find("\n", at)
            at = len(text) if end < 0 else end
            continue
        if character == "(":
            opened.append("(")
        elif character == ")":
            if opened[-1] == "(":
                opened.pop()
                if not opened:
                    return at + 1
        elif fresh and character.isalpha():
            letters = _WORD.match(text, at)
            assert letters is not None
            word, at = letters[0], letters.end()
            whole = at >= len(text) or text[at] in META
            if word == "case" and whole:
                opened.append("case")
            elif word == "esac" and whole and opened[-1] == "case":
                opened.pop()
            fresh = False
            continue
        fresh = character in META
        at = at + 3 if text.startswith("<<<", at) else skip_quoted(text, at, depth)
    raise SyntaxFault("", 1 + text.count("\n", 0, start), "unterminated parenthesis")


_QUOTES = {ord(character): None for character in "'\"\\"}


def _skip_documents(text: str, at: int, documents: list[tuple[str, str]]) -> int:
    """After the here documents that begin here."""
    for tabs, delimiter in documents:
        while at < len(text):
            end = text.find("\n", at)
            end = len(text) if end < 0 else end
            line = text[at:end]
            at = min(end + 1, len(text))
            if (line.lstrip("\t") if tabs else line) == delimiter:
                break
    return at


def skip_braces(text: str, at: int, depth: int = 0, *, quoted: bool = False) -> int:
    """After `{...}` of an expansion."""
    start, at, depth = at, at + 1, _deeper(depth)
    while at < len(text):
        if text[at] == "}":
            return at + 1
        at = at + 1 if quoted and text[at] == "'" else skip_quoted(text, at, depth)
    raise SyntaxFault("", 1 + text.count("\n", 0, start), "unterminated brace")


def skip_word(text: str, at: int) -> int:
    """After the word that begins here."""
    while at < len(text):
        if text.startswith(("<(", ">("), at):
            at = skip_parentheses(text, at + 1)
        elif text[at] in META:
            break
        else:
            at = skip_quoted(text, at)
    return at
