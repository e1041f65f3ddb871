"""The authorities of the signers of a served cluster, from the files that options name."""

from __future__ import annotations

from pathlib import Path

import pytest

from actors.controllers.certificates.issue import stand_in
from sim.app.serving.identities import signing_authorities
from sim.errors import InputError
from sim.ident import NAMES
from sim.options.controllers.manager import parse_controller_manager

N = NAMES["kubernetes"]
ONE, OTHER = stand_in("ca", 5, 0), stand_in("ca", 6, 0)


def files(folder: Path, certificate: str, key: str, signer: str = "kubelet-serving-") -> dict[str, str]:
    paths = {}
    for kind, pem in (("cert", certificate), ("key", key)):
        path = folder / kind
        path.write_text(pem)
        paths[f"cluster-signing-{signer}{kind}-file"] = str(path)
    return paths


def halves(pem: str) -> tuple[str, str]:
    at = pem.rindex("-----BEGIN")
    return pem[:at], pem[at:]


@pytest.mark.parametrize(
    ("option", "signer"),
    [
        ("kubelet-serving-", "kubernetes.io/kubelet-serving"),
        ("kubelet-client-", "kubernetes.io/kube-apiserver-client-kubelet"),
        ("kube-apiserver-client-", "kubernetes.io/kube-apiserver-client"),
        ("legacy-unknown-", "kubernetes.io/legacy-unknown"),
    ],
)
def test_files_of_a_signer_take_the_place_of_the_clusters_authority(
    option: str, signer: str, tmp_path: Path
) -> None:
    options = parse_controller_manager(files(tmp_path, *halves(ONE), option), names=N)
    found = signing_authorities(options, N, OTHER.encode())
    assert found == {"": OTHER, signer: ONE}


def test_files_of_all_signers_are_the_authority_of_each(tmp_path: Path) -> None:
    options = parse_controller_manager(files(tmp_path, *halves(ONE), ""), names=N)
    assert signing_authorities(options, N, OTHER.encode()) == {"": ONE}


def test_key_of_another_certificate_is_an_input_error(tmp_path: Path) -> None:
    options = parse_controller_manager(files(tmp_path, halves(ONE)[0], halves(OTHER)[1]), names=N)
    with pytest.raises(InputError, match="the key is not that of the certificate"):
        signing_authorities(options, N, OTHER.encode())
