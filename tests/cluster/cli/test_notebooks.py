"""The notebooks run in a kernel, say what their words promise, and are stored with their pictures."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient
from nbformat.v4 import new_code_cell

ROOT = Path(__file__).resolve().parents[3]
NOTEBOOKS = sorted((ROOT / "notebooks").glob("[0-9][0-9]-*.ipynb"))
# The longest ones run at night (`dev.py nightly`).
LONG = ("02-eviction-timing", "03-leader-election", "04-watch-expiry", "06-your-own-controller")
RUN = [path for path in NOTEBOOKS if path.stem not in LONG or "ORRERY_NIGHTLY" in os.environ]
CELL_S = 900  # so that a cell that never ends fails

# What the words of a notebook say about its results, by its name; run in its kernel after the last cell.
PROMISES = {
    "01-first-look": """
values = dict(deaths.frame().group_by("expectation").agg(pl.col("value").median()).rows())
assert 34 < values["noticed"] < 40 and 338 < values["replaced"] < 346
ends = {row["the machine"]: row["ready pods"] for row in rows}
assert set(ends.values()) == {12} and min(row["ready pods"] for row in rows) < 12
""",
    "02-eviction-timing": """
for what, quantiles in REAL.items():
    values = ours.filter(pl.col("what") == what)["value"]
    assert len(values) == 40 and abs(values.median() - quantiles[3]) < 1.5
    assert quantiles[0] - 2 < values.min() and values.max() < quantiles[-1] + 2
wrong = {(row["cut"], row["grace period"]): row["wrong"] for row in share.to_dicts()}
assert wrong["30s", "40s"] == 0 and wrong["10s", "15s"] > 0
last = lines.group_by("run").agg(pl.col("value").max())["value"].sort()
assert last[0] < 70 and 120 < last[1] < 145 and last[2] > 200
""",
    "03-leader-election": """
medians = dict(forms.group_by("form").agg(pl.col("value").median()).rows())
assert medians["SIGTERM, scheduler"] < 4.4
assert all(16 < value < 20 for form, value in medians.items() if form != "SIGTERM, scheduler")
gives_up = {(row["lease"], row["pause"]): row["lost"] for row in lost.to_dicts()}
assert gives_up["6 s / 4 s / 1 s", "8s"] == 1 and gives_up["60 s / 40 s / 8 s", "30s"] == 0
""",
    "04-watch-expiry": """
assert short["seconds"].is_between(0.8, 1.7).all() and set(short["because"]) == {"Expired"}
late_s = {(row["away"], row["room"]): row["value"] for row in found.to_dicts()}
assert late_s["2m", 400] > 30 > late_s["10ms", 5] > late_s["10ms", 400]
""",
    "05-autoscaler": """
rows = {row["window"]: row for row in table.to_dicts()}
assert rows["0 s"]["changes"] > rows["180 s"]["changes"] == 2
assert rows["60 s"]["missing pod-minutes"] > rows["180 s"]["missing pod-minutes"]
assert rows["300 s"] | {"window": ""} == rows["180 s"] | {"window": ""}
""",
    "06-your-own-controller": """
assert times.filter(pl.col("cluster") == "with the controller")["seconds"].max() < 60
assert times.filter(pl.col("cluster") == "without")["seconds"].min() > 330
assert (while_away, afterwards) == (4, 6)
lost = {(row["controller"], row["cut"], row["seed"]): row["lost"] for row in rows}
assert lost["mover", 60, 0] == 2 and lost["patient_mover", 80, 0] == 0 and lost["patient_mover", 120, 0] == 2
""",
    "07-reading-a-trace": """
actors = [line.actor for line in crashed.why("pod/web-*", what="deleted").lines]
assert "controller-manager-1" in actors
assert took > 300 and len(frame) > 50 and len(events) > 1000
""",
    "08-three-incidents": """
lowest = priorities.filter(pl.col("pods of") == "ingester", pl.col("minutes") > 2).group_by("run").agg(pl.col("ready").min())
assert dict(lowest.rows()) == {AS_IT_WAS: 2, "no-default": 14}
oldest = dict(leases.group_by("run").agg(pl.col("seconds").max()).rows())
assert oldest[AS_IT_WAS] > 550 and oldest["open"] < 20 and oldest["exempt"] < 15
grown = dict(flood.filter(pl.col("running pods") > 400).group_by("run").agg(pl.col("minutes").min()).rows())
assert grown["staged"] < 6 and grown[AS_IT_WAS] > 8
assert [line.actor for line in story.lines][-2:] == ["scheduler", "kube-scheduler"]
""",
}


def test_every_notebook_has_its_promises() -> None:
    assert [path.stem for path in NOTEBOOKS] == list(PROMISES)


@pytest.mark.slow
@pytest.mark.parametrize("path", RUN, ids=lambda path: path.stem)
def test_notebook_runs_in_a_kernel_and_keeps_its_promises(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    stored = nbformat.read(path, as_version=4)
    run = nbformat.read(path, as_version=4)
    run.cells.append(new_code_cell(PROMISES[path.stem]))
    where = {"metadata": {"path": str(tmp_path)}}
    NotebookClient(run, timeout=CELL_S, kernel_name="python3", resources=where).execute()
    assert [kinds(cell) for cell in run.cells[:-1]] == [kinds(cell) for cell in stored.cells]
    assert run.cells[-1].outputs == []


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebook_is_stored_with_pictures_and_without_paths_of_a_machine(path: Path) -> None:
    cells = nbformat.read(path, as_version=4).cells
    shown = [kind for cell in cells for kind in kinds(cell)]
    assert sum("image/png" in kind for kind in shown) >= 2
    assert json.dumps([cell.get("outputs", []) for cell in cells]).count("/tmp/") == 0
    assert cells[0].cell_type == "markdown" and cells[0].source.startswith("# ")


def kinds(cell: Any) -> list[str]:
    """The kinds of the outputs of a cell: the types of a value, or the name of a stream."""
    return sorted(
        {output.get("name") or ",".join(sorted(output["data"])) for output in cell.get("outputs", [])}
    )
