"""Calls of admission webhooks as metrics."""

from typing import Any

import pytest

from actors.apiserver.metering import count_webhook
from sim.api.store import Question
from sim.kernel.meters import Meters

BOUNDS = {"apiserver_admission_webhook_admission_duration_seconds": (1.0,)}
HOOK = ("h", "admit", "CREATE")


@pytest.mark.parametrize(
    ("answer", "failure", "fails_open", "counted"),
    [
        ({"response": {"allowed": True}}, "", False, {"request_total": (*HOOK, "200", "false")}),
        (
            {"response": {"allowed": False, "status": {"code": 700}}},
            "",
            False,
            {
                "request_total": (*HOOK, "600", "true"),
                "rejection_count": (*HOOK, "no_error", "600"),
            },
        ),
        (
            None,
            "EOF",
            False,
            {
                "request_total": (*HOOK, "500", "true"),
                "rejection_count": (*HOOK, "calling_webhook_error", "500"),
            },
        ),
        (
            None,
            "EOF",
            True,
            {"request_total": (*HOOK, "500", "false"), "fail_open_count": ("h", "admit")},
        ),
    ],
)
def test_call_is_counted_by_its_outcome(
    answer: Any, failure: str, fails_open: bool, counted: dict[str, tuple[str, ...]]
) -> None:
    meters = Meters(BOUNDS)
    body = {"request": {"operation": "CREATE"}}
    question = Question("h", "", None, body, 1, kind="admit", fails_open=fails_open)
    count_webhook(meters, question, answer, failure, 10)
    found = {
        name.removeprefix("apiserver_admission_webhook_"): series for name, series in meters.counters.items()
    }
    assert found == {name: {labels: 1} for name, labels in counted.items()}
