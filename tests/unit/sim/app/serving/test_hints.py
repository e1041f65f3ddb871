"""What `orrery serve` says when it begins."""

from __future__ import annotations

import pytest

from sim.app.serving.serve import hints


@pytest.mark.parametrize(
    ("known", "audited", "begins"),
    [
        (True, False, []),
        (False, False, ["no user"]),
        (True, True, ["the cluster"]),
        (False, True, ["no user", "the cluster"]),
    ],
)
def test_server_says_that_no_user_can_log_in_and_that_an_audit_is_slow(
    known: bool, audited: bool, begins: list[str]
) -> None:
    found = [*hints(known=known, audited=audited)]
    assert [text[: len(begin)] for text, begin in zip(found, begins, strict=True)] == begins
