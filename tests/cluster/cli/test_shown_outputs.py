"""Outputs that the pages show, beside what their commands print.

Each line of a block is the beginning of a printed line, in the same order; runs of spaces count as
one, and `…` is any text. `tests/cluster/cli/test_tutorial.py` follows the tutorial; the twenty runs
of `docs/how-to/many-seeds.md` take too long for a test.
"""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import NamedTuple

import pytest

from sim.app.cli.main import main
from tests.cluster.cli.test_whatif import folder

ROOT = Path(__file__).parents[3]
__all__ = ["folder"]  # with the dump of a cluster


class Shown(NamedTuple):
    """A block of a page.

    begins: the beginning of the block
    commands: those of the page that lead to it, the last of which prints it
    file: the file that holds it, if the last command does not print it
    """

    page: str
    begins: str
    commands: tuple[str, ...]
    file: str = ""


HOW_TO = "docs/how-to"
DEATH = "orrery run single-node-death --trace out/death.trace"
GRACE = "--set cluster.controllerManager.flags.node-monitor-grace-period=20s"
PAIR = (
    "orrery run single-node-death --trace out/a.trace",
    f"orrery run single-node-death {GRACE} --trace out/b.trace",
)
AUDIT = (
    "orrery run outage.yaml --set cluster.apiServer.flags.audit-policy-file=audit-policy.yaml "
    "--set cluster.apiServer.flags.audit-log-path=out/audit.log"
)
JUNIT = "orrery run outage.yaml --quiet --junit out/outage.xml --report out/outage.html"
ZONE = "orrery run scenarios/zone-outage.yaml --trace out/zone.trace"
LOSE = "orrery whatif cluster.yaml --lose zone=eu-west-1a --for 20m"
SHOWN = [
    Shown("README.md", "   5m00.000s", (ZONE, "orrery why out/zone.trace 'pod/web-*'")),
    Shown("docs/index.md", "holds  each node", ("orrery run zone-outage",)),
    Shown(f"{HOW_TO}/audit-a-run.md", '{"kind":"Event"', ("orrery init outage", AUDIT), "out/audit.log"),
    Shown(f"{HOW_TO}/compare-two-runs.md", "--set cluster", (*PAIR, "orrery diff out/a.trace out/b.trace")),
    Shown(
        f"{HOW_TO}/read-metrics.md", "# HELP", ("orrery run zone-outage --metrics out/zone.prom",), "out/zone.prom"
    ),
    Shown(f"{HOW_TO}/use-in-ci.md", "<testcase", ("orrery init outage", JUNIT), "out/outage.xml"),
    Shown(f"{HOW_TO}/why-was-this-pod-deleted.md", "   5m00", (DEATH, "orrery why out/death.trace 'pod/web-*'")),
    Shown(f"{HOW_TO}/what-does-my-cluster-lose.md", "        expectation", (LOSE,)),
]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("shown", SHOWN, ids=lambda shown: Path(shown.page).stem)
def test_page_shows_what_its_command_prints(
    shown: Shown, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    page = (ROOT / shown.page).read_text(encoding="utf-8")
    (block,) = [
        text for text in re.findall(r"```[^\n]*\n(.*?)```", page, re.DOTALL) if text.startswith(shown.begins)
    ]
    monkeypatch.setenv("COLUMNS", "120")
    (folder / "scenarios").symlink_to(ROOT / "scenarios")
    for name, text in re.findall(r'```yaml title="([^"]+)"\n(.*?)```', page, re.DOTALL):
        (folder / name).write_text(text, encoding="utf-8")
    for command in shown.commands:
        capsys.readouterr()
        main(shlex.split(command)[1:])
    printed = (folder / shown.file).read_text() if shown.file else capsys.readouterr().out
    assert missing(block, printed) == [], printed
    flat = " ".join(page.replace("\\\n", " ").split())
    assert [command for command in shown.commands if command not in flat and "init" not in command] == []


def missing(block: str, printed: str) -> list[str]:
    """The lines of a block that are not in the output, in their order."""
    rest = iter(printed.splitlines())
    return [line for line in block.splitlines() if not any(re.match(pattern(line), each) for each in rest)]


def pattern(line: str) -> str:
    """The beginning of a line as a regular expression."""
    return r"\s*" + r"\s+".join(re.escape(word).replace("…", ".*") for word in line.split())
