"""The expectation about requests of users to a Service."""

from __future__ import annotations

from typing import Any

import pytest

from sim.check.build import Mistakes
from sim.check.clients import ServiceRequest, covered_us
from tests.unit.sim.check.test_expect import Run

POD = "//pods/default/web-1"


def expectation(**more: Any) -> dict[str, Any]:
    return {"unavailability": {"of": "services/web", "atMost": "2s"}, **more}


def send(
    run: Run, outcome: str, *sent_s: float, client: str = "users", service: str = "web", gap_s: float = 1
) -> None:
    for at_s in sent_s:
        sent_us = int(at_s * 1e6)
        key = f"//services/default/{service}"
        request = ServiceRequest(client, key, sent_us, sent_us + int(gap_s * 1e6), outcome, POD)
        run.checker.request(request, sent_us + 3_000_000)


def test_failed_requests_count_until_the_next_one_of_their_client() -> None:
    run = Run(expectation())
    send(run, "answered", 1, 2, 6)
    send(run, "refused", 3)
    send(run, "timed out", 4, 5)
    verdict = run.verdict()
    assert not verdict.ok
    assert verdict.measured == "3.00s, 3 of 6 requests failed (1 refused, 2 timed out)"
    assert (verdict.measured_s, verdict.at_us) == ((3.0,), 3_000_000)
    assert verdict.objects == (POD, "//services/default/web")


def test_times_of_several_clients_are_not_added() -> None:
    run = Run(expectation())
    send(run, "refused", 3, 4, client="one")
    send(run, "refused", 3.5, client="other", gap_s=1)
    verdict = run.verdict()
    assert verdict.ok and verdict.measured_s == (2.0,)


def test_requests_count_in_the_window_in_which_they_are_sent() -> None:
    run = Run(expectation(after="10s", until="20s"))
    send(run, "refused", 5, 9)
    send(run, "answered", 12)
    send(run, "refused", 19.5, 20, 21, 25)
    verdict = run.verdict()
    assert (verdict.measured_s, verdict.at_us) == ((0.5,), 19_500_000)
    assert verdict.measured.endswith("1 of 2 requests failed (1 refused)")


def test_window_without_requests_of_the_service_fails() -> None:
    run = Run(expectation())
    send(run, "answered", 1, service="other")
    assert run.verdict().measured == "no client sent a request to services/default/web"


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({"of": "services/", "atMost": "1s"}, "is no Service"),
        ({"of": "services/a/b/c", "atMost": "1s"}, "is no Service"),
        ({"of": "services/web", "atMost": "soon"}, "is no duration"),
        ({"of": "services/web", "atMost": "1s", "below": 2}, "leave 'below' and 'view' out"),
        ({"of": "services/web", "atMost": "1s", "view": "controlPlane"}, "leave 'below' and 'view' out"),
    ],
)
def test_wrong_unavailability_of_a_service_is_an_error(body: dict[str, Any], message: str) -> None:
    with pytest.raises(Mistakes, match=message):
        Run({"unavailability": body})


def test_service_of_a_namespace_is_no_other_one_of_its_name() -> None:
    run = Run({"unavailability": {"of": "services/shop/web", "atMost": "1s"}})
    send(run, "refused", 1, 2, 3)
    assert not run.verdict().measured_s
    assert run.verdict().measured == "no client sent a request to services/shop/web"


def test_spans_that_overlap_are_counted_once() -> None:
    assert covered_us([(0, 5), (10, 12), (3, 7), (4, 6)]) == 9


# --- conditions -----------------------------------------------------------------------------------

ANSWERED = "all requests to services named web are answered"


def test_condition_of_requests_is_about_the_last_request_of_each_client() -> None:
    run = Run(
        {"never": ANSWERED.replace("all", "any").replace("answered", "failing")},
        {"when": ANSWERED, "within": ["7s", "9s"]},
    )
    send(run, "refused", 1)
    send(run, "answered", 2, client="other")
    send(run, "refused", 3, service="else", client="third")
    send(run, "answered", 5)
    never, when = run.checker.verdicts(20_000_000)
    assert (never.ok, never.measured) == (False, "once, at 4.00s (services/default/web)")
    assert (when.ok, when.measured) == (True, "8.00s")


def test_condition_of_requests_selects_by_the_labels_of_the_service() -> None:
    run = Run({"eventually": "any requests to services labelled tier=front are failing", "by": "20s"})
    run.put(0, "//services/default/other", {"metadata": {"labels": {"tier": "back"}}})
    run.put(1, "//services/default/web", {"metadata": {"labels": {"tier": "front"}}})
    send(run, "refused", 1, service="other")
    assert not run.verdict(10).ok
    send(run, "refused", 7)
    assert run.verdict(11).measured == "10.00s"


@pytest.mark.parametrize(
    "text", ["all requests to services named web are ready", "any requests to services exist"]
)
def test_condition_of_requests_that_asks_something_else_is_an_error(text: str) -> None:
    with pytest.raises(Mistakes, match="requests to services are answered, or failing"):
        Run({"never": text})
