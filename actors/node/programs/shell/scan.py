"""A script becomes a skeleton: its grammar alone, with a short name in place of each word.

A parser made from a grammar cannot know where a here document ends or what a quotation holds, and
`tree-sitter-bash` joins assignments with the next line and words with redirections.  A skeleton has
neither: `a=1 >f cat <<E | tee "$x" &` is `w0 w1 w2 w3 | w4 w5 &`.  What the names stand for is in
`Skeleton.table`.

Holds: each opening word of the skeleton has its closing one; a script has at most `SOURCE_MAX`
       characters.
"""

from __future__ import annotations

from bisect import bisect_left

from actors.node.programs.shell import quoting, words
from actors.node.programs.shell.nodes import Redirect, Text, Word
from actors.node.programs.shell.quoting import META, SyntaxFault
from sim.dataclass import dataclass
from sim.patterns import pattern

SOURCE_MAX = 1 << 20  # characters; the same bound as that of a variable
_CLOSING = {"if": "fi", "while": "done", "until": "done", "for": "done", "case": "esac", "{": "}", "(": ")"}
_LEADING = frozenset(("then", "else", "elif", "do"))
_ENDS = frozenset(("fi", "done", "esac", "}"))
_OPERATORS = pattern(r"&&|\|\||\|&|;;&|;;|;&|[;&|()\n]")
_REDIRECT = pattern(r"(\d{1,4})?(&>>|&>|<<<|<<-|<<|<&|<>|>>|>&|>\||<|>)")
_ARRAY = pattern(r"[A-Za-z_][A-Za-z0-9_]*\+?=\($")
_EMPTY_PARENTHESES = pattern(r"[ \t]*\([ \t]*\)")
_NAME = pattern(r"[A-Za-z_][A-Za-z0-9_]*$")


class NotUnderstood(SyntaxFault):
    """A construct of bash that this shell does not have."""


@dataclass(frozen=True, slots=True)
class Raw:
    """The source of a word."""

    text: str
    line: int


@dataclass(frozen=True, slots=True)
class RawArray:
    """`name=(words)`, or `name+=(words)`."""

    head: str
    words: tuple[Raw, ...]


@dataclass(frozen=True, slots=True)
class RawCalculation:
    """`((expression))`, or the three of a `for`."""

    expressions: tuple[str, ...]
    line: int


@dataclass(frozen=True, slots=True)
class RawCondition:
    """The words between `[[` and `]]`."""

    words: tuple[str, ...]
    line: int


@dataclass(slots=True)
class RawPatterns:
    """The patterns of one item of a `case`, and how the item ends."""

    words: tuple[str, ...]
    terminator: str = ";;"


@dataclass(frozen=True, slots=True)
class Negation:
    """`!`: a command of its own in the skeleton, as the grammar takes it only before words."""


Entry = (
    Negation
    | Raw
    | RawArray
    | RawCalculation
    | RawCondition
    | RawPatterns
    | Redirect
    | tuple[Raw, ...]
    | None
)


class Skeleton:
    """The skeleton of a script.

    out: its text in pieces
    table: what its names stand for
    """

    def __init__(self, text: str) -> None:
        if len(text) > SOURCE_MAX:
            raise SyntaxFault("", note="script too long")
        self.text = text
        self.out: list[str] = []
        self.table: list[Entry] = []
        self.at = 0
        self._lines = [at for at, character in enumerate(text) if character == "\n"]
        self._start, self._after = True, False  # where a command begins; after a compound command
        self._opened: list[str] = []
        self._patterns: list[int] = []  # for each open `case` the entry of its item, -1 before one
        self._documents: list[tuple[int, int, bool, Raw]] = []
        self.open_document = False  # True if a here document has no end
        self._scan()

    @property
    def line(self) -> int:
        """The line of the present place, from 1."""
        return bisect_left(self._lines, self.at) + 1

    def fault(self, token: str) -> SyntaxFault:
        """An error at the present place."""
        return SyntaxFault(token, self.line)

    def _emit(self, entry: Entry) -> int:
        self.table.append(entry)
        self.out.append(f"w{len(self.table) - 1} ")
        return len(self.table) - 1

    def _scan(self) -> None:
        text = self.text
        while self._skip_blanks():
            if self._patterns and self._patterns[-1] < 0:
                self._case_item()
            elif self.text.startswith(("<(", ">("), self.at):
                self._word()
            elif (redirect := _REDIRECT.match(text, self.at)) and (
                redirect[1] is None or not self._digits_before()
            ):
                self._redirect(redirect[1], redirect[2], redirect.end())
            elif (operator := _OPERATORS.match(text, self.at)) is not None:
                self._operator(operator[0])
            else:
                self._word()
        self._read_documents()
        if self._opened:
            raise SyntaxFault(
                "", self.line, f'unexpected end of file (expecting "{_CLOSING[self._opened[-1]]}")'
            )

    def _digits_before(self) -> bool:
        return self.at > 0 and self.text[self.at - 1] not in META

    def _skip_blanks(self, *, newlines: bool = False) -> bool:
        """Skip blanks and comments.  True if there is something else."""
        text = self.text
        while self.at < len(text):
            character = text[self.at]
            if character in " \t\r" or (newlines and character == "\n"):
                self.at += 1
            elif text.startswith("\\\n", self.at):
                self.at += 2
            elif character == "#":
                end = text.find("\n", self.at)
                self.at = len(text) if end < 0 else end
            else:
                return True
        return False

    def _take_word(self) -> Raw:
        line, start = self.line, self.at
        self.at = quoting.skip_word(self.text, start)
        if self.at == start:
            raise self.fault(self.text[start : start + 1].replace("\n", "newline"))
        return Raw(self.text[start : self.at], line)

    # --- operators ---------------------------------------------------------------------------

    def _operator(self, operator: str) -> None:
        if operator == "(" and self.text.startswith("((", self.at) and self._start and self._calculation():
            return
        if operator == "(":
            if not self._start:
                raise self.fault("(")
            self._open("(")
            self.out.append("( ")
        elif operator == ")":
            self._close(")")
        elif operator in (";;", ";&", ";;&"):
            if not self._patterns or self._opened[-1] != "case":
                raise self.fault(operator)
            item = self.table[self._patterns[-1]]
            assert isinstance(item, RawPatterns)
            item.terminator = operator
            self._patterns[-1] = -1
            self.out.append(";;\n")
        elif operator == "|&":
            self._emit_redirect(Redirect(2, ">&", (Text("1"),)))
            self.out.append("| ")
        elif operator != "\n":
            self.out.append(operator + " ")
        elif not self._start:
            self.out.append(";\n")
        self.at += len(operator)
        if operator == "\n":
            self._read_documents()
        if operator != ")":
            self._start, self._after = True, False

    def _open(self, word: str) -> None:
        self._opened.append(word)
        if len(self._opened) > quoting.NESTING_MAX:
            raise SyntaxFault("", self.line, "nested too deeply")

    def _close(self, word: str) -> None:
        if not self._opened or _CLOSING[self._opened[-1]] != word:
            raise self.fault(word)
        self._opened.pop()
        self.out.append(f"{word} ")
        self._start, self._after = False, True

    def _calculation(self) -> bool:
        text = self.text
        end = quoting.skip_parentheses(text, self.at)
        if text[end - 2] != ")" or quoting.skip_parentheses(text, self.at + 1) != end - 1:
            return False
        self._emit(RawCalculation((text[self.at + 2 : end - 2],), self.line))
        self.at, self._start = end, False
        return True

    # --- redirections ------------------------------------------------------------------------

    def _redirect(self, fd: str | None, op: str, end: int) -> None:
        self.at = end
        if not self._skip_blanks():
            raise self.fault("")
        target = self._take_word()
        number = int(fd) if fd else (0 if op[0] == "<" else 1)
        if op in ("<<", "<<-"):
            index = self._emit_redirect(Redirect(number, "<<", ()))
            self._documents.append((index, number, op == "<<-", target))
            return
        if (
            op == ">&"
            and fd is None
            and not target.text.isdigit()
            and target.text != "-"
            and "$" not in target.text
        ):
            op = "&>"
        self._emit_redirect(Redirect(number, op, words.parse_word(target.text)))

    def _emit_redirect(self, redirect: Redirect) -> int:
        if self._after:
            self.out.append(">")
        self._start = False
        return self._emit(redirect)

    def _read_documents(self) -> None:
        text = self.text
        for index, number, tabs, raw in self._documents:
            word = words.parse_word(raw.text)
            delimiter = "".join(part.text if isinstance(part, Text) else "" for part in word)
            if not all(isinstance(part, Text) for part in word):
                delimiter = raw.text
            literal = any(character in raw.text for character in "'\"\\")
            lines, self.open_document = [], True
            while self.at < len(text):
                end = text.find("\n", self.at)
                end = len(text) if end < 0 else end
                line = text[self.at : end]
                self.at = min(end + 1, len(text))
                if tabs:
                    line = line.lstrip("\t")
                if line == delimiter:
                    self.open_document = False
                    break
                lines.append(line + "\n")
            body = "".join(lines)
            content: Word = (Text(body, quoted=True),) if literal else words.parse_quoted(body, document=True)
            self.table[index] = Redirect(number, "<<", content)
        self._documents.clear()

    # --- words -------------------------------------------------------------------------------

    def _word(self) -> None:
        if self._after or self._start:
            raw = self._take_word()
            if self._reserved(raw.text):
                return
            if self._after:
                raise SyntaxFault(raw.text, raw.line)
            if raw.text == "[[":
                self._condition(raw.line)
                return
            parentheses = _EMPTY_PARENTHESES.match(self.text, self.at)
            if parentheses is not None and "=" not in raw.text:
                self._function(raw, parentheses.end())
                return
        else:
            raw = self._take_word()
        self._start = False
        if self.text.startswith("(", self.at) and _ARRAY.match(raw.text + "("):
            self._array(raw)
        else:
            self._emit(raw)

    def _reserved(self, word: str) -> bool:
        """Take a reserved word at the begin of a command.  True if it is one."""
        if word == "!":
            self._emit(Negation())
            self.out.append("| ")
            self._start, self._after = True, False
        elif word in _LEADING:
            self.out.append(word + " ")
            self._start, self._after = True, False
        elif word in _ENDS:
            if word == "esac" and self._patterns:
                self.out.append("\n;;\n")
                self._patterns.pop()
            self._close(word)
        elif self._after:
            return False
        elif word in ("if", "while", "until", "{"):
            self._open(word)
            self.out.append(word + " ")
        elif word == "for":
            self._for()
        elif word == "case":
            self._case()
        elif word == "function":
            self._skip_blanks()
            name = self._take_word()
            found = _EMPTY_PARENTHESES.match(self.text, self.at)
            self._function(name, found.end() if found else self.at)
        elif word in ("select", "coproc"):
            raise NotUnderstood("", self.line, f"{word} is not understood")
        else:
            return False
        return True

    def _function(self, name: Raw, end: int) -> None:
        self.at = end
        self._emit(name)
        self.out.append("() ")
        self._skip_blanks(newlines=True)
        self._start = True

    def _array(self, raw: Raw) -> None:
        self.at += 1
        found = []
        while True:
            if not self._skip_blanks(newlines=True):
                raise self.fault("")
            if self.text[self.at] == ")":
                break
            found.append(self._take_word())
        self.at += 1
        self._emit(RawArray(raw.text, tuple(found)))

    def _condition(self, line: int) -> None:
        found: list[str] = []
        text = self.text
        while True:
            if not self._skip_blanks(newlines=True):
                raise SyntaxFault("", line, 'unexpected end of file (expecting "]]")')
            start = self.at
            if found and found[-1] == "=~":
                while self.at < len(text) and text[self.at] not in " \t\n":
                    balanced = text[self.at] == "("
                    self.at = (quoting.skip_parentheses if balanced else quoting.skip_quoted)(text, self.at)
            elif text[start] in META:
                self.at += 2 if text.startswith(("&&", "||"), start) else 1
            else:
                self.at = quoting.skip_word(text, start)
            found.append(text[start : self.at])
            if found[-1] == "]]":
                break
        self._emit(RawCondition(tuple(found[:-1]), line))
        self._start = False

    def _for(self) -> None:
        self._open("for")
        self._skip_blanks()
        self.out.append("for ")
        if self.text.startswith("((", self.at):
            end = quoting.skip_parentheses(self.text, self.at)
            parts = self.text[self.at + 2 : end - 2].split(";")
            if len(parts) != 3:
                raise self.fault("((")
            self._emit(RawCalculation(tuple(parts), self.line))
            self.at = end
            choices: tuple[Raw, ...] | None = None
        else:
            name = self._take_word()
            if not _NAME.match(name.text):
                raise SyntaxFault(name.text, name.line, f"`{name.text}': not a valid identifier")
            self._emit(name)
            choices = self._choices()
        self.out.append("in ")
        self._emit(choices)
        self.out.append(";\n")
        if self._skip_blanks() and self.text[self.at] == ";":
            self.at += 1
        self._start = True

    def _choices(self) -> tuple[Raw, ...] | None:
        """The words after `in`; None without it."""
        self._skip_blanks(newlines=True)
        start = self.at
        if quoting.skip_word(self.text, start) != start + 2 or not self.text.startswith("in", start):
            return None
        self.at += 2
        found = []
        while self._skip_blanks() and self.text[self.at] not in ";\n":
            found.append(self._take_word())
        return tuple(found)

    def _case(self) -> None:
        self._open("case")
        self._skip_blanks()
        self.out.append("case ")
        self._emit(self._take_word())
        self._skip_blanks(newlines=True)
        word = self._take_word()
        if word.text != "in":
            raise SyntaxFault(word.text, word.line)
        self.out.append("in\n")
        self._patterns.append(-1)

    def _case_item(self) -> None:
        """The patterns before `)`, or the end of the `case`."""
        if not self._skip_blanks(newlines=True):
            return
        text, found = self.text, []
        if text[self.at] == "(":
            self.at += 1
        elif quoting.skip_word(text, self.at) == self.at + 4 and text.startswith("esac", self.at):
            self.at += 4
            self._patterns.pop()
            self._close("esac")
            return
        while True:
            self._skip_blanks()
            found.append(self._take_word().text)
            self._skip_blanks()
            separator = text[self.at : self.at + 1]
            if separator not in ("|", ")"):
                raise self.fault(separator.replace("\n", "newline"))
            self.at += 1
            if separator == ")":
                break
        self._patterns[-1] = self._emit(RawPatterns(tuple(found)))
        self.out.append(") ")
        self._start, self._after = True, False


def is_complete(text: str) -> bool:
    """True if lines of input form whole commands, or have an error that no further line mends."""
    if text.endswith("\\\n"):
        return False
    try:
        skeleton = Skeleton(text)
    except SyntaxFault as error:
        return not error.note.startswith(("unexpected end", "unterminated"))
    last = "".join(skeleton.out[-2:]).rstrip()
    return not skeleton.open_document and not last.endswith(("&&", "|"))
