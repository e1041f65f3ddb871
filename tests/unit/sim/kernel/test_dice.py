"""Small random streams."""

from sim.kernel.draws.dice import Dice


def test_dice_spread_evenly_and_jitter_is_one_draw() -> None:
    dice, other = Dice(7), Dice(7)
    draws = [dice.below(1000) for _ in range(2000)]
    assert draws == [other.jitter_us(19_980, 5) - 19_980 for _ in range(2000)]
    assert 480 < sum(draws) / len(draws) < 520 and min(draws) < 10 and max(draws) > 990
