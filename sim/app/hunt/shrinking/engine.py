"""Goes through the passes of shrinking until none makes the document smaller.

Candidates are judged in batches, so that all cores are used; the first of them that fails, in the
order in which a pass offers them, is taken.

Holds: the result does not depend on the size of the batches: candidates after the one that is taken
       count as not judged, for the budget and for what is remembered of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import msgspec

from sim.app.hunt.shrinking.documents import Doc, Pass
from sim.app.hunt.shrinking.passes import PASSES
from sim.dataclass import dataclass

StillFails = Callable[[Sequence[Doc]], Sequence[bool]]
BUDGET = 400


@dataclass(frozen=True, slots=True)
class Shrunk:
    """The result.

    runs: number of candidates that were judged
    finished: False if the budget was at its end before the passes were
    """

    document: Doc
    runs: int
    finished: bool


def shrink(
    document: Doc,
    still_fails: StillFails,
    *,
    sound: Callable[[Doc], bool] = lambda _: True,
    budget: int = BUDGET,
    batch: int = 1,
    passes: Mapping[str, Callable[[Doc], Pass]] = PASSES,
) -> Shrunk:
    """The smallest document that the passes reach and that fails in the same way as the given one.

    still_fails: judges documents, each as if it were alone
    sound: False for a document that does not compile; it is not judged
    budget: at most so many documents are judged
    batch: so many are judged at once
    """
    trials = _Trials(still_fails, sound, budget, batch)
    before: Doc | None = None
    while document is not before and trials.left:
        before = document
        for begin in passes.values():
            document = trials.smallest(document, begin(document))
    return Shrunk(document, budget - trials.left, document is before)


class _Trials:
    """Judges candidates, each once.  left: number that may still be judged"""

    def __init__(
        self, still_fails: StillFails, sound: Callable[[Doc], bool], budget: int, batch: int
    ) -> None:
        self._still_fails, self._sound, self._batch = still_fails, sound, batch
        self._judged: set[bytes] = set()
        self.left = budget

    def smallest(self, document: Doc, offers: Pass) -> Doc:
        """The document that a pass arrives at from this one."""
        hit: int | None = None
        try:
            while True:
                candidates = offers.send(hit)
                hit = self._first(candidates)
                if hit is not None:
                    document = candidates[hit]
        except StopIteration:
            return document

    def _first(self, candidates: Sequence[Doc]) -> int | None:
        """The place of the first candidate that fails; None if there is none."""
        new: dict[bytes, int] = {}
        for index, each in enumerate(candidates):
            key = msgspec.json.encode(each, order="deterministic")
            if key in self._judged or key in new:
                continue
            if self._sound(each):
                new[key] = index
            else:
                self._judged.add(key)
        keys = [*new][: self.left]
        for start in range(0, len(keys), self._batch):
            part = keys[start : start + self._batch]
            fails = self._still_fails([candidates[new[key]] for key in part])
            for key, failed in zip(part, fails, strict=True):
                self._judged.add(key)
                self.left -= 1
                if failed:
                    return new[key]
        return None
