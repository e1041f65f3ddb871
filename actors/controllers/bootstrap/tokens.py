"""Bootstrap tokens in Secrets, and the signatures of cluster-info that they make.  Pure.

Turns a Secret into its token or into the time until it expires, and the ConfigMap cluster-info and
the tokens into the ConfigMap with their signatures.

Mirrors  kubernetes v1.25 cluster-bootstrap/util/secrets/secrets.go, token/jws/jws.go,
         pkg/controller/bootstrap/{util,bootstrapsigner}.go.
"""

from __future__ import annotations

import hmac
import json
from base64 import b64decode
from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import NamedTuple

from sim.api.auth.authenticators.bootstrap_tokens import EXPIRATION, ID, SECRET
from sim.api.auth.web_tokens import encode
from sim.api.types import Obj
from sim.ident import Names
from sim.patterns import pattern
from sim.units import parse_time

FOR_SIGNING = "usage-bootstrap-signing"
_ID = pattern("[a-z0-9]{6}")


class Token(NamedTuple):
    """A bootstrap token: its id, which is public, and its secret part."""

    id: str
    secret: str


def is_bootstrap_token(secret: Obj, names: Names) -> bool:
    """True if a Secret of the system namespace holds a bootstrap token."""
    return (
        secret.get("type") == names.secret_type_bootstrap_token
        and secret["metadata"]["namespace"] == names.system_namespace
    )


def expires_in_us(secret: Obj, now_us: int) -> int | None:
    """The time until a token expires; 0 if it has, or if its time cannot be read; None if it never
    does.
    """
    text = _value(secret, EXPIRATION)
    if not text:
        return None
    try:
        return max(0, parse_time(text) - now_us)
    except ValueError:
        return 0


def signing_token(secret: Obj, names: Names, now_us: int) -> Token | None:
    """The token of a Secret if it may sign cluster-info, else None."""
    token = Token(_value(secret, ID), _value(secret, SECRET))
    named = secret["metadata"]["name"] == f"{names.bootstrap_secret_prefix}{token.id}"
    if not named or not _ID.fullmatch(token.id) or not token.secret:
        return None
    if expires_in_us(secret, now_us) == 0 or _value(secret, FOR_SIGNING) != "true":
        return None
    return token


def detached_signature(content: str, token: Token) -> str:
    """A JSON web signature (HS256) of a text, without the text."""
    head = encode(json.dumps({"alg": "HS256", "kid": token.id}, separators=(",", ":")).encode())
    signed = f"{head}.{encode(content.encode())}"
    return f"{head}..{encode(hmac.digest(token.secret.encode(), signed.encode(), sha256))}"


def signed_config_map(config_map: Obj, tokens: Sequence[Token], names: Names) -> Obj | None:
    """The ConfigMap with exactly the signatures of these tokens; None if it has them already.

    Of several tokens with one id the first counts.
    """
    data: Mapping[str, str] = config_map.get("data") or {}
    content = data.get(names.cluster_info_config)
    if content is None:
        return None
    prefix = names.cluster_info_signature_prefix
    rest = {key: value for key, value in data.items() if not key.startswith(prefix)}
    secrets: dict[str, Token] = {}
    for token in tokens:
        secrets.setdefault(token.id, token)
    made = {f"{prefix}{token.id}": detached_signature(content, token) for token in secrets.values()}
    wanted = {**rest, **made}
    return None if wanted == data else {**config_map, "data": wanted}


def _value(secret: Obj, key: str) -> str:
    return b64decode((secret.get("data") or {}).get(key) or "").decode("utf-8", "replace")
