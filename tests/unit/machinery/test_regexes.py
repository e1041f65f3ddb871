"""Patterns from outside."""

from __future__ import annotations

import re
from random import Random

import pytest

from sim.machinery.regexes import WORK_MAX, BadPattern, Budget, TooMuchWork, compile_pattern


def matches(pattern: str, text: str) -> bool:
    return compile_pattern(pattern).found_in(text)


@pytest.mark.parametrize(
    ("pattern", "good", "bad"),
    [
        ("^[a-z]([-a-z0-9]*[a-z0-9])?$", "my-name", "my-"),
        (r"^\d{1,3}(\.\d+)?$", "12.5", "1234"),
        ("(?i)^ABC$", "aBc", "abd"),
        ("(?i:a)b", "Ab", "AB"),
        (r"\bfoo\b", "a foo b", "food"),
        ("[[:alpha:]_]+$", "12a_", "a1"),
        ("^[^a-c]$", "d", "b"),
        (r"^\x41\x{42}\Q.*\E$", "AB.*", "ABxx"),
        (r"^\p{Lu}\PL$", "A1", "aB"),
        ("(?s)a.b", "a\nb", "ab"),
        ("(?m)^b$", "a\nb", "ab"),
        ("^(?P<name>a)$", "a", "b"),
        ("a{,2}", "a{,2}", "aa"),
        ("^$", "", "a"),
    ],
)
def test_patterns_are_understood_as_re2_does(pattern: str, good: str, bad: str) -> None:
    assert matches(pattern, good) and not matches(pattern, bad)


@pytest.mark.parametrize(
    "pattern", ["(", ")", "a**", "[b-a]", "[a", "*", "(?=a)", r"(a)\1", "a{2000}", "\\", r"\p{Greek}"]
)
def test_what_is_no_pattern_is_refused(pattern: str) -> None:
    with pytest.raises(BadPattern):
        compile_pattern(pattern)


@pytest.mark.parametrize(
    "pattern", ["((a{1000}){1000}){1000}", "((((){1000}){1000}){1000}){1000}", "(" * 500 + ")" * 500]
)
def test_a_pattern_that_would_grow_without_end_is_refused(pattern: str) -> None:
    with pytest.raises(BadPattern):
        compile_pattern(pattern)


def test_what_makes_others_backtrack_for_ever_takes_time_by_its_length() -> None:
    spent = []
    for length in (1000, 2000):
        budget = Budget()
        assert not compile_pattern("^(a+)+$").found_in("a" * length + "b", budget)
        spent.append(WORK_MAX - budget.left)
    assert spent[1] < 2.1 * spent[0]


def test_a_text_that_takes_too_long_is_given_up_always_at_the_same_point() -> None:
    left = []
    for _ in range(2):
        budget = Budget(30_000)
        with pytest.raises(TooMuchWork):
            compile_pattern("(a?){200}(a?){200}b").found_in("a" * 400, budget)
        left.append(budget.left)
    assert left[0] == left[1] < 0


def drawn(random: Random, depth: int) -> str:
    """A pattern that Python reads in the same way."""
    kind = random.random()
    if depth == 0 or kind < 0.35:
        return random.choice("ab.")
    if kind < 0.5:
        return drawn(random, depth - 1) + drawn(random, depth - 1)
    if kind < 0.65:
        return f"(?:{drawn(random, depth - 1)}|{drawn(random, depth - 1)})"
    if kind < 0.85:
        return f"(?:{drawn(random, depth - 1)})" + random.choice(("*", "+", "?", "{2}", "{1,2}", "*?"))
    if kind < 0.9:
        return "^" + drawn(random, depth - 1)
    return random.choice(("[ab]", "[^a]", r"\w", r"\b", r"\s"))


def test_drawn_patterns_find_what_python_finds() -> None:
    random = Random(1)
    for _ in range(300):
        pattern = drawn(random, 4)
        text = "".join(random.choice("abc \n") for _ in range(random.randrange(8)))
        assert matches(pattern, text) == bool(re.search(pattern, text)), (pattern, text)
