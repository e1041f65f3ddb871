"""The page of JSON output: the shapes of what real commands print when the site is built."""

from __future__ import annotations

import io
import json
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any, NamedTuple

from docs.generate.markdown import block, code, page, table
from sim.app.cli.main import main

TEXT_MAX = 60  # characters of an example
DEPTH_MAX = 4
FILE = Path(__file__).parents[2] / "scenarios" / "leader-failover.yaml"


class _Shown(NamedTuple):
    """A command as the page shows it, its meaning, and the arguments that stand in for names of files."""

    command: str
    meaning: str


COMMANDS = (
    _Shown("run leader-failover --json", "One object for a run."),
    _Shown("run leader-failover --seeds 3 --json", "One object for many seeds."),
    _Shown("run leader-failover --seed 2 --json", ""),
    _Shown("sweep leader-failover --seeds 2 --vary cluster.scheduler.replicas=1,2 --json", "One object for a sweep."),
    _Shown("show a.trace --kind zone --kind step --json", "One object a line, one for each record."),
    _Shown("why a.trace deploy/web --json", "The chain of causes, the first cause first."),
    _Shown("diff a.trace b.trace --json", "The first event in which two runs part."),
    _Shown("list scenarios --json", "A list with one object for each scenario."),
    _Shown("faults --json", "A list with one object for each kind of step."),
    _Shown("conditions --json", "A list with one object for each form."),
    _Shown("options --json", "An object with a list of options for each daemon."),
)  # fmt: skip


def shapes_page() -> str:
    """The output of each command with `--json`: paths, types and examples."""
    with tempfile.TemporaryDirectory(prefix="orrery-site-") as folder:
        parts = [part for each in COMMANDS for part in _section(each, Path(folder))]
    return page(
        "JSON output",
        "The commands below were run when this page was built; the examples are from their output. `a[].b` is the "
        "field `b` of each item of the list `a`.",
        *parts,
    )


def _section(shown: _Shown, folder: Path) -> Iterator[str]:
    words = shown.command.split()
    trace = {"run leader-failover --json": "a.trace", "run leader-failover --seed 2 --json": "b.trace"}
    arguments = [_argument(word, folder) for word in words]
    if shown.command in trace:
        arguments += ["--trace", str(folder / trace[shown.command])]
    out = io.StringIO()
    with redirect_stdout(out):
        status = main([*arguments, *(["-j", "1"] if "--seeds" in words else [])])
    assert status in (0, 1), shown.command
    if not shown.meaning:
        return
    value = json.loads(out.getvalue().splitlines()[0])
    yield f"## orrery {words[0]}" + (" --seeds" if words[:3:2] == ["run", "--seeds"] else "")
    yield shown.meaning
    yield block("text", f"orrery {shown.command}")
    yield table(("path", "type", "example"), [_row(*each) for each in _leaves(value, "", 0)])


def _argument(word: str, folder: Path) -> str:
    if word.endswith(".trace"):
        return str(folder / word)
    return {"leader-failover": str(FILE), "scenarios": str(FILE.parent)}.get(word, word)


def _leaves(value: Any, path: str, depth: int) -> Iterator[tuple[str, Any]]:
    """The paths of the values; of a list, those of its first item."""
    if isinstance(value, dict) and value and depth < DEPTH_MAX:
        for key, inner in value.items():
            yield from _leaves(inner, f"{path}.{key}" if path else key, depth + 1)
    elif isinstance(value, list) and value:
        yield from _leaves(value[0], f"{path}[]", depth)
    else:
        yield path, value


def _row(path: str, value: Any) -> Sequence[str]:
    kinds = {bool: "boolean", int: "integer", float: "number", str: "text", list: "list", dict: "object"}
    example = json.dumps(value, ensure_ascii=False)
    shortened = example if len(example) <= TEXT_MAX else f"{example[:TEXT_MAX]}…"
    return code(path), kinds.get(type(value), "null"), code(shortened)
