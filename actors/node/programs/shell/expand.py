"""A word becomes fields: parameters, substitutions, calculations, splitting, names of files.

Every function that can meet a command substitution is a generator, since that waits.

Holds: the fields of one command have at most `state.VALUE_MAX` characters, and there are at most
       `words.WORDS_MAX`.
Mirrors  POSIX shell command language 2.6; bash's `${x/a/b}`, `${x:1:2}`, `${x^^}`, `${!x}`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Iterable
from functools import lru_cache

from actors.node.programs.printing import unescape
from actors.node.programs.shell import patterns, words
from actors.node.programs.shell.nodes import Calculation, Parameter, ProcessFile, Substitution, Text, Word
from actors.node.programs.shell.state import OPTIONS, VALUE_MAX, Fatal, Shell
from actors.node.programs.waits import Wait

Substitute = Callable[[Shell, str], Generator[Wait, None, str]]
Piece = tuple[str, bool, bool] | None  # text, quoted, split by IFS; None: another field begins


def fields(shell: Shell, given: Iterable[Word], substitute: Substitute) -> Generator[Wait, None, list[str]]:
    """The fields of words.  Raises Fatal."""
    found: list[str] = []
    size = 0
    for word in given:
        if len(word) == 1 and isinstance(word[0], Text) and word[0].quoted:
            made = [word[0].text]
        else:
            made = _names(shell, _split(shell, (yield from _pieces(shell, word, substitute))))
        size += sum(map(len, made)) + 8 * len(made)
        found += made
        if size > VALUE_MAX or len(found) > words.WORDS_MAX:
            raise Fatal("Argument list too long", 126)
    return found


def text(shell: Shell, word: Word, substitute: Substitute) -> Generator[Wait, None, str]:
    """A word as one text: not split, no names of files.  Raises Fatal."""
    if len(word) == 1 and isinstance(word[0], Text) and (word[0].quoted or word[0].text[:1] != "~"):
        return word[0].text
    pieces = yield from _pieces(shell, word, substitute)
    return _bounded("".join(" " if piece is None else piece[0] for piece in pieces))


def assigned(shell: Shell, word: Word, substitute: Substitute) -> Generator[Wait, None, str]:
    """The value of an assignment: a tilde counts after each colon, too."""
    if any(isinstance(part, Text) and not part.quoted and ":~" in part.text for part in word):
        word = tuple(
            Text(":".join(_tilde(shell, one) for one in part.text.split(":")), quoted=True)
            if isinstance(part, Text) and not part.quoted else part
            for part in word
        )  # fmt: skip
    return (yield from text(shell, word, substitute))


def pattern(
    shell: Shell, word: Word, substitute: Substitute, quote: Callable[[str], str] = patterns.escape
) -> Generator[Wait, None, str]:
    """A word as a pattern, in which what was quoted stands for itself.  Raises Fatal."""
    pieces = yield from _pieces(shell, word, substitute)
    return _bounded("".join(" " if one is None else quote(one[0]) if one[1] else one[0] for one in pieces))


def _bounded(value: str) -> str:
    if len(value) > VALUE_MAX:
        raise Fatal("word too long")
    return value


# --- pieces ---------------------------------------------------------------------------------


def _tilde(shell: Shell, value: str) -> str:
    if value[:1] != "~":
        return value
    name, slash, rest = value[1:].partition("/")
    home = {"": shell.get("HOME"), "root": "/root", "+": shell.get("PWD"), "-": shell.get("OLDPWD")}.get(name)
    return value if home is None else home + slash + rest


def _pieces(
    shell: Shell, word: Word, substitute: Substitute, *, split_text: bool = False
) -> Generator[Wait, None, list[Piece]]:
    found: list[Piece] = []
    size = 0
    for at, part in enumerate(word):
        if isinstance(part, Text):
            if not at and not part.quoted and part.text[:1] == "~":
                found.append((_tilde(shell, part.text), True, False))
            else:
                found.append((part.text, part.quoted, split_text and not part.quoted))
        elif isinstance(part, Substitution):
            value = yield from substitute(shell, part.script)
            found.append((value, part.quoted, not part.quoted))
        elif isinstance(part, ProcessFile):
            path = yield from shell.runner.process_file(shell, part.script, written=part.written)
            found.append((path, True, False))
        elif isinstance(part, Calculation):
            expression = yield from text(shell, part.expression, substitute)
            found.append((str(shell.calculate(expression)), part.quoted, not part.quoted))
        else:
            found += yield from _parameter(shell, part, substitute)
        last = found[-1] if found else None
        size += len(last[0]) if last is not None else 0
        if size > 4 * VALUE_MAX:
            raise Fatal("word too long")
    return found


def _several(shell: Shell, part: Parameter, values: list[str], *, star: bool) -> list[Piece]:
    """The pieces of `$@`, `$*` and of whole arrays."""
    if star and part.quoted:
        ifs = shell.get("IFS")
        return [((" " if ifs is None else ifs[:1]).join(values), True, False)]
    found: list[Piece] = []
    for at, value in enumerate(values):
        if at:
            found.append(None)
        found.append((value, part.quoted, not part.quoted))
    return found


def _parameter(shell: Shell, part: Parameter, substitute: Substitute) -> Generator[Wait, None, list[Piece]]:
    name, index, op = part.name, part.index, part.op
    if op == "!" and index in ("@", "*"):
        variable = shell.variables.get(name)
        keys = [str(key) for key, _ in shell.items(variable)] if variable is not None else []
        return _several(shell, part, keys, star=index == "*")
    if op == "!names":
        return _several(
            shell, part, sorted(one for one in shell.variables if one.startswith(name)), star=index == "*"
        )
    if op[:1] == "!":
        name, op = special(shell, name) or "", op[1:]
        if not name:
            raise Fatal(f"{part.name}: invalid indirect expansion")
        if name.endswith("]") and "[" in name:
            name, _, index = name[:-1].partition("[")
    if name in ("@", "*") or index in ("@", "*"):
        values = list(shell.arguments) if name in ("@", "*") else shell.values(name)
        star = "*" in (name, index)
        if op == "length":
            return [(str(len(values)), part.quoted, not part.quoted)]
        if op in ("", ":"):
            if op == ":":
                values = yield from _slice(shell, part, values, substitute)
            return _several(shell, part, values, star=star)
        if op[0] == ":" or op[0] in "-=?+":
            joined = " ".join(values)
            return (
                yield from _default(shell, part, op, name, joined if values else None, substitute, values)
            )
        changed = []
        for one in values:
            changed.append((yield from _changed(shell, part, op, one, substitute)))
        return _several(shell, part, changed, star=star)
    key = (yield from subscript(shell, name, index, substitute)) if index is not None else None
    value: str | None = special(shell, name) if key is None else shell.get(name, key)
    if op and (op in (":-", ":=", ":?", ":+") or op in "-=?+"):
        return (yield from _default(shell, part, op, name, value, substitute, None, key))
    if value is None:
        if "nounset" in shell.options:
            raise Fatal(shell.unset_text(name), 127 if shell.bash and not shell.is_script else None)
        value = ""
    if op == "length":
        value = str(len(value))
    elif op == ":":
        value = "".join((yield from _slice(shell, part, value, substitute)))
    elif op:
        value = yield from _changed(shell, part, op, value, substitute)
    return [(value, part.quoted, not part.quoted)]


def special(shell: Shell, name: str) -> str | None:
    """The value of a parameter of any kind; None if it is not set."""
    if name.isdigit():
        place = int(name)
        if not place:
            return shell.name
        return shell.arguments[place - 1] if place <= len(shell.arguments) else None
    if name == "?":
        return str(shell.status)
    if name == "#":
        return str(len(shell.arguments))
    if name == "$":
        return str(shell.shell_pid)
    if name == "!":
        return str(shell.last_job) if shell.last_job else None
    if name == "-":
        return flags(shell)
    if name in ("@", "*"):
        return " ".join(shell.arguments) if shell.arguments else None
    return _computed(shell, name) if shell.bash or name in ("LINENO", "PPID") else shell.get(name)


def flags(shell: Shell) -> str:
    """`$-`."""
    letters = "aefhmnuvxBC" if shell.bash else "efmnuvxaCb"
    shown = "".join(letter for letter in letters if OPTIONS[letter] in shell.options)
    return shown + ("c" if shell.bash and not shell.is_script else "")


def _computed(shell: Shell, name: str) -> str | None:
    process = shell.process
    computed = {
        "LINENO": shell.line, "PPID": process.parent_pid, "UID": process.identity.uid, "EUID": process.identity.uid,
        "SECONDS": process.now_us // 1_000_000, "BASHPID": process.pid, "RANDOM": None,
    }.get(name)  # fmt: skip
    if name == "RANDOM":  # repeatable: it depends on the instant and on the draws before
        shell.random = (shell.random * 1103515245 + 12345 + process.now_us + process.pid) & 0x7FFFFFFF
        return str(shell.random >> 16)
    if name == "PIPESTATUS":
        return str(shell.pipe_status[0])
    return shell.get(name) if computed is None else str(computed)


def subscript(
    shell: Shell, name: str, index: str, substitute: Substitute
) -> Generator[Wait, None, int | str]:
    """The key between brackets.  Raises Fatal."""
    value = yield from text(shell, words.parse_quoted(index.strip('"')), substitute)
    variable = shell.variables.get(name)
    return value.strip("'") if variable is not None and variable.associative else shell.calculate(value)


def _default(
    shell: Shell,
    part: Parameter,
    op: str,
    name: str,
    value: str | None,
    substitute: Substitute,
    values: list[str] | None = None,
    key: int | str | None = None,
) -> Generator[Wait, None, list[Piece]]:
    """`-`, `=`, `?`, `+`, with or without a colon."""
    missing = value is None or (op[0] == ":" and not value)
    if op[-1] == "+":
        missing = not missing
        value, values = ("", None) if not missing else (value, values)
    if not missing:
        if values is not None:
            return _several(shell, part, values, star=part.name == "*")
        if op[-1] == "+" and not part.quoted:
            return []
        return [(value or "", part.quoted, not part.quoted)]
    if op[-1] == "?":
        said = yield from text(shell, part.argument, substitute)
        said = said or ("parameter null or not set" if op[0] == ":" else "parameter not set")
        raise Fatal(f"{name}: {said}", 127 if shell.bash and not shell.is_script else None)
    if op[-1] == "=":
        value = yield from text(shell, part.argument, substitute)
        if not name.isidentifier():
            raise Fatal(f"${name}: cannot assign in this way" if shell.bash else f"{name}: bad variable name")
        shell.put(name, value, key)
        return [(value, part.quoted, not part.quoted)]
    pieces = yield from _pieces(shell, part.argument, substitute, split_text=not part.quoted)
    return pieces or ([("", True, False)] if part.quoted else [])


def _slice(
    shell: Shell, part: Parameter, value: str | list[str], substitute: Substitute
) -> Generator[Wait, None, list[str]]:
    """`${x:start:length}`.  Raises Fatal."""
    start = shell.calculate((yield from text(shell, part.argument, substitute)))
    length = None
    if part.second is not None:
        length = shell.calculate((yield from text(shell, part.second, substitute)))
    if isinstance(value, list) and part.name in ("@", "*"):
        value = [shell.name, *value]
        if start < 0:
            start += len(value)
        elif start == 0 and length is None:
            return value
    elif start < 0:
        start += len(value)
    if start < 0 or start > len(value):
        return []
    if length is None:
        end = len(value)
    elif length >= 0:
        end = start + length
    elif isinstance(value, list) or len(value) + length < start:
        raise Fatal(f"{length}: substring expression < 0")
    else:
        end = len(value) + length
    return list(value[start:end])


def _changed(
    shell: Shell, part: Parameter, op: str, value: str, substitute: Substitute
) -> Generator[Wait, None, str]:
    """`#`, `%`, `/`, `^`, `,`, `@`."""
    if op == "@":
        kind = yield from text(shell, part.argument, substitute)
        changes: dict[str, Callable[[str], str]] = {
            "U": str.upper, "L": str.lower, "u": lambda one: one[:1].upper() + one[1:], "Q": quote,
            "E": unescape,
        }  # fmt: skip
        if kind not in changes:
            raise Fatal(f"${{{part.name}@{kind}}}: bad substitution")
        return changes[kind](value)
    described = yield from pattern(shell, part.argument, substitute)
    if op[0] in "#%":
        return patterns.trim(value, described, op)
    if op[0] == "/":
        other = yield from text(shell, part.second or (), substitute)
        try:
            return patterns.replace(value, described, other, op, VALUE_MAX)
        except patterns.TooMany:
            raise Fatal("word too long") from None
    change = str.upper if op[0] == "^" else str.lower
    if len(op) == 1:
        first = value[:1]
        return (change(first) if not described or patterns.matches(described, first) else first) + value[1:]
    if not described:
        return change(value)
    return "".join(change(one) if patterns.matches(described, one) else one for one in value)


def quote(value: str) -> str:
    """A text as a shell reads it back."""
    return "'" + value.replace("'", "'\\''") + "'"


# --- splitting ------------------------------------------------------------------------------


@lru_cache(maxsize=32)
def _separator(ifs: str) -> re.Pattern[str]:
    blank = "".join(character for character in ifs if character in " \t\n")
    other = "".join(character for character in ifs if character not in " \t\n")
    blanks = f"[{re.escape(blank)}]" if blank else ""
    if not other:
        return re.compile(f"{blanks}+")
    around = f"{blanks}*" if blank else ""
    return re.compile(f"{around}[{re.escape(other)}]{around}" + (f"|{blanks}+" if blank else ""))


def _split(shell: Shell, pieces: list[Piece]) -> list[list[tuple[str, bool]]]:
    """Fields as texts, each True if it was quoted."""
    ifs = shell.get("IFS")
    ifs = " \t\n" if ifs is None else ifs
    separator = _separator(ifs) if ifs else None
    done: list[list[tuple[str, bool]]] = []
    current: list[tuple[str, bool]] | None = None
    for piece in pieces:
        if piece is None:
            if current is not None:
                done.append(current)
            current = None
            continue
        value, quoted, split = piece
        if not split or separator is None:
            if value or quoted:
                current = current or []
                current.append((value, quoted))
            continue
        at = 0
        for found in separator.finditer(value):
            before = value[at : found.start()]
            if before:
                current = current or []
                current.append((before, False))
            if current is not None:
                done.append(current)
                current = None
            elif not found[0].isspace():
                done.append([("", True)])
            at = found.end()
        if at < len(value):
            current = current or []
            current.append((value[at:], False))
    if current is not None:
        done.append(current)
    return done


def split_text(shell: Shell, value: str) -> list[str]:
    """The fields of a text."""
    return ["".join(one for one, _ in field) for field in _split(shell, [(value, False, True)])]


def split_line(shell: Shell, line: str, count: int) -> list[str]:
    """The fields that `read` assigns: the last one takes the rest of the line."""
    ifs = shell.get("IFS")
    ifs = " \t\n" if ifs is None else ifs
    blank = "".join(character for character in ifs if character in " \t\n")
    line = line.strip(blank) if blank else line
    found: list[str] = []
    separator = _separator(ifs) if ifs else None
    while separator is not None and len(found) + 1 < count and (cut := separator.search(line)) is not None:
        found.append(line[: cut.start()])
        line = line[cut.end() :]
    if separator is not None and len(found) + 1 == count and line and (cut := separator.search(line)):
        if cut.end() == len(line):  # a single separator at the end ends the last field
            line = line[: cut.start()]
    return [*found, line] + [""] * (count - len(found) - 1)


def _names(shell: Shell, split: list[list[tuple[str, bool]]]) -> list[str]:
    """Names of files in place of patterns."""
    found = []
    for field in split:
        value = "".join(one for one, _ in field)
        if "noglob" not in shell.options and any(
            not quoted and any(character in one for character in "*?[") for one, quoted in field
        ):
            described = "".join(patterns.escape(one) if quoted else one for one, quoted in field)
            try:
                names = patterns.paths(shell.process, described) if patterns.special(described) else []
            except patterns.TooMany:
                raise Fatal("Argument list too long", 126) from None
            found += names or ([] if "nullglob" in shell.options else [value])
        else:
            found.append(value)
    return found
