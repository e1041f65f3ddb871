"""Client certificates: the common name is the user, each organization a group.

Holds: a certificate counts only if an authority of the right bundle signed it, it is valid at the
time of the request, and its extended key usage allows clients.

Mirrors  kubernetes v1.25 apiserver pkg/authentication/request/x509/x509.go.
Differs  intermediate certificates that a client sends are not used; errors name the certificate by
         its subject.
"""

from __future__ import annotations

from collections.abc import Callable

from sim.api.auth.authenticator import Accepted, Certificate, Credentials, Outcome, Rejected
from sim.api.types import UserInfo
from sim.units import SECOND


def certificate_error(certificate: Certificate, known: bool, now_us: int) -> str:
    """Why a certificate is not valid; "" if it is.

    known: True if an authority signed it that counts for this use
    """
    error = ""
    if now_us < certificate.valid_from_us or now_us > certificate.valid_until_us:
        error = "x509: certificate has expired or is not yet valid"
    elif not known:
        error = "x509: certificate signed by unknown authority"
    elif not certificate.for_clients:
        error = "x509: certificate specifies an incompatible key usage"
    return f"verifying certificate {certificate.identifier} failed: {error}" if error else ""


class ClientCertificates:
    """Certificates of the authorities of `client-ca-file`, and of the server's own one.

    outside_us: reads the clock by which connections are judged, in microseconds of Unix time
    """

    def __init__(self, outside_us: Callable[[], int]) -> None:
        self._outside_us = outside_us
        # Called with how long the certificate of a request remains valid, in seconds.
        self.counted: Callable[[float], None] = lambda left_s: None

    def authenticate(self, credentials: Credentials) -> Outcome:
        """The subject of the certificate."""
        certificate = credentials.certificate
        if certificate is None:
            return None
        error = certificate_error(certificate, certificate.client_ca, self._outside_us())
        if error:
            return Rejected((error,))
        self.counted((certificate.valid_until_us - self._outside_us()) / SECOND)
        return Accepted(UserInfo(certificate.name, certificate.groups)) if certificate.name else None
