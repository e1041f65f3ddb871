"""Each known timing case has a test that is named by it, in the files that the table of cases
names.
"""

import re
from pathlib import Path

CLUSTER = Path(__file__).resolve().parents[1] / "cluster"
ROW = re.compile(r"^\| (\d+) \|.*\| ([^|]+) \|$", re.MULTILINE)
FILE = re.compile(r"\b((?:node_)?timing_\w+)")


def table() -> dict[int, list[str]]:
    """The files that hold a case."""
    text = (CLUSTER / "README.md").read_text(encoding="utf-8")
    return {int(number): FILE.findall(files) for number, files in ROW.findall(text)}


def cases_of(file: str) -> set[int]:
    """The cases of the only file of a name."""
    (path,) = CLUSTER.rglob(f"test_{file}.py")
    return cases_in(path)


def cases_in(path: Path) -> set[int]:
    """The cases that the tests of a file are named by."""
    text = path.read_text(encoding="utf-8")
    return {int(number) for number in re.findall(r"^async def test_(\d+)_", text, re.MULTILINE)}


def test_each_case_of_the_table_has_a_test_in_each_file_that_the_table_names() -> None:
    missing = {
        number: [file for file in files if number not in cases_of(file)] for number, files in table().items()
    }
    assert {number: files for number, files in missing.items() if files} == {}
    assert all(table().values())


def test_case_of_each_numbered_test_is_in_the_table() -> None:
    named = {number for path in CLUSTER.rglob("test_*.py") for number in cases_in(path)}
    assert sorted(named - table().keys()) == []
    assert len(table()) >= 40
