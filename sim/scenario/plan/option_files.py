"""Options that name a file: the plan holds the content of the file in its place.

A plan holds all of its input, so it can be stored and repeated without the files.

Mirrors  kubernetes v1.25 apiserver pkg/admission/config.go: the path of a plugin's configuration is
         relative to the file that names it.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sim.scenario.read.samples import inside
from sim.scenario.read.source import Document, Path_, read_documents

ADMISSION = "admission-control-config-file"


def with_files(document: Document, folder: Path, flags: Mapping[str, Any], path: Path_) -> Mapping[str, Any]:
    """The flags of an API server with the content of files.  Raises InputError.

    path: of the flags in the document
    """
    found = dict(flags)
    for name, value in flags.items():
        if name.removeprefix("--") == ADMISSION and isinstance(value, str):
            at = (*path, name)
            content = _content(document, folder, value, at)
            found[name] = _with_plugins(document, folder, Path(value).parent, content, at)
    return found


def _content(document: Document, folder: Path, entry: str, path: Path_) -> Any:
    """The one document in a file of the scenario's folder."""
    file = inside(document, folder, entry, path)
    documents = read_documents(file, str(folder / entry))
    if len(documents) != 1:
        raise document.error(path, f"{entry} holds {len(documents)} documents, wanted one")
    return documents[0].value


def _with_plugins(document: Document, folder: Path, beside: Path, content: Any, path: Path_) -> Any:
    """An AdmissionConfiguration with the content of the files that its plugins name."""
    plugins = content.get("plugins") if isinstance(content, dict) else None
    if not isinstance(plugins, list):
        return content

    def whole(plugin: Any) -> Any:
        named = isinstance(plugin, dict) and plugin.get("configuration") is None and plugin.get("path")
        if not named or not isinstance(named, str):
            return plugin
        return {**plugin, "configuration": _content(document, folder, str(beside / named), path)}

    return {**content, "plugins": [whole(plugin) for plugin in plugins]}
