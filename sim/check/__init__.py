"""Conditions in words and expectations over the commits of a run.

An expectation sees each commit once and keeps what it needs for its verdict; a verdict has what was
measured, what was wanted, and the record that decided it.
"""

from sim.check.build import Mistakes, build, matter_mistakes
from sim.check.condition import Condition, misplaced, parse_condition, texts_of
from sim.check.expect import Expectation
from sim.check.observer import Checker, Observer
from sim.check.over import Bounds, Judgement, judge
from sim.check.tally import Matter, parse_matter
from sim.check.trigger import Trigger
from sim.check.world import World, split_key
from sim.verdict import Verdict

__all__ = [
    "Bounds",
    "Checker",
    "Condition",
    "Expectation",
    "Judgement",
    "Matter",
    "Mistakes",
    "Observer",
    "Trigger",
    "Verdict",
    "World",
    "build",
    "judge",
    "matter_mistakes",
    "misplaced",
    "parse_condition",
    "parse_matter",
    "split_key",
    "texts_of",
]
