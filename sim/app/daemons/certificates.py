"""The certificate of a server that runs alone.

Turns the options of its certificates into one pair: that of the files, or one that is made once and
kept in the folder of `--cert-dir`, or in memory if that names no folder.

Holds: a key that is made has mode 0600; files that exist are read and never replaced.

Mirrors  kubernetes v1.25 apiserver pkg/server/options/serving.go (MaybeDefaultWithSelfSignedCerts),
         client-go util/cert (GenerateSelfSignedCertKey: the pair holds its authority too).
"""

from __future__ import annotations

import logging
import os
from collections.abc import Sequence
from pathlib import Path

from sim.errors import InputError
from sim.files import read_bounded
from sim.options.groups.listening import CertificateFlags
from sim.wire.authority import Authority
from sim.wire.tls import Pair

LOG = logging.getLogger(__name__)
PRIVATE = 0o600


def serving_pair(flags: CertificateFlags, name: str, hosts: Sequence[str]) -> Pair:
    """Certificate and key of a server.  Raises InputError.

    name: of the files in the folder, such as "apiserver"
    hosts: names and addresses of the server, for a certificate that is made
    """
    if flags.tls_cert_file:
        return Pair(
            read_bounded(Path(flags.tls_cert_file), place="--tls-cert-file"),
            read_bounded(Path(flags.tls_private_key_file), place="--tls-private-key-file"),
        )
    if not flags.cert_dir:
        return _made(hosts)
    folder = Path(flags.cert_dir)
    certificate, key = files_of_pair(flags, name)
    if certificate.exists() and key.exists():
        return Pair(read_bounded(certificate), read_bounded(key))
    half = next((path for path in (certificate, key) if path.exists()), None)
    if half is not None:
        raise InputError(
            f"{half}: the other file of this pair is missing", "--cert-dir", "name another folder"
        )
    pair = _made(hosts)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for path, content, mode in ((certificate, pair.certificate, 0o644), (key, pair.key, PRIVATE)):
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
            with os.fdopen(descriptor, "wb") as file:
                file.write(content)
    except OSError as error:
        raise InputError(f"{error.filename}: {error.strerror}", "--cert-dir", "name another folder") from None
    LOG.info("Generated self-signed cert (%s, %s)", certificate, key)
    return pair


def files_of_pair(flags: CertificateFlags, name: str) -> tuple[Path, ...]:
    """The files of certificate and key of a server; () for a pair that is in memory alone."""
    if flags.tls_cert_file:
        return Path(flags.tls_cert_file), Path(flags.tls_private_key_file)
    folder = Path(flags.cert_dir)
    return (folder / f"{name}.crt", folder / f"{name}.key") if flags.cert_dir else ()


def _made(hosts: Sequence[str]) -> Pair:
    authority = Authority(f"{hosts[0]}-ca")
    new = authority.server(tuple(dict.fromkeys(hosts)))
    return Pair(new.certificate + authority.pem, new.key)
