"""Files that options and fields name: one rule for all of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from sim.app.audit.settings import read_policy
from sim.app.options import api_server_options
from sim.app.receivers import read_receiver
from sim.app.serving.identities import read_users
from sim.errors import InputError
from sim.ident import NAMES
from sim.options.apiserver.server import parse_api_server
from sim.scenario.read.source import read_document, read_documents

PLACE = "s.yaml:3:4"
NAMES_ = NAMES["orch"]


def read_abac(path: Path) -> None:
    """Read the policies of the mode ABAC."""
    flags = {"authorization-mode": "ABAC", "authorization-policy-file": str(path)}
    parsed = parse_api_server(flags, names=NAMES_, place=PLACE, places={})
    api_server_options(parsed, PLACE)


READERS: Mapping[str, tuple[Callable[[Path], Any], str]] = {
    "manifests": (lambda path: read_documents(path, place=PLACE), PLACE),
    "configuration of admission": (lambda path: read_document(path, place=PLACE), PLACE),
    "audit policy": (lambda path: read_policy(path, NAMES_, PLACE), PLACE),
    "ABAC policies": (read_abac, PLACE),
    "users": (read_users, ""),
    "client configuration": (read_receiver, ""),
}


@pytest.mark.parametrize("what", READERS)
def test_file_of_each_option_has_one_rule(tmp_path: Path, what: str) -> None:
    read, place = READERS[what]
    file = tmp_path / "file.yaml"
    before = f"{place}: " if place else ""
    with pytest.raises(InputError) as missing:
        read(file)
    assert str(missing.value) == f"{before}{file}: no such file"
    (tmp_path / "file.yml").touch()
    with pytest.raises(InputError, match=r"no such file \(did you mean 'file.yml'\?\)"):
        read(file)
    with pytest.raises(InputError) as folder:
        read(tmp_path)
    assert str(folder.value) == f"{before}{tmp_path}: is a directory, not a file"
    with file.open("wb") as large:
        large.truncate((4 << 20) + 1)
    with pytest.raises(InputError) as too_large:
        read(file)
    assert str(too_large.value) == f"{before}{file}: the file has more than 4194304 bytes"
    file.write_bytes(b"a: 1\nb: \xff\n")
    with pytest.raises(InputError) as binary:
        read(file)
    assert str(binary.value) == f"{file}:2: is not UTF-8 text (save it as UTF-8)"


@pytest.mark.parametrize(
    "what", ["manifests", "configuration of admission", "audit policy", "client configuration"]
)
def test_wrong_yaml_has_its_place_in_the_file(tmp_path: Path, what: str) -> None:
    file = tmp_path / "file.yaml"
    file.write_text("a: 1\nb: [1\n")
    with pytest.raises(InputError, match=r"file.yaml:3:1: is not valid YAML"):
        READERS[what][0](file)


@pytest.mark.parametrize("what", ["configuration of admission", "audit policy", "client configuration"])
def test_file_of_two_documents_is_refused(tmp_path: Path, what: str) -> None:
    file = tmp_path / "file.yaml"
    file.write_text("a: 1\n---\nb: 1\n")
    with pytest.raises(InputError, match=r"file.yaml: holds 2 documents, wanted one"):
        READERS[what][0](file)
