"""Keys of service account tokens: signing, verifying, and their public form for others.

PEM texts and JSON web key sets become keys; claims become signed tokens; a token
becomes the errors of its verification.

Holds: the key decides which algorithms are possible, never the token alone: `none` and symmetric
algorithms are refused with each key.

Mirrors  kubernetes v1.25 pkg/serviceaccount/{jwt,openidmetadata}.go, client-go util/keyutil/key.go
         (ParsePublicKeysPEM, ParsePrivateKeyPEM), go-jose 2.6 asymmetric.go.
Differs  keys of other kinds than RSA and ECDSA with the curves P-256, P-384 and P-521 are refused
         when they are read; RSA signatures are made with SHA-256 only, as upstream's.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from hashlib import sha256

import msgspec
from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature, encode_dss_signature
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
    load_pem_public_key,
)

from sim.api.auth.web_tokens import WebToken, compact, decode, encode
from sim.api.types import Obj
from sim.patterns import pattern

UNVERIFIED = "square/go-jose: error in cryptographic primitive"
NO_KEY = "data does not contain any valid RSA or ECDSA public keys"
RSA_BITS = 2048  # kubeadm: keySize
VERIFIED_MAX = 1024  # tokens of which the signature is known
PrivateKey = rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey
PublicKey = rsa.RSAPublicKey | ec.EllipticCurvePublicKey
_BLOCK = pattern(rb"-----BEGIN ([A-Z0-9 ]+)-----.*?-----END \1-----", re.DOTALL)
_HASHES: dict[str, hashes.HashAlgorithm] = {
    "256": hashes.SHA256(),
    "384": hashes.SHA384(),
    "512": hashes.SHA512(),
}
_WEB_CURVES: dict[str, ec.EllipticCurve] = {
    "P-256": ec.SECP256R1(),
    "P-384": ec.SECP384R1(),
    "P-521": ec.SECP521R1(),
}
_CURVES = {"secp256r1": "ES256", "secp384r1": "ES384", "secp521r1": "ES512"}


class VerifyingKey:
    """A public key.

    algorithm: the one that its owner signs with
    key_id: None for the hash of the key
    """

    def __init__(self, key: PublicKey, key_id: str | None = None) -> None:
        self._key = key
        self.algorithm = "RS256" if isinstance(key, rsa.RSAPublicKey) else _CURVES[key.curve.name]
        der = key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
        self.key_id = encode(sha256(der).digest()) if key_id is None else key_id

    @property
    def pem(self) -> bytes:
        """The key, PEM."""
        return self._key.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)

    def verifies(self, token: WebToken) -> bool:
        """True if this key made the signature, with an algorithm that is possible with it."""
        algorithm, key = token.algorithm, self._key
        made_with = _HASHES.get(algorithm[2:])
        if made_with is None:
            return False
        try:
            if isinstance(key, ec.EllipticCurvePublicKey):
                if algorithm != self.algorithm:
                    return False
                key.verify(_der_signature(key, token.signature), token.signed, ec.ECDSA(made_with))
            elif algorithm[:2] == "RS":
                key.verify(token.signature, token.signed, padding.PKCS1v15(), made_with)
            elif algorithm[:2] == "PS":
                salted = padding.PSS(padding.MGF1(made_with), padding.PSS.AUTO)
                key.verify(token.signature, token.signed, salted, made_with)
            else:
                return False
        except (InvalidSignature, ValueError):
            return False
        return True

    def web_key(self) -> Obj:
        """The key as a JSON web key."""
        shown = {"use": "sig", "kty": "RSA", "kid": self.key_id}
        key = self._key
        if isinstance(key, rsa.RSAPublicKey):
            numbers = key.public_numbers()
            return {**shown, "alg": self.algorithm, "n": _number(numbers.n), "e": _number(numbers.e)}
        point = key.public_numbers()
        size = _size(key)
        curve = {"crv": f"P-{key.curve.key_size}", "alg": self.algorithm}
        return {**shown, "kty": "EC", **curve, "x": _number(point.x, size), "y": _number(point.y, size)}


class VerifyingKeys:
    """Several keys, of which each may verify a token."""

    def __init__(self, keys: Iterable[VerifyingKey]) -> None:
        self.keys = tuple({key.key_id: key for key in keys}.values())
        # Texts with a signature that is right: it takes 0.1 ms to see.
        self._verified: set[tuple[bytes, bytes]] = set()

    def errors_of(self, token: WebToken) -> tuple[str, ...]:
        """Why no key verifies a token; () if one does."""
        shown = (token.signed, token.signature)
        if shown in self._verified:
            return ()
        if not any(key.verifies(token) for key in self.keys):
            return (UNVERIFIED,)
        if len(self._verified) >= VERIFIED_MAX:
            self._verified.clear()
        self._verified.add(shown)
        return ()


class SigningKey:
    """A private key."""

    def __init__(self, key: PrivateKey) -> None:
        self._key = key
        self.public = VerifyingKey(key.public_key())

    @classmethod
    def new(cls) -> SigningKey:
        """A key that nothing else knows."""
        return cls(rsa.generate_private_key(65537, RSA_BITS))

    @property
    def pem(self) -> bytes:
        """The key, PEM."""
        return self._key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())

    def token(self, claims: Obj) -> str:
        """A token with these claims."""
        public = self.public
        signed = compact({"alg": public.algorithm, "kid": public.key_id}, claims)
        data = signed.encode()
        if isinstance(self._key, rsa.RSAPrivateKey):
            signature = self._key.sign(data, padding.PKCS1v15(), hashes.SHA256())
        else:
            made_with = ec.ECDSA(_HASHES[public.algorithm[2:]], deterministic_signing=True)
            size = _size(self._key)
            pair = decode_dss_signature(self._key.sign(data, made_with))
            signature = b"".join(each.to_bytes(size, "big") for each in pair)
        return f"{signed}.{encode(signature)}"


def read_signing_key(pem: bytes) -> SigningKey:
    """The first private key of a PEM text; raises ValueError."""
    for block in _BLOCK.finditer(pem):
        key = _private(block[0])
        if key is not None:
            return SigningKey(key)
    raise ValueError("data does not contain a valid RSA or ECDSA private key")


def read_verifying_keys(pem: bytes) -> list[VerifyingKey]:
    """All keys of a PEM text: private, public or in certificates; raises ValueError if there is
    none.
    """
    found = []
    for block in _BLOCK.finditer(pem):
        private = _private(block[0])
        public = private.public_key() if private is not None else _public(block[0])
        if public is not None:
            found.append(VerifyingKey(public))
    if not found:
        raise ValueError(NO_KEY)
    return found


def public_key_set(keys: Iterable[VerifyingKey]) -> Obj:
    """The keys as a JSON web key set."""
    return {"keys": [key.web_key() for key in keys]}


def read_key_set(data: bytes) -> list[VerifyingKey]:
    """The RSA and ECDSA keys for signatures of a JSON web key set; raises ValueError if it is none."""
    try:
        found = msgspec.json.decode(data, type=_KeySet)
    except (msgspec.DecodeError, RecursionError) as error:
        raise ValueError(f"is no JSON web key set: {error}") from None
    keys = (_web_key(each) for each in found.keys if each.use in ("", "sig"))
    return [key for key in keys if key is not None]


class _WebKey(msgspec.Struct, frozen=True):
    """One key of a set."""

    kty: str
    kid: str = ""
    use: str = ""
    crv: str = ""
    n: str = ""
    e: str = ""
    x: str = ""
    y: str = ""


class _KeySet(msgspec.Struct, frozen=True):
    keys: list[_WebKey]


def _web_key(key: _WebKey) -> VerifyingKey | None:
    """A key of a set; None for kinds that are not supported."""

    def number(text: str) -> int:
        return int.from_bytes(decode(text), "big")

    curve = _WEB_CURVES.get(key.crv)
    try:
        if key.kty == "RSA":
            return VerifyingKey(rsa.RSAPublicNumbers(number(key.e), number(key.n)).public_key(), key.kid)
        if key.kty == "EC" and curve is not None:
            point = ec.EllipticCurvePublicNumbers(number(key.x), number(key.y), curve)
            return VerifyingKey(point.public_key(), key.kid)
    except ValueError:
        return None
    return None


def _private(pem: bytes) -> PrivateKey | None:
    try:
        key = load_pem_private_key(pem, None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        return None
    if isinstance(key, rsa.RSAPrivateKey) or (
        isinstance(key, ec.EllipticCurvePrivateKey) and key.curve.name in _CURVES
    ):
        return key
    return None


def _public(pem: bytes) -> PublicKey | None:
    try:
        if b"BEGIN CERTIFICATE-" in pem:
            key = x509.load_pem_x509_certificate(pem).public_key()
        else:
            key = load_pem_public_key(pem)  # type: ignore[assignment]  # a narrower union
    except (ValueError, UnsupportedAlgorithm):
        return None
    if isinstance(key, rsa.RSAPublicKey) or (
        isinstance(key, ec.EllipticCurvePublicKey) and key.curve.name in _CURVES
    ):
        return key
    return None


def _size(key: ec.EllipticCurvePublicKey | ec.EllipticCurvePrivateKey) -> int:
    return (key.curve.key_size + 7) // 8


def _der_signature(key: ec.EllipticCurvePublicKey, signature: bytes) -> bytes:
    size = _size(key)
    if len(signature) != 2 * size:
        raise ValueError("the signature has another length")
    return encode_dss_signature(
        int.from_bytes(signature[:size], "big"), int.from_bytes(signature[size:], "big")
    )


def _number(value: int, size: int = 0) -> str:
    return encode(value.to_bytes(size or (value.bit_length() + 7) // 8, "big"))
