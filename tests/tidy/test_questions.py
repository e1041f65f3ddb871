"""`questions.md`: each answer exists, and lies in the folder that a reader guesses first."""

from __future__ import annotations

import re
from pathlib import Path

from tests.tidy.test_documents import is_there

QUESTIONS = Path(__file__).parent / "questions.md"
ROW = re.compile(
    r"^\| (?P<question>[^|]+\?) \| `(?P<guess>[\w.]+)` \| `(?P<decides>[\w.]+)` \|$", re.MULTILINE
)
GUESSED_MIN = 14


def rows() -> list[re.Match[str]]:
    return list(ROW.finditer(QUESTIONS.read_text(encoding="utf-8")))


def test_each_of_fifteen_questions_names_what_decides() -> None:
    assert len(rows()) == 15
    assert [row["decides"] for row in rows() if not is_there(row["decides"])] == []


def test_folder_guessed_first_holds_the_decision() -> None:
    elsewhere = [row["question"] for row in rows() if not row["decides"].startswith(row["guess"] + ".")]
    assert len(rows()) - len(elsewhere) >= GUESSED_MIN, elsewhere
