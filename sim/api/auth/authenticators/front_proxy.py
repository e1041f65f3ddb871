"""Front proxies: a proxy with a certificate of its own states in headers which user it acts for.

Holds: without a valid certificate of the proxy's authority and an allowed name, no header counts;
header names are compared as HTTP does, so that `x_remote_user` is another name than
`x-remote-user`.

Mirrors  kubernetes v1.25 apiserver pkg/authentication/request/headerrequest/requestheader.go,
         pkg/authentication/request/x509/x509.go (Verifier).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from urllib.parse import unquote

from sim.api.auth.authenticator import Accepted, Credentials, Outcome, Rejected
from sim.api.auth.authenticators.client_certificates import certificate_error
from sim.api.types import UserInfo
from sim.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class ProxyHeaders:
    """The headers that a proxy uses.

    allowed_names: common names of proxies; () for any that the authority signed
    user, group: names of headers; extra: prefixes of headers
    """

    allowed_names: tuple[str, ...] = ()
    user: tuple[str, ...] = ()
    group: tuple[str, ...] = ()
    extra: tuple[str, ...] = ()


class FrontProxy:
    """The headers of proxies.  outside_us: as of `ClientCertificates`"""

    def __init__(self, wanted: ProxyHeaders, outside_us: Callable[[], int]) -> None:
        self._wanted = wanted
        self._outside_us = outside_us

    def authenticate(self, credentials: Credentials) -> Outcome:
        """The user that the headers name."""
        certificate, wanted = credentials.certificate, self._wanted
        if certificate is None:
            return None
        error = certificate_error(certificate, certificate.front_proxy_ca, self._outside_us())
        if not error and wanted.allowed_names and certificate.name not in wanted.allowed_names:
            error = f"x509: subject with cn={certificate.name} is not in the allowed list"
        if error:
            return Rejected((error,))
        name = _first_value(credentials.headers, wanted.user)
        if not name:
            return None
        groups = tuple(
            value
            for header in wanted.group
            for key, value in credentials.headers
            if key == header.lower() and value
        )
        return Accepted(UserInfo(name, groups, "", _extra(credentials.headers, wanted.extra)))


def _first_value(headers: Sequence[tuple[str, str]], names: Sequence[str]) -> str:
    """The value of the first of these headers that has one; of several values the first."""
    for name in names:
        value = next((value for key, value in headers if key == name.lower()), "")
        if value:
            return value
    return ""


def _extra(headers: Sequence[tuple[str, str]], prefixes: Sequence[str]) -> dict[str, tuple[str, ...]]:
    found: dict[str, tuple[str, ...]] = {}
    for prefix in prefixes:
        for key, value in headers:
            if key.startswith(prefix.lower()):
                name = unquote(key.removeprefix(prefix.lower())).lower()
                found[name] = (*found.get(name, ()), value)
    return found
