"""The head of a scenario file: its name and description, read without the rest."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import takewhile
from pathlib import Path
from typing import Any

import yaml

from sim.files import read_text
from sim.scenario.read.source import LOADER

API_VERSION, KIND = "orrery.dev/v1", "Scenario"


def scenario_head(path: Path) -> dict[str, str] | None:
    """The scalar fields of `metadata` of a scenario; None if the file does not begin as one.

    That includes a file in which `spec` precedes `metadata`.  What follows is not read: a
    file with errors in it has a head too.  Raises InputError for a file that cannot be read.
    """
    try:
        events: Iterator[Any] = yaml.parse(read_text(path), Loader=LOADER)
        begins = [next(events) for _ in range(3)]  # of the stream, the document and its mapping
        if not isinstance(begins[2], yaml.MappingStartEvent):
            return None
        top: dict[str, str] = {}
        for key in takewhile(lambda event: isinstance(event, yaml.ScalarEvent), events):
            value = next(events)
            if key.value == "metadata" and isinstance(value, yaml.MappingStartEvent):
                named = {}
                for field in takewhile(lambda event: isinstance(event, yaml.ScalarEvent), events):
                    text = next(events)
                    if not isinstance(text, yaml.ScalarEvent):
                        return None
                    named[field.value] = text.value
                sound = top == {"apiVersion": API_VERSION, "kind": KIND} and "name" in named
                return named if sound else None
            if not isinstance(value, yaml.ScalarEvent):
                return None
            top[key.value] = value.value
    except (yaml.YAMLError, StopIteration):
        pass
    return None
