"""URLs as Go parses them.

Turns a text into its parts, or into the reason why it is no URL of a request: an absolute URL, or
an absolute path.

Mirrors  Go 1.19 net/url (ParseRequestURI, parse, parseAuthority, parseHost, validEncoded).
"""

from __future__ import annotations

import re
from typing import NamedTuple
from urllib.parse import unquote

from sim.api.schema.json_text import go_quote

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):")
_ESCAPE = re.compile(r"%(?![0-9A-Fa-f]{2})")
_USER = re.compile(r"[A-Za-z0-9._:~!$&'()*+,;=%@-]*")
_HOST_CHARS = "!$&'()*+,;=:[]<>\"-_.~"


class BadUrl(Exception):
    """The text is not a URL; the message is Go's."""


class Url(NamedTuple):
    """A URL. host: with its port; path and query: as they are written, without "?"."""

    text: str
    scheme: str
    host: str
    path: str
    query: str
    opaque: str = ""

    @property
    def hostname(self) -> str:
        """The host without its port and brackets."""
        host = self.host
        if host.startswith("["):
            return host[1 : host.index("]")]
        return host.partition(":")[0] if ":" in host else host

    @property
    def port(self) -> str:
        """The port, "" if there is none."""
        after = self.host.rpartition("]")[2]
        return after.partition(":")[2]

    @property
    def escaped_path(self) -> str:
        """The path with special characters escaped."""
        if self.path == "*":
            return self.path
        return "".join(map(_path_char, self.path))


def _path_char(char: str) -> str:
    if char.isascii() and (char.isalnum() or char in "-_.~$&+,/:;=@!'()*[]%"):
        return char
    return "".join(f"%{byte:02X}" for byte in char.encode())


def parse_request_uri(text: str) -> Url:
    """The URL of a request.  Raises BadUrl."""
    return _parse(text, text)


def parse_url(text: str) -> Url:
    """A URL without its fragment.  Raises BadUrl."""
    return _parse(text, text.partition("#")[0])


def _bad(text: str, why: str) -> BadUrl:
    return BadUrl(f"parse {go_quote(text)}: {why}")


def _parse(whole: str, text: str) -> Url:
    if any(char < " " or char == "\x7f" for char in text):
        raise _bad(whole, "net/url: invalid control character in URL")
    if not text:
        raise _bad(whole, "empty url")
    if text.startswith(":"):
        raise _bad(whole, "missing protocol scheme")
    found = _SCHEME.match(text)
    scheme = found[1].lower() if found else ""
    rest, _, query = (text[found.end() :] if found else text).partition("?")
    if text == "*":
        return Url(whole, "", "", "*", "")
    if not rest.startswith("/"):
        if not scheme:
            raise _bad(whole, "invalid URI for request")
        return Url(whole, scheme, "", "", query, rest)
    host = ""
    if scheme and rest.startswith("//"):
        authority, slash, path = rest[2:].partition("/")
        rest = slash + path
        host = _host(whole, authority)
    if (bad := _ESCAPE.search(rest)) is not None:
        raise _bad(whole, f"invalid URL escape {go_quote(rest[bad.start() : bad.start() + 3])}")
    return Url(whole, scheme, host, rest, query)


def _host(whole: str, authority: str) -> str:
    user, at, host = authority.rpartition("@")
    if at and _USER.fullmatch(user) is None:
        raise _bad(whole, "net/url: invalid userinfo")
    if host.startswith("["):
        end = host.rfind("]")
        if end < 0:
            raise _bad(whole, "missing ']' in host")
        _check_port(whole, host[end + 1 :])
        return host
    colon = host.rfind(":")
    if colon >= 0:
        _check_port(whole, host[colon:])
    for i, char in enumerate(host):
        if char == "%":
            escape = host[i : i + 3]
            if _ESCAPE.match(escape) is not None or int(escape[1], 16) < 8:
                raise _bad(whole, f"invalid URL escape {go_quote(escape)}")
        elif char.isascii() and not char.isalnum() and char not in _HOST_CHARS:
            raise _bad(whole, f"invalid character {go_quote(char)} in host name")
    return unquote(host)


def _check_port(whole: str, text: str) -> None:
    if text and not (text[0] == ":" and all(char in "0123456789" for char in text[1:])):
        raise _bad(whole, f"invalid port {go_quote(text)} after host")


def query_values(query: str) -> dict[str, list[str]]:
    """The values of a query by their keys; parts that are wrongly escaped are left away."""
    found: dict[str, list[str]] = {}
    for part in query.split("&"):
        if not part or ";" in part or _ESCAPE.search(part) is not None:
            continue
        key, _, value = part.partition("=")
        found.setdefault(_unescaped(key), []).append(_unescaped(value))
    return found


def _unescaped(text: str) -> str:
    return unquote(text.replace("+", " "))
