"""Errors that reach a person: bad input with its place and remedy, and our own bugs."""

from __future__ import annotations

from dataclasses import dataclass


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


class Bug(AssertionError):
    """An invariant of ours does not hold."""
