"""Links of a program's answer, so that they lead through the proxy.  Pure.

Turns the header Location and the pages in HTML of a program into those that a client of the proxy
can follow.

Holds: the work is linear in the length of a page.

Mirrors  apimachinery v1.25 pkg/util/proxy/transport.go (rewriteURL, rewriteHTML);
         golang.org/x/net/html token.go (Token.String).
Differs  a page is read by its tags alone; a tag that does not end is dropped with what follows, as
         there.
"""

from __future__ import annotations

from collections.abc import Callable
from html import unescape
from posixpath import normpath
from urllib.parse import urlsplit

from sim.dataclass import dataclass
from sim.patterns import pattern

# Which attributes of which tags are links (atomsToAttrs).
ATTRIBUTES = {
    "a": ("href",), "applet": ("codebase",), "area": ("href",), "audio": ("src",), "base": ("href",),
    "blockquote": ("cite",), "body": ("background",), "button": ("formaction",), "command": ("icon",), "del": ("cite",),
    "embed": ("src",), "form": ("action",), "frame": ("longdesc", "src"), "head": ("profile",), "html": ("manifest",),
    "iframe": ("longdesc", "src"), "img": ("longdesc", "src", "usemap"), "input": ("src", "usemap", "formaction"),
    "ins": ("cite",), "link": ("href",), "object": ("classid", "codebase", "data", "usemap"), "q": ("cite",),
    "script": ("src",), "source": ("src",), "video": ("poster", "src"),
}  # fmt: skip
# What these contain is text up to their end (golang.org/x/net/html token.go: readStartTag).
RAW = (
    "iframe",
    "noembed",
    "noframes",
    "noscript",
    "plaintext",
    "script",
    "style",
    "textarea",
    "title",
    "xmp",
)
_CLOSING = pattern(r"</([A-Za-z]++)(?=[\s/>])")
_TAG = pattern(r"<([A-Za-z][^\s/>]*+)((?:[^>\"']|\"[^\"]*+\"|'[^']*+')*+)>")
_ATTRIBUTE = pattern(r"([^\s/>=]++)(?:\s*+=\s*+(?:\"([^\"]*+)\"|'([^']*+)'|([^\s>]*+)))?+")
_SPECIAL = (("&", "&amp;"), ("'", "&#39;"), ("<", "&lt;"), (">", "&gt;"), ('"', "&#34;"))


@dataclass(frozen=True, slots=True)
class Proxied:
    """Where a program is, and where its client sees it.

    host: address and port of the program; asked: the header Host of the client
    prefix: the path of the proxy
    """

    host: str
    asked: str
    prefix: str

    def rewrite(self, link: str) -> str:
        """A link of the program as the client can follow it."""
        try:
            url = urlsplit(link)
        except ValueError:
            return link
        if (url.netloc and url.netloc not in (self.host, self.asked)) or not url.path.startswith("/"):
            return link
        if url.netloc != self.asked or not url.netloc:
            url = url._replace(scheme="", netloc="")
        if not url.path.startswith(self.prefix):
            slash = "/" if url.path.endswith("/") else ""
            url = url._replace(path=joined(self.prefix, url.path) + slash)
        return url.geturl()


def joined(prefix: str, path: str) -> str:
    """Two paths as one without needless parts (golang path.Join)."""
    whole = "/".join(part for part in (prefix, path) if part)
    return normpath(whole).replace("//", "/") if whole else ""


def rewritten(page: bytes, rewrite: Callable[[str], str]) -> bytes:
    """A page in HTML with its links rewritten."""
    text = page.decode("utf-8", "surrogateescape")
    parts: list[str] = []
    place = 0
    while True:
        start = text.find("<", place)
        if start < 0:
            parts.append(text[place:])
            break
        parts.append(text[place:start])
        place = _step(text, start, rewrite, parts)
        if place < 0:
            break
    return "".join(parts).encode("utf-8", "surrogateescape")


def _step(text: str, start: int, rewrite: Callable[[str], str], parts: list[str]) -> int:
    """Take over what begins with `<`; where the next part begins, -1 at the end of the page."""
    follows = text[start + 1 : start + 2]
    if not (follows.isascii() and follows.isalpha()):
        end = text.find("-->", start) if text.startswith("<!--", start) else start
        after = len(text) if end < 0 else end + (3 if end > start else 1)
        parts.append(text[start:after])
        return after
    found = _TAG.match(text, start)
    if found is None:
        return -1
    name = found[1].lower()
    parts.append(_tag(name, found[2], rewrite))
    if name not in RAW:
        return found.end()
    closings = (each.start() for each in _CLOSING.finditer(text, found.end()) if each[1].lower() == name)
    after = next(closings, len(text))
    parts.append(text[found.end() : after])
    return after


def _tag(name: str, inner: str, rewrite: Callable[[str], str]) -> str:
    """A tag as its tokens are written."""
    links = ATTRIBUTES.get(name, ())
    shown = [name]
    for found in _ATTRIBUTE.finditer(inner):
        key = found[1].lower()
        value = unescape(next((group for group in found.groups()[1:] if group is not None), ""))
        if key in links:
            value = rewrite(value)
        for sign, escaped in _SPECIAL:
            value = value.replace(sign, escaped)
        shown.append(f'{key}="{value}"')
    return f"<{' '.join(shown)}{'/' if inner.endswith('/') else ''}>"
