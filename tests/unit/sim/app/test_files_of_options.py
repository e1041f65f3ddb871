"""Files that options and fields name: one rule for all of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from sim.app.audit.settings import read_policy
from sim.app.options import api_server_options
from sim.app.parts.credentials import published_authority
from sim.app.receivers import read_receiver
from sim.app.serving.identities import (
    Files,
    aggregator_pair,
    key_of_controllers,
    read_users,
    signing_authorities,
)
from sim.errors import InputError
from sim.ident import NAMES
from sim.options.apiserver.authentication import AuthenticationFlags
from sim.options.apiserver.server import parse_api_server
from sim.options.controllers.manager import parse_controller_manager
from sim.scenario.read.option_file import OptionFile, OptionFiles
from sim.scenario.read.source import read_documents

PLACE, OPTION = "s.yaml:3:4", "some-file"
AT = OptionFiles(PLACE)
NAMES_ = NAMES["orch"]
Read = Callable[[Path], Any]


def read_abac(path: Path) -> None:
    """Read the policies of the mode ABAC."""
    flags = {"authorization-mode": "ABAC", "authorization-policy-file": str(path)}
    api_server_options(parse_api_server(flags, names=NAMES_), AT)


def read_front_proxy(path: Path) -> None:
    """Read the certificate by which aggregated servers know this one."""
    flags = AuthenticationFlags(proxy_client_cert_file=str(path), proxy_client_key_file=str(path))
    aggregator_pair(flags, AT, made=False)


def read_authentication(field: str, path: Path) -> None:
    """Read a file of an option of authentication."""
    Files.read(AuthenticationFlags(**{field: (str(path),) if field.endswith("s") else str(path)}), None, AT)


def read_signer(path: Path) -> None:
    """Read the authority of all signers of certificates."""
    flags = {f"cluster-signing-{part}-file": str(path) for part in ("cert", "key")}
    signing_authorities(parse_controller_manager(flags, names=NAMES_), NAMES_, b"", AT)


def named(read: Callable[[OptionFile], Any], path: Path) -> Any:
    """What a reader reads, as the file of an option."""
    return read(AT.of(OPTION, str(path)))


TEXTS: Mapping[str, Read] = {
    OPTION: partial(named, OptionFile.document),
    "audit-policy-file": partial(named, lambda file: read_policy(file, NAMES_)),
    "authorization-policy-file": read_abac,
    "token-auth-file": partial(named, read_users),
    "audit-webhook-config-file": partial(named, read_receiver),
}
KEYS: Mapping[str, Read] = {
    "root-ca-file": lambda path: published_authority(str(path), AT),
    "client-ca-file": partial(read_authentication, "client_ca_file"),
    "requestheader-client-ca-file": partial(read_authentication, "requestheader_client_ca_file"),
    "service-account-key-file": partial(read_authentication, "service_account_key_files"),
    "service-account-private-key-file": lambda path: key_of_controllers(str(path), AT),
    "proxy-client-cert-file": read_front_proxy,
    "cluster-signing-key-file": read_signer,
}
READERS = {**TEXTS, **KEYS}


@pytest.mark.parametrize("option", READERS)
def test_file_of_each_option_has_one_rule(tmp_path: Path, option: str) -> None:
    read = READERS[option]
    file = tmp_path / "file.yaml"
    shown = OPTION if getattr(read, "func", None) is named else option
    before = f"{PLACE}: option {shown}: "
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


@pytest.mark.parametrize("option", TEXTS)
def test_file_that_is_no_text_names_the_line_and_the_option(tmp_path: Path, option: str) -> None:
    read, file = TEXTS[option], tmp_path / "file.yaml"
    shown = OPTION if getattr(read, "func", None) is named else option
    file.write_bytes(b"a: 1\nb: \xff\n")
    with pytest.raises(InputError) as binary:
        read(file)
    assert str(binary.value) == f"{file}:2: option {shown}: is not UTF-8 text (save it as UTF-8)"


def test_manifests_have_the_same_rule_without_an_option(tmp_path: Path) -> None:
    with pytest.raises(InputError) as missing:
        read_documents(tmp_path / "file.yaml", place=PLACE)
    assert str(missing.value) == f"{PLACE}: {tmp_path / 'file.yaml'}: no such file"


@pytest.mark.parametrize("option", [OPTION, "audit-policy-file", "audit-webhook-config-file"])
def test_wrong_yaml_has_its_place_in_the_file(tmp_path: Path, option: str) -> None:
    file = tmp_path / "file.yaml"
    file.write_text("a: 1\nb: [1\n")
    with pytest.raises(InputError, match=rf"file.yaml:3:1: option {OPTION}: is not valid YAML"):
        TEXTS[option](file)


@pytest.mark.parametrize("option", [OPTION, "audit-policy-file", "audit-webhook-config-file"])
def test_file_of_two_documents_is_refused(tmp_path: Path, option: str) -> None:
    file = tmp_path / "file.yaml"
    file.write_text("a: 1\n---\nb: 1\n")
    with pytest.raises(InputError, match=rf"file.yaml: option {OPTION}: holds 2 documents, wanted one"):
        TEXTS[option](file)
