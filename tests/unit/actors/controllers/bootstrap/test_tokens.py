"""Bootstrap tokens: when they expire, which of them sign, and the signatures."""

from __future__ import annotations

import hmac
from base64 import b64encode, urlsafe_b64decode
from hashlib import sha256

import pytest

from actors.controllers.bootstrap.tokens import (
    Token,
    detached_signature,
    expires_in_us,
    is_bootstrap_token,
    signed_config_map,
    signing_token,
)
from sim.api.types import Obj
from sim.ident import NAMES
from sim.units import SECOND, parse_time

N = NAMES["kubernetes"]
NOW_US = parse_time("2024-01-01T00:00:00Z")
GOOD = {"token-id": "abcdef", "token-secret": "0123456789abcdef", "usage-bootstrap-signing": "true"}


def _secret(name: str = "bootstrap-token-abcdef", **data: str) -> Obj:
    encoded = {key.replace("_", "-"): b64encode(text.encode()).decode() for key, text in data.items()}
    return {
        "metadata": {"name": name, "namespace": "kube-system"},
        "type": "bootstrap.kubernetes.io/token",
        "data": encoded,
    }


@pytest.mark.parametrize(
    ("expiration", "left_us"),
    [
        ("", None),
        ("2024-01-01T00:00:10Z", 10 * SECOND),
        ("2024-01-01T02:00:10+02:00", 10 * SECOND),
        ("2024-01-01T00:00:00Z", 0),
        ("2023-12-31T00:00:00Z", 0),
        ("tomorrow", 0),
    ],
)
def test_token_expires_at_its_time_or_at_once_if_that_is_unreadable(expiration: str, left_us: int | None):
    assert expires_in_us(_secret(expiration=expiration), NOW_US) == left_us


@pytest.mark.parametrize(
    ("changes", "name"),
    [
        ({"token-id": "abcdeg"}, "bootstrap-token-abcdef"),
        ({}, "bootstrap-token-ABCDEF"),
        ({}, "token-abcdef"),
        ({"token-secret": ""}, "bootstrap-token-abcdef"),
        ({"expiration": "2023-12-31T00:00:00Z"}, "bootstrap-token-abcdef"),
        ({"usage-bootstrap-signing": "yes"}, "bootstrap-token-abcdef"),
    ],
)
def test_unfit_secret_does_not_sign(changes: dict[str, str], name: str):
    assert signing_token(_secret(**GOOD), N, NOW_US) == Token("abcdef", "0123456789abcdef")
    assert signing_token(_secret(name, **{**GOOD, **changes}), N, NOW_US) is None


def test_token_counts_only_in_the_system_namespace():
    secret = _secret(**GOOD)
    assert is_bootstrap_token(secret, N)
    elsewhere = {**secret, "metadata": {**secret["metadata"], "namespace": "default"}}
    assert not is_bootstrap_token(elsewhere, N)
    assert not is_bootstrap_token({**secret, "type": "Opaque"}, N)


def test_signature_can_be_verified_with_the_content_and_the_secret():
    head, payload, signature = detached_signature("hello", Token("abcdef", "key")).split(".")
    assert urlsafe_b64decode(head + "==") == b'{"alg":"HS256","kid":"abcdef"}'
    assert payload == ""
    expected = hmac.digest(b"key", f"{head}.aGVsbG8".encode(), sha256)
    assert urlsafe_b64decode(signature + "==") == expected


def test_config_map_gets_a_signature_per_token_and_loses_old_ones():
    stale = {"kubeconfig": "c", "jws-kubeconfig-zzzzzz": "old", "note": "x"}
    tokens = [Token("aaaaaa", "k"), Token("bbbbbb", "k"), Token("aaaaaa", "second of its id")]
    made = signed_config_map({"data": stale}, tokens, N)
    assert made is not None
    assert made["data"] == {
        "kubeconfig": "c",
        "note": "x",
        "jws-kubeconfig-aaaaaa": detached_signature("c", tokens[0]),
        "jws-kubeconfig-bbbbbb": detached_signature("c", tokens[1]),
    }
    assert signed_config_map(made, tokens, N) is None
    assert signed_config_map(made, tokens[:1], N) is not None


def test_config_map_without_content_is_not_signed():
    assert signed_config_map({"data": {"jws-kubeconfig-aaaaaa": "old"}}, [Token("aaaaaa", "k")], N) is None
