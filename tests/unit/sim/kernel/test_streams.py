"""Streams of random draws."""

from __future__ import annotations

from sim.kernel.draws.streams import Sparing, stream


def test_a_sparing_stream_draws_the_same_and_holds_few_draws() -> None:
    whole, sparing = stream(7, "n#1/x"), Sparing(7, "n#1/x")
    for _ in range(3000):  # and longer than it does without a generator of its own
        assert sparing.random() == whole.random()
        assert len(sparing.ahead) < 300
