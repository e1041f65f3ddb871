"""Values of etcd at rest, encrypted.

Turns a configuration of providers by resource into the values of those resources: the first
provider writes, and each one reads what has its prefix.

Holds: a value that no provider can read is an error, never an object.

Mirrors  kubernetes v1.25 apiserver pkg/server/options/encryptionconfig/config.go,
         pkg/storage/value/transformer.go, pkg/storage/value/encrypt/{aes,secretbox,identity}, and
         pkg/storage/etcd3/store.go (the key of etcd is the additional data of aesgcm).
Differs  an object that another provider than the first has written is rewritten by its next update
         alone; kms is refused.
"""

from __future__ import annotations

from base64 import b64decode
from binascii import Error as NoBase64
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.padding import PKCS7
from nacl.exceptions import CryptoError
from nacl.secret import SecretBox as NaclBox

from actors.storage.etcd.keys import Keys
from sim.api.scheme.scheme import Scheme

ENCRYPTED = b"k8s:enc:"
BLOCK, NONCE = 16, 12
REFUSED = {"kms": "needs a plug-in that is called over gRPC"}
RandomBytes = Callable[[int], bytes]


class UnreadableError(Exception):
    """No provider can read a value."""


class Identity:
    """Values as they are."""

    prefix = b""

    def seal(self, data: bytes, name: bytes) -> bytes:
        """The value to store.  name: its key in etcd"""
        return data

    def open(self, data: bytes, name: bytes) -> bytes:
        """The value that is stored.  Raises UnreadableError."""
        if data.startswith(ENCRYPTED):
            raise UnreadableError("identity transformer tried to read encrypted data")
        return data


class AesCbc(Identity):
    """AES with blocks in a chain.  key_name: in the prefix"""

    kind = "aescbc"
    key_sizes: Sequence[int] = (16, 24, 32)

    def __init__(self, key_name: str, key: bytes, random_bytes: RandomBytes) -> None:
        self.prefix = ENCRYPTED + f"{self.kind}:v1:{key_name}:".encode()
        self._key, self._random = key, random_bytes

    def seal(self, data: bytes, name: bytes) -> bytes:
        """See `Identity.seal`."""
        start, padder = self._random(BLOCK), PKCS7(8 * BLOCK).padder()
        new = Cipher(algorithms.AES(self._key), modes.CBC(start)).encryptor()
        return start + new.update(padder.update(data) + padder.finalize()) + new.finalize()

    def open(self, data: bytes, name: bytes) -> bytes:
        """See `Identity.open`."""
        start, rest, padder = data[:BLOCK], data[BLOCK:], PKCS7(8 * BLOCK).unpadder()
        try:
            new = Cipher(algorithms.AES(self._key), modes.CBC(start)).decryptor()
            return padder.update(new.update(rest) + new.finalize()) + padder.finalize()
        except ValueError as error:
            raise UnreadableError(f"the stored data cannot be decrypted: {error}") from None


class AesGcm(AesCbc):
    """AES with an authentication of the value and its key."""

    kind = "aesgcm"

    def seal(self, data: bytes, name: bytes) -> bytes:
        """See `Identity.seal`."""
        nonce = self._random(NONCE)
        return nonce + AESGCM(self._key).encrypt(nonce, data, name)

    def open(self, data: bytes, name: bytes) -> bytes:
        """See `Identity.open`."""
        try:
            return AESGCM(self._key).decrypt(data[:NONCE], data[NONCE:], name)
        except (InvalidTag, ValueError):
            raise UnreadableError("the stored data cannot be decrypted") from None


class SecretBox(AesCbc):
    """XSalsa20 with an authentication of the value by Poly1305."""

    kind = "secretbox"
    key_sizes = (NaclBox.KEY_SIZE,)

    def seal(self, data: bytes, name: bytes) -> bytes:
        """See `Identity.seal`."""
        return bytes(NaclBox(self._key).encrypt(data, self._random(NaclBox.NONCE_SIZE)))

    def open(self, data: bytes, name: bytes) -> bytes:
        """See `Identity.open`."""
        try:
            return NaclBox(self._key).decrypt(data)
        except (CryptoError, ValueError):
            raise UnreadableError("the stored data cannot be decrypted") from None


KINDS: Mapping[str, type[AesCbc]] = {each.kind: each for each in (AesCbc, AesGcm, SecretBox)}
PLAIN: Sequence[Identity] = (Identity(),)


class Encryption:
    """The providers of each resource.  Raises ValueError for a configuration that is wrong.

    config: an EncryptionConfiguration; {} for none
    """

    def __init__(
        self, scheme: Scheme, keys: Keys, config: Mapping[str, Any], random_bytes: RandomBytes
    ) -> None:
        self._keys = keys
        self._providers: dict[str, Sequence[Identity]] = {}
        if config and config.get("kind") != "EncryptionConfiguration":
            raise ValueError(f"kind: is {config.get('kind')!r}, wanted EncryptionConfiguration")
        prefixes = {each.group_resource: each.prefix for each in scheme.resources}
        for index, group in enumerate(_list(config.get("resources") or [], "resources")):
            at = f"resources[{index}]"
            providers = [
                each
                for number, entry in enumerate(_list(group.get("providers"), f"{at}.providers"))
                for each in _provider(entry, f"{at}.providers[{number}]", random_bytes)
            ]
            for name in _list(group.get("resources"), f"{at}.resources"):
                if name in prefixes:
                    self._providers.setdefault(prefixes[name], providers)

    def seal(self, key: str, data: bytes) -> bytes:
        """The value to store under a key of the store."""
        first = self._of(key)[0]
        return first.prefix + first.seal(data, self._keys.of_etcd(key).encode())

    def open(self, key: str, data: bytes) -> bytes:
        """The value that is stored under a key of the store.  Raises UnreadableError."""
        name, problem = self._keys.of_etcd(key).encode(), "no matching prefix found"
        for each in self._of(key):
            if data.startswith(each.prefix):
                try:
                    return each.open(data[len(each.prefix) :], name)
                except UnreadableError as error:
                    problem = str(error)
        raise UnreadableError(problem)

    def _of(self, key: str) -> Sequence[Identity]:
        return self._providers.get(key[: key.index("/", key.index("/", 1) + 1) + 1], PLAIN)


def _list(value: Any, at: str) -> Sequence[Any]:
    if not isinstance(value, list):
        raise ValueError(f"{at}: must be a list")
    return value


def _provider(given: Any, at: str, random_bytes: RandomBytes) -> list[Identity]:
    """The providers of an entry, one for each key."""
    if not isinstance(given, Mapping) or len(given) != 1:
        raise ValueError(f"{at}: must have one of identity, {', '.join((*KINDS, *REFUSED))}")
    ((kind, value),) = given.items()
    if kind == "identity":
        return [Identity()]
    if kind not in KINDS:
        reason = REFUSED.get(kind)
        raise ValueError(f"{at}.{kind}: {reason or 'is no provider'}")
    result: list[Identity] = []
    for index, entry in enumerate(_list((value or {}).get("keys"), f"{at}.{kind}.keys")):
        place = f"{at}.{kind}.keys[{index}]"
        name, secret = str(entry.get("name") or ""), str(entry.get("secret") or "")
        if not name or ":" in name:
            raise ValueError(f"{place}.name: must be given, without a colon")
        try:
            key = b64decode(secret, validate=True)
        except NoBase64:
            raise ValueError(f"{place}.secret: must be base64 encoded") from None
        if len(key) not in KINDS[kind].key_sizes:
            sizes = " or ".join(map(str, KINDS[kind].key_sizes))
            raise ValueError(f"{place}.secret: has {len(key)} bytes, wanted {sizes}")
        result.append(KINDS[kind](name, key, random_bytes))
    if not result:
        raise ValueError(f"{at}.{kind}.keys: must not be empty")
    return result
