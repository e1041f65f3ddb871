"""The place of the first mistake in a base64 text."""

from __future__ import annotations

import pytest

from sim.api.go.base64 import URL_LETTERS, corrupt_at


@pytest.mark.parametrize(
    ("text", "at"),
    [
        ("", None),
        ("YWJj", None),
        ("YQ==", None),
        ("YQ\n==\r\n", None),
        ("YQ%=", 2),
        ("abcde", 4),
        ("a", 0),
        ("YWJj%", 4),
        ("YQ=", 3),
        ("YWJjYQ%%", 6),
        ("YQ==YQ==", 4),
        ("YWJ jYQ==", 3),
        ("YQ=a", 2),
        ("=", 0),
    ],
)
def test_mistake_is_at_the_byte_that_go_reports(text: str, at: int | None) -> None:
    assert corrupt_at(text) == at


def test_text_without_padding_may_end_within_a_group() -> None:
    assert [
        corrupt_at(text, URL_LETTERS, padded=False) for text in ("YQ", "_-A", "abcde", "a+b", "YQ==")
    ] == [
        None,
        None,
        4,
        1,
        2,
    ]
