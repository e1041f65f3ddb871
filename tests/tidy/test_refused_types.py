"""mypy refuses what the types of the project are for: a mix of two ideas, and a misspelt name."""

import re
from pathlib import Path

import pytest
from mypy import api

ROOT = Path(__file__).resolve().parents[2]
# Each line is refused, except those that end in "# right".
LINES = """
from sim.api.schema.typed_objects import LeaseSpec, NodeCondition
from sim.api.store import Item, Range
from sim.api.types import Verb
from sim.faults.shared.ledger import AspectName
from sim.kernel.timer import Timer
from sim.units import NO_REVISION, SECOND, Revision, Virtual, Wall

def of_units(now_us: Virtual, wall_us: Wall) -> None:
    Timer(now_us + SECOND, print, None)  # right
    Timer(max(now_us, now_us - SECOND), print, None)  # right
    Timer(wall_us, print, None)
    Timer(wall_us + SECOND, print, None)
    Timer(SECOND, print, None)
    Timer(now_us - now_us, print, None)

def of_revisions(item: Item, rev: Revision, now_us: Virtual) -> None:
    Range("", rev=item.rev)  # right
    Range("", rev=max(rev - 1, NO_REVISION))  # right
    Range("", rev=now_us)
    Range("", rev=item.cause)
    Range("", rev=rev - item.created)

def of_objects(spec: LeaseSpec, condition: NodeCondition) -> str:
    spec["renewTimes"]
    spec["leaseDurationSeconds"] = "40"
    condition = {"type": "Ready", "state": "True"}
    return condition["type"] + spec["renewTime"]  # right

def of_names(verb: Verb, aspect: AspectName) -> bool:
    verb == "lists"
    aspect == "powr"
    return verb == "list" or aspect == "power"  # right
"""


@pytest.mark.slow
def test_mypy_refuses_each_mix_and_each_misspelt_name(tmp_path: Path) -> None:
    path = tmp_path / "refused.py"
    path.write_text(LINES)
    options = ["--config-file", str(ROOT / "pyproject.toml"), "--cache-dir", str(ROOT / ".mypy_cache")]
    found, errors, _ = api.run([*options, str(path)])
    assert errors == ""
    refused = {int(number) for number in re.findall(r"refused\.py:(\d+): error", found)}
    wanted = [line.startswith("    ") and not line.endswith("# right") for line in LINES.splitlines()]
    assert refused == {number for number, is_refused in enumerate(wanted, 1) if is_refused}, found
