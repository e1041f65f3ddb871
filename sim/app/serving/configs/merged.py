"""The client configuration of `orrery up` within that of kubectl, only if it is asked for.

Turns the configuration of a cluster into entries of another file: the cluster, its user and a
context, which becomes the current one. The entries have a mark with the folder of the cluster.

Holds: entries without that mark are never changed; the file as it was is beside it in a backup; a
file that is no client configuration is refused.

Mirrors  kind and minikube, which merge into the file that KUBECONFIG names first, and mark what is
theirs by an extension.
"""

from __future__ import annotations

import os
from base64 import b64decode
from pathlib import Path
from typing import Any

import yaml

from sim.app.serving.configs.clients import CLUSTER
from sim.errors import InputError
from sim.files import read_text, write_text

Obj = dict[str, Any]
KINDS = ("clusters", "users", "contexts")
MARK = "orrery.dev"


def kubectl_config() -> Path:
    """The file that kubectl writes."""
    named = [name for name in os.environ.get("KUBECONFIG", "").split(os.pathsep) if name]
    return Path(named[0]) if named else Path.home() / ".kube" / "config"


def authorities_of(config: Path) -> list[bytes]:
    """The certificates of the authorities of a configuration, PEM.  Raises InputError."""
    clusters = _read(config)["clusters"]
    return [b64decode(one["cluster"].get("certificate-authority-data", "")) for one in clusters]


def check_mergeable(into: Path, folder: Path) -> None:
    """Raise InputError if a file is none to merge into, or has other entries of the names."""
    for kind, entries in _read(into).items():
        if kind in KINDS:
            _others(entries, folder, into)


def merge_client_config(config: Path, into: Path, folder: Path) -> str:
    """Merge the configuration of the cluster of a folder into a file; what was done, in words.

    Raises InputError.
    """
    own, found = _read(config), _read(into)
    backup = into.with_name(f"{into.name}.before-orrery")
    if into.exists() and not _has_mark(found):
        write_text(backup, read_text(into), private=True)
    mark = [{"name": MARK, "extension": {"folder": str(folder.absolute())}}]
    names = {"clusters": CLUSTER, "users": f"{CLUSTER}-admin", "contexts": CLUSTER}
    for kind in KINDS:
        entry: Obj = {**own[kind][0], "name": names[kind]}
        content = kind.removesuffix("s")
        entry[content] = {**entry[content], "extensions": mark}
        found[kind] = [*_others(found[kind], folder, into), entry]
    found["contexts"][-1]["context"] |= {"user": names["users"]}
    found["current-context"] = CLUSTER
    into.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    write_text(into, yaml.safe_dump(found, sort_keys=False), private=True)
    kept = f" (as it was: {backup})" if backup.exists() else ""
    return f"merged as context {CLUSTER!r} into {into}{kept}"


def _others(entries: list[Obj], folder: Path, into: Path) -> list[Obj]:
    """The entries that are not of the cluster of a folder.  Raises InputError if one has its name."""
    others = [one for one in entries if _mark(one) != str(folder.absolute())]
    taken = [one for one in others if one["name"] in (CLUSTER, f"{CLUSTER}-admin")]
    if taken:
        problem = f"has an entry {taken[0]['name']!r} of another cluster"
        raise InputError(problem, str(into), "rename or delete it, or leave out --merge-config")
    return others


def _mark(entry: Obj) -> str:
    """The folder in the mark of an entry; "" without one."""
    content = next((value for key, value in entry.items() if key != "name"), None) or {}
    marks = [one["extension"]["folder"] for one in content.get("extensions") or () if one["name"] == MARK]
    return str(marks[0]) if marks else ""


def _has_mark(config: Obj) -> bool:
    return any(_mark(one) for kind in KINDS for one in config[kind])


def _read(file: Path) -> Obj:
    """A client configuration; one without entries if there is no file.  Raises InputError."""
    found: Any = {"apiVersion": "v1", "kind": "Config"}
    if file.exists():
        try:
            found = yaml.safe_load(read_text(file)) or found
        except yaml.YAMLError:
            found = None
    if not isinstance(found, dict) or found.get("kind", "Config") != "Config":
        raise InputError("is no client configuration", str(file))
    found |= {kind: found.get(kind) or [] for kind in KINDS}
    if not all(isinstance(one, dict) and "name" in one for kind in KINDS for one in found[kind]):
        raise InputError("is no client configuration", str(file))
    return found
