"""URLs as Go parses them.

Turns a text into its parts, or into the reason why it is no URL, or no URL of a request: an
absolute URL, or an absolute path; a reference and its base into one URL; the address of a client
into the URL of its requests.

Mirrors  Go 1.19 net/url (Parse, ParseRequestURI, parse, parseAuthority, parseHost, unescape,
         ResolveReference, resolvePath, URL.String, RequestURI); client-go v1.25 rest/request.go
         (NewRequest, URL), which joins paths by path.Join.
"""

from __future__ import annotations

from posixpath import normpath
from typing import NamedTuple
from urllib.parse import quote, unquote

from sim.api.schema.json_text import go_quote
from sim.patterns import pattern

_SCHEME = pattern(r"([A-Za-z][A-Za-z0-9+.-]*):")
_ESCAPE = pattern(r"%(?![0-9A-Fa-f]{2})")
_USER = pattern(r"[A-Za-z0-9._:~!$&'()*+,;=%@-]*")
_HOST_CHARS = "!$&'()*+,;=:[]<>\"-_.~"
_FRAGMENT_CHARS = "$&+,/:;=?@!()*"
_PATH_CHARS = "/$&+,:;=@"


class BadUrl(Exception):
    """The text is not a URL; the message is Go's."""


class Url(NamedTuple):
    """A URL.

    host: with its port; path and query: as they are written, without "?"
    user: before the host, None if there is no "@"; fragment: after "#"
    """

    text: str
    scheme: str
    host: str
    path: str
    query: str
    opaque: str = ""
    user: str | None = None
    fragment: str = ""

    @property
    def hostname(self) -> str:
        """The host without its port and brackets."""
        host = self.host
        if host.startswith("["):
            return host[1 : host.rindex("]")]
        return host.rpartition(":")[0] if ":" in host else host

    @property
    def port(self) -> str:
        """The port, "" if there is none."""
        after = self.host.rpartition("]")[2] if self.host.startswith("[") else self.host
        return after.rpartition(":")[2] if ":" in after else ""

    @property
    def escaped_path(self) -> str:
        """The path with special characters escaped."""
        if self.path == "*":
            return self.path
        return "".join(map(_path_char, self.path))

    @property
    def request_target(self) -> str:
        """Path and query as the first line of a request holds them."""
        return (self.opaque or self.escaped_path or "/") + (f"?{self.query}" if self.query else "")

    @property
    def shown(self) -> str:
        """The URL as Go prints it: without its password, and with escapes in its host."""
        start = f"{self.scheme}:" if self.scheme else ""
        if self.opaque:
            start += self.opaque
        else:
            user = ""
            if self.user is not None:
                name, colon, _ = self.user.partition(":")
                user = f"{name}:***@" if colon else f"{name}@"
            if self.scheme or self.host or user:
                start += "//" if self.host or self.path or user else ""
            path = self.escaped_path
            start += user + quote(self.host, safe=_HOST_CHARS)
            start += f"/{path}" if self.host and path and not path.startswith("/") else path
        query = f"?{self.query}" if self.query else ""
        return start + query + (f"#{quote(self.fragment, safe=_FRAGMENT_CHARS)}" if self.fragment else "")


def _path_char(char: str) -> str:
    if char.isascii() and (char.isalnum() or char in "-_.~$&+,/:;=@!'()*[]%"):
        return char
    return "".join(f"%{byte:02X}" for byte in char.encode())


def parse_request_uri(text: str) -> Url:
    """The URL of a request.  Raises BadUrl."""
    return _parse(text, is_request=True)


def parse_url(text: str) -> Url:
    """A URL, which may be relative.  Raises BadUrl."""
    before, _, fragment = text.partition("#")
    found = _parse(before, is_request=False)
    _check_escapes(text, fragment)
    return found._replace(text=text, fragment=unquote(fragment))


def _bad(text: str, why: str) -> BadUrl:
    return BadUrl(f"parse {go_quote(text)}: {why}")


def _parse(text: str, is_request: bool) -> Url:
    if any(char < " " or char == "\x7f" for char in text):
        raise _bad(text, "net/url: invalid control character in URL")
    if not text and is_request:
        raise _bad(text, "empty url")
    if text == "*":
        return Url(text, "", "", "*", "")
    if text.startswith(":"):
        raise _bad(text, "missing protocol scheme")
    found = _SCHEME.match(text)
    scheme = found[1].lower() if found else ""
    rest, _, query = (text[found.end() :] if found else text).partition("?")
    if not rest.startswith("/"):
        if scheme:
            return Url(text, scheme, "", "", query, rest)
        if is_request:
            raise _bad(text, "invalid URI for request")
        if ":" in rest.partition("/")[0]:
            raise _bad(text, "first path segment in URL cannot contain colon")
    host, user = "", None
    if rest.startswith("//") and (scheme or not (is_request or rest.startswith("///"))):
        authority, slash, path = rest[2:].partition("/")
        rest = slash + path
        before, at, host = authority.rpartition("@")
        host, user = _host(text, host), before if at else None
        if user is not None:
            if _USER.fullmatch(user) is None:
                raise _bad(text, "net/url: invalid userinfo")
            _check_escapes(text, user)
    _check_escapes(text, rest)
    return Url(text, scheme, host, rest, query, "", user)


def _check_escapes(whole: str, part: str) -> None:
    bad = _ESCAPE.search(part)
    if bad is not None:
        raise _bad(whole, f"invalid URL escape {go_quote(part[bad.start() : bad.start() + 3])}")


def _host(whole: str, host: str) -> str:
    end = len(host)
    if host.startswith("["):
        end = host.rfind("]")
        if end < 0:
            raise _bad(whole, "missing ']' in host")
        _check_port(whole, host[end + 1 :])
    elif ":" in host:
        _check_port(whole, host[host.rfind(":") :])
    zone = host.find("%25", 0, end) if host.startswith("[") else -1
    for i, char in enumerate(host):
        in_zone = zone >= 0 and zone <= i < end
        if char == "%":
            escape = host[i : i + 3]
            if _ESCAPE.match(escape) is not None or not _may_escape(escape, in_zone):
                raise _bad(whole, f"invalid URL escape {go_quote(escape)}")
        elif char.isascii() and not char.isalnum() and char not in _HOST_CHARS:
            raise _bad(whole, f"invalid character {go_quote(char)} in host name")
    return unquote(host)


def _may_escape(escape: str, in_zone: bool) -> bool:
    """Return True if a character may be escaped in a host, or in the zone of an address."""
    if escape == "%25":
        return True
    code = int(escape[1:], 16)
    if in_zone:
        return code == ord(" ") or chr(code) in _HOST_CHARS or (chr(code).isascii() and chr(code).isalnum())
    return code >= 0x80


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


def resolved(base: Url, reference: Url) -> Url:
    """The URL that a reference means beside a base."""
    scheme = reference.scheme or base.scheme
    if reference.scheme or reference.host or reference.user is not None:
        return reference._replace(scheme=scheme, path=_resolved_path(reference.escaped_path, ""))
    if reference.opaque:
        return reference._replace(scheme=scheme, host="", path="", user=None)
    query, fragment = reference.query, reference.fragment
    if not reference.path and not query:
        query, fragment = base.query, fragment or base.fragment
    path = _resolved_path(base.escaped_path, reference.escaped_path)
    return base._replace(scheme=scheme, path=path, query=query, fragment=fragment, opaque="")


def _resolved_path(base: str, reference: str) -> str:
    """The path of a reference beside that of its base, without steps "." and ".."."""
    if reference and not reference.startswith("/"):
        full = base[: base.rfind("/") + 1] + reference
    else:
        full = reference or base
    if not full:
        return ""
    kept: list[str] = []
    steps = full.split("/")
    for step in steps:
        if step == "..":
            del kept[-1:]
        elif step != ".":
            kept.append(step)
    if steps[-1] in (".", ".."):
        kept.append("")
    made = "/" + "/".join(kept)
    return made[1:] if made.startswith("//") else made


def of_client(text: str, path: str | None = None) -> str:
    """The URL of the requests of a client with an address in its configuration, as Go prints it.

    A client joins the path of its address by path.Join: `//a/./b/` becomes `/a/b`.  A text that is
    no URL is not changed.

    path: that the client asks for in place of the path of the address
    """
    try:
        parts = parse_url(text)
    except BadUrl:
        return text
    joined = normpath("/" + unquote(parts.path if path is None else path).lstrip("/"))
    return parts._replace(path=quote(joined, safe=_PATH_CHARS)).shown
