"""The clock of a process that runs alone, from its options.

Turns the option --clock and the credentials of a client configuration into the clock of a served
cluster, which the process follows.

Mirrors  nothing upstream.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from sim.app.daemons.connection import access_named, credentials_of
from sim.app.daemons.options import options_in
from sim.errors import InputError
from sim.ident import Names
from sim.options.groups.clock import ClockFlags
from sim.wire.rest.access import Access, Credentials

if TYPE_CHECKING:
    from sim.wire.rest.following import Following


def following_of(
    names: Names, values: Mapping[str, object], access: Access | None, name: str
) -> Following | None:
    """The clock that the options name; None for the wall clock.

    access: of the API server
    name: of the process
    Raises InputError.
    """
    credentials = clock_of(names, values, access)
    if credentials is None:
        return None
    from sim.wire.rest.following import Following

    return Following(name, credentials)


def clock_of(names: Names, values: Mapping[str, object], access: Access | None) -> Credentials | None:
    """The server with the clock, and the credentials for it; None for the wall clock.

    access: of the API server; its credentials count without --clock-config
    Raises InputError.
    """
    flags: ClockFlags = options_in(ClockFlags, values, names)
    if not flags.clock:
        return None
    parts = urlsplit(flags.clock)
    if parts.scheme not in ("https", "http") or not parts.hostname:
        raise InputError(f"{flags.clock!r} is no address", "--clock", "such as https://127.0.0.1:6443")
    if flags.clock_config:
        access = access_named(names, "--clock-config", flags.clock_config)
    if access is None:
        raise InputError("needs --clock-config, a client configuration of the clock's server", "--clock")
    return credentials_of(replace(access, server=flags.clock.rstrip("/")))
