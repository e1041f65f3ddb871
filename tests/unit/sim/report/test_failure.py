"""Failed verdicts are explained by their objects, their instant and the causes in the trace."""

from __future__ import annotations

from typing import Any

import pytest

from sim.check import Verdict
from sim.report.failure import CAUSES_MAX, chain_of, failure_of, failures
from tests.unit.sim.report.test_story import NODE, OUTAGE, POD, book, write


def verdict(ok: bool = False, **more: Any) -> Verdict:
    return Verdict("x", ok, "never", "by the end", kind="eventually", **more)


def test_failure_names_value_bound_objects_and_both_instants() -> None:
    found = failure_of(
        verdict(
            objects=(NODE, POD),
            counted="1 of 3 nodes",
            at_us=341_100_000,
            since_us=41_100_000,
            after="outage",
        ),
        None,
    )
    assert dict(found.facts) == {
        "measured": "never",
        "wanted": "by the end",
        "object": "nodes/node-1, pods/default/web-1",
        "true of": "1 of 3 nodes",
        "instant": "5m41.100s of the run, 0m41.100s after outage",
    }
    assert found.causes == ()


def test_failure_without_an_event_has_what_was_measured_only() -> None:
    assert [label for label, _ in failure_of(verdict(), OUTAGE).facts] == ["measured", "wanted"]


@pytest.mark.parametrize(
    ("decided", "texts"),
    [
        ({"witness": 7}, ('step "outage"', "updates the status of nodes/node-1")),
        ({"objects": (NODE,)}, ('step "outage"', "updates the status of nodes/node-1")),
        ({"objects": (NODE,), "at_us": 200_000_000}, ("the process starts", "creates nodes/node-1")),
        ({"objects": ("//pods/default/none",)}, ()),
    ],
)
def test_causes_are_those_of_the_event_or_of_the_object(
    decided: dict[str, Any], texts: tuple[str, ...]
) -> None:
    lines = failure_of(verdict(**decided), OUTAGE).causes
    ends = (lines[0], lines[-1]) if lines else ()
    assert len(ends) == len(texts)
    assert all(line.text.startswith(text) for line, text in zip(ends, texts, strict=True))


def test_verdict_that_holds_has_causes_only_of_its_event() -> None:
    assert chain_of(verdict(ok=True, objects=(NODE,)), OUTAGE) == []
    assert chain_of(verdict(ok=True, witness=7), OUTAGE)
    assert failures([verdict(ok=True), verdict()], None) == [failure_of(verdict(), None)]


def test_last_causes_keep_the_first_link() -> None:
    rows = [
        (index, index - 1, write("admin", "update", f"//pods/default/p{index}", index))
        for index in range(1, 10)
    ]
    found = failure_of(verdict(witness=9), book(*rows))
    assert len(found.causes) == 9 and found.left_out == 9 - CAUSES_MAX
    assert found.last_causes == (found.causes[0], *found.causes[-CAUSES_MAX + 1 :])
