"""A planted bug: its thread, how it is planted, where to hunt for it, and a story that shows it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from typing import Any

import yaml

from sim.dataclass import dataclass

FOLDER = Path(__file__).parent


@contextmanager
def replaced(owner: Any, name: str, value: object) -> Iterator[None]:
    """Replace an attribute of a class or a module while the context is open."""
    before = getattr(owner, name)
    setattr(owner, name, value)
    try:
        yield
    finally:
        setattr(owner, name, before)


@contextmanager
def together(*contexts: AbstractContextManager[None]) -> Iterator[None]:
    """Several contexts as one."""
    with ExitStack() as stack:
        for each in contexts:
            stack.enter_context(each)
        yield


@dataclass(frozen=True, slots=True)
class Planted:
    """A bug that upstream once had.

    name: of its module and of its scenario
    thread: where it was reported or mended
    mended: the release without it
    plant: the context in which it is there
    story: the steps that show it in the scenario, as YAML
    """

    name: str
    thread: str
    mended: str
    plant: Callable[[], AbstractContextManager[None]]
    story: str

    @property
    def path(self) -> Path:
        """The scenario in which to hunt."""
        return FOLDER / f"{self.name}.yaml"

    def document(self) -> dict[str, Any]:
        """The scenario, with its section `hunt` if it has one."""
        document: dict[str, Any] = yaml.safe_load(self.path.read_text())
        return document

    def candidate(self, steps: str) -> dict[str, Any]:
        """The scenario with these steps, as a hunt draws it."""
        document = self.document()
        spec = document["spec"]
        spec.pop("hunt", None)
        spec["timeline"] = [*spec.get("timeline", ()), *yaml.safe_load(steps)]
        return document
