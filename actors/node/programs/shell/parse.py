"""A script becomes nodes: the skeleton of `scan` is parsed by tree-sitter, and converted.

Mirrors  the grammar of tree-sitter-bash (MIT), POSIX shell command language 2.10.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import Any

import tree_sitter
import tree_sitter_bash

from actors.node.programs.shell import nodes, words
from actors.node.programs.shell.nodes import Assignment, Command, Redirect, Sequence, Word
from actors.node.programs.shell.quoting import SyntaxFault
from actors.node.programs.shell.scan import (
    Entry,
    Negation,
    Raw,
    RawArray,
    RawCalculation,
    RawCondition,
    RawPatterns,
    Skeleton,
)
from sim.patterns import pattern

_ASSIGNMENT = pattern(r"([A-Za-z_][A-Za-z0-9_]*)(\[[^]]*\])?(\+?)=")
_ELEMENT = pattern(r"\[([^]]*)\]=")
_DECLARING = frozenset(("export", "readonly", "local", "declare", "typeset"))
_SKIPPED = frozenset((";", "\n", "then", "do", "done", "fi", "{", "}", "(", ")", "|", "if", "else", "elif"))
_REMEMBERED_MAX = 4096  # characters of a script of which the nodes are remembered


@lru_cache(maxsize=1)
def _language() -> tree_sitter.Language:
    return tree_sitter.Language(tree_sitter_bash.language())


def parse(text: str, bash: bool) -> Sequence:
    """The nodes of a script.  Raises SyntaxFault.

    bash: True if braces become several words
    """
    return _parse(text, bash) if len(text) <= _REMEMBERED_MAX else _parse.__wrapped__(text, bash)


@lru_cache(maxsize=64)  # loops run the same substitutions over and over
def _parse(text: str, bash: bool) -> Sequence:
    skeleton = Skeleton(text)
    source = "".join(skeleton.out).encode()
    root = tree_sitter.Parser(_language()).parse(source).root_node
    reader = _Reader(source, skeleton.table, bash)
    if root.has_error:
        raise reader.fault(root)
    return reader.sequence(root.children)


class _Reader:
    """Converts nodes of tree-sitter.  source: the skeleton; table: what its names stand for"""

    def __init__(self, source: bytes, table: list[Entry], bash: bool) -> None:
        self.source = source
        self.table = table
        self.bash = bash
        self.line = 1

    def text(self, node: Any) -> str:
        """The skeleton's text of a node."""
        return self.source[node.start_byte : node.end_byte].decode()

    def entry(self, node: Any) -> Entry:
        """What the name of the skeleton stands for."""
        text = self.text(node)
        if text[:1] != "w" or not text[1:].isdigit():
            raise SyntaxFault(text, self.line)
        return self.table[int(text[1:])]

    def fault(self, root: Any) -> SyntaxFault:
        """The first error in a tree."""
        node = root
        while not node.is_error and not node.is_missing:
            faulty = [child for child in node.children if child.has_error or child.is_missing]
            if not faulty:
                break
            node = faulty[0]
        tokens = self.text(node).split() or self.source[node.start_byte :].decode().split() or [""]
        token = next((one for one in tokens if not one.startswith("w")), tokens[0])
        line = 1
        for entry in self.table:
            line = max(line, getattr(entry, "line", 1))
        if token[:1] == "w" and token[1:].isdigit():
            entry = self.table[int(token[1:])]
            token = entry.text if isinstance(entry, Raw) else ""
        return SyntaxFault(token, line)

    # --- lists ----------------------------------------------------------------------------------

    def sequence(self, children: Iterable[Any]) -> Sequence:
        """Statements with what separates them."""
        items: list[nodes.AndOr] = []
        for child in children:
            if child.type == "&":
                if not items:
                    raise SyntaxFault("&", self.line)
                items[-1] = nodes.AndOr(items[-1].parts, background=True)
            elif child.type not in _SKIPPED:
                items.append(self.and_or(child))
        return Sequence(tuple(items))

    def and_or(self, node: Any) -> nodes.AndOr:
        """Pipelines joined by operators."""
        parts: list[tuple[str, nodes.Pipeline]] = []
        todo, operator = [node], ""
        while todo:
            one = todo.pop()
            if one.type == "list":
                todo += reversed(one.children)
            elif one.type in ("&&", "||"):
                operator = one.type
            else:
                parts.append((operator, self.pipeline(one)))
        return nodes.AndOr(tuple(parts))

    def pipeline(self, node: Any) -> nodes.Pipeline:
        """Commands joined by `|`."""
        if node.type != "pipeline":
            return nodes.Pipeline((self.command(node),))
        commands: list[Command] = []
        negated = False
        for child in node.children:
            if child.type == "pipeline":
                commands += self.pipeline(child).commands
            elif child.type == "command" and isinstance(self.entry(child.children[0]), Negation):
                if commands:
                    raise SyntaxFault("!", self.line)
                negated = not negated
            elif child.type != "|":
                commands.append(self.command(child))
        return nodes.Pipeline(tuple(commands), negated)

    # --- commands -------------------------------------------------------------------------------

    def command(self, node: Any) -> Command:
        """One command."""
        convert = getattr(self, "_" + node.type, None)
        if convert is None:
            raise SyntaxFault(self.text(node).split(" ")[0], self.line)
        found: Command = convert(node)
        return found

    def _command(self, node: Any) -> Command:
        entries = [self.entry(child) for child in node.children]
        if isinstance(entries[0], RawCalculation | RawCondition):
            return self._special(entries)
        assignments: list[Assignment] = []
        found: list[Word | Assignment] = []
        redirects: list[Redirect] = []
        line, declares = 0, False
        for entry in entries:
            if isinstance(entry, Redirect):
                redirects.append(entry)
                continue
            if isinstance(entry, Raw):
                self.line = entry.line
                line = line or entry.line
            assignment = self.assignment(entry) if declares or not found else None
            if assignment is not None:
                (found if declares else assignments).append(assignment)
            elif isinstance(entry, Raw):
                declares = declares or (not found and entry.text in _DECLARING)
                found += self.words(entry)
            else:
                raise SyntaxFault("(", self.line)
        return nodes.Simple(tuple(assignments), tuple(found), tuple(redirects), line or self.line)

    def _special(self, entries: list[Entry]) -> Command:
        first, redirects = entries[0], tuple(entry for entry in entries[1:] if isinstance(entry, Redirect))
        if len(redirects) + 1 != len(entries):
            raise SyntaxFault("", self.line)
        command: Command
        if isinstance(first, RawCalculation):
            command = nodes.Calculate(words.parse_quoted(first.expressions[0]), first.line)
        else:
            assert isinstance(first, RawCondition)
            pairs = tuple((text, words.parse_word(text)) for text in first.words)
            command = nodes.Condition(pairs, first.line)
        return nodes.Redirected(command, redirects) if redirects else command

    def words(self, raw: Raw) -> list[Word]:
        """The words that a word of the source stands for."""
        texts = words.expand_braces(raw.text) if self.bash and "{" in raw.text else [raw.text]
        return [words.parse_word(text) for text in texts]

    def assignment(self, entry: Entry) -> Assignment | None:
        """An assignment, if the word is one."""
        if isinstance(entry, RawArray):
            head = entry.head.removesuffix("=")
            values: list[tuple[str | None, Word]] = []
            for raw in entry.words:
                element = _ELEMENT.match(raw.text)
                if element is not None:
                    values.append((element[1], words.parse_word(raw.text[element.end() :])))
                else:
                    values += [(None, word) for word in self.words(raw)]
            return Assignment(head.removesuffix("+"), None, head.endswith("+"), (), tuple(values))
        if not isinstance(entry, Raw) or (found := _ASSIGNMENT.match(entry.text)) is None:
            return None
        index = found[2][1:-1] if found[2] else None
        return Assignment(found[1], index, bool(found[3]), words.parse_word(entry.text[found.end() :]))

    def _redirected_statement(self, node: Any) -> Command:
        redirects: list[Redirect] = []
        body: Any = None
        for child in node.children:
            if child.type == "file_redirect":
                entry = self.entry(child.children[-1])
                assert isinstance(entry, Redirect)
                redirects.append(entry)
            else:
                body = child
        if body.type in ("list", "pipeline"):
            return self._redirect_last(body, tuple(redirects))
        command = self.command(body)
        if isinstance(command, nodes.Function):
            return nodes.Function(command.name, nodes.Redirected(command.body, tuple(redirects)))
        return nodes.Redirected(command, tuple(redirects))

    def _redirect_last(self, body: Any, redirects: tuple[Redirect, ...]) -> Command:
        """A redirection belongs to the last command before it."""
        joined = self.and_or(body)
        operator, pipeline = joined.parts[-1]
        commands = (*pipeline.commands[:-1], nodes.Redirected(pipeline.commands[-1], redirects))
        last = (operator, nodes.Pipeline(commands, pipeline.negated))
        return nodes.AndOr((*joined.parts[:-1], last))

    def _pipeline(self, node: Any) -> Command:
        return self.pipeline(node)

    def _list(self, node: Any) -> Command:
        return self.and_or(node)

    def _subshell(self, node: Any) -> Command:
        return nodes.Subshell(self._body(node.children))

    def _compound_statement(self, node: Any) -> Command:
        return nodes.Group(self._body(node.children))

    def _do_group(self, node: Any) -> Command:
        return self._body(node.children)

    def _body(self, children: Iterable[Any]) -> Sequence:
        """A list that must not be empty."""
        body = self.sequence(children)
        if not body.items:
            raise SyntaxFault(self.text(list(children)[-1]), self.line)
        return body

    def _if_statement(self, node: Any) -> Command:
        branches: list[tuple[Sequence, Sequence]] = []
        otherwise = None
        own: list[Any] = []
        for child in node.children:
            if child.type == "elif_clause":
                branches.append(self._branch(child.children))
            elif child.type == "else_clause":
                otherwise = self._body(child.children)
            else:
                own.append(child)
        return nodes.If((self._branch(own), *branches), otherwise)

    def _branch(self, children: list[Any]) -> tuple[Sequence, Sequence]:
        then = next(at for at, child in enumerate(children) if child.type == "then")
        return self._body(children[:then]), self._body(children[then:])

    def _while_statement(self, node: Any) -> Command:
        children = node.children
        body = self._body(children[-1].children)
        return nodes.While(self._body(children[1:-1]), body, self.text(children[0]) == "until")

    def _for_statement(self, node: Any) -> Command:
        names = [child for child in node.children if child.is_named and child.type != "do_group"]
        head, choices = (self.entry(name) for name in names[:2])
        body = self._body(node.children[-1].children)
        if isinstance(head, RawCalculation):
            first, test, step = (words.parse_quoted(text) for text in head.expressions)
            return nodes.Count(first, test, step, body)
        assert isinstance(head, Raw)
        if choices is None:
            return nodes.For(head.text, None, body)
        assert isinstance(choices, tuple)
        return nodes.For(head.text, tuple(word for raw in choices for word in self.words(raw)), body)

    def _case_statement(self, node: Any) -> Command:
        word: Word = ()
        items: list[tuple[tuple[Word, ...], Sequence, str]] = []
        for child in node.children:
            if child.type == "case_item":
                heads = [one for one in child.children if one.is_named]
                patterns = self.entry(heads[0])
                assert isinstance(patterns, RawPatterns)
                found = tuple(words.parse_word(text) for text in patterns.words)
                body = self.sequence(one for one in child.children[1:] if one.type != ";;")
                items.append((found, body, patterns.terminator))
            elif child.is_named:
                entry = self.entry(child)
                assert isinstance(entry, Raw)
                word = words.parse_word(entry.text)
        return nodes.Case(word, tuple(items))

    def _function_definition(self, node: Any) -> Command:
        name = self.entry(node.children[0])
        assert isinstance(name, Raw)
        body: Command | None = None
        redirects: list[Redirect] = []
        for child in node.children[1:]:
            if child.type == "file_redirect":
                entry = self.entry(child.children[-1])
                assert isinstance(entry, Redirect)
                redirects.append(entry)
            elif child.is_named:
                body = self.command(child)
        if body is None:
            raise SyntaxFault("", self.line)
        return nodes.Function(name.text, nodes.Redirected(body, tuple(redirects)) if redirects else body)
