"""Errors that reach a person: bad input with its place and remedy, and our own bugs."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from difflib import get_close_matches


@dataclass(slots=True)
class InputError(Exception):
    """Something a user wrote is wrong.  Shown as one line; the command exits with 2.

    place: "file.yaml:12:7" where known; remedy: what to do instead (may be empty).
    """

    message: str
    place: str = ""
    remedy: str = ""

    def __str__(self) -> str:
        text = f"{self.place}: {self.message}" if self.place else self.message
        return f"{text} ({self.remedy})" if self.remedy else text


def suggestion(word: str, known: Iterable[str], otherwise: str = "", similarity_min: float = 0.6) -> str:
    """The remedy for an unknown word: the most similar known one, if any.

    similarity_min: minimal similarity, from 0 to 1
    """
    near = get_close_matches(word, [*known], n=1, cutoff=similarity_min)
    return f"did you mean {near[0]!r}?" if near else otherwise


def suggestion_or_all(word: str, known: Collection[str]) -> str:
    """As `suggestion`; without a similar word, all known ones."""
    return suggestion(word, known, f"known are: {', '.join(known)}")
