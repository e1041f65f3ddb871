"""The API server of a process that runs alone, from its options.

Turns the file of a client configuration and the address of a server into an `Access`.

Mirrors  client-go v1.25 tools/clientcmd/client_config.go (BuildConfigFromFlags: the address wins
         over that of the file; without both, the configuration of the pod).
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from sim.app.daemons.options import read_document
from sim.errors import InputError
from sim.ident import Names
from sim.wire.rest.access import (
    POD_HOST,
    POD_PORT,
    Access,
    AccessError,
    Credentials,
    access_of,
    pod_access,
)
from sim.wire.rest.exec_plugins import run_plugin

ACCEPTED = "clientConnection.acceptContentTypes"


def connection(names: Names, values: Mapping[str, object], accepted: str = "") -> Access:
    """The access that the raw values of the options give.  Raises InputError.

    accepted: the forms of answers, as a configuration file names them
    """
    refuse_undecoded(names, accepted)
    option = f"--{names.short}config"
    file, master = (str(values.get(name, "")) for name in (f"{names.short}config", "master"))
    packed = is_packed(names, str(values.get(f"{names.short}-api-content-type", "")))
    if master and not file:
        return Access(server=_address(master), packed=packed, accepted=accepted)
    result = access_named(names, option, file)
    if result is None:
        raise InputError(
            f"no API server is known: neither {option} nor --master is given, and this is no pod"
            f" ({POD_HOST} and {POD_PORT} are not set)",
            "",
            f"give {option} FILE",
        )
    server = _address(master) if master else result.server
    return replace(result, server=server, packed=packed, accepted=accepted)


def refuse_undecoded(names: Names, accepted: str) -> None:
    """Raise InputError if a header Accept names a form of answers that is not decoded."""
    decoded = (names.media_json, names.media_protobuf, "application/*", "*/*")
    for each in accepted.split(",") if accepted else ():
        media, _, parameter = (part.strip() for part in each.partition(";"))
        if media.lower() not in decoded or (parameter and not parameter.startswith("q=")):
            problem = f"no decoder for {each.strip()!r}, wanted {names.media_json} or {names.media_protobuf}"
            raise InputError(problem, ACCEPTED)


def is_packed(names: Names, content_type: str) -> bool:
    """True if a content type is protobuf.  Raises InputError for one that is not served."""
    if content_type not in ("", names.media_json, names.media_protobuf):
        raise InputError(
            f"no serializer for {content_type!r}, wanted {names.media_json} or {names.media_protobuf}",
            f"--{names.short}-api-content-type",
        )
    return content_type == names.media_protobuf


def access_named(names: Names, option: str, file: str) -> Access | None:
    """The access of the file that an option names, without one that of the pod; None if there is
    neither.  Raises InputError.
    """
    if not file:
        return pod_access(os.environ, Path(f"/var/run/secrets/{names.product}.io/serviceaccount"))
    return access_in(read_document(file, option), file)


def access_in(document: Mapping[str, Any], file: str) -> Access:
    """The access that the client configuration of a file gives.  Raises InputError."""
    try:
        return access_of(document, Path(file).parent)
    except AccessError as error:
        raise InputError(str(error), file) from None


def credentials_of(access: Access) -> Credentials:
    """The credentials of this process for an access."""
    return Credentials(access, time.monotonic, run_plugin, time.time)


def _address(master: str) -> str:
    """The address of --master, which upstream takes without a scheme too (then as http)."""
    return (master if "://" in master else f"http://{master}").rstrip("/")
