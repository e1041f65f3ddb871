"""Changes of scenario documents, which are plain values: each returns a copy of the path to it.

Holds: a document is not changed; what a copy has in common with it is shared.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from sim.scenario.read.samples import inside
from sim.scenario.read.source import Document, Path_, read_documents

Doc = Mapping[str, Any]
# A pass: yields candidates, the smallest first, and is sent the place of the first that still
# fails, or None.
Pass = Generator[Sequence[Doc], int | None, None]


def value_at(document: Any, path: Path_) -> Any:
    """The value at a path; None if there is none."""
    for part in path:
        is_key = isinstance(document, Mapping) and part in document
        is_index = isinstance(document, list) and isinstance(part, int) and part < len(document)
        if not is_key and not is_index:
            return None
        document = document[part]
    return document


def with_value(document: Any, path: Path_, value: Any) -> Any:
    """A copy with another value at a path, which exists except for its last part."""
    if not path:
        return value
    copy: Any = list(document) if isinstance(document, list) else dict(document)
    copy[path[0]] = with_value(value_at(document, path[:1]), path[1:], value)
    return copy


def without(document: Any, paths: Sequence[Path_]) -> Any:
    """A copy without the values at some paths, of which some may lie within others."""
    for path in sorted(paths, key=_from_the_end):
        holder, last = value_at(document, path[:-1]), path[-1]
        if isinstance(holder, list) and isinstance(last, int):
            rest: Any = [*holder[:last], *holder[last + 1 :]]
        elif isinstance(holder, Mapping):
            rest = {key: value for key, value in holder.items() if key != last}
        else:
            continue
        document = with_value(document, path[:-1], rest)
    return document


def _from_the_end(path: Path_) -> list[tuple[int, str]]:
    """Sorts later elements of a list before earlier ones, which would move them."""
    return [(-part, "") if isinstance(part, int) else (0, part) for part in path]


def items(document: Doc, *path: str) -> list[Any]:
    """The list at a path; an empty one if there is none."""
    value = value_at(document, path)
    return value if isinstance(value, list) else []


def entries(value: Any, path: Path_ = ()) -> Iterator[tuple[Path_, Any]]:
    """The paths of all values within a value, each after what it is in."""
    pairs = (
        value.items() if isinstance(value, Mapping) else enumerate(value) if isinstance(value, list) else ()
    )
    for key, inner in pairs:
        yield (*path, key), inner
        yield from entries(inner, (*path, key))


def whole(document: Doc, folder: Path) -> Doc:
    """The document with the objects of the files that it names, so that it needs no file.

    folder: that of the scenario
    Raises InputError.
    """
    place = Document("", document)
    objects: list[Any] = []
    for index, entry in enumerate(items(document, "spec", "objects")):
        if isinstance(entry, str):
            file = inside(place, folder, entry, ("spec", "objects", index))
            objects += [each.value for each in read_documents(file)]
        else:
            objects.append(entry)
    return with_value(document, ("spec", "objects"), objects) if objects else document
