"""Samples that were measured elsewhere: a column of a CSV file, for `over: {like: ...}`.

Turns `like: {file: deaths.csv, column: unknown_after_s}` (or a file of one column) into numbers, in
seconds if the expectation measures times. An empty cell is a value that was not measured.  A story
of a hunt has the numbers themselves: `like: {values: [44.2, 45]}`.

Holds: a file lies in the scenario's folder and has a bounded size; a cell that is no finite number
    is an error with its line.
"""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from math import isfinite
from pathlib import Path
from typing import Any

from sim.errors import InputError, suggestion_or_all
from sim.files import read_text
from sim.scenario.read.source import Document, Path_

KEYS = ("file", "column", "level", "values")
VALUE_MAX = 1e300


def read_samples(document: Document, folder: Path, like: Any, path: Path_) -> dict[str, Any]:
    """The mapping `like` with the values of its file: {file, column, level (if given), values}."""
    given: Mapping[str, Any] = {"file": like} if isinstance(like, str) else like
    if isinstance(given, Mapping) and "values" in given:
        values = given["values"]
        if not isinstance(values, list) or not values or not all(map(_is_number, values)):
            raise document.error((*path, "values"), "'values' wants numbers", "values: [44.2, 45]")
        if given.keys() - {"values", "level"}:
            raise document.error(path, "'like' has values or a file", "leave one of them out")
        return dict(given)
    if not isinstance(given, Mapping) or not isinstance(given.get("file"), str):
        raise document.error(
            path, "'like' wants the name of a CSV file", "like: {file: deaths.csv, column: unknown_after_s}"
        )
    for key in given:
        if key not in KEYS:
            raise document.error((*path, key), f"'like' does not know {key!r}", suggestion_or_all(key, KEYS))
    file = inside(document, folder, given["file"], path)
    shown = str(folder / given["file"])
    text = read_text(file, shown, document.place(path))
    try:
        rows = [(number, row) for number, row in enumerate(csv.reader(text.splitlines()), 1) if row]
    except csv.Error as error:
        raise InputError(f"is not CSV: {error}", shown) from None
    at, below = _column(document, given, rows, path)
    values = [value for number, row in below for value in _value(row, at, f"{shown}:{number}")]
    if not values:
        raise document.error(path, f"{given['file']} holds no value to compare with")
    return {**given, "values": values}


def inside(document: Document, folder: Path, entry: str, path: Path_) -> Path:
    """The path of a file in the scenario's folder.  Raises InputError."""
    base = folder.resolve()
    try:
        file = (base / entry).resolve()
    except (ValueError, RuntimeError, OSError):  # a NUL character, a link to itself
        raise document.error(path, f"{entry!r} is no file name") from None
    if not file.is_relative_to(base):
        raise document.error(path, f"{entry} lies outside the scenario's folder")
    return file


Rows = Sequence[tuple[int, list[str]]]


def _column(document: Document, given: Mapping[str, Any], rows: Rows, path: Path_) -> tuple[int, Rows]:
    """The index of the column, and the rows below the names; a single column needs no name."""
    names = [name.strip() for name in rows[0][1]] if rows else []
    wanted = given.get("column")
    if wanted is None:
        if len(names) > 1:
            remedy = f"name one with column: {', '.join(names)}"
            raise document.error(path, f"{given['file']} has {len(names)} columns", remedy)
        return 0, rows if names and _number(names[0]) is not None else rows[1:]
    if wanted not in names:
        remedy = suggestion_or_all(str(wanted), names) if names else ""
        raise document.error((*path, "column"), f"{given['file']} has no column {wanted!r}", remedy)
    return names.index(wanted), rows[1:]


def _value(row: Sequence[str], at: int, place: str) -> Sequence[float]:
    text = row[at].strip() if at < len(row) else ""
    if not text:
        return ()
    value = _number(text)
    if value is None:
        raise InputError(
            f"{text[:40]!r} is not a number", place, "write seconds as 44.2; leave a cell empty for none"
        )
    return (value,)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= VALUE_MAX


def _number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if isfinite(value) else None
