"""Identifiers use the words of the glossary, and not those that it replaces."""

from tests.tidy.house import dialect


def test_no_identifier_is_of_the_dialect() -> None:
    assert list(dialect()) == []
