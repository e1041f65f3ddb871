"""TLS of a server that runs alone: names, versions, suites and files that change."""

from __future__ import annotations

import os
import ssl
from pathlib import Path

import pytest

from sim.app.daemons.serving_tls import PERIOD_S, ServingTls
from sim.errors import InputError
from sim.ident import NAMES
from sim.options.base import parse
from sim.options.groups.listening import CertificateFlags, NamedPair, named_pairs
from sim.wire.authority import Authority

HOSTS = ("127.0.0.1", "localhost")


class Clock:
    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


def write(folder: Path, name: str, *hosts: str) -> tuple[str, str]:
    pair = Authority(name).server(hosts)
    files = folder / f"{name}.crt", folder / f"{name}.key"
    for path, content in zip(files, (pair.certificate, pair.key), strict=True):
        path.write_bytes(content)
    return str(files[0]), str(files[1])


def shaken(
    served: ssl.SSLContext, name: str = "", client: ssl.SSLContext | None = None
) -> tuple[str, str, str]:
    """The issuer of the certificate that a client gets, the version and the cipher.  Raises
    ssl.SSLError.
    """
    if client is None:
        client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    client.check_hostname, client.verify_mode = False, ssl.CERT_NONE
    (one, two), (three, four) = ((ssl.MemoryBIO(), ssl.MemoryBIO()) for _ in range(2))
    near = client.wrap_bio(one, two, server_hostname=name or None)
    far = served.wrap_bio(three, four, server_side=True)
    done = [False, False]
    while not all(done):
        for at, (each, sent, heard) in enumerate(((near, two, three), (far, four, one))):
            try:
                each.do_handshake()
                done[at] = True
            except ssl.SSLWantReadError:
                pass
            heard.write(sent.read())
    der = near.getpeercert(True)
    assert der is not None
    from cryptography import x509

    issuer = x509.load_der_x509_certificate(der).issuer.rfc4514_string()
    cipher = near.cipher()
    assert cipher is not None
    return issuer, near.version() or "", cipher[0]


def flags_of(**given: object) -> CertificateFlags:
    values = {name.replace("_", "-"): value for name, value in given.items()}
    found: CertificateFlags = parse(CertificateFlags, values, names=NAMES["orch"])
    return found


def test_names_choose_the_certificate(tmp_path: Path) -> None:
    default, one, wild = (
        ",".join(write(tmp_path, name, host))
        for name, host in (("default", "d.test"), ("one", "a.test"), ("wild", "w.test"))
    )
    certificate, key = default.split(",")
    tls = ServingTls(
        flags_of(
            tls_cert_file=certificate,
            tls_private_key_file=key,
            tls_sni_cert_key=f"{one};{wild}:*.test,B.test",
        ),
        "x",
        HOSTS,
    )
    found = {name: shaken(tls.context, name)[0] for name in ("a.test", "c.test", "b.test", "other", "")}
    assert found == {
        "a.test": "CN=one",
        "c.test": "CN=wild",
        "b.test": "CN=wild",
        "other": "CN=default",
        "": "CN=default",
    }


def test_files_that_change_are_followed_and_bad_ones_are_not(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    clock = Clock()
    certificate, key = write(tmp_path, "tls", "a.test")
    tls = ServingTls(flags_of(tls_cert_file=certificate, tls_private_key_file=key), "x", HOSTS, None, clock)
    for source, name in zip(write(tmp_path, "second", "a.test"), (certificate, key), strict=True):
        os.replace(source, name)
    assert shaken(tls.context)[0] == "CN=tls"  # within the same second
    clock.now_s = PERIOD_S
    assert shaken(tls.context)[0] == "CN=second"
    Path(key).write_text("no key")
    clock.now_s *= 2
    assert shaken(tls.context)[0] == "CN=second"
    assert "cannot be used" in caplog.text


def test_authorities_of_clients_are_followed(tmp_path: Path) -> None:
    clock, first, second = Clock(), Authority("first"), Authority("second")
    trusted = [first.pem]
    tls = ServingTls(flags_of(cert_dir=""), "x", HOSTS, lambda: trusted[0], clock)
    pair = second.client("someone", ())
    client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    client.maximum_version = ssl.TLSVersion.TLSv1_2  # its handshake sees a refusal
    for name, content in (("c", pair.certificate), ("k", pair.key)):
        (tmp_path / name).write_bytes(content)
    client.load_cert_chain(tmp_path / "c", tmp_path / "k")
    with pytest.raises(ssl.SSLError):
        shaken(tls.context, client=client)
    trusted[0], clock.now_s = second.pem, PERIOD_S
    assert shaken(tls.context, client=client)[1] == "TLSv1.2"


@pytest.mark.filterwarnings("ignore:ssl.TLSVersion:DeprecationWarning")
@pytest.mark.parametrize(
    ("lowest", "spoken", "works"),
    [
        ("", ssl.TLSVersion.TLSv1_2, True),
        ("", ssl.TLSVersion.TLSv1_1, False),
        ("VersionTLS11", ssl.TLSVersion.TLSv1_1, True),
        ("VersionTLS11", ssl.TLSVersion.TLSv1, False),
        ("VersionTLS13", ssl.TLSVersion.TLSv1_2, False),
        ("VersionTLS13", ssl.TLSVersion.TLSv1_3, True),
    ],
)
def test_versions_are_those_of_the_option(lowest: str, spoken: ssl.TLSVersion, works: bool) -> None:
    tls = ServingTls(flags_of(cert_dir="", tls_min_version=lowest), "x", HOSTS)
    client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    client.set_ciphers("DEFAULT:@SECLEVEL=0")
    client.minimum_version = client.maximum_version = spoken
    try:
        version = shaken(tls.context, client=client)[1]
    except ssl.SSLError:
        version = ""
    assert bool(version) == works


@pytest.mark.parametrize("suite", ["AES256-GCM-SHA384", "CHACHA20-POLY1305"])
def test_suites_are_those_of_the_option(suite: str) -> None:
    named = {
        "AES256-GCM-SHA384": "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384",
        "CHACHA20-POLY1305": "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256",
    }
    tls = ServingTls(flags_of(cert_dir="", tls_cipher_suites=named[suite]), "x", HOSTS)
    client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    client.maximum_version = ssl.TLSVersion.TLSv1_2
    assert shaken(tls.context, client=client)[2] == f"ECDHE-ECDSA-{suite}"
    client.set_ciphers("ECDHE-ECDSA-AES128-GCM-SHA256")
    with pytest.raises(ssl.SSLError):
        shaken(tls.context, client=client)


def test_a_pair_that_cannot_be_used_is_named(tmp_path: Path) -> None:
    certificate, _ = write(tmp_path, "one", "a.test")
    _, key = write(tmp_path, "two", "a.test")
    with pytest.raises(InputError, match=r"--tls-cert-file: .*cannot be used"):
        ServingTls(flags_of(tls_cert_file=certificate, tls_private_key_file=key), "x", HOSTS)
    with pytest.raises(InputError, match="--tls-sni-cert-key"):
        ServingTls(flags_of(cert_dir="", tls_sni_cert_key="nope.crt,nope.key"), "x", HOSTS)


@pytest.mark.parametrize("text", ["a", "a,b,c", "a,b:", ",b"])
def test_named_pairs_that_cannot_be_read_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"comma separated|empty names"):
        named_pairs(text)


def test_named_pairs_are_read_with_their_names() -> None:
    assert named_pairs("a,b;c,d:x, y") == (NamedPair("a", "b"), NamedPair("c", "d", ("x", "y")))
