"""Encrypted values of etcd."""

from __future__ import annotations

from typing import Any

import pytest

from actors.storage.etcd.encryption import Encryption, SecretBox, UnreadableError
from actors.storage.etcd.keys import Keys
from sim.api.scheme.scheme import Scheme
from sim.ident import NAMES

SCHEME = Scheme(NAMES["kubernetes"])
SECRET = "c2VjcmV0IGlzIHNlY3VyZQ=="  # 16 bytes
LONG = "YSBzZWNyZXQgb2YgdGhpcnR5LXR3byBieXRlcyEhISE="  # 32 bytes
KEY = "//secrets/default/x"


def encryption(*providers: Any, resource: str = "secrets") -> Encryption:
    config = {
        "kind": "EncryptionConfiguration",
        "resources": [{"resources": [resource], "providers": [*providers]}],
    }
    return Encryption(
        SCHEME, Keys(SCHEME, "/registry"), config if providers else {}, lambda size: b"\7" * size
    )


def keyed(kind: str, name: str = "key1", secret: str = SECRET) -> dict[str, Any]:
    return {kind: {"keys": [{"name": name, "secret": secret}]}}


@pytest.mark.parametrize("kind", ["aescbc", "aesgcm", "secretbox"])
def test_a_value_has_the_prefix_of_its_provider_and_leads_back(kind: str) -> None:
    sealed = encryption(keyed(kind, secret=LONG)).seal(KEY, b"k8s\0secret")
    assert sealed.startswith(f"k8s:enc:{kind}:v1:key1:".encode())
    assert b"\0secret" not in sealed
    later = encryption({"identity": {}}, keyed(kind, "key2", LONG), keyed(kind, secret=LONG))
    assert later.open(KEY, sealed) == b"k8s\0secret"
    assert later.seal(KEY, b"a") == b"a"
    assert later.open(KEY, b"plain") == b"plain"


def test_a_value_of_aesgcm_is_bound_to_its_key_in_etcd() -> None:
    found = encryption(keyed("aesgcm"))
    with pytest.raises(UnreadableError):
        found.open("//secrets/default/y", found.seal(KEY, b"a"))


@pytest.mark.parametrize("stored", [b"", bytes(30), bytes(60)])
def test_a_value_of_secretbox_is_authenticated(stored: bytes) -> None:
    with pytest.raises(UnreadableError, match="cannot be decrypted"):
        encryption(keyed("secretbox", secret=LONG)).open(KEY, b"k8s:enc:secretbox:v1:key1:" + stored)


def test_a_value_of_secretbox_is_that_of_nacl() -> None:
    """The example of Bernstein, Cryptography in NaCl (2009), section 10."""
    key = bytes.fromhex("1b27556473e985d462cd51197a9a46c76009549eac6474f206c4ee0844f68389")
    nonce = bytes.fromhex("69696ee955b62b73cd62bda875fc73d68219e0036b7a0b37")
    data = bytes.fromhex(
        "be075fc53c81f2d5cf141316ebeb0c7b5228c52a4c62cbd44b66849b64244ffce5ecbaaf33bd751a1ac728d45e6c6129"
        "6cdc3c01233561f41db66cce314adb310e3be8250c46f06dceea3a7fa1348057e2f6556ad6b1318a024a838f21af1fde"
        "048977eb48f59ffd4924ca1c60902e52f0a089bc76897040e082f937763848645e0705"
    )
    box = bytes.fromhex(
        "f3ffc7703f9400e52a7dfb4b3d3305d98e993b9f48681273c29650ba32fc76ce48332ea7164d96a4476fb8c531a1186a"
        "c0dfc17c98dce87b4da7f011ec48c97271d2c20f9b928fe2270d6fb863d51738b48eeee314a7cc8ab932164548e526ae"
        "90224368517acfeabd6bb3732bc0e9da99832b61ca01b6de56244a9e88d5f9b37973f622a43d14a6599b1f654cb45a74"
        "e355a5"
    )
    provider = SecretBox("key1", key, lambda size: nonce[:size])
    assert provider.seal(data, b"") == nonce + box
    assert provider.open(nonce + box, b"") == data


@pytest.mark.parametrize(
    ("providers", "text"),
    [
        ([keyed("aescbc")], "no matching prefix found"),
        ([{"identity": {}}], "identity transformer tried to read encrypted data"),
        ([], "identity transformer tried to read encrypted data"),
    ],
)
def test_a_value_that_no_provider_reads_is_an_error(providers: list[Any], text: str) -> None:
    with pytest.raises(UnreadableError, match=text):
        encryption(*providers).open(KEY, b"k8s:enc:aesgcm:v1:other:x")


def test_other_resources_are_not_encrypted() -> None:
    assert encryption(keyed("aescbc")).seal("//configmaps/default/x", b"a") == b"a"
    assert (
        encryption(keyed("aescbc"), resource="deployments.apps").seal("/apps/deployments/a/b", b"a") != b"a"
    )


@pytest.mark.parametrize(
    ("provider", "text"),
    [
        ({"kms": {}}, r"resources\[0\].providers\[0\].kms: needs a plug-in"),
        (keyed("secretbox"), "has 16 bytes, wanted 32"),
        ({"other": {}}, "is no provider"),
        ({}, "must have one of identity, aescbc, aesgcm"),
        (keyed("aescbc", secret="?"), "secret: must be base64 encoded"),
        (keyed("aescbc", secret="YQ=="), "has 1 bytes, wanted 16 or 24 or 32"),
        (keyed("aescbc", name=""), "name: must be given"),
        ({"aescbc": {"keys": []}}, "must not be empty"),
        ({"aescbc": None}, "keys: must be a list"),
    ],
)
def test_a_wrong_configuration_is_an_error_with_its_place(provider: dict[str, Any], text: str) -> None:
    with pytest.raises(ValueError, match=text):
        encryption(provider)
