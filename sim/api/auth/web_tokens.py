"""JSON web tokens in compact form: parsed without trust, and written.

A text becomes a `WebToken` with the parts that a signature covers; claims and a signer become a
text.

Holds: parsing verifies nothing; a signer gives the same text for the same claims.

Mirrors  RFC 7515, and what go-jose 2.6 accepts of it (unpadded base64url only).
Differs  `digest_token` signs with a digest that has the length of an RS256 signature: tokens inside
         of a simulation cost no cryptography and depend on no key. No authenticator accepts them.
"""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable
from hashlib import sha256
from typing import Any

import msgspec

from sim.api.types import Obj
from sim.dataclass import dataclass
from sim.patterns import pattern

SIGNATURE_BYTES = 256  # RS256 with a key of 2048 bits
TOKEN_MAX = 64 * 1024  # characters: more than the headers of a request may have
_BASE64URL = pattern("[A-Za-z0-9_-]*")
Sign = Callable[[Obj], str]


@dataclass(frozen=True, slots=True)
class WebToken:
    """A token that was parsed, and not verified.

    signed: the bytes that the signature covers
    """

    header: Obj
    claims: Obj
    signed: bytes
    signature: bytes

    @property
    def algorithm(self) -> str:
        """The algorithm that the header names, "" if it names none."""
        return text_of(self.header, "alg")

    @property
    def key_id(self) -> str:
        """The key that the header names, "" if it names none."""
        return text_of(self.header, "kid")


def text_of(claims: Obj, name: str) -> str:
    """A claim that is a text; "" if it is anything else."""
    value = claims.get(name)
    return value if isinstance(value, str) else ""


def parse_token(text: str) -> WebToken | None:
    """The parts of a token in compact form; None for anything else."""
    parts = text.split(".")
    if len(parts) != 3 or len(text) > TOKEN_MAX:
        return None
    try:
        header, claims, signature = (decode(part) for part in parts)
        head, body = (_json_object(part) for part in (header, claims))
    except ValueError:
        return None
    return WebToken(head, body, ".".join(parts[:2]).encode(), signature)


def compact(header: Obj, claims: Obj) -> str:
    """The signed part of a token."""
    return f"{encode(msgspec.json.encode(header))}.{encode(msgspec.json.encode(claims, order='sorted'))}"


def digest_token(claims: Obj) -> str:
    """A token of upstream's form and length, the same for the same claims."""
    key_id = encode(sha256(text_of(claims, "iss").encode()).digest())
    signed = compact({"alg": "RS256", "kid": key_id}, claims)
    blocks = (sha256(f"{i}.{signed}".encode()).digest() for i in range(SIGNATURE_BYTES // 32))
    return f"{signed}.{encode(b''.join(blocks))}"


def encode(data: bytes) -> str:
    """Base64url without padding."""
    return urlsafe_b64encode(data).rstrip(b"=").decode()


def decode(text: str) -> bytes:
    """The bytes of base64url without padding; raises ValueError for other texts."""
    if not _BASE64URL.fullmatch(text):
        raise ValueError("no base64url")
    return urlsafe_b64decode(text + "=" * (-len(text) % 4))


def _json_object(data: bytes) -> Obj:
    try:
        value: Any = msgspec.json.decode(data)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise ValueError("no JSON") from error
    if not isinstance(value, dict):
        raise ValueError("no object")
    return value
