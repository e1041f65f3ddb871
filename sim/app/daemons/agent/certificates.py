"""The keys and certificates of a node agent as files of its folder.

Turns what the agent's requests are issued into pairs of a certificate and a key in one file each,
and a link to the newest.

Holds: keys come from the randomness of the machine, have mode 0600, and are written before the
agent uses them; the key of the first request is kept until it is answered, so that a restarted
agent finds its request again.

Mirrors  client-go v1.25 util/certificate/certificate_store.go (names of files, Current, Update);
         kubernetes v1.25 pkg/kubelet/certificate/bootstrap/bootstrap.go (the key of the first
         request).
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable
from pathlib import Path
from time import gmtime, strftime

from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)

from actors.node.certificates.requests import credential, key_of
from actors.node.credentials import Certificates, Credential
from sim.errors import InputError
from sim.files import read_bounded, replaced

SECRET_BITS = 256


class Folder:
    """The folder of `--cert-dir`.  agent: the name of the program, with which files begin"""

    def __init__(self, path: Path, agent: str) -> None:
        self._path = path
        self._agent = agent

    def current(self, use: str) -> Path:
        """The link to the newest pair.  use: "client" or "server" """
        return self._path / f"{self._agent}-{use}-current.pem"

    def held(self, use: str) -> Credential | None:
        """The newest certificate; None if there is none that can be read."""
        return read_credential(self.current(use))

    def keep(self, use: str, pair: bytes) -> None:
        """Write a pair, and let the link name it.  Raises InputError or OSError."""
        self._path.mkdir(parents=True, exist_ok=True)
        file = self._path / f"{self._agent}-{use}-{strftime('%Y-%m-%d-%H-%M-%S', gmtime())}.pem"
        with replaced(file, private=True) as output:
            output.write(pair)
        link, current = self._path / f".{file.name}.link", self.current(use)
        link.unlink(missing_ok=True)
        link.symlink_to(file.name)
        os.replace(link, current)

    def first_key(self) -> int:
        """The secret of the first request's key, which is made once."""
        file = self._first_key_file
        if file.exists():
            try:
                key = load_pem_private_key(read_bounded(file), None)
            except ValueError:
                key = None
            if isinstance(key, ec.EllipticCurvePrivateKey):
                return key.private_numbers().private_value - 1
        secret = secrets.randbits(SECRET_BITS)
        self._path.mkdir(parents=True, exist_ok=True)
        with replaced(file, private=True) as output:
            output.write(key_pem(secret))
        return secret

    def drop_first_key(self) -> None:
        """The first request has been answered."""
        self._first_key_file.unlink(missing_ok=True)

    @property
    def _first_key_file(self) -> Path:
        return self._path / f"{self._agent}-client.key.tmp"


class KeptCertificates(Certificates):
    """The certificates of an agent, which are files too.

    changed: is called with "client" or "server" once a new pair can be used
    """

    def __init__(self, folder: Folder, changed: Callable[[str], None]) -> None:
        super().__init__(serving=folder.held("server"))
        self._folder = folder
        self._changed = changed
        self._secrets: dict[bool, int] = {}

    def secret(self, drawn: int, *, serving: bool, named: bool) -> int:
        """The secret of the next key, from the machine's randomness."""
        result = self._folder.first_key() if named else secrets.randbits(SECRET_BITS)
        self._secrets[serving] = result
        return result

    def keep(self, pem: bytes, *, serving: bool) -> None:
        """Write an issued certificate with its key."""
        use = "server" if serving else "client"
        self._folder.keep(use, pem + key_pem(self._secrets[serving]))
        if not serving:
            self._folder.drop_first_key()
        self._changed(use)


def key_pem(secret: int) -> bytes:
    """The key of a secret, PEM."""
    return key_of(secret).private_bytes(Encoding.PEM, PrivateFormat.TraditionalOpenSSL, NoEncryption())


def read_credential(file: Path) -> Credential | None:
    """The certificate in a file; None if there is none that can be read."""
    try:
        return credential(read_bounded(file))
    except (InputError, ValueError):
        return None
