"""The documentation site builds without a warning, and no page loads anything from the network."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from docs.generate.docstrings import with_lists
from docs.generate.records import MEANINGS, declared_records
from sim.app.cli.main import _parser
from sim.app.reference.steps import step_pages

ROOT = Path(__file__).parents[3]
WRITTEN = sorted((ROOT / "docs").rglob("*.md"))
BLOCK = re.compile(r"```(?:bash|text|console)[^\n]*\n(.*?)```", re.DOTALL)
LOADED = re.compile(r"<(?:script|link|img|iframe)\b[^>]*\b(?:src|href)=[\"']?(?:https?:)?//[^>]*>")


@pytest.mark.slow
def test_site_builds_without_warning_and_loads_nothing_from_elsewhere(tmp_path: Path) -> None:
    site = tmp_path / "site"
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(site)],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT), "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    pages = sorted(site.rglob("*.html"))
    assert len(pages) > 60
    assert [(page.name, found) for page in pages for found in LOADED.findall(page.read_text())] == []
    assert not list(site.rglob("*.py"))
    steps = (site / "reference" / "steps.html").read_text()
    assert [name for name in step_pages() if f'id="{name.lower()}"' not in steps] == []


def test_every_kind_of_trace_record_has_a_meaning() -> None:
    assert list(MEANINGS) == list(declared_records())


def test_lines_of_parameters_become_a_list() -> None:
    text = with_lists("Do it.\nname: of it, in\n    two lines\nnext: another\nRaises InputError.")
    assert text.splitlines() == [
        "Do it.", "", "- `name`: of it, in", "    two lines", "- `next`: another", "", "Raises InputError.",
    ]  # fmt: skip


def commands() -> list[str]:
    """The commands on lines of their own in the written pages."""
    texts = [re.sub(r"\\\n\s*", " ", page.read_text(encoding="utf-8")) for page in WRITTEN]
    lines = [line for text in texts for found in BLOCK.findall(text) for line in found.splitlines()]
    return sorted({re.sub(r"\s{2,}#.*|\s+&$", "", line) for line in lines if line.startswith("orrery ")})


@pytest.mark.parametrize("command", commands())
def test_command_of_a_written_page_is_understood(command: str) -> None:
    _parser().parse_args(shlex.split(command)[1:])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("page", "tests"), [("test-a-controller", 5), ("write-a-descheduler-or-autoscaler", 7)]
)
def test_examples_of_controller_tests_pass(page: str, tests: int, tmp_path: Path) -> None:
    text = (ROOT / "docs" / "how-to" / f"{page}.md").read_text(encoding="utf-8")
    for name, example in re.findall(r'```python title="(test_\w+\.py)"\n(.*?)```', text, re.DOTALL):
        (tmp_path / name).write_text(example)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "."],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0 and f"{tests} passed" in done.stdout, done.stdout + done.stderr
