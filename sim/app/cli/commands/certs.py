"""`orrery certs`: the keys and client configurations of a cluster of processes."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from sim.app.cli.commands.arguments import EXIT_OK

if TYPE_CHECKING:
    from sim.app.cli.commands.arguments import Commands

# Of a node: with system:node: before it, a common name has 64 letters at most.
_NAME = r"[a-z0-9]([-a-z0-9.]{0,48}[a-z0-9])?"


def add(commands: Commands) -> None:
    """Add the command."""
    certs = commands.add_parser("certs")
    certs.add_argument("folder", type=Path, metavar="DIR")
    certs.add_argument("--server", type=_server, default="https://127.0.0.1:6443", metavar="URL")
    certs.add_argument("--server-host", action="append", default=[], metavar="HOST")
    certs.add_argument("--node", type=_node, action="append", default=[], metavar="NAME")
    certs.add_argument("--naming", choices=("orch", "kubernetes"), default="kubernetes")
    certs.set_defaults(call=_certs)


def _server(text: str) -> str:
    parts = urlsplit(text)
    if parts.scheme != "https" or not parts.hostname or parts.path not in ("", "/"):
        raise argparse.ArgumentTypeError(f"{text!r} is no address such as https://127.0.0.1:6443")
    return text.rstrip("/")


def _node(text: str) -> str:
    from sim.patterns import pattern

    if not pattern(_NAME).fullmatch(text):
        raise argparse.ArgumentTypeError(
            f"{text!r} is no name of a node: lower-case letters, digits, - and ."
        )
    return text


def _certs(arguments: argparse.Namespace) -> int:
    from sim.app.serving.cluster_files import write_cluster
    from sim.ident import NAMES

    entry = arguments.server, arguments.server_host, arguments.node
    for path, is_new in write_cluster(arguments.folder, NAMES[arguments.naming], *entry):
        print(f"{'wrote' if is_new else 'kept '} {path}")
    return EXIT_OK
