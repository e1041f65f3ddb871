"""What the documents name is there: files, modules, links, commands of the benchmarks, words in the
map of the architecture.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from sim.kernel.fast import NAMES

ROOT = Path(__file__).resolve().parents[2]
DOCUMENTS = sorted(
    path.relative_to(ROOT)
    for pattern in ("*.md", "scenarios/*.md", "tests/**/*.md")
    for path in ROOT.glob(pattern)
)
FILE = re.compile(
    r"[\w./-]*\w\.(py|yaml|md|csv|svg|lock|toml|ipynb)|(sim|actors|tests|scenarios|notebooks|docs)(/[\w.-]+)*/?"
)
MODULE = re.compile(r"(sim|actors|tests)(\.\w+)+")
EXAMPLES = ("workloads/web.yaml", "deaths.csv")  # files of a reader's own


def words(document: Path) -> Iterator[str]:
    """The texts in backticks, without code blocks, which tests run."""
    text = re.sub(r"```.*?```", "", (ROOT / document).read_text(encoding="utf-8"), flags=re.DOTALL)
    yield from re.findall(r"`([^`\n]+)`", text)


def is_there(dotted: str) -> bool:
    """Whether it is a package or module, or a name that its module holds."""
    parts = dotted.split(".")
    for length in range(len(parts), 0, -1):
        place = ROOT.joinpath(*parts[:length])
        file = place / "__init__.py" if place.is_dir() else place.with_suffix(".py")
        if file.is_file():
            rest = parts[length:]
            return all(re.search(rf"\b{name}\b", file.read_text(encoding="utf-8")) for name in rest)
    return False


@pytest.mark.parametrize("document", DOCUMENTS, ids=str)
def test_files_and_modules_that_a_document_names_are_there(document: Path) -> None:
    missing = []
    for word in words(document):
        if MODULE.fullmatch(word):
            found = is_there(word)
        elif FILE.fullmatch(word) and word not in EXAMPLES and "NAME" not in word:
            places = (ROOT, (ROOT / document).parent, *(ROOT / "tests").iterdir())
            found = any((place / word).exists() for place in places)
        else:
            continue
        if not found:
            missing.append(word)
    assert missing == []


@pytest.mark.parametrize("document", DOCUMENTS, ids=str)
def test_links_of_a_document_lead_somewhere(document: Path) -> None:
    text = (ROOT / document).read_text(encoding="utf-8")
    targets = [target for target in re.findall(r"\]\(([^)\s]+)\)", text) if "://" not in target]
    assert [target for target in targets if not (ROOT / document).parent.joinpath(target).exists()] == []


@pytest.mark.parametrize("document", DOCUMENTS, ids=str)
def test_programs_that_a_document_runs_are_there_and_take_the_options_that_it_gives(document: Path) -> None:
    text = (ROOT / document).read_text(encoding="utf-8")
    wrong = []
    for module, rest in re.findall(r"python -m (tests[\w.]+)((?: +-*\w[\w-]*)*)", text):
        file = ROOT / (module.replace(".", "/") + ".py")
        options = re.findall(r"--[\w-]+", rest)
        if not file.is_file() or not all(option in file.read_text(encoding="utf-8") for option in options):
            wrong.append(module + rest)
    assert wrong == []


def test_the_map_names_modules_and_what_they_hold() -> None:
    text = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    parts = re.split(
        r"\*\*`((?:sim|actors)\.[\w*]+)`\*\*", text.partition("## Where things are")[2].partition("\n## ")[0]
    )
    unknown = []
    for package, described in zip(parts[1::2], parts[2::2], strict=True):
        folder = ROOT / package.replace(".", "/").removesuffix("/*")
        files = sorted(folder.rglob("*.py"))
        known = {file.stem for file in files} | {file.name for file in folder.iterdir()}
        sources = "\n".join(file.read_text(encoding="utf-8") for file in files)
        unknown += [
            f"{package} {word}"
            for word in re.findall(r"`([a-z_]\w*)`", described)
            if word not in known and not re.search(rf"\b(def|class) {word}\b|\b{word}\b *[:=]", sources)
        ]
    assert unknown == []


@pytest.mark.parametrize("name", NAMES)
def test_each_fast_path_has_a_figure_in_the_benchmarks(name: str) -> None:
    rows = (ROOT / "BENCHMARKS.md").read_text(encoding="utf-8").splitlines()
    of_path = [row for row in rows if row.startswith(f"| `{name}`")]
    assert [row for row in of_path if re.search(r"\d", row.replace("`", " ", 2).split("|", 2)[2])] != []
