"""The language rules: banned words, line length of prose, docstrings of public names, length of
test names.

The sources do not keep all rules yet. `language_allowance.json` holds, for each rule and each
top-level folder, the number of places that break the rule. A test fails when the real number
differs in either direction, so that a number can only shrink and each step is recorded. To record a
step:

    python -m tests.tidy.test_language

rewrites the numbers, and refuses if one of them would grow; `--list RULE [PATH]` prints the places.
"""

from __future__ import annotations

import ast
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.tidy.sources import Function, comments, docstrings, functions, text, tracked, tree

ALLOWANCE = Path(__file__).with_name("language_allowance.json")
CODE_PROSE_MAX, DOCUMENT_PROSE_MAX, TEST_NAME_MAX = 100, 120, 80

# Each line is an alternative of one regular expression and is matched as whole words, in any case.
BANNED = (
    # pronouns and fillers that hide the subject of a sentence
    r"nobody|somebody|everybody|no ?one else|whoever|whom|whose|whomever|whatever|whichever",
    r"(?<!user )(?<!reader )(?<!person )(?<!people )(?<!users )(?<!readers )who",
    r"meanwhile|anew|as it is|so as|be it|what comes|of what comes|by and by|at all events",
    r"befall|befalls|befell|befallen|com(?:e|es|ing) to pass|came to pass|c[oa]mes? of",
    # everyday verbs in place of the terms of the glossary
    r"tell|tells|told|telling|foretold|hear|hears|heard|hearing",
    r"stands(?! for\b)|stood|stand still|standing still",
    r"put off|puts off|putting off|let go|lets go|letting go|goes on|went on",
    r"see to|sees to|seen to|look again|looks again|looked again|looks after|is known to|are known to",
    r"asked to end|dies|died|comes back|came back|come back",
    # old names of ideas that have a term
    r"short ways?|long ways?|lanes?|lessons?|moulds?|likeness|likenesses|terse",
    r"folded|beat|beats|beaten|stirred|urgent|blame|blames|blamed|silenced",
)
BANNED_WORDS = re.compile(rf"\b(?:{'|'.join(BANNED)})\b", re.IGNORECASE)
CODE_IN_PROSE = re.compile(r"`[^`\n]*`")


class Place(NamedTuple):
    """One place that breaks a rule.

    detail: the word, the length or the name that breaks it
    """

    path: str
    line: int
    detail: str

    @property
    def folder(self) -> str:
        """The top-level folder that the place counts for; "." for files at the root."""
        return self.path.partition("/")[0] if "/" in self.path else "."


class Text(NamedTuple):
    """A piece of prose and the line of its file on which it starts."""

    line: int
    text: str


def _python_files() -> list[str]:
    return [path for path in tracked("*.py") if path != "tests/tidy/test_language.py"]


def _documents() -> tuple[str, ...]:
    return tracked("*.md")


def _prose_of_code(path: str) -> Iterator[Text]:
    """Docstrings, comments and names of tests."""
    for docstring in docstrings(path):
        yield Text(docstring.lineno, str(docstring.value))
    for comment in comments(path):
        yield Text(*comment)
    for test in _tests(path):
        yield Text(test.lineno, test.name.replace("_", " "))


def _prose_of_document(path: str) -> Iterator[Text]:
    """The lines of a Markdown file outside of code blocks, or the comments of a YAML file."""
    block = False
    for number, line in enumerate(text(path).splitlines(), 1):
        if path.endswith(".md"):
            if line.lstrip().startswith("```"):
                block = not block
            elif not block:
                yield Text(number, line)
        elif line.lstrip().startswith("#"):
            yield Text(number, line)


def _tests(path: str) -> Iterator[Function]:
    return (node for node in functions(path) if node.name.startswith("test_"))


def banned_words() -> Iterator[Place]:
    """Each banned word in prose; text in backticks is code and is not prose."""
    prose = [(path, piece) for path in _python_files() for piece in _prose_of_code(path)]
    documents = [*_documents(), *tracked("scenarios/*.yaml")]
    prose += [(path, piece) for path in documents for piece in _prose_of_document(path)]
    for path, piece in prose:
        cleaned = CODE_IN_PROSE.sub("``", piece.text)
        for found in BANNED_WORDS.finditer(cleaned):
            yield Place(path, piece.line + cleaned.count("\n", 0, found.start()), found[0])


def long_prose() -> Iterator[Place]:
    """Lines of docstrings and comments above 100 characters, and of documents above 120."""
    for path in _python_files():
        lines = text(path).splitlines()
        spans = [(item.lineno, item.end_lineno or item.lineno) for item in docstrings(path)]
        numbers = {number for first, last in spans for number in range(first, last + 1)}
        numbers |= {comment.line for comment in comments(path)}
        for number in sorted(numbers):
            # The formatter puts closing quotes behind the last word, so they do not count.
            length = len(lines[number - 1].removesuffix('"""'))
            if length > CODE_PROSE_MAX:
                yield Place(path, number, f"{length} characters")
    for path in _documents():
        for number, line in _prose_of_document(path):
            # A row of a table and a line with an address cannot be wrapped.
            if len(line) > DOCUMENT_PROSE_MAX and not line.lstrip().startswith("|") and "://" not in line:
                yield Place(path, number, f"{len(line)} characters")


def missing_docstrings() -> Iterator[Place]:
    """Public classes, functions and methods of `sim` and `actors` without a docstring."""
    for path in _python_files():
        if path.startswith(("sim/", "actors/")):
            yield from _undocumented(path, tree(path).body, "")


def _undocumented(path: str, body: list[ast.stmt], prefix: str) -> Iterator[Place]:
    for node in body:
        if not isinstance(node, ast.ClassDef | Function):
            continue
        if node.name.startswith("_") or _needs_no_docstring(node):
            continue
        if not ast.get_docstring(node):
            yield Place(path, node.lineno, prefix + node.name)
        if isinstance(node, ast.ClassDef):
            yield from _undocumented(path, node.body, f"{node.name}.")


def _needs_no_docstring(node: ast.ClassDef | Function) -> bool:
    """True for overloads, for setters, and for methods that are marked as overriding a documented
    one.
    """
    shown = [ast.unparse(decorator) for decorator in node.decorator_list]
    return any(item in ("overload", "override") or item.endswith((".setter", ".deleter")) for item in shown)


def long_test_names() -> Iterator[Place]:
    """Names of tests above 80 characters."""
    for path in _python_files():
        for test in _tests(path):
            if len(test.name) > TEST_NAME_MAX:
                yield Place(path, test.lineno, f"{test.name} ({len(test.name)} characters)")


RULES = {
    "banned words": banned_words,
    "long prose": long_prose,
    "missing docstrings": missing_docstrings,
    "long test names": long_test_names,
}


def counts(rule: str) -> dict[str, int]:
    """The number of places that break a rule, for each top-level folder that holds at least one."""
    found: dict[str, int] = {}
    for place in RULES[rule]():
        found[place.folder] = found.get(place.folder, 0) + 1
    return dict(sorted(found.items()))


def allowance() -> dict[str, dict[str, int]]:
    """The recorded numbers, by rule and top-level folder."""
    read: dict[str, dict[str, int]] = json.loads(ALLOWANCE.read_text(encoding="utf-8"))
    return read


@pytest.mark.parametrize("rule", RULES)
def test_language_rule_is_broken_exactly_as_often_as_recorded(rule: str) -> None:
    recorded, found = allowance()[rule], counts(rule)
    differing = [
        f"{rule} in {folder}: {recorded.get(folder, 0)} recorded, {found.get(folder, 0)} found"
        for folder in sorted({*recorded, *found})
        if recorded.get(folder, 0) != found.get(folder, 0)
    ]
    assert differing == [], "; ".join([*differing, "see the module docstring"])


@pytest.mark.parametrize(
    ("sentence", "words"),
    [
        ("Nobody waits, whoever asks.", ["Nobody", "whoever"]),
        ("A pod that is told of it stands still.", ["told", "stands"]),
        ("A letter that stands for a word, and a user who reads it.", []),
        ("An informer that heard of nothing beats on.", ["heard", "beats"]),
        ("A heartbeat and a downbeat are words of their own.", []),
    ],
)
def test_banned_words_are_matched_as_whole_words(sentence: str, words: list[str]) -> None:
    assert [found[0] for found in BANNED_WORDS.finditer(sentence)] == words


def test_public_method_without_docstring_is_listed_and_private_one_is_not() -> None:
    parsed = ast.parse("class A:\n    '''A.'''\n    def b(self): ...\n    def _c(self): ...\n")
    assert [place.detail for place in _undocumented("a.py", parsed.body, "")] == ["A.b"]


def _main(arguments: list[str]) -> int:
    if arguments[:1] == ["--list"]:
        for place in RULES[arguments[1]]():
            if place.path.startswith(tuple(arguments[2:]) or ""):
                print(f"{place.path}:{place.line}: {place.detail}")
        return 0
    recorded = allowance() if ALLOWANCE.exists() else {}
    found = {rule: counts(rule) for rule in RULES}
    grown = [
        f"{rule}, {folder}: {recorded[rule].get(folder, 0)} recorded, {number} found"
        for rule in recorded
        for folder, number in found[rule].items()
        if number > recorded[rule].get(folder, 0)
    ]
    print("\n".join(grown) or "recorded")
    if not grown:
        ALLOWANCE.write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")
    return bool(grown)


if __name__ == "__main__":
    sys.exit(_main(sys.argv[1:]))
