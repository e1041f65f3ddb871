"""The notebooks' code runs and says what their words promise."""

import json
from pathlib import Path
from typing import Any

import pytest

NOTEBOOKS = sorted((Path(__file__).resolve().parents[3] / "notebooks").glob("*.ipynb"))


@pytest.mark.slow
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_every_cell_of_a_notebook_runs(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    space: dict[str, Any] = {}
    for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
        if cell["cell_type"] == "code":
            exec("".join(cell["source"]), space)
    said = capsys.readouterr().out
    if path.stem == "first-look":
        assert "node-3" not in said.splitlines()[0]
        assert all(330 <= seconds <= 360 for seconds in space["first"])
        assert space["first"][-1] - space["first"][0] > 5  # the spread that the words speak of
