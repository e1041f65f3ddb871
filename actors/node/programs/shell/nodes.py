"""What a script means: a tree of frozen nodes, made by `parse`, run by `interpret`.

A word is a tuple of parts, which `expand` turns into fields.
"""

from __future__ import annotations

from sim.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Text:
    """Characters that stand for themselves.  quoted: they are no pattern and are not split"""

    text: str
    quoted: bool = False


@dataclass(frozen=True, slots=True)
class Parameter:
    """`$name` or `${name op argument}`.

    index: the text between brackets, None if there are none
    op: "" or the operator; "length" for `${#name}`; an "!" before it for an indirection
    argument, second: the words after the operator
    """

    name: str
    quoted: bool = False
    index: str | None = None
    op: str = ""
    argument: tuple[Part, ...] = ()
    second: tuple[Part, ...] | None = None


@dataclass(frozen=True, slots=True)
class Substitution:
    """`$(script)`: the output of a script."""

    script: str
    quoted: bool = False


@dataclass(frozen=True, slots=True)
class Calculation:
    """`$((expression))`."""

    expression: tuple[Part, ...]
    quoted: bool = False


@dataclass(frozen=True, slots=True)
class ProcessFile:
    """`<(script)`, or `>(script)` if it is written: the path of a pipe to or from a script."""

    script: str
    written: bool


Part = Text | Parameter | Substitution | Calculation | ProcessFile
Word = tuple[Part, ...]


@dataclass(frozen=True, slots=True)
class Assignment:
    """`name=value`, `name[index]+=value`, `name=(values)`."""

    name: str
    index: str | None
    append: bool
    value: Word
    values: tuple[tuple[str | None, Word], ...] | None = None


@dataclass(frozen=True, slots=True)
class Redirect:
    """`fd op target`.  body: of a here document"""

    fd: int
    op: str
    target: Word


@dataclass(frozen=True, slots=True)
class Simple:
    """A simple command.  Assignments after a declaring command's name are among the words."""

    assignments: tuple[Assignment, ...]
    words: tuple[Word | Assignment, ...]
    redirects: tuple[Redirect, ...]
    line: int


@dataclass(frozen=True, slots=True)
class Pipeline:
    """Commands joined by `|`.  negated: after `!`"""

    commands: tuple[Command, ...]
    negated: bool = False


@dataclass(frozen=True, slots=True)
class AndOr:
    """Pipelines joined by `&&` and `||`; the first has no operator before it."""

    parts: tuple[tuple[str, Pipeline], ...]
    background: bool = False


@dataclass(frozen=True, slots=True)
class Sequence:
    """Lists one after the other."""

    items: tuple[AndOr, ...]


@dataclass(frozen=True, slots=True)
class Group:
    """`{ ...; }`."""

    body: Sequence


@dataclass(frozen=True, slots=True)
class Subshell:
    """`( ... )`."""

    body: Sequence


@dataclass(frozen=True, slots=True)
class If:
    """Conditions with what they guard."""

    branches: tuple[tuple[Sequence, Sequence], ...]
    otherwise: Sequence | None


@dataclass(frozen=True, slots=True)
class While:
    """A loop.  until: it ends as soon as the condition holds"""

    condition: Sequence
    body: Sequence
    until: bool


@dataclass(frozen=True, slots=True)
class For:
    """A loop over words; None: over the arguments."""

    name: str
    words: tuple[Word, ...] | None
    body: Sequence


@dataclass(frozen=True, slots=True)
class Count:
    """`for ((first; test; step))`."""

    first: Word
    test: Word
    step: Word
    body: Sequence


@dataclass(frozen=True, slots=True)
class Case:
    """items: patterns, what to run, and how it ends: `;;`, `;&` or `;;&`"""

    word: Word
    items: tuple[tuple[tuple[Word, ...], Sequence, str], ...]


@dataclass(frozen=True, slots=True)
class Function:
    """The definition of a function."""

    name: str
    body: Command


@dataclass(frozen=True, slots=True)
class Calculate:
    """`((expression))`."""

    expression: Word
    line: int


@dataclass(frozen=True, slots=True)
class Condition:
    """`[[ ... ]]`: its words with their source, operators as they are."""

    words: tuple[tuple[str, Word], ...]
    line: int


@dataclass(frozen=True, slots=True)
class Redirected:
    """A compound command with redirections."""

    body: Command
    redirects: tuple[Redirect, ...]


Command = (
    Simple | Pipeline | AndOr | Sequence | Group | Subshell | If | While | For | Count | Case | Function | Calculate
    | Condition | Redirected
)  # fmt: skip
