"""Patterns that users write into the schemas of their custom resources."""

from __future__ import annotations

import pytest

from sim.api.crd.regexes import WORK_MAX, BadPattern, Budget, TooMuchWork, check_pattern, compile_pattern


@pytest.mark.parametrize(
    ("pattern", "good", "bad"),
    [
        ("^[a-z]([-a-z0-9]*[a-z0-9])?$", "my-name", "my-"),
        (r"^\d{1,3}(\.\d+)?$", "12.5", "1234"),
        ("(?i)^ABC$", "aBc", "abd"),
        (r"\bfoo\b", "a foo b", "food"),
        ("[[:alpha:]_]+$", "12a_", "a1"),
        (r"^\x41\x{42}\Q.*\E$", "AB.*", "ABxx"),
        (r"^\p{Lu}\PL$", "A1", "aB"),
        (r"^\p{Greek}+$", "αβ", "ab"),
        ("^é.$", "éé", "e"),
        ("(?s)a.b", "a\nb", "ab"),
        ("(?m)^b$", "a\nb", "ab"),
        ("a{,2}", "a{,2}", "aa"),
        ("^$", "", "a"),
    ],
)
def test_pattern_is_searched_with_the_syntax_of_re2(pattern: str, good: str, bad: str) -> None:
    assert compile_pattern(pattern).is_found_in(good)
    assert not compile_pattern(pattern).is_found_in(bad)


@pytest.mark.parametrize(
    ("pattern", "message"),
    [
        ("(", "missing closing ): `(`"),
        (")", "unexpected ): `)`"),
        ("a**", "invalid nested repetition operator: `**`"),
        ("[b-a]", "invalid character class range: `b-a`"),
        ("[a", "missing closing ]: `[a`"),
        ("*", "missing argument to repetition operator: `*`"),
        ("(?=a)", "invalid or unsupported Perl syntax: `(?=`"),
        (r"(a)\1", r"invalid escape sequence: `\1`"),
        ("a{2000}", "invalid repeat count: `{2000}`"),
        ("\\", "trailing backslash at end of expression"),
    ],
)
def test_malformed_pattern_is_refused_with_the_message_of_go(pattern: str, message: str) -> None:
    with pytest.raises(BadPattern) as caught:
        check_pattern(pattern)
    assert str(caught.value).startswith(message)


@pytest.mark.parametrize("pattern", ["((a{1000}){1000}){1000}", "((((){1000}){1000}){1000}){1000}"])
def test_pattern_that_compiles_to_a_huge_program_is_refused(pattern: str) -> None:
    with pytest.raises(BadPattern):
        compile_pattern(pattern)


def test_work_of_a_backtracking_pattern_grows_linearly_with_the_text() -> None:
    spent = []
    for length in (1000, 2000):
        budget = Budget()
        assert not compile_pattern("^(a+)+$").is_found_in("a" * length + "b", budget)
        spent.append(WORK_MAX - budget.left)
    assert spent[1] < 2.1 * spent[0]


def test_search_beyond_the_budget_is_refused_at_the_same_point_every_time() -> None:
    left = []
    for _ in range(2):
        budget = Budget(30_000)
        with pytest.raises(TooMuchWork):
            compile_pattern("(a?){200}(a?){200}b").is_found_in("a" * 400, budget)
        left.append(budget.left)
    assert left[0] == left[1] < 0


def test_surrogate_is_searched_as_the_replacement_character() -> None:
    assert compile_pattern("^\ufffd$").is_found_in("\ud800")
