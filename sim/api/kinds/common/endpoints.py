"""Rules that Endpoints and EndpointSlices share."""

from __future__ import annotations

from typing import Any

from sim.api.kinds.common.pods.containers import PROTOCOLS
from sim.api.types import Obj
from sim.api.validation import text
from sim.api.validation.errors import Errors, checked, required, unsupported


def identities(*lists: Any) -> frozenset[int]:
    """Identities of the objects in lists that were found valid before.

    Of a thousand addresses mostly one is new.  The set is used for membership only.
    """
    return frozenset(id(value) for values in lists for value in values)


def protocol_errors(port: Obj, at: str) -> Errors:
    """Errors of the transport protocol, which is required, and of the application protocol."""
    protocol, application = port.get("protocol"), port.get("appProtocol")
    errors: Errors = []
    if protocol is None:
        errors.append(required(f"{at}.protocol"))
    elif protocol not in PROTOCOLS:
        errors.append(unsupported(f"{at}.protocol", protocol, PROTOCOLS))
    errors += checked(f"{at}.appProtocol", application, text.qualified_name)
    return errors
