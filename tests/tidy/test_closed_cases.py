"""Where the cases of an enum or a `Literal` are distinguished, mypy sees that none is missing."""

from tests.tidy.house import open_cases


def test_distinguished_cases_end_in_assert_never() -> None:
    assert list(open_cases()) == []
