"""The variants of a scenario: the same file with other settings, and expectations that fail then.

    variants:
      forbidden:
        set: {"objects[0].spec.concurrencyPolicy": Forbid}
        fails: [thousands of pods]

Turns a variant into settings, as those of `--set`, so that everything that knows settings knows
variants too: the header of a trace, studies, and `orrery why`.

Holds: a variant is exactly the run with its settings, in which the named expectations have to fail.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from sim.errors import InputError, suggestion_or_all
from sim.scenario.read.source import Document, Path_


def variant_settings(document: Document, name: str) -> tuple[str, ...]:
    """The settings of a variant; none for "".  Raises InputError if it is not there or is broken."""
    if not name:
        return ()
    spec = _mapping(document.value, "spec")
    variants = _mapping(spec, "variants")
    if name not in variants:
        remedy = suggestion_or_all(name, list(variants)) if variants else "the scenario has none"
        raise InputError(f"there is no variant {name!r}", f"{document.file}", remedy)
    path: Path_ = ("spec", "variants", name)
    variant = variants[name] if isinstance(variants[name], Mapping) else {}
    settings = _mapping(variant, "set")
    expectations = spec.get("expect")
    names = [one.get("name") for one in expectations or () if isinstance(one, Mapping)]
    return (
        *(f"{key}={json.dumps(value)}" for key, value in settings.items()),
        *_failing(document, (*path, "fails"), variant.get("fails") or (), names),
    )


def _failing(document: Document, path: Path_, fails: Sequence[object], names: Sequence[object]) -> list[str]:
    """The settings by which expectations have to fail."""
    settings = []
    for index, name in enumerate(fails):
        if name not in names:
            remedy = suggestion_or_all(str(name), [str(one) for one in names])
            raise document.error((*path, index), f"no expectation is named {name!r}", remedy)
        settings.append(f"expect[{names.index(name)}].fails=true")
    return settings


def _mapping(value: Any, key: str) -> Mapping[str, Any]:
    """A part of a document that is a mapping; an empty one if it is missing or something else."""
    part = value.get(key) if isinstance(value, Mapping) else None
    return part if isinstance(part, Mapping) else {}
