"""What a controller manager that runs alone signs with."""

from __future__ import annotations

from pathlib import Path

import pytest

from actors.controllers.table import LOOPS
from sim.api.auth.keys import read_signing_key
from sim.app.daemons.controller_manager import signing_of, token_signer, with_keys
from sim.errors import InputError
from sim.ident import NAMES
from sim.options.controllers.manager import parse_controller_manager
from sim.wire.authority import Authority

KUBERNETES = NAMES["kubernetes"]
CLIENTS = "kubernetes.io/kube-apiserver-client"
SIGNING = {"csrsigning", "serviceaccount-token"}


@pytest.fixture
def files(tmp_path: Path) -> dict[str, str]:
    """The options of an authority, and of the key of its tokens."""
    whole = Authority("ca").signing_pem.decode()
    at = whole.rindex("-----BEGIN")
    certificate, key = tmp_path / "ca.crt", tmp_path / "ca.key"
    certificate.write_text(whole[:at])
    key.write_text(whole[at:])
    return {
        "cluster-signing-cert-file": str(certificate),
        "cluster-signing-key-file": str(key),
        "service-account-private-key-file": str(key),
    }


def test_controllers_without_keys_do_not_run_and_are_named(caplog: pytest.LogCaptureFixture) -> None:
    assert LOOPS.keys() - with_keys(parse_controller_manager({})).keys() == SIGNING
    assert caplog.messages == [
        "serviceaccount-token controller is disabled because there is no private key",
        "skipping CSR signer controller because no csr cert/key was specified",
    ]


def test_controllers_with_keys_sign_with_those_of_the_files(files: dict[str, str]) -> None:
    options = parse_controller_manager(files, names=KUBERNETES)
    assert with_keys(options) == LOOPS
    authority = signing_of(options, KUBERNETES)(CLIENTS)
    written = [Path(files[f"cluster-signing-{what}-file"]).read_text() for what in ("cert", "key")]
    assert authority.split() == "".join(written).split()
    expected = read_signing_key(written[1].encode()).token({"sub": "a"})
    assert token_signer(options)({"sub": "a"}).split(".")[:2] == expected.split(".")[:2]


def test_an_authority_that_is_replaced_signs_from_then_on(
    files: dict[str, str], caplog: pytest.LogCaptureFixture
) -> None:
    authority = signing_of(parse_controller_manager(files, names=KUBERNETES), KUBERNETES)
    whole = Authority("second").signing_pem.decode()
    at = whole.rindex("-----BEGIN")
    for what, text in (("cert", whole[:at]), ("key", whole[at:])):
        Path(files[f"cluster-signing-{what}-file"]).write_text(text)
    assert authority(CLIENTS).split() == whole.split()
    Path(files["cluster-signing-cert-file"]).write_text("no certificate")
    assert authority(CLIENTS).split() == whole.split()
    assert "cannot be read" in caplog.text


def test_a_key_file_that_does_not_exist_is_an_error() -> None:
    options = parse_controller_manager({"service-account-private-key-file": "/nowhere/key"})
    with pytest.raises(InputError, match="no such file"):
        token_signer(options)
