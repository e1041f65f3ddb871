"""A server outside, as a client configuration names it."""

from __future__ import annotations

import ssl
from typing import NamedTuple


class Receiver(NamedTuple):
    """Where requests are sent.  context: None for http"""

    url: str
    headers: dict[str, str]
    context: ssl.SSLContext | None
