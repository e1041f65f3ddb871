"""Which object a pattern means: the one that came to an end."""

from pathlib import Path
from typing import Any

import pytest

from sim.app.inspect.traces import to_stderr
from sim.app.inspect.why import _first_alike
from sim.errors import InputError
from sim.kernel import Record
from sim.report.story import Book

TRACE = Path("t.trace")


def changes(*found: tuple[str, str, Any]) -> Book:
    return Book(
        Record(n, n, 0, "change", {"key": f"//pods/{key}", "what": what, "before": "x", "after": after})
        for n, (key, what, after) in enumerate(found, 1)
    )


def test_a_pattern_means_the_first_that_was_deleted_else_that_failed() -> None:
    book = changes(("d/a", "phase", "Running"), ("d/b", "phase", "Failed"), ("d/c", "deleting", "now"))
    assert _first_alike(book, TRACE, "//pods/d/*", "", to_stderr) == "//pods/d/c"
    assert _first_alike(book, TRACE, "//pods/d/[ab]", "", to_stderr) == "//pods/d/b"
    assert _first_alike(book, TRACE, "//pods/d/*", "phase=Running", to_stderr) == "//pods/d/a"


def test_a_pattern_that_matches_elsewhere_says_where() -> None:
    with pytest.raises(InputError, match=r"nothing in it matches pods/e/a\* .there is pods/d/a"):
        _first_alike(changes(("d/a", "phase", "Running")), TRACE, "//pods/e/a*", "", to_stderr)
