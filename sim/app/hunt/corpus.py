"""The candidates that showed something new, from which later ones are made.

Holds: a candidate is kept if one of its features was not shown before, or if it measured the most
of a target so far; those with features that few runs show are chosen more often.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from random import Random
from typing import Any

import msgspec

BEST_SHARE = 0.3  # of the parents that are the best of a target
FAILED_WEIGHT = 0.25  # of a candidate that failed already: what it leads to mostly fails likewise


class Entry(msgspec.Struct, frozen=True):
    """A candidate.

    novel: the features that no earlier run showed
    targets: what each target measured
    """

    document: Mapping[str, Any]
    novel: tuple[str, ...]
    targets: tuple[float, ...]
    failed: bool = False


class Corpus:
    """The candidates that are worth a change."""

    def __init__(self) -> None:
        self.entries: list[Entry] = []
        self.shown: Counter[str] = Counter()  # the number of runs that show each feature
        self.best: dict[int, Entry] = {}  # by the number of the target

    def add(
        self,
        document: Mapping[str, Any],
        features: Sequence[str],
        targets: Sequence[float],
        *,
        failed: bool,
    ) -> Entry | None:
        """Take the run of a candidate; returns its entry if it is kept."""
        novel = tuple(feature for feature in features if feature not in self.shown)
        self.shown.update(features)
        entry = Entry(document, novel, tuple(targets), failed)
        better = [
            number
            for number, value in enumerate(targets)
            if number not in self.best or value > self.best[number].targets[number]
        ]
        self.best.update(dict.fromkeys(better, entry))
        if not novel and not better:
            return None
        self.entries.append(entry)
        return entry

    def choose(self, random: Random) -> Mapping[str, Any]:
        """A candidate to change.  There must be one."""
        if self.best and random.random() < BEST_SHARE:
            return random.choice([*self.best.values()]).document
        weights = [
            (FAILED_WEIGHT if entry.failed else 1.0)
            * (0.01 + sum(1 / self.shown[feature] for feature in entry.novel))
            for entry in self.entries
        ]
        return random.choices(self.entries, weights)[0].document
