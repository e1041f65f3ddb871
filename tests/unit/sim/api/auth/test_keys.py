"""Keys of tokens: what is read of PEM texts, and what they sign and verify."""

from __future__ import annotations

from dataclasses import replace
from hashlib import sha256

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed25519
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)

from sim.api.auth.keys import (
    NO_KEY,
    UNVERIFIED,
    SigningKey,
    VerifyingKey,
    VerifyingKeys,
    public_key_set,
    read_signing_key,
    read_verifying_keys,
)
from sim.api.auth.web_tokens import WebToken, decode, encode, parse_token
from sim.wire.authority import Authority
from tests.unit.sim.api.auth.tokens import key

CURVES = (ec.SECP256R1(), ec.SECP384R1(), ec.SECP521R1())


@pytest.mark.parametrize("made", [key(), *(SigningKey(ec.generate_private_key(each)) for each in CURVES)])
def test_signing_key_signs_what_its_public_key_verifies(made: SigningKey) -> None:
    token = parse_token(made.token({"a": 1}))
    assert token is not None
    assert token.header == {"alg": made.public.algorithm, "kid": made.public.key_id}
    assert VerifyingKeys([made.public]).errors_of(token) == ()
    other = SigningKey(ec.generate_private_key(ec.SECP256R1()))
    assert VerifyingKeys([other.public]).errors_of(token)
    assert made.token({"a": 1}) == made.token({"a": 1})


def test_key_id_is_the_hash_of_the_public_key() -> None:
    public = key().public._key
    der = public.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    assert key().public.key_id == encode(sha256(der).digest())


def test_keys_are_read_from_private_and_public_parts_and_certificates() -> None:
    public = key(1).public._key.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    text = b"# keys\n" + key().pem + public + Authority("ca").pem
    found = read_verifying_keys(text)
    assert [each.key_id for each in found[:2]] == [key().public.key_id, key(1).public.key_id]
    assert [each.algorithm for each in found] == ["RS256", "RS256", "ES256"]
    assert read_signing_key(public + key().pem).public.key_id == key().public.key_id


def test_text_without_a_usable_key_is_refused() -> None:
    foreign = ed25519.Ed25519PrivateKey.generate().private_bytes(
        Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()
    )
    for text in (b"", b"x", foreign, b"-----BEGIN PUBLIC KEY-----\nYQ==\n-----END PUBLIC KEY-----\n"):
        with pytest.raises(ValueError, match=NO_KEY):
            read_verifying_keys(text)
        with pytest.raises(ValueError, match="private key"):
            read_signing_key(text)


def test_key_set_shows_public_numbers_only() -> None:
    curve = SigningKey(ec.generate_private_key(ec.SECP256R1()))
    rsa, elliptic = public_key_set([key().public, curve.public])["keys"]
    assert rsa == {
        "use": "sig",
        "kty": "RSA",
        "kid": key().public.key_id,
        "alg": "RS256",
        "n": rsa["n"],
        "e": "AQAB",
    }
    assert int.from_bytes(decode(rsa["n"]), "big") == key().public._key.public_numbers().n
    assert sorted(elliptic) == ["alg", "crv", "kid", "kty", "use", "x", "y"]
    assert (elliptic["crv"], len(decode(elliptic["x"]))) == ("P-256", 32)


def test_signature_is_verified_once_and_that_of_another_text_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made = key()
    keys, looked = VerifyingKeys([made.public]), list[bytes]()
    verifies = VerifyingKey.verifies

    def noted(each: VerifyingKey, token: WebToken) -> bool:
        looked.append(token.signed)
        return verifies(each, token)

    monkeypatch.setattr(VerifyingKey, "verifies", noted)
    token = parse_token(made.token({"sub": "a"}))
    assert isinstance(token, WebToken)
    forged = replace(token, signed=token.signed + b"x")
    assert [keys.errors_of(each) for each in (token, token, forged, forged)] == [
        (),
        (),
        (UNVERIFIED,),
        (UNVERIFIED,),
    ]
    assert looked == [token.signed, forged.signed, forged.signed]
