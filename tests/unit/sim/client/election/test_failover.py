"""Case 40: how long a crashed leader's lease lasts, over 1000 seeds of the election's arithmetic."""

from random import Random

from sim.client.election.elector import JITTER, ElectionOptions
from sim.client.election.record import Observed, decide

OPTIONS = ElectionOptions()


def takeover_s(seed: int) -> float:
    """A leader renews every 2 s from 0 and crashes at a random phase; one standby polls with
    jitter.
    """
    draw = Random(seed).random
    crash_us = int(30_000_000 + draw() * 10_000_000)
    renewed_us = crash_us - crash_us % OPTIONS.retry_period_us
    poll_us = int(draw() * 4_400_000)
    seen = Observed({}, 0)
    while True:
        record = {
            "holderIdentity": "a",
            "renewTime": min(poll_us - poll_us % OPTIONS.retry_period_us, renewed_us),
        }
        if record != seen.spec:
            seen = Observed(record, poll_us)
        if decide(seen, "b", OPTIONS.lease_duration_us, poll_us):
            return (poll_us - crash_us) / 1e6
        poll_us += int(OPTIONS.retry_period_us * (1 + JITTER * draw()))


def test_takeover_after_a_crash_is_distributed_as_upstreams():
    samples = sorted(takeover_s(seed) for seed in range(1000))
    assert samples[0] >= 13.0 and samples[-1] <= 23.8
    assert abs(sum(samples) / 1000 - 17.4) <= 0.2
    assert abs(samples[990] - 21.2) <= 0.5
