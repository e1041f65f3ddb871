"""Errors that reach a person: bad input with its place and remedy, and our own bugs."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from difflib import get_close_matches
from typing import Any, TypeVar, overload

from sim.dataclass import dataclass

E = TypeVar("E", bound=BaseException)


@dataclass(slots=True)
class InputError(Exception):
    """Something a user wrote is wrong.  Shown as one line; the command exits with 2.

    place: "file.yaml:12:7" where known; remedy: what to do instead (may be empty).
    """

    message: str
    place: str = ""
    remedy: str = ""

    def __reduce__(self) -> tuple[type[InputError], tuple[Any, ...]]:
        """How it is pickled: libraries that pickle tracebacks leave the state of errors out."""
        return type(self), (self.message, self.place, self.remedy)

    def __str__(self) -> str:
        text = f"{self.place}: {self.message}" if self.place else self.message
        return f"{text} ({self.remedy})" if self.remedy else text


class InputErrors(InputError):
    """Several errors of one input, in the order in which a reader meets them; one line each.

    Message, place and remedy are those of the first.
    """

    def __init__(self, errors: Sequence[InputError]) -> None:
        super().__init__(errors[0].message, errors[0].place, errors[0].remedy)
        self.errors = tuple(errors)

    def __reduce__(self) -> tuple[type[InputError], tuple[Any, ...]]:
        return type(self), (self.errors,)

    def __str__(self) -> str:
        return "\n".join(map(str, self.errors))


class ConflictError(InputError):
    """What is asked for cannot be done beside what is there."""


class FollowUp(InputError):
    """An error that another one may have caused: it is not shown beside others."""


class Problems:
    """Collects the errors of independent parts of an input.

        with problems.part():
            check(part)
        problems.report()

    Holds: each error is kept once; one that may follow from another is kept only while it is alone.
    """

    def __init__(self) -> None:
        self._found: dict[str, InputError] = {}
        self._follow: dict[str, InputError] = {}

    def add(self, error: InputError) -> None:
        """Keep an error, or each of several."""
        for one in each_error(error):
            kept = self._follow if isinstance(one, FollowUp) else self._found
            kept.setdefault(str(one), one)

    @contextmanager
    def part(self) -> Iterator[None]:
        """A part of the input; its error is kept."""
        try:
            yield
        except InputError as error:
            self.add(error)

    @property
    def errors(self) -> list[InputError]:
        """The errors so far."""
        return [*(self._found or self._follow).values()]

    @property
    def count(self) -> int:
        """Number of errors so far, with those that may follow from others."""
        return len(self._found) + len(self._follow)

    def report(self) -> None:
        """Raise the error, or all of several."""
        found = self.errors
        if found:
            raise found[0] if len(found) == 1 else InputErrors(found)


@overload
def first_of(error: BaseExceptionGroup[E]) -> E: ...
@overload
def first_of(error: BaseException) -> BaseException: ...
def first_of(error: BaseException) -> BaseException:
    """The exception itself; of a group, the first in it that is no group."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


def only_of(error: BaseException) -> BaseException:
    """The exception itself; of a group of one, the one in it, as its task raised it."""
    while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    return error


def each_error(error: InputError) -> Sequence[InputError]:
    """The errors of a group, or the error itself."""
    return error.errors if isinstance(error, InputErrors) else (error,)


def suggestion(word: str, known: Iterable[str], otherwise: str = "", similarity_min: float = 0.6) -> str:
    """The remedy for an unknown word: the most similar known one, if any.

    similarity_min: minimal similarity, from 0 to 1
    """
    near = get_close_matches(word, [*known], n=1, cutoff=similarity_min)
    return f"did you mean {near[0]!r}?" if near else otherwise


def suggestion_or_all(word: str, known: Collection[str]) -> str:
    """As `suggestion`; without a similar word, all known ones."""
    return suggestion(word, known, f"known are: {', '.join(known)}")
