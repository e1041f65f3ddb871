"""The credentials that a served cluster gets from outside: authorities, and the key of tokens.

They enter through the gate, so that a journal holds them and a replay has the same.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from actors.apiserver.server import ApiServer
from sim.api.verbs.call import Identities
from sim.errors import InputError
from sim.kernel import Kernel
from sim.options.base import BEGIN_PEM
from sim.scenario.read.option_file import OptionFiles

if TYPE_CHECKING:
    from actors.controllers.shared.shell import RootCa

ROOT_CA = "root-ca-file"
BEGIN_CERTIFICATE = "-----BEGIN CERTIFICATE-----"


def published_authority(given: str, files: OptionFiles = OptionFiles()) -> RootCa:
    """The authority of root-ca-file: of the file of this path, or the certificates in PEM; "": none
    yet.  Raises InputError.

    Mirrors cmd/kube-controller-manager/app/core.go, controllermanager.go: readCA (v1.25).
    """
    from actors.controllers.shared.shell import RootCa

    result = RootCa()
    if given:
        file = files.of(ROOT_CA, given)
        written = BEGIN_PEM in given
        result.pem = given if written else file.data().decode(errors="replace")
        if BEGIN_CERTIFICATE not in result.pem:
            raise InputError(
                f"error parsing {ROOT_CA}: data does not contain any valid certificates",
                file.place if written else given,
            )
    return result


def accept_credentials(
    kernel: Kernel, root_ca: RootCa, identities: Identities, servers: Mapping[str, ApiServer]
) -> None:
    """Take the credentials that arrive at the gate of a kernel.

    root_ca: gets the authority under which the cluster is served from then on
    identities: get the key with which tokens of service accounts are signed from then on
    servers: get the authorities of clients, as other servers may know them
    """

    def take_root_ca(pem: str, done: Callable[[None], None]) -> None:
        root_ca.pem = pem
        done(None)

    def take_authorities(data: dict[str, str], done: Callable[[None], None]) -> None:
        for server in servers.values():
            server.trust.data = data
        done(None)

    def take_key(pem: str, done: Callable[[None], None]) -> None:
        # A cluster that is not served needs no package for cryptography.
        from sim.api.auth.keys import read_signing_key

        identities.sign = read_signing_key(pem.encode()).token
        done(None)

    def take_key_of_controllers(pem: str, done: Callable[[None], None]) -> None:
        from sim.api.auth.keys import read_signing_key

        identities.sign_for_controllers = read_signing_key(pem.encode()).token
        done(None)

    kernel.gate.handle("root-ca", take_root_ca)
    kernel.gate.handle("key-of-controllers", take_key_of_controllers)
    kernel.gate.handle("client-authorities", take_authorities)
    kernel.gate.handle("service-account-key", take_key)
