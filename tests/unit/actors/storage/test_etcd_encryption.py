"""Encrypted values of etcd."""

from __future__ import annotations

from typing import Any

import pytest

from actors.storage.etcd.encryption import Encryption, UnreadableError
from actors.storage.etcd.keys import Keys
from sim.api.scheme.scheme import Scheme
from sim.ident import NAMES

SCHEME = Scheme(NAMES["kubernetes"])
SECRET = "c2VjcmV0IGlzIHNlY3VyZQ=="  # 16 bytes
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


@pytest.mark.parametrize("kind", ["aescbc", "aesgcm"])
def test_a_value_has_the_prefix_of_its_provider_and_leads_back(kind: str) -> None:
    sealed = encryption(keyed(kind)).seal(KEY, b"k8s\0secret")
    assert sealed.startswith(f"k8s:enc:{kind}:v1:key1:".encode())
    assert b"secret" not in sealed
    later = encryption({"identity": {}}, keyed(kind, "key2"), keyed(kind))
    assert later.open(KEY, sealed) == b"k8s\0secret"
    assert later.seal(KEY, b"a") == b"a"
    assert later.open(KEY, b"plain") == b"plain"


def test_a_value_of_aesgcm_is_bound_to_its_key_in_etcd() -> None:
    found = encryption(keyed("aesgcm"))
    with pytest.raises(UnreadableError):
        found.open("//secrets/default/y", found.seal(KEY, b"a"))


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
        ({"secretbox": {}}, "secretbox: needs a cipher"),
        ({"other": {}}, "is no provider"),
        ({}, "must have one of identity, aescbc, aesgcm"),
        (keyed("aescbc", secret="?"), "secret: must be base64 encoded"),
        (keyed("aescbc", secret="YQ=="), "has 1 bytes, wanted one of 16, 24, 32"),
        (keyed("aescbc", name=""), "name: must be given"),
        ({"aescbc": {"keys": []}}, "must not be empty"),
        ({"aescbc": None}, "keys: must be a list"),
    ],
)
def test_a_wrong_configuration_is_an_error_with_its_place(provider: dict[str, Any], text: str) -> None:
    with pytest.raises(ValueError, match=text):
        encryption(provider)
