"""Batches, sizes and lines of audit events."""

from typing import Any

from sim.api.audit.delivery import Batcher, Batching, cut_to, interval_us, json_line, legacy_text, line
from sim.ident import NAMES

N = NAMES["kubernetes"]


def events(count: int, first: int = 0) -> list[dict[str, Any]]:
    return [{"n": first + index} for index in range(count)]


def filled(batching: Batching, count: int, at_us: int = 0) -> Batcher:
    batcher = Batcher(batching)
    for event in events(count):
        batcher.add(event, at_us)
    return batcher


def test_full_batch_leaves_at_once_and_the_rest_after_the_wait() -> None:
    batcher = filled(Batching("batch", batch_max=3, wait_us=100), 4)
    assert batcher.take(0) == events(3)
    assert batcher.take(99) == []
    assert batcher.due_us(50) == 100
    assert batcher.take(100) == events(1, 3)
    assert batcher.due_us(100) is None


def test_event_without_room_is_dropped() -> None:
    batcher = Batcher(Batching("batch", buffer_max=2, batch_max=5, wait_us=9))
    assert [batcher.add(event, 0) for event in events(3)] == [True, True, False]
    assert batcher.take(9) == events(2)


def test_rate_lets_a_burst_pass_and_spaces_the_rest() -> None:
    batching = Batching("batch", batch_max=1, interval_us=interval_us(10), burst=2)
    batcher = filled(batching, 4)
    assert [len(batcher.take(at_us)) for at_us in (0, 0, 0)] == [1, 1, 0]
    assert batcher.due_us(0) == 100_000
    assert [len(batcher.take(at_us)) for at_us in (99_999, 100_000, 199_999, 200_000)] == [0, 1, 0, 1]


def test_rest_leaves_in_batches_at_the_end() -> None:
    batcher = filled(Batching("batch", batch_max=2, wait_us=10**9), 3)
    batcher.take(0)
    batcher.add({"n": 9}, 0)
    assert batcher.take_rest() == [[{"n": 2}, {"n": 9}]]
    assert batcher.take_rest() == []


EVENT: dict[str, Any] = {
    "kind": "Event",
    "level": "Request",
    "auditID": "i",
    "stage": "ResponseComplete",
    "requestURI": "/api",
    "verb": "get",
    "user": {"username": "ann", "groups": ["a", "b"]},
    "requestObject": {"x": "y" * 200},
    "requestReceivedTimestamp": "2022-01-01T00:00:00.120000Z",
}


def test_large_event_loses_its_objects_and_says_so() -> None:
    size = len(json_line(EVENT))
    assert cut_to(EVENT, size, N) == EVENT
    assert cut_to(EVENT, 0, N) == EVENT
    cut = cut_to(EVENT, size - 1, N)
    assert cut is not None
    assert "requestObject" not in cut
    assert cut["annotations"] == {"audit.k8s.io/truncated": "true"}
    assert cut_to(EVENT, 50, N) is None
    assert cut_to({**EVENT, "level": "Metadata"}, size - 1, N) is None


def test_legacy_line_has_upstreams_fields() -> None:
    assert legacy_text(EVENT) == (
        '2022-01-01T00:00:00.12Z AUDIT: id="i" stage="ResponseComplete" ip="<unknown>" method="get" user="ann" '
        'groups="\\"a\\",\\"b\\"" as="<self>" asgroups="<lookup>" user-agent="" namespace="<none>" uri="/api" '
        'response="<deferred>"'
    )
    whole = {
        **EVENT,
        "sourceIPs": ["10.0.0.1"],
        "impersonatedUser": {"username": "bob", "groups": ["c"]},
        "objectRef": {"namespace": "n"},
        "responseStatus": {"code": 200},
        "userAgent": "agent",
    }
    text = legacy_text(whole)
    for part in ('ip="10.0.0.1"', 'as="bob"', 'namespace="n"', 'response="200"', 'user-agent="agent"'):
        assert part in text
    assert line(EVENT, "legacy").endswith(b'response="<deferred>"\n')
    assert line({"a": 1}, "json") == b'{"a":1}\n'
