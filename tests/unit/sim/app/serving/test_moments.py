"""A served cluster as it was: the instants of its journal, and journals of other runs."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from sim.app.serving import moments
from sim.app.serving.journal import read_journal
from sim.errors import InputError
from sim.units import SECOND, Virtual
from tests.unit.sim.app.serving.test_journal import END, written


def nodes(file: Path, at_us: int) -> int:
    return moments.as_it_was_served(file, Virtual(at_us), lambda cluster: len(cluster.nodes))


def test_instants_of_a_journal_end_with_it(tmp_path: Path) -> None:
    file = written(tmp_path / "j")
    assert nodes(file, END.virtual_us) == 2
    with pytest.raises(InputError, match=r"^.*/j: the run ends at .*, before "):
        nodes(file, END.virtual_us + SECOND)


def test_journal_that_repeats_otherwise_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = written(tmp_path / "j")
    other = msgspec.structs.replace(read_journal(file), checksums=bytes(100))
    monkeypatch.setattr(moments, "read_journal", lambda _: other)
    with pytest.raises(InputError, match="is of another run from record 1 on"):
        nodes(file, END.virtual_us)


def test_only_the_file_of_a_server_is_a_journal(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("a trace")
    files = (written(tmp_path / "j"), tmp_path / "text", tmp_path / "none", tmp_path)
    assert [moments.is_journal(file) for file in files] == [True, False, False, False]
