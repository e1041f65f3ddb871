"""The table of a study as CSV: booleans and texts as programs for tables read them."""

from __future__ import annotations

from pathlib import Path

import pytest

from sim.app.study.values import write_table


@pytest.mark.parametrize(
    ("value", "cell"),
    [
        ("=HYPERLINK(A1)", "'=HYPERLINK(A1)"),
        ("@name", "'@name"),
        ("-name", "'-name"),
        ("+name", "'+name"),
        ("-1.5", "-1.5"),
        (-1.5, "-1.5"),
        ("a=b", "a=b"),
        (True, "true"),
        (None, ""),
    ],
)
def test_text_that_begins_as_a_formula_is_quoted(tmp_path: Path, value: object, cell: str) -> None:
    file = tmp_path / "values.csv"
    write_table(file, ["=seed", "value"], [{"=seed": 1, "value": value, "left": "out"}])
    assert file.read_bytes().decode() == f"'=seed,value\r\n1,{cell}\r\n"
