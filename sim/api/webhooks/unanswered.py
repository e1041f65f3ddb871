"""Decisions that need the answer of a program outside: the request waits, and starts again with it.

An authorizer or an admission plugin decides at once.  If it needs an answer that it does not have,
it raises `Unanswered`; the server asks the question, gives the answer to `take`, and runs the
request again from its start.  Answers are remembered for their time.

Holds: a failure, and an answer that may not be remembered, is known at the instant of its arrival
only, in which the request runs again.  Nothing was written before the question.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import NamedTuple

from sim.api.store import Question
from sim.api.types import Json

Take = Callable[[Json, str, int], None]


class Unanswered(Exception):
    """A decision needs an answer.

    take: gets the answer, or the text of the failure, and the present time, in microseconds
    """

    def __init__(self, question: Question, take: Take) -> None:
        super().__init__(question.name)
        self.question = question
        self.take = take


class Known(NamedTuple):
    """An answer.  failure: the text of the failure, "" for an answer"""

    status: Json
    failure: str
    until_us: int


class Answers:
    """Answers by question; the least recently used ones make room for new ones."""

    def __init__(self, size_max: int) -> None:
        self._size_max = size_max
        self._known: OrderedDict[str, Known] = OrderedDict()

    def get(self, key: str, now_us: int) -> Known | None:
        """The answer, if it is remembered still."""
        found = self._known.get(key)
        if found is None or found.until_us < now_us:
            return None
        self._known.move_to_end(key)
        return found

    def keep(self, key: str, known: Known) -> None:
        """Remember an answer."""
        self._known[key] = known
        self._known.move_to_end(key)
        if len(self._known) > self._size_max:
            self._known.popitem(last=False)
