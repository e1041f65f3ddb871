"""Client configurations (kubeconfig) of a served cluster: one file per identity.

An argument such as `admin=out/admin,alice+dev=out/alice` becomes identities, and an identity a file
with a client certificate and a token.

Holds: a file is for its owner only, and replaces only what this command wrote, unless forced.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import yaml

from sim.api.types import UserInfo
from sim.errors import InputError
from sim.files import check_output, write_text
from sim.ident import Names
from sim.scenario.read.source import read_documents

if TYPE_CHECKING:
    from sim.wire.authority import Authority

ADMIN, CLUSTER = "admin", "orrery"  # as the client configuration names them
NAME_MAX = 64  # letters of a common name and of an organization: ITU-T X.520
SYNTAX = "FILE or NAME[+GROUP...]=FILE,..."


class ClientConfig(NamedTuple):
    """A client configuration to write.

    groups: of the identity; an administrator is also in the masters' group
    """

    path: Path
    name: str = ADMIN
    groups: tuple[str, ...] = ()

    def user(self, names: Names) -> UserInfo:
        """The user of this configuration."""
        masters = (names.group_masters,) if self.name == ADMIN else ()
        return UserInfo(self.name, tuple(dict.fromkeys((*masters, *self.groups))))


def parse_client_configs(text: str) -> tuple[ClientConfig, ...]:
    """The configurations of an argument; raises ValueError with the problem.

    A text without "=" is one file, of the administrator.
    """
    if "=" not in text:
        return (ClientConfig(Path(text)),)
    found: list[ClientConfig] = []
    for entry in text.split(","):
        identity, equals, path = entry.partition("=")
        name, *groups = identity.split("+")
        if not equals or not path or not name or not all(groups):
            raise ValueError(f"{entry!r} is no {SYNTAX}")
        if max(map(len, (name, *groups))) > NAME_MAX or not identity.isprintable():
            raise ValueError(f"{identity!r} is no name: {NAME_MAX} printable characters at most")
        if any(each.name == name for each in found):
            raise ValueError(f"{name!r} is named twice")
        found.append(ClientConfig(Path(path), name, tuple(groups)))
    return tuple(found)


def write_client_config(path: Path, user: UserInfo, url: str, authority: Authority, token: str) -> None:
    """Write the client configuration of a user, readable by its owner only."""
    write_text(path, client_config(user, url, authority, token), private=True)


def client_config(user: UserInfo, url: str, authority: Authority, token: str = "") -> str:
    """The client configuration of a user, with a new certificate.  token: "" for none"""
    pair = authority.client(user.name, user.groups)

    def text(data: bytes) -> str:
        return b64encode(data).decode()

    credentials = {"client-certificate-data": text(pair.certificate), "client-key-data": text(pair.key)}
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [
            {"name": CLUSTER, "cluster": {"server": url, "certificate-authority-data": text(authority.pem)}}
        ],
        "users": [{"name": user.name, "user": credentials | ({"token": token} if token else {})}],
        "contexts": [{"name": CLUSTER, "context": {"cluster": CLUSTER, "user": user.name}}],
        "current-context": CLUSTER,
    }
    return yaml.safe_dump(config, sort_keys=False)


def check_client_configs(configs: Sequence[ClientConfig]) -> None:
    """Refuse to replace a file that `write_client_config` did not write, such as one with other
    clusters in it.

    Raises InputError.
    """
    for config in configs:
        _check(config.path)


def _check(path: Path) -> None:
    check_output(path, private=True)
    if not path.exists():
        return
    try:
        found = [document.value for document in read_documents(path)]
        names = [each["name"] for config in found for each in (*config["clusters"], *config["contexts"])]
    except (InputError, KeyError, TypeError):
        names = ["something else"]
    if names not in ([], [CLUSTER, CLUSTER]):
        remedy = "name another file, or --force replaces it"
        raise InputError("exists already, and was not written by this command", str(path), remedy)
