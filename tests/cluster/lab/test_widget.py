"""The cluster widget: its state at each instant, in Python and in the browser's program."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from orrery import Lab
from sim.app.lab.recording import Row, Seen, grid, shared
from sim.app.lab.widget import SCRIPT
from tests.cluster.lab.test_lab import WEB

CHANGES = [
    Seen(0.0, "node", "b", "z1", "ready"),
    Seen(0.0, "node", "a", "z2", "ready"),
    Seen(1.0, "pod", "default/two", "", "pending"),
    Seen(2.0, "pod", "default/two", "a", "running"),
    Seen(2.0, "pod", "default/one", "a", "running"),
    Seen(3.0, "node", "a", "z2", "unknown"),
    Seen(4.0, "pod", "default/two", "a", "terminating"),
    Seen(5.0, "pod", "default/two", "a", ""),
    Seen(6.0, "node", "a", "z2", ""),
]
AT = {
    0.5: [Row("z1", "b", "ready", ()), Row("z2", "a", "ready", ())],
    1.0: [
        Row("z1", "b", "ready", ()),
        Row("z2", "a", "ready", ()),
        Row("", "", "", (("default/two", "pending"),)),
    ],
    4.5: [
        Row("z1", "b", "ready", ()),
        Row("z2", "a", "unknown", (("default/one", "running"), ("default/two", "terminating"))),
    ],
    9.0: [Row("z1", "b", "ready", ()), Row("", "", "", (("default/one", "running"),))],
}


@pytest.mark.parametrize("at_s", AT)
def test_grid_at_an_instant_follows_from_the_changes_up_to_it(at_s: float) -> None:
    assert grid(CHANGES, at_s) == AT[at_s]


@pytest.mark.skipif(shutil.which("node") is None, reason="THE BROWSER'S PROGRAM IS NOT TESTED: no node")
def test_program_of_the_browser_has_the_same_grid(tmp_path: Path) -> None:
    program = SCRIPT.read_text().replace("export default", "const widget =")
    file = tmp_path / "grid.js"
    file.write_text(
        f"{program}\nconst changes = {json.dumps(shared(CHANGES))};\n"
        f"console.log(JSON.stringify({json.dumps(list(AT))}.map((at) => grid(changes, at))));\n"
    )
    done = subprocess.run(["node", file], capture_output=True, text=True, check=True)
    found = [
        [(row["zone"], row["node"].replace("no node", ""), row["state"], row["pods"]) for row in rows]
        for rows in json.loads(done.stdout)
    ]
    assert found == [
        [(r.zone, r.node, r.state, [list(pod) for pod in r.pods]) for r in rows] for rows in AT.values()
    ]


def test_widget_shows_a_death_from_the_beginning_to_the_replacement() -> None:
    with Lab(nodes=3, zones=["a", "b", "c"], seed=1, objects=[WEB], established=True) as lab:
        lab.run("1m")
        lab.fail(nodes={"name": "node-b-0"}, how="power-loss")
        lab.run("7m")
        widget = lab.widget()
        assert (widget.at_s, widget.end_s) == (480, 480)
        now = {row.node: row for row in widget.grid()}
        assert now["node-b-0"].state == "unknown"
        assert {state for _, state in now["node-b-0"].pods} == {"terminating"}
        assert sum(len(now[name].pods) for name in ("node-a-0", "node-c-0")) == 6
        widget.at_s = 60.0  # as the slider does
        before = {row.node: row for row in widget.grid()}
        assert [row.state for row in before.values()] == ["ready"] * 3
        assert {state for row in before.values() for _, state in row.pods} == {"running"}
        assert sum(len(row.pods) for row in before.values()) == 6
        assert repr(widget).splitlines()[1].split() == ["node-a-0", "ready", "RR"]
        assert "http" not in widget._esm


def test_recording_has_no_effect_on_the_run_and_a_fork_has_its_own() -> None:
    with Lab(nodes=2, seed=1, objects=[WEB]) as lab:
        lab.run("1m")
        with lab.fork() as twin:
            assert twin.widget().changes == lab.widget().changes
            assert twin.trace_sha256 == lab.trace_sha256


def test_widget_is_text_without_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "anywidget", None)
    with Lab(nodes=2, seed=1) as lab:
        lab.run("30s")
        assert repr(lab.widget()).splitlines()[:3] == ["30s", "node-0  ready", "node-1  ready"]
