"""Conditions in words and expectations over the commits of a run."""

from sim.check.condition import Condition, parse_condition
from sim.check.expect import Checker, Expectation, Verdict, build
from sim.check.over import Bounds, Judgement, judge
from sim.check.world import World, split_key

__all__ = [
    "Bounds",
    "Checker",
    "Condition",
    "Expectation",
    "Judgement",
    "Verdict",
    "World",
    "build",
    "judge",
    "parse_condition",
    "split_key",
]
