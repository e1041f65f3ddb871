"""Options that name a file: the one place where a scenario's options are connected to its folder.

The name of a file that a daemon reads becomes its path, from the scenario's folder.  Where an
option takes the content of its file too, the plan holds the content.

Mirrors  kubernetes v1.25 apiserver pkg/admission/config.go: the path of a plugin's configuration is
         relative to the file that names it.
Differs  A relative name is searched in the folder of the scenario, where upstream searches in the
         working directory of the daemon.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sim.ident import Names
from sim.options.apiserver.server import ApiServerFlags
from sim.options.base import BEGIN_PEM, certificates, file_name, file_names, options_of, strings
from sim.options.base import document as content_reader
from sim.options.controllers.manager import ControllerManagerOptions
from sim.options.scheduler import SchedulerOptions
from sim.scenario.read.samples import inside
from sim.scenario.read.source import Document, Path_, read_document

# The options of each daemon, by its key in a scenario.
DAEMONS: Mapping[str, type[Any]] = {
    "apiServer": ApiServerFlags,
    "controllerManager": ControllerManagerOptions,
    "scheduler": SchedulerOptions,
}


def with_files(
    document: Document, folder: Path, flags: Mapping[str, Any], path: Path_, names: Names
) -> Mapping[str, Any]:
    """The flags of a daemon with the paths or the content of their files.  Raises InputError.

    path: of the flags in the document, below the key of the daemon
    """
    readers = {option.spelled(names): option.read for option in options_of(DAEMONS[str(path[-2])]).values()}
    found = dict(flags)
    for name, value in flags.items():
        reader = readers.get(name.removeprefix("--"))
        if (reader is file_name and isinstance(value, str) and value) or (
            reader is certificates and isinstance(value, str) and value and BEGIN_PEM not in value
        ):
            found[name] = str(folder / value)
        elif reader is file_names and isinstance(value, str | list):
            found[name] = [str(folder / each) if isinstance(each, str) else each for each in _listed(value)]
        elif reader is content_reader and isinstance(value, str) and value:
            at = (*path, name)
            content = _content(document, folder, value, at)
            found[name] = _with_plugins(document, folder, Path(value).parent, content, at)
    return found


def _listed(value: str | list[Any]) -> list[Any]:
    return [*strings(value)] if isinstance(value, str) else value


def _content(document: Document, folder: Path, entry: str, path: Path_) -> Any:
    """The one document in a file of the scenario's folder."""
    file = inside(document, folder, entry, path)
    return read_document(file, str(folder / entry), document.place(path)).value


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
