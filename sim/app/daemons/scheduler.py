"""A scheduler that runs alone.

Turns its options, and the configuration file that they name, into a process that places pods of an
API server over HTTPS.

Mirrors  kubernetes v1.25 cmd/kube-scheduler/app/server.go (Run).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import yaml

from actors.controllers.manager import VERSION, identity
from actors.scheduler.actor import scheduler_main
from sim.app.daemons.clock import following_of
from sim.app.daemons.connection import connection
from sim.app.daemons.options import options_in, split, with_documents
from sim.app.daemons.process import Alone, run_process
from sim.app.daemons.secure.configz import configz_of
from sim.app.daemons.secure.pages import Shown
from sim.app.daemons.secure.port import PortOptions, client_files, serve_secure
from sim.app.daemons.written_configuration import whole_configuration
from sim.client.cache.informer import Informers
from sim.files import write_text
from sim.ident import Names
from sim.kernel.actor import Main
from sim.options.groups.secure import SchedulerSecureFlags
from sim.options.scheduler import SchedulerOptions, parse_scheduler
from sim.options.scheduling.configuration import CONFIG, accepted_types, connection_flags
from sim.options.scheduling.output import OutputFlags
from sim.version import __version__

LOG = logging.getLogger(__name__)
AGENT = f"{VERSION} orrery/{__version__}"


def profiles(content: object, flag: bool) -> bool:
    """True if profiles are shown: the configuration file counts, and without one the flag.

    Mirrors  cmd/kube-scheduler/app/options/deprecated.go (ApplyTo, without a file alone).
    """
    return bool(content.get("enableProfiling", True)) if isinstance(content, Mapping) and content else flag


def run(names: Names, values: Mapping[str, object], set_verbosity: Callable[[int], None]) -> int:
    """Run a scheduler; returns the exit status.  Raises InputError.

    set_verbosity: takes the verbosity of the log
    """
    entry = split(SchedulerOptions, with_documents(SchedulerOptions, values, names), names)
    places = {name: f"--{name}" for name in entry}
    output: OutputFlags = options_in(OutputFlags, values, names)
    if output.write_config_to:
        whole = whole_configuration(parse_scheduler(entry, names=names, places=places), names)
        write_text(Path(output.write_config_to), yaml.safe_dump(whole, sort_keys=False))
        LOG.info("Wrote configuration to %s", output.write_config_to)
        return 0
    values = {**values, **connection_flags(entry.get(CONFIG), names)}
    access = connection(names, values, accepted_types(entry.get(CONFIG)))
    options = parse_scheduler(entry, names=names, places=places)

    secure: SchedulerSecureFlags = options_in(
        SchedulerSecureFlags, with_documents(SchedulerSecureFlags, values, names), names
    )
    secure = replace(secure, profiling=profiles(entry.get(CONFIG), secure.profiling))
    begun: list[Informers] = []
    shown = Shown(
        "scheduler",
        options.leader_elect_resource_name if options.leader_elect else "",
        tuple,
        options,
        configz_of(names, "scheduler", options, secure),
        secure.profiling,
        set_verbosity,
        lambda: begun[-1]["pods"].list() if begun else (),
    )

    async def make(alone: Alone) -> Main:
        await serve_secure(alone, PortOptions(secure, options, client_files(values), AGENT), shown)
        clients = alone.clients(access, AGENT)
        return scheduler_main(
            options,
            alone.scheme,
            names,
            lambda ctx: [clients.transport(ctx)],
            identify=lambda ctx: identity(ctx.name, ctx.stream("identity")),
            on_begin=begun.append,
        )

    return run_process(names, make, following_of(names, values, access, "scheduler"))
