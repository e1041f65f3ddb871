from sim.client.election.record import Observed, claimed, decide
from sim.client.events.correlator import Correlator
from sim.client.rest.limiter import ItemExponential, MaxOf, SharedBucket, TokenBucket, default_limiter


def test_a_bucket_serves_its_burst_at_once_and_then_one_token_after_another():
    bucket = TokenBucket(qps=20, burst=3)
    assert [bucket.reserve(0) for _ in range(5)] == [0, 0, 0, 50_000, 100_000]
    assert bucket.reserve(10_000_000) == 0


def test_a_token_that_would_have_to_be_waited_for_is_not_taken():
    bucket, other = TokenBucket(qps=20, burst=3), TokenBucket(qps=20, burst=3)
    assert [bucket.take(0) for _ in range(4)] == [True, True, True, False]
    assert [other.reserve(0) for _ in range(3)] == [0, 0, 0]
    assert bucket.reserve(0) == other.reserve(0) == 50_000
    assert bucket.limits and not TokenBucket(qps=0, burst=0).limits


class Planned:
    """Counts how often it has to continue step by step."""

    def __init__(self) -> None:
        self.told = 0

    def __call__(self) -> None:
        self.told += 1


def test_both_tokens_of_a_pair_are_taken_or_none():
    bucket = TokenBucket(qps=20, burst=1)
    assert not bucket.take_both(0, 10_000, Planned())
    assert bucket.take(0)


def test_a_pair_of_tokens_counts_as_two_calls_at_their_instants():
    pair, single = TokenBucket(qps=20, burst=3), TokenBucket(qps=20, burst=3)
    planned = Planned()
    assert pair.take_both(0, 10_000, planned)
    assert single.take(0)
    assert single.take(10_000)
    assert [pair.reserve(20_000) for _ in range(4)] == [single.reserve(20_000) for _ in range(4)]
    assert not planned.told


def test_a_call_between_a_pair_of_tokens_gets_the_second_one():
    bucket, planned = TokenBucket(qps=20, burst=2), Planned()
    assert bucket.take_both(0, 10_000, planned)
    assert bucket.reserve(5_000) == 0
    assert planned.told == 1


def test_a_failing_key_waits_twice_as_long_each_time_up_to_the_limit():
    limiter = ItemExponential()
    waits = [limiter.when_us("a", 0) for _ in range(30)]
    assert waits[:4] == [5_000, 10_000, 20_000, 40_000]
    assert waits[-1] == 1_000_000_000
    limiter.forget("a")
    assert limiter.when_us("a", 0) == 5_000


def test_a_hundred_keys_retry_at_once_and_then_ten_a_second():
    limiter = default_limiter()
    waits = [limiter.when_us(index, 0) for index in range(102)]
    assert waits[99:] == [5_000, 100_000, 200_000]


def test_a_candidate_counts_from_when_it_saw_the_record_by_its_own_clock():
    seen = Observed({"holderIdentity": "a"}, at_us=7)
    assert not decide(seen, "b", 15, now_us=21)
    assert decide(seen, "b", 15, now_us=22)
    assert decide(seen, "a", 15, now_us=8)
    taken = claimed({"holderIdentity": "a", "leaseTransitions": 4}, "b", 15_000_000, 0)
    assert (taken["leaseTransitions"], taken["leaseDurationSeconds"]) == (5, 15)


def _event(message: str) -> dict:
    return {
        "metadata": {"name": "p.1", "namespace": "n"},
        "source": {"component": "c"},
        "involvedObject": {"kind": "Pod", "name": "p"},
        "type": "Normal",
        "reason": "R",
        "message": message,
        "firstTimestamp": "t",
        "lastTimestamp": "t",
        "count": 1,
    }


def test_the_same_event_again_is_counted_by_a_patch_and_a_flood_is_cut_off_after_25():
    correlator = Correlator()
    results = [correlator.correlate(_event("same"), at, at) for at in range(30)]
    assert results[0] is not None and results[0][1] is None
    assert results[1] is not None and results[1][1] is not None and results[1][1]["count"] == 2
    assert [index for index, result in enumerate(results) if result is None] == [25, 26, 27, 28, 29]


def test_the_tenth_similar_message_is_combined():
    correlator = Correlator()
    texts = [correlator.correlate(_event(f"m{index}"), index, index)[0]["message"] for index in range(11)]  # type: ignore[index]
    assert texts[8] == "m8"
    assert texts[9] == "(combined from similar events): m9"


def test_a_bucket_is_full_again_after_its_burst_and_never_fuller():
    bucket = TokenBucket(qps=10, burst=2)
    assert [bucket.reserve(0) for _ in range(3)] == [0, 0, 100_000]
    assert [bucket.reserve(300_000) for _ in range(3)] == [0, 0, 100_000]
    assert [bucket.take(9_000_000) for _ in range(3)] == [True, True, False]
    assert [bucket.take(now_us) for now_us in (9_099_999, 9_100_000, 9_100_000)] == [False, True, False]


def test_a_token_is_not_taken_if_its_wait_is_too_long():
    bucket = TokenBucket(qps=10, burst=1)
    assert bucket.reserve(0) == 0
    assert [bucket.reserve(0, most_us) for most_us in (0, 99_999, 100_000)] == [-1, -1, 100_000]
    assert bucket.reserve(0) == 200_000


def test_a_rate_of_zero_or_less_has_no_limit():
    for qps in (0, -1):
        bucket = TokenBucket(qps, burst=0)
        assert not bucket.limits
        assert [bucket.reserve(0) for _ in range(3)] == [0, 0, 0]
        assert bucket.take(0)
    assert TokenBucket(0.5, burst=1).limits


def test_the_second_of_a_pair_is_taken_at_its_time_and_freed_before():
    early, late = Planned(), Planned()
    bucket = TokenBucket(qps=10, burst=2)
    bucket.settle(0)
    assert bucket.take_both(0, 50_000, late)
    bucket.settle(50_000)
    assert (bucket.pending, late.told) == (None, 0)
    assert bucket.reserve(50_000) == 50_000
    bucket = TokenBucket(qps=10, burst=2)
    assert bucket.take_both(0, 50_000, early)
    bucket.settle(49_999)
    assert (bucket.pending, early.told) == (None, 1)
    assert bucket.reserve(50_000) == 0


def test_a_pair_that_would_have_to_wait_takes_nothing():
    bucket = TokenBucket(qps=10, burst=1)
    assert not bucket.take_both(0, 99_999, Planned())
    assert bucket.take_both(0, 100_000, Planned())
    assert not TokenBucket(qps=10, burst=0).take_both(0, 100_000, Planned())


def test_failures_are_counted_by_key_in_all_limiters():
    limiter = MaxOf(ItemExponential(5, 15), ItemExponential(7, 9))
    assert [limiter.when_us("a", 0) for _ in range(3)] == [7, 10, 15]
    assert (limiter.retries("a"), limiter.retries("b")) == (3, 0)
    limiter.forget("a")
    assert (limiter.retries("a"), limiter.when_us("a", 0)) == (0, 7)
    shared = SharedBucket(10, 1)
    shared.forget("a")
    assert [shared.when_us(key, 0) for key in "aab"] == [0, 100_000, 200_000]
    assert shared.retries("a") == 0
    assert ItemExponential(1, 1 << 90).when_us("a", 0) == 1


def test_a_wait_doubles_no_more_than_sixty_times():
    limiter = ItemExponential(1, 1 << 90)
    waits = [limiter.when_us("a", 0) for _ in range(63)]
    assert waits[58:] == [1 << 58, 1 << 59, 1 << 60, 1 << 60, 1 << 60]
