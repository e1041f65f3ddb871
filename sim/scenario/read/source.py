"""YAML text to plain values, with the place of every value.

Turns a file into dicts, lists and scalars, and a map from the path of each value to its line and
column, so that every later error has a place. The file is not trusted: no tags but YAML's own
scalars, no duplicate keys, bounded size, bounded nesting, and bounded expansion of aliases (a "YAML
bomb" is an error).

Differs  from YAML 1.1: dates, `yes`/`on` and 12:30 (a number of base 60) stay text, because
         manifests use them as text.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import field
from pathlib import Path
from typing import Any

import yaml

from sim.dataclass import dataclass
from sim.errors import InputError, Problems
from sim.files import read_text
from sim.nesting import holds_too_many, nests_too_deep
from sim.patterns import pattern

VALUES_MAX = 400_000  # values of one file, aliases expanded
DEPTH_MAX = 64

Path_ = tuple[str | int, ...]
_SCALARS = {"tag:yaml.org,2002:" + kind for kind in ("null", "bool", "int", "float", "str", "timestamp")}
_PART = pattern(r"\[(\d+)\]|\[([^\]]*)\]|\.?([^.\[]+)")
LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


@dataclass(slots=True)
class Document:
    """One YAML document.

    places: line and column of each value, by its path
    keys: line and column of the key of each value
    settings: the settings (`--set …`) that replaced values
    """

    file: str
    value: Any
    places: dict[Path_, tuple[int, int]] = field(default_factory=dict)
    keys: dict[Path_, tuple[int, int]] = field(default_factory=dict)
    settings: dict[Path_, str] = field(default_factory=dict)

    def place(self, path: Path_) -> str:
        """The place of the value at `path`, or of the nearest value around it: "file:line:column".

        A value that a setting replaced has the setting as its place.
        """
        while path and path not in self.places:
            if path in self.settings:
                return self.settings[path]
            path = path[:-1]
        line, column = self.places.get(path, (1, 1))
        return f"{self.file}:{line}:{column}"

    def key_place(self, path: Path_) -> str:
        """The place of the key of the value at `path`."""
        if path not in self.keys or path in self.settings:
            return self.place(path)
        line, column = self.keys[path]
        return f"{self.file}:{line}:{column}"

    def error(self, path: Path_, message: str, remedy: str = "") -> InputError:
        """The error to raise at the value at `path`."""
        return InputError(message, self.place(path), remedy)


def read_documents(path: Path, shown: str = "", place: str = "") -> list[Document]:
    """The non-empty documents of a file.  Raises InputError.

    shown, place: of the file and of the value that names it, as for `read_bounded`
    """
    return list(parse_documents(read_text(path, shown, place), shown or str(path)))


def only_document(text: str, shown: str) -> Document:
    """The only document of a text.  Raises InputError."""
    documents = [*parse_documents(text, shown)]
    if len(documents) != 1:
        raise InputError(f"holds {len(documents)} documents, wanted one", shown)
    return documents[0]


def parse_documents(text: str, shown: str) -> Iterator[Document]:
    """The non-empty documents of a text."""
    if nests_too_deep(text):
        raise InputError(f"is nested deeper than {DEPTH_MAX} levels", shown)
    if holds_too_many(text, VALUES_MAX):
        raise InputError(f"holds more than {VALUES_MAX} values", shown, "split it into several files")
    try:
        for root in yaml.compose_all(text, Loader=LOADER):
            if root is not None:
                document = Document(shown, None)
                builder = _Builder(document)
                document.value = builder.build(root, (), 0)
                builder.problems.report()
                if document.value is not None:
                    yield document
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = f"{shown}:{mark.line + 1}:{mark.column + 1}" if mark else shown
        remedy = "indent with spaces" if mark and _at(text, mark.line, mark.column) == "\t" else ""
        opened = _quote_before(text, error)
        if opened is not None:
            remedy = f"a quote opens at {opened.line + 1}:{opened.column + 1} and is not closed in that line"
        raise InputError(f"is not valid YAML: {error.problem or error.context}", place, remedy) from None
    except yaml.reader.ReaderError as error:
        line = text.encode()[: error.position].count(b"\n") + 1
        raise InputError("is not valid YAML: a control character", f"{shown}:{line}") from None
    except yaml.YAMLError as error:
        raise InputError(f"is not valid YAML: {' '.join(str(error).split())}", shown) from None


def _quote_before(text: str, error: yaml.MarkedYAMLError) -> Any:
    """Where the quoted text opens that ends at an error, or just before it, after more than one
    line; None if there is none.  The missing quote is usually in the line of the first.
    """
    if "quoted scalar" in (error.context or ""):
        return error.context_mark
    mark = error.problem_mark
    found = None
    try:
        for token in yaml.scan(text, Loader=LOADER):
            if mark is not None and token.start_mark.line > mark.line:
                break
            several = token.start_mark.line < token.end_mark.line
            if isinstance(token, yaml.ScalarToken) and not token.plain and token.style in "'\"" and several:
                found = token
    except yaml.YAMLError:
        pass
    near = found is not None and mark is not None and found.end_mark.line >= mark.line - 1
    return found.start_mark if found is not None and near else None


def _at(text: str, line: int, column: int) -> str:
    lines = text.splitlines()
    return lines[line][column : column + 1] if line < len(lines) else ""


class _Builder:
    """Builds values from composed nodes, counting them."""

    def __init__(self, document: Document) -> None:
        self.document = document
        self.count = 0
        self.scalars = LOADER("")
        self.problems = Problems()

    def build(self, node: Any, path: Path_, depth: int) -> Any:
        self.document.places[path] = (node.start_mark.line + 1, node.start_mark.column + 1)
        self.count += 1
        if self.count > VALUES_MAX:
            raise self.document.error(
                path,
                f"aliases expand to more than {VALUES_MAX} values",
                "write the values out, or fewer of them",
            )
        if depth > DEPTH_MAX:
            raise self.document.error(path, f"is nested deeper than {DEPTH_MAX} levels")
        if isinstance(node, yaml.MappingNode):
            return self._mapping(node, path, depth)
        if isinstance(node, yaml.SequenceNode):
            if node.tag != "tag:yaml.org,2002:seq":
                return self._refused_tag(node, path)
            return [self.build(child, (*path, index), depth + 1) for index, child in enumerate(node.value)]
        return self._scalar(node, path)

    def _mapping(self, node: Any, path: Path_, depth: int) -> Any:
        if node.tag != "tag:yaml.org,2002:map":
            return self._refused_tag(node, path)
        result: dict[str, Any] = {}
        for key_node, child in node.value:
            where = f"{self.document.file}:{key_node.start_mark.line + 1}:{key_node.start_mark.column + 1}"
            if not isinstance(key_node, yaml.ScalarNode) or key_node.tag == "tag:yaml.org,2002:merge":
                remedy = "merge keys (<<) are not supported"
                self.problems.add(InputError("a key must be plain text", where, remedy))
                continue
            key = key_node.value
            self.document.keys[*path, key] = (key_node.start_mark.line + 1, key_node.start_mark.column + 1)
            if key in result:
                self.problems.add(InputError(f"the key {key!r} is there twice in one mapping", where))
            result[key] = self.build(child, (*path, key), depth + 1)
            if isinstance(child, yaml.ScalarNode) and not child.value:
                self.document.places[*path, key] = self.document.keys[*path, key]
        return result

    def _scalar(self, node: Any, path: Path_) -> Any:
        if node.tag not in _SCALARS:
            return self._refused_tag(node, path)
        kind = node.tag.rsplit(":", 1)[1]
        if kind in ("str", "timestamp") or (kind in ("int", "float") and ":" in node.value):
            return node.value
        if kind == "bool":
            lowered = node.value.lower()
            return lowered == "true" if lowered in ("true", "false") else node.value
        try:
            return self.scalars.construct_object(node)
        except (ValueError, OverflowError):
            self.problems.add(self.document.error(path, f"{node.value[:40]!r} is not a number"))
            return None

    def _refused_tag(self, node: Any, path: Path_) -> Any:
        problem = f"the tag {node.tag} is not allowed"
        self.problems.add(self.document.error(path, problem, "only plain values are"))


def parts_of(field: str) -> list[str | int]:
    """The parts of a field as errors name it: `spec.ports[0].name`, `metadata.labels[a.b/c]`.

    A part [...] is left out.
    """
    found = _PART.findall(field)
    return [int(index) if index else key or name for index, key, name in found if key != "..."]
