"""Request targets: from the first line of an HTTP/1.1 request to a path and a query.

Mirrors  golang net/url url.go (ParseRequestURI, getScheme, parseHost) and net/http request.go
         (readRequest), at go1.19.
Differs  `scheme:opaque` is refused, where Go serves the empty path; an absolute URL without a path
         is that of `/`.
"""

from __future__ import annotations

from sim.patterns import pattern

_SCHEME = pattern(rb"[A-Za-z][A-Za-z0-9+.-]*:")


def origin_form(method: bytes, target: bytes) -> bytes | None:
    """Path and query of a request target; None if it is malformed."""
    if target == b"*":
        return target
    if method == b"CONNECT" and not target.startswith(b"/"):
        target = b"http://" + target
    scheme = _SCHEME.match(target)
    rest, mark, query = target[scheme.end() if scheme else 0 :].partition(b"?")
    if scheme and rest.startswith(b"//"):
        authority, slash, path = rest[2:].partition(b"/")
        if not _is_authority(authority):
            return None
        rest = slash + path or b"/"
    return rest + mark + query if rest.startswith(b"/") else None


def _is_authority(authority: bytes) -> bool:
    """True for a host, or an address in brackets, with or without a port that is a number."""
    host = authority.rpartition(b"@")[2]
    if host.startswith(b"["):
        _, bracket, port = host.rpartition(b"]")
        return bool(bracket) and (not port or (port.startswith(b":") and _is_port(port[1:])))
    _, _, port = host.rpartition(b":") if b":" in host else (b"", b"", b"")
    return _is_port(port)


def _is_port(text: bytes) -> bool:
    return not text or text.isdigit()
