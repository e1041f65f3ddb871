"""`--set key=value`: a path into the scenario, and the YAML value to put there.

A path names fields as the file does, list items by number or by `name`: `spec.seed=9`,
`cluster.nodes[0].count=6` (`spec.` may be left out), `timeline.outage.at=3m`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from sim.errors import InputError
from sim.patterns import pattern
from sim.scenario.read.source import Document, Path_, parse_documents

_PART = pattern(r"([^.\[\]]+)|\[(\d+)\]")
_PATH = pattern(r"^[^.\[\]]+(?:\.[^.\[\]]+|\[\d+\])*$")


def unwritten(name: str) -> Document:
    """The document of a scenario without a file, of which only settings are known."""
    head = {"apiVersion": "orrery.dev/v1", "kind": "Scenario", "metadata": {"name": name}}
    return Document("", {**head, "spec": {"duration": "1h", "cluster": {}}})


def unwritten_step(step: Mapping[str, Any]) -> Document:
    """The document of a step without a file.  The place of a value is its path in the step, as
    "fail.nodes"; the step itself has the place ":1:1".
    """
    document = unwritten("step")
    document.value["spec"]["timeline"] = [step]
    document.settings.update(_named_by_path(step, ("spec", "timeline", 0), ""))
    return document


def _named_by_path(value: Any, path: Path_, shown: str) -> Iterator[tuple[Path_, str]]:
    """The paths of the values in a value, with each path in words."""
    for key, each in value.items() if isinstance(value, dict) else enumerate(value):
        named = f"{shown}[{key}]" if isinstance(key, int) else f"{shown}.{key}".removeprefix(".")
        yield (*path, key), named
        if isinstance(each, dict | list):
            yield from _named_by_path(each, (*path, key), named)


def settled(document: Document, settings: Iterable[str]) -> Document:
    """The document with settings.  Raises InputError naming the first that is wrong."""
    for setting in settings:
        override(document, setting)
    return document


def override(document: Document, setting: str) -> None:
    """Put one setting into the document's value.  Raises InputError naming the setting."""
    path_text, equals, value_text = setting.partition("=")
    shown = f"--set {setting}"
    parts: list[str | int] = [int(m[2]) if m[2] else m[1] for m in _PART.finditer(path_text)]
    if not equals or not parts:
        raise InputError("wants key=value", shown)
    if not _PATH.match(path_text):
        remedy = "write it as cluster.nodes[0].count or timeline.outage.at"
        raise InputError(f"{path_text!r} is no path into a scenario", shown, remedy)
    try:
        documents = list(parse_documents(value_text, shown))
    except InputError as error:
        raise InputError(error.message, shown, error.remedy or 'quote a text: KEY="VALUE"') from None
    value = documents[0].value if documents else None
    if parts[0] not in ("apiVersion", "kind", "metadata", "spec"):
        parts.insert(0, "spec")
    at: Any = document.value
    path: Path_ = ()
    for index, part in enumerate(parts):
        step = _step(at, part, shown)
        path = (*path, step)
        if index == len(parts) - 1:
            at[step] = value
            _forget(document, path)
            document.settings[path] = shown
        else:
            if isinstance(at, dict) and step not in at:
                at[step] = {}
                document.settings[path] = shown
            at = at[step]
            if not isinstance(at, dict | list):
                of_file = isinstance(at, str) and path[-2:-1] == ("objects",)
                remedy = "write what is to be set in the scenario itself" if of_file else ""
                raise InputError(f"{at!r} has no parts to set", shown, remedy)


def _step(at: Any, part: str | int, shown: str) -> str | int:
    """The key or index that `part` means in a mapping or list."""
    if isinstance(at, dict):
        return str(part)
    if isinstance(part, str) and not part.isdigit():
        for index, item in enumerate(at):
            if isinstance(item, dict) and item.get("name") == part:
                return index
        named = [str(item["name"]) for item in at if isinstance(item, dict) and "name" in item]
        remedy = f"known are: {', '.join(named)}" if named else f"its {len(at)} items are numbered from 0"
        raise InputError(f"no item is named {part!r}", shown, remedy)
    if int(part) >= len(at):
        raise InputError(f"there is no item {part}: it has {len(at)}, numbered from 0", shown)
    return int(part)


def _forget(document: Document, path: Path_) -> None:
    """Remove the places of an overridden value and of all values below it."""
    document.places = {place: at for place, at in document.places.items() if place[: len(path)] != path}
    document.keys = {place: at for place, at in document.keys.items() if place[: len(path)] != path}
