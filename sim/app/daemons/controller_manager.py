"""A controller manager that runs alone.

Turns its options into a process that runs the controllers against an API server over HTTPS.

Mirrors  kubernetes v1.25 cmd/kube-controller-manager/app/{controllermanager,certificates}.go (Run,
         serviceAccountTokenControllerStarter, startCSRSigningController: without their keys these
         two controllers do not run).
Differs  SIGTERM ends it with status 0 (upstream: by the signal); there is no cloud.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping

from actors.controllers.manager import VERSION, controller_manager_main
from actors.controllers.table import LOOPS, Start
from sim.api.auth.keys import read_signing_key
from sim.api.auth.web_tokens import Sign, digest_token
from sim.app.daemons.clock import following_of
from sim.app.daemons.connection import connection
from sim.app.daemons.metrics_apis import ListedMetrics
from sim.app.daemons.options import options_in, with_documents
from sim.app.daemons.process import Alone, run_process
from sim.app.daemons.secure.configz import configz_of
from sim.app.daemons.secure.pages import Shown
from sim.app.daemons.secure.port import PortOptions, client_files, serve_secure
from sim.app.parts.credentials import published_authority
from sim.app.serving.identities import key_of_controllers, signing_authorities
from sim.errors import InputError
from sim.ident import Names
from sim.kernel.actor import Main
from sim.options.controllers.manager import ControllerManagerOptions
from sim.options.groups.secure import SecureFlags
from sim.scenario.read.option_file import OptionFiles
from sim.version import __version__

LOG = logging.getLogger(__name__)
AGENT = f"{VERSION} orrery/{__version__}"


def run(names: Names, values: Mapping[str, object], set_verbosity: Callable[[int], None]) -> int:
    """Run a controller manager; returns the exit status.  Raises InputError.

    set_verbosity: takes the verbosity of the log
    """
    access = connection(names, values)
    options: ControllerManagerOptions = options_in(
        ControllerManagerOptions, with_documents(ControllerManagerOptions, values, names), names
    )
    if options.cloud:
        raise InputError("a process that runs alone has no cloud", "--cloud-provider", "leave it out")
    secure: SecureFlags = options_in(SecureFlags, with_documents(SecureFlags, values, names), names)
    root_ca = published_authority(options.root_ca_file)
    signing, sign_token = signing_of(options, names), token_signer(options)
    loops = with_keys(options)
    shown = Shown(
        "controller-manager",
        options.leader_elect_resource_name if options.leader_elect else "",
        lambda: tuple(sorted(name for name in loops if options.starts(name))),
        options,
        configz_of(names, "controller-manager", options, secure),
        secure.profiling,
        set_verbosity,
    )

    async def make(alone: Alone) -> Main:
        await serve_secure(alone, PortOptions(secure, options, client_files(values), AGENT), shown)
        metrics = ListedMetrics(names)
        alone.nursery.start_soon(metrics.follow, alone.sender(access, AGENT))
        own = options.use_service_account_credentials
        clients = alone.clients(access, AGENT, own_accounts=own)
        return controller_manager_main(
            alone.scheme,
            lambda ctx: [clients.transport(ctx)],
            options,
            loops=loops,
            root_ca=root_ca,
            metrics=metrics,
            sign_token=sign_token,
            signing=signing,
            together=True,
        )

    return run_process(names, make, following_of(names, values, access, "controller-manager"))


def signing_of(options: ControllerManagerOptions, names: Names) -> Callable[[str], str]:
    """The authority of a signer, from the files as they are when it signs.  Raises InputError.

    Mirrors  pkg/controller/certificates/signer/ca_provider.go: an authority that cannot be read
             leaves the earlier one in place.
    """
    found = signing_authorities(options, names, b"", OptionFiles())

    def authority(signer: str) -> str:
        nonlocal found
        try:
            found = signing_authorities(options, names, b"", OptionFiles())
        except InputError as error:
            LOG.error("the authorities of certificates cannot be read: %s", error)
        return found.get(signer) or found[""]

    return authority


def token_signer(options: ControllerManagerOptions) -> Sign:
    """What signs tokens in Secrets, with the key of the file.  Raises InputError."""
    path = options.service_account_private_key_file
    return read_signing_key(key_of_controllers(path, OptionFiles()).encode()).token if path else digest_token


def with_keys(options: ControllerManagerOptions) -> Mapping[str, Start]:
    """The controllers that have what they sign with."""
    pairs = ((options.cluster_signing_cert_file,), *options.signing_files().values())
    needs = {
        "serviceaccount-token": (
            options.service_account_private_key_file,
            "serviceaccount-token controller is disabled because there is no private key",
        ),
        "csrsigning": (
            any(map(any, pairs)),
            "skipping CSR signer controller because no csr cert/key was specified",
        ),
    }
    for entry, missing in needs.values():
        if not entry:
            LOG.warning("%s", missing)
    return {name: start for name, start in LOOPS.items() if name not in needs or needs[name][0]}
