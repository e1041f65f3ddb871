"""Options that name a file: the one place where a scenario's options are connected to its folder.

The name of a file that a daemon reads becomes its path, from the scenario's folder.  Where an
option takes the content of its file too, the plan holds the content.

Mirrors  kubernetes v1.25 apiserver pkg/admission/config.go: the path of a plugin's configuration is
         relative to the file that names it.
Differs  A relative name is searched in the folder of the scenario, where upstream searches in the
         working directory of the daemon.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from sim.ident import Names
from sim.options.apiserver.server import ApiServerFlags
from sim.options.base import (
    BEGIN_PEM,
    Reader,
    certificates,
    file_name,
    file_names,
    options_of,
    raw_option,
    strings,
)
from sim.options.base import document as content_reader
from sim.options.controllers.manager import ControllerManagerOptions
from sim.options.node.agent import NodeAgentOptions
from sim.options.node.configuration import CONFIG, fields_of
from sim.options.scheduler import SchedulerOptions
from sim.scenario.read.option_file import OptionFile
from sim.scenario.read.samples import inside
from sim.scenario.read.source import Document, Path_

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

    path: of the flags in the document, below the key of the daemon, or of a group of nodes
    """
    daemon = SchedulerOptions if "schedulers" in path else DAEMONS.get(str(path[-2]), NodeAgentOptions)
    readers = _readers(daemon, names)
    result = dict(flags)
    for name, value in flags.items():
        reader = readers.get(name.removeprefix("--"))
        if (reader is file_name and isinstance(value, str) and value) or (
            reader is certificates and isinstance(value, str) and value and BEGIN_PEM not in value
        ):
            result[name] = str(folder / value)
        elif reader is file_names and isinstance(value, str | list):
            result[name] = [str(folder / each) if isinstance(each, str) else each for each in _listed(value)]
        elif reader is content_reader and isinstance(value, str) and value:
            at = (*path, name)
            content = _content(document, folder, value, at)
            result[name] = _with_plugins(document, folder, Path(value).parent, content, at)
    return result


def _readers(daemon: type[Any], names: Names) -> dict[str, Reader]:
    return {option.spelled(names): option.read for option in options_of(daemon).values()}


def agent_flags(
    document: Document, folder: Path, flags: Mapping[str, Any], path: Path_, names: Names
) -> tuple[Mapping[str, Any], str, Mapping[str, str]]:
    """The flags of node agents as `with_files`, their place, and that of each and of each field of
    a configuration file.  Raises InputError.
    """
    places = {name: document.place((*path, name)) for name in flags}
    entry = raw_option(flags, CONFIG)
    if not flags or not entry:
        return with_files(document, folder, flags, path, names), document.place(path), places
    name = CONFIG if CONFIG in flags else f"--{CONFIG}"
    source, above, beside = document, (*path, name), folder
    if isinstance(entry, str):
        source, above = _read(document, folder, entry, above), ()
        beside = (folder / entry).parent
        entry = source.value
    below = (each for each in source.places if each[: len(above)] == above and len(each) > len(above))
    for each in below:
        places[".".join((CONFIG, *map(str, each[len(above) :])))] = source.key_place(each)
    if isinstance(entry, Mapping):
        entry = _with_paths(entry, beside, names, places.get(f"{CONFIG}.apiVersion", source.place(above)))
    others = {option: value for option, value in flags.items() if option != name}
    return (
        {**with_files(document, folder, others, path, names), name: entry},
        document.place(path),
        places,
    )


def complete_cluster(document: Document, folder: Path, names: Names) -> dict[str, Any]:
    """The section `cluster` with the content or the whole path of each file that an option names,
    so that it needs no folder.  Raises InputError.
    """
    folder = folder.resolve()

    def whole(part: Mapping[str, Any], *keys: str | int) -> Mapping[str, Any]:
        flags, path = part.get("flags"), ("spec", "cluster", *keys, "flags")
        if not flags:
            return part
        if keys[0] == "nodes":
            return {**part, "flags": agent_flags(document, folder, flags, path, names)[0]}
        return {**part, "flags": with_files(document, folder, flags, path, names)}

    cluster = dict(document.value["spec"].get("cluster", {}))
    cluster |= {key: whole(cluster[key], key) for key in DAEMONS if key in cluster}
    cluster |= {
        key: [whole(part, key, index) for index, part in enumerate(cluster[key])]
        for key in ("nodes", "schedulers")
        if key in cluster
    }
    return cluster


def _with_paths(content: Mapping[str, Any], folder: Path, names: Names, place: str) -> Mapping[str, Any]:
    """A configuration file with the paths of the files that it names, from its own folder."""
    readers = _readers(NodeAgentOptions, names)
    for path, field in fields_of(content, names, place).items():
        if readers.get(field.option) in (file_name, certificates):
            content = _changed(content, path.split("."), folder)
    return content


def _changed(content: Mapping[str, Any], path: Sequence[str], folder: Path) -> Mapping[str, Any]:
    value = content.get(path[0])
    if len(path) > 1 and isinstance(value, Mapping):
        return {**content, path[0]: _changed(value, path[1:], folder)}
    is_name = len(path) == 1 and isinstance(value, str) and value and BEGIN_PEM not in value
    return {**content, path[0]: str(folder / str(value))} if is_name else content


def _listed(value: str | list[Any]) -> list[Any]:
    return [*strings(value)] if isinstance(value, str) else value


def _content(document: Document, folder: Path, entry: str, path: Path_) -> Any:
    """The content of the one document in a file of the scenario's folder."""
    return _read(document, folder, entry, path).value


def _read(document: Document, folder: Path, entry: str, path: Path_) -> Document:
    inside(document, folder, entry, path)
    option = str(path[-1]).removeprefix("--")
    return OptionFile(option, str(folder / entry), document.place(path)).document()


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
