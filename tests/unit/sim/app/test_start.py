"""The entry point: an interrupt before the command is there ends it like one after."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from types import ModuleType

import pytest

from sim.app import start


class Interrupting(MetaPathFinder):
    """Ctrl-C while this module is imported."""

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> None:
        if name == "sim.app.cli.main":
            raise KeyboardInterrupt


def test_interrupt_during_import_ends_with_a_line_and_status_130(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delitem(sys.modules, "sim.app.cli.main", raising=False)
    monkeypatch.setattr(sys, "meta_path", [Interrupting(), *sys.meta_path])
    assert start.main() == 130
    assert capsys.readouterr().err == "orrery: interrupted\n"
