"""What prevented an answer: a reason for the client, and a text for people.

Turns an error of the connection into "ConnectionRefused" (no connection could be made),
"ConnectionReset" (it was lost) or "Timeout", and into one line with a remedy where there is one.

Mirrors  golang crypto/x509 verify.go (the kinds of errors of a certificate).
"""

from __future__ import annotations

import ssl
from collections.abc import Mapping

import httpx

REFUSED, RESET, TIMEOUT = "ConnectionRefused", "ConnectionReset", "Timeout"
_UNKNOWN = "give the authority of its certificate as certificate-authority"
_NAME = "use a name of its certificate as server, or give one as tls-server-name"
# By the codes of OpenSSL's x509_vfy.h.
REMEDIES: Mapping[int, str] = {
    9: "compare the clocks of both machines",
    10: "renew the certificate of the server",
    18: _UNKNOWN,
    19: _UNKNOWN,
    20: _UNKNOWN,
    21: _UNKNOWN,
    62: _NAME,
    64: _NAME,
}
_NO_CONNECTION = (httpx.ConnectError, httpx.ConnectTimeout, httpx.UnsupportedProtocol, httpx.ProxyError)


def reason_of(error: Exception) -> str:
    """The reason of a connection that failed."""
    if isinstance(error, _NO_CONNECTION):
        return REFUSED
    return TIMEOUT if isinstance(error, httpx.TimeoutException) else RESET


def text_of(error: Exception) -> str:
    """What failed, on one line, and its remedy in brackets."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, ssl.SSLCertVerificationError):
            remedy = REMEDIES.get(cause.verify_code, "")
            return f"{cause.verify_message.rstrip('.')}{f' ({remedy})' if remedy else ''}"
        cause = cause.__cause__ or cause.__context__
    return " ".join(str(error).split()) or type(error).__name__
