"""The text of a word becomes its parts; braces become several words.

Holds: braces give words of at most `BRACES_MAX` characters.
"""

from __future__ import annotations

from actors.node.programs.printing import unescape
from actors.node.programs.shell import quoting
from actors.node.programs.shell.nodes import (
    Calculation,
    Parameter,
    Part,
    ProcessFile,
    Substitution,
    Text,
    Word,
)
from actors.node.programs.shell.quoting import SyntaxFault
from sim.patterns import pattern

WORDS_MAX = 100_000
BRACES_MAX = 1 << 20  # characters
_NAME = pattern(r"[A-Za-z_][A-Za-z0-9_]*|[0-9]+|[@*#?$!-]")
_SHORT = pattern(r"[A-Za-z_][A-Za-z0-9_]*|[0-9@*#?$!-]")
_OPERATOR = pattern(r":[-=?+]|%%|##|//|/#|/%|\^\^|,,|[-=?+%#/^,:@]")
_RANGE = pattern(r"(-?\d+)\.\.(-?\d+)(?:\.\.(-?\d+))?$|([A-Za-z])\.\.([A-Za-z])(?:\.\.(-?\d+))?$")


def parse_word(text: str, depth: int = 0) -> Word:
    """The parts of a word outside of quotes."""
    parts: list[Part] = []
    at, plain = 0, ""
    while at < len(text):
        character = text[at]
        files = character in "<>" and text.startswith("(", at + 1)
        if character not in "\\'\"$`" and not files:
            plain += character
            at += 1
            continue
        if plain:
            parts.append(Text(plain))
            plain = ""
        if files:
            end = quoting.skip_parentheses(text, at + 1)
            parts.append(ProcessFile(text[at + 2 : end - 1], character == ">"))
            at = end
            continue
        end = quoting.skip_quoted(text, at)
        if character == "\\":
            if text[at + 1 : end] != "\n":
                parts.append(Text(text[at + 1 : end] or "\\", quoted=True))
        elif character == "'":
            parts.append(Text(text[at + 1 : end - 1], quoted=True))
        elif character == '"':
            parts += parse_quoted(text[at + 1 : end - 1], depth + 1) or (Text("", quoted=True),)
        elif text.startswith("$'", at):
            parts.append(Text(unescape(text[at + 2 : end - 1]), quoted=True))
        elif text.startswith('$"', at):
            pass
        else:
            part, at = parse_expansion(text, at, quoted=False, depth=depth)
            parts.append(part)
            continue
        at = end
    if plain:
        parts.append(Text(plain))
    return tuple(parts)


def parse_quoted(text: str, depth: int = 0, *, document: bool = False) -> Word:
    """The parts of a text within double quotes, or of a here document."""
    parts: list[Part] = []
    held: list[str] = []
    at = 0
    special = "\\$`" if document else '\\$`"'
    while at < len(text):
        character = text[at]
        if character == "\\" and text[at + 1 : at + 2] == "\n":
            at += 2
        elif character == "\\" and at + 1 < len(text) and text[at + 1] in special:
            held.append(text[at + 1])
            at += 2
        elif character in "$`":
            if held:
                parts.append(Text("".join(held), quoted=True))
                held = []
            part, at = parse_expansion(text, at, quoted=True, depth=depth)
            parts.append(part)
        else:
            end = at + 1
            while end < len(text) and text[end] not in "\\$`":
                end += 1
            held.append(text[at:end])
            at = end
    if held:
        parts.append(Text("".join(held), quoted=True))
    return tuple(parts)


def parse_expansion(text: str, at: int, *, quoted: bool, depth: int) -> tuple[Part, int]:
    """What begins with a dollar or a back quote, and the place after it."""
    if depth > quoting.NESTING_MAX:
        raise SyntaxFault("", note="nested too deeply")
    if text[at] == "`":
        end = quoting.skip_escaped(text, at + 1, "`")
        return Substitution(_unquote(text[at + 1 : end - 1], '\\$`"' if quoted else "\\$`"), quoted), end
    if text.startswith("$((", at):
        end = quoting.skip_parentheses(text, at + 1)
        if text[end - 2] == ")":
            return Calculation(parse_quoted(text[at + 3 : end - 2], depth + 1), quoted), end
    if text.startswith("$(", at):
        end = quoting.skip_parentheses(text, at + 1)
        return Substitution(text[at + 2 : end - 1], quoted), end
    if text.startswith("${", at):
        end = quoting.skip_braces(text, at + 1, quoted=quoted)
        return parse_parameter(text[at + 2 : end - 1], quoted=quoted, depth=depth + 1), end
    found = _SHORT.match(text, at + 1)
    if found is None:
        return Text("$", quoted), at + 1
    return Parameter(found[0], quoted), found.end()


def _unquote(text: str, characters: str) -> str:
    kept, at = [], 0
    while at < len(text):
        if text[at] == "\\" and at + 1 < len(text) and text[at + 1] in characters:
            at += 1
        kept.append(text[at])
        at += 1
    return "".join(kept)


def parse_parameter(text: str, *, quoted: bool, depth: int) -> Parameter:
    """What `${ }` holds."""
    fault = SyntaxFault("", note=f"bad substitution: ${{{text}}}")
    prefix = ""
    if len(text) > 1 and text[0] in "#!" and _NAME.match(text, 1) and text not in ("#-", "#?", "!-"):
        following = text[1]
        if following not in "-?#" or len(text) == 2:
            prefix, text = text[0], text[1:]
    found = _NAME.match(text)
    if found is None:
        raise fault
    name, rest, index = found[0], text[found.end() :], None
    if rest.startswith("["):
        end = rest.find("]") if "$" not in rest and '"' not in rest else _bracket_end(rest)
        if end < 0:
            raise fault
        index, rest = rest[1:end], rest[end + 1 :]
    if prefix == "#":
        if rest:
            raise fault
        return Parameter(name, quoted, index, "length")
    if not rest:
        return Parameter(name, quoted, index, prefix)
    if prefix == "!" and rest in ("*", "@"):
        return Parameter(name, quoted, rest, "!names")
    operator = _OPERATOR.match(rest)
    if operator is None:
        raise fault
    op, argument = operator[0], rest[operator.end() :]
    if op[0] in "/" and len(op) >= 1:
        cut = _cut(argument, "/")
        return Parameter(
            name, quoted, index, prefix + op, parse_word(argument[:cut], depth),
            _argument(argument[cut + 1 :], quoted, depth) if cut < len(argument) else (),
        )  # fmt: skip
    if op == ":":
        cut = _cut(argument, ":")
        return Parameter(
            name, quoted, index, prefix + op, parse_quoted(argument[:cut], depth),
            parse_quoted(argument[cut + 1 :], depth) if cut < len(argument) else None,
        )  # fmt: skip
    trims = op[0] in "%#^,"
    return Parameter(
        name,
        quoted,
        index,
        prefix + op,
        parse_word(argument, depth) if trims else _argument(argument, quoted, depth),
    )


def _argument(text: str, quoted: bool, depth: int) -> Word:
    """The word of a default value: single quotes within double quotes stand for themselves."""
    if not quoted:
        return parse_word(text, depth)
    parts: list[Part] = []
    at = start = 0
    while at < len(text):
        if text[at] == '"':
            end = quoting.skip_double(text, at)
            parts += parse_quoted(text[start:at], depth)
            parts += parse_quoted(text[at + 1 : end - 1], depth + 1)
            at = start = end
        elif text[at] == "'":
            at += 1
        else:
            at = quoting.skip_quoted(text, at)
    return (*parts, *parse_quoted(text[start:], depth))


def _bracket_end(text: str) -> int:
    at = 1
    while at < len(text) and text[at] != "]":
        at = quoting.skip_quoted(text, at)
    return at if at < len(text) else -1


def _cut(text: str, separator: str) -> int:
    """The place of the first separator outside of quotes and parentheses; the length if none."""
    at, inner = 0, 0
    while at < len(text):
        if text[at] == separator and not inner:
            return at
        inner += (text[at] in "(") - (text[at] in ")")
        at = quoting.skip_quoted(text, at)
    return len(text)


def expand_braces(text: str) -> list[str]:
    """`a{b,c}d` and `{1..3}` as several texts, where quotes and `${` are left alone."""
    done: list[str] = []
    todo, size = [text], 0
    while todo:
        one = todo.pop()
        parts = _first_braces(one)
        if parts is None:
            done.append(one)
            size += len(one) + 8
        else:
            before, choices, after = parts
            todo += [before + choice + after for choice in reversed(choices)]
            size_left = sum(map(len, todo[-len(choices) :]))
            if size_left > BRACES_MAX:
                size += size_left
        if len(todo) > WORDS_MAX or size > BRACES_MAX:
            raise SyntaxFault("", note="brace expansion: too many words")
    return done


def _first_braces(text: str) -> tuple[str, list[str], str] | None:
    at = 0 if "{" in text else len(text)
    while at < len(text):
        if text[at] != "{":
            at = quoting.skip_quoted(text, at)
            continue
        split = _choices(text, at)
        if split is not None:
            return text[:at], split[0], text[split[1] :]
        at += 1
    return None


def _choices(text: str, start: int) -> tuple[list[str], int] | None:
    at, inner, begin = start + 1, 0, start + 1
    found: list[str] = []
    while at < len(text):
        character = text[at]
        if character == "{":
            inner += 1
        elif character == "}" and inner:
            inner -= 1
        elif character == "," and not inner:
            found.append(text[begin:at])
            begin = at + 1
        elif character == "}":
            if found:
                return [*found, text[begin:at]], at + 1
            numbers = _range(text[start + 1 : at])
            return (numbers, at + 1) if numbers is not None else None
        at = quoting.skip_quoted(text, at)
    return None


def _range(text: str) -> list[str] | None:
    found = _RANGE.match(text)
    if found is None:
        return None
    letters = found[4] is not None
    first, last = (ord(found[4]), ord(found[5])) if letters else (int(found[1]), int(found[2]))
    step = abs(int(found[6] or found[3] or 1)) or 1
    if abs(last - first) // step >= WORDS_MAX:
        raise SyntaxFault("", note="brace expansion: too many words")
    numbers = range(first, last + 1, step) if first <= last else range(first, last - 1, -step)
    if letters:
        return [chr(number) for number in numbers]
    padded = any(len(end.lstrip("-")) > 1 and end.lstrip("-")[0] == "0" for end in (found[1], found[2]))
    width = max(len(found[1]), len(found[2])) if padded else 0
    return [f"{number:0{width}d}" for number in numbers]
