"""Files of texts beside the code."""

from __future__ import annotations

from pathlib import Path

from sim.texts import rows

TEXT = """# A comment: not a row.

one two
a: text: with a colon

two
b c: other
"""


def test_rows_are_those_of_each_section_that_names_their_owner(tmp_path: Path) -> None:
    file = tmp_path / "texts.txt"
    file.write_text(TEXT)
    assert rows(file) == {
        "one": {"a": "text: with a colon"},
        "two": {"a": "text: with a colon", "b c": "other"},
    }
