"""JSON web tokens whose signature is a digest: of RS256's length, and no key can verify it.

The simulation issues them where no client outside of it will present them.
"""

from __future__ import annotations

import json
from base64 import urlsafe_b64encode
from collections.abc import Mapping
from hashlib import sha256
from typing import Any

from sim.api.auth.account_tokens import SIGNATURE_BYTES


def digest_token(claims: Mapping[str, Any]) -> str:
    """A token with these claims; the same claims give the same token."""
    head = {"alg": "RS256", "kid": _text(sha256(claims["iss"].encode()).digest())}
    signed = ".".join(_text(json.dumps(part, separators=(",", ":")).encode()) for part in (head, claims))
    blocks = (sha256(f"{i}.{signed}".encode()).digest() for i in range(SIGNATURE_BYTES // 32))
    return f"{signed}.{_text(b''.join(blocks))}"


def _text(data: bytes) -> str:
    return urlsafe_b64encode(data).rstrip(b"=").decode()
