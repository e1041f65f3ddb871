"""Manifests written with either set of identifiers, in those of one set."""

from __future__ import annotations

from typing import Any

from sim.ident import NAMES


def translate(value: Any, naming: str) -> Any:
    """A manifest in the identifiers of `naming`; only whole keys and whole texts are replaced."""
    table = _TRANSLATIONS[naming]
    if isinstance(value, dict):
        return {table.get(key, key): translate(item, naming) for key, item in value.items()}
    if isinstance(value, list):
        return [translate(item, naming) for item in value]
    if isinstance(value, str):
        if value in table:
            return table[value]
        group, slash, version = value.rpartition("/")
        return f"{table[group]}/{version}" if slash and group in table else value
    return value


def _translations(naming: str) -> dict[str, str]:
    other = NAMES["kubernetes" if naming == "orch" else "orch"]
    here = NAMES[naming]
    table = {
        theirs: getattr(here, key)
        for key, theirs in vars(other).items()
        if isinstance(theirs, str) and "." in theirs and theirs != getattr(here, key)
    }
    for short in (
        "discovery",
        "events",
        "coordination",
        "policy",
        "scheduling",
        "storage",
        "networking",
        "rbac",
    ):
        table[other.group(short)] = here.group(short)
    return {theirs: ours for theirs, ours in table.items() if theirs != ours}


_TRANSLATIONS = {naming: _translations(naming) for naming in ("orch", "kubernetes")}
