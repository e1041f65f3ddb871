"""Regular expressions of `sim.patterns`: compiled by the first use."""

import re

import pytest

from sim.patterns import pattern


def test_expression_is_compiled_once_by_its_first_use(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled: list[str] = []
    real = re.compile
    monkeypatch.setattr(re, "compile", lambda text, flags=0: compiled.append(text) or real(text, flags))
    letters = pattern("[a-z]+", re.IGNORECASE)
    assert compiled == []
    assert [bool(letters.fullmatch(text)) for text in ("aB", "1")] == [True, False]
    assert (letters.sub("x", "ab1"), letters.pattern, letters.flags & re.IGNORECASE) == ("x1", "[a-z]+", 2)
    assert set(compiled) == {"[a-z]+"}


def test_wrong_expression_is_reported_as_by_re() -> None:
    with pytest.raises(re.error):
        pattern("(").match("")
