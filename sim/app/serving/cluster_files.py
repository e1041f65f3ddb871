"""The files of a cluster of processes: its authority, keys, and a client configuration for each.

Turns a folder into what an API server, a controller manager, a scheduler, node agents and an
administrator need to know each other.

Holds: a file that exists is kept and never replaced, so that a node can be added later; each is for
its owner only.

Mirrors  kubeadm v1.25 cmd/kubeadm/app/phases/kubeconfig/kubeconfig.go (users and groups), phases/
         certs (names of the files).
Differs  the keys of certificates are of P-256 (kubeadm: RSA); configurations have no context of
         their own name, and are named kubelet-NODE.conf for node agents.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

from sim.api.auth.keys import SigningKey
from sim.api.types import UserInfo
from sim.app.serving.configs.clients import ADMIN, client_config
from sim.errors import InputError
from sim.files import new_private, read_bounded
from sim.ident import Names
from sim.wire.authority import Authority

# The names of kubeadm's files.
CA, SERVER, ACCOUNTS = "ca", "apiserver", "sa"
CERTIFICATE, KEY, PUBLIC, CONFIG = ".crt", ".key", ".pub", ".conf"


def write_cluster(
    folder: Path, names: Names, url: str, hosts: Sequence[str], nodes: Sequence[str]
) -> Iterator[tuple[Path, bool]]:
    """Write what is missing in a folder; yields each file, and True if it is new.

    url: of the API server; hosts: further names and addresses of it
    Raises InputError, also for half of a pair.
    """
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(error.strerror or "cannot be made", str(folder)) from None
    client = f"{SERVER}-{names.node_agent}-client"
    signers, served, asking, accounts = (
        _pair(folder, name, PUBLIC if name == ACCOUNTS else CERTIFICATE)
        for name in (CA, SERVER, client, ACCOUNTS)
    )
    authority = _authority(signers, names)
    secret = authority.signing_pem.removeprefix(authority.pem)
    yield from _written({signers[0]: lambda: authority.pem, signers[1]: lambda: secret})
    service = names.apiserver_service
    entry = (urlsplit(url).hostname or "", *hosts, service, f"{service}.default", "localhost", "127.0.0.1")
    server = authority.server(tuple(dict.fromkeys(entry)))
    yield from _written({served[0]: lambda: server.certificate, served[1]: lambda: server.key})
    shown = authority.client(names.component(client), (names.group_masters,))
    yield from _written({asking[0]: lambda: shown.certificate, asking[1]: lambda: shown.key})
    if not accounts[0].exists():
        signing = SigningKey.new()
        yield from _written({accounts[0]: lambda: signing.public.pem, accounts[1]: lambda: signing.pem})
    else:
        yield from ((path, False) for path in accounts)
    for name, user in _users(names, nodes).items():
        yield from _written({folder / f"{name}{CONFIG}": partial(_config, user, url, authority)})


def _authority(pair: tuple[Path, Path], names: Names) -> Authority:
    """The authority of a pair of files, or a new one.  Raises InputError."""
    if not pair[0].exists():
        return Authority(names.product)
    try:
        return Authority.read(b"\n".join(read_bounded(path) for path in pair))
    except ValueError as error:
        raise InputError(f"holds no authority of this command: {error}", str(pair[0])) from None


def _users(names: Names, nodes: Sequence[str]) -> dict[str, UserInfo]:
    """The users by the name of the file of each."""
    return {
        ADMIN: UserInfo(f"{names.product}-admin", (names.group_masters,)),
        "controller-manager": UserInfo(names.user_controller_manager),
        "scheduler": UserInfo(names.user_scheduler),
        **{
            f"{names.node_agent}-{node}": UserInfo(names.node_user(node), (names.group_nodes,))
            for node in nodes
        },
    }


def _pair(folder: Path, name: str, ending: str) -> tuple[Path, Path]:
    """The files of a pair, the public one first: both are there, or none.  Raises InputError."""
    pair = folder / f"{name}{ending}", folder / f"{name}{KEY}"
    missing = [path for path in pair if not path.exists()]
    if len(missing) == 1:
        raise InputError("the other file of this pair is missing", str(missing[0]), "name another folder")
    return pair


def _config(user: UserInfo, url: str, authority: Authority) -> bytes:
    return client_config(user, url, authority).encode()


def _written(contents: Mapping[Path, Callable[[], bytes]]) -> Iterator[tuple[Path, bool]]:
    for path, content in contents.items():
        is_new = not path.exists()
        if is_new:
            os.close(new_private(path, content(), force=False))
        yield path, is_new
