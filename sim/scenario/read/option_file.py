"""A file that an option names: one reader, one limit and one form of error for all of them.

Turns the name of an option and a path into the content of the file, or into an error that says the
option, the file and the reason:

    s.yaml:3:4: option client-ca-file: ca.pem: no such file (did you mean 'ca.crt'?)
    users.csv:7: option token-auth-file: a line needs token, user and uid

Holds: a file has at most FILE_MAX bytes (`sim.files`).  The place of the first form is that of the
option, since its name is to be changed; the place of the second is in the file.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field
from pathlib import Path
from typing import TypeVar

from sim.dataclass import dataclass
from sim.errors import InputError, InputErrors, each_error
from sim.files import read_bounded, utf8
from sim.scenario.read.source import Document, only_document

_Value = TypeVar("_Value")


@dataclass(frozen=True, slots=True)
class OptionFile:
    """One file.

    option: the name of the option, "" for a file that a field names
    place: of the option, "" if that is not known
    """

    option: str
    path: str
    place: str = ""

    def read(self, convert: Callable[[bytes], _Value]) -> _Value:
        """What `convert` makes of the content; its ValueError or InputError is one of the content.
        Raises InputError.
        """
        data = self.data()
        try:
            return convert(data)
        except InputError as error:
            raise InputErrors([self._named(each) for each in each_error(error)]) from None
        except ValueError as error:
            raise self.error(str(error)) from None

    def data(self) -> bytes:
        """The content.  Raises InputError."""
        try:
            return read_bounded(Path(self.path))
        except InputError as error:
            raise self._named(
                InputError(f"{error.place}: {error.message}", self.place, error.remedy)
            ) from None

    def text(self, convert: Callable[[str], _Value]) -> _Value:
        """What `convert` makes of the content as text, as `read` does."""
        return self.read(lambda data: convert(utf8(data, self.path)))

    def document(self) -> Document:
        """The only document of a file in YAML.  Raises InputError."""
        return self.text(lambda text: only_document(text, self.path))

    def beside(self, path: str) -> OptionFile:
        """A file that this one names, by a path relative to its folder."""
        return OptionFile(self.option, str(Path(self.path).parent / path), self.place)

    def error(self, problem: str) -> InputError:
        """The error that the content is wrong."""
        return self._named(InputError(problem, self.path))

    def _named(self, error: InputError) -> InputError:
        message = f"option {self.option}: {error.message}" if self.option else error.message
        return InputError(message, error.place, error.remedy)


@dataclass(frozen=True, slots=True)
class OptionFiles:
    """The files that the options of one daemon name.  place, places: of all options, and of each"""

    place: str = ""
    places: Mapping[str, str] = field(default_factory=dict)

    def of(self, option: str, path: str) -> OptionFile:
        """The file that an option names."""
        return OptionFile(option, path, self.place_of(option))

    def place_of(self, option: str) -> str:
        """The place of an option."""
        return self.places.get(option) or self.places.get(f"--{option}") or self.place
