"""The form of a reply: media type, Table or metadata only, pretty-printed or not.

An Accept header becomes a `Form`, or upstream's 406.

Mirrors  kubernetes v1.25 apiserver pkg/endpoints/handlers/negotiation/negotiate.go and
         responsewriters/writers.go (gzip), go-restful's
         route selection (which evaluates the header first, case-sensitively and without wildcards
         of a type); munnerz/goautoneg autoneg.go.
Differs  more than twelve ranges are sorted stably.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from ctypes import c_float
from functools import lru_cache

from sim.api import status
from sim.api.schema.resource import Resource
from sim.dataclass import dataclass
from sim.ident import Names
from sim.patterns import pattern
from sim.wire.http.refused import Refused

_TRUE = ("1", "t", "T", "true", "TRUE", "True")  # strconv.ParseBool
_NUMBER = pattern(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?|[+-]?(inf|infinity)|nan", re.IGNORECASE | re.ASCII)
_BROWSERS = ("curl", "Wget", "Mozilla/5.0")
_INSERTED_MAX = 12  # longest slice that Go sorts by insertion
TABLE, PARTIAL, PARTIAL_LIST = "Table", "PartialObjectMetadata", "PartialObjectMetadataList"
META_VERSIONS = ("v1", "v1beta1")


@dataclass(frozen=True, slots=True)
class Form:
    """The form. media: of the body; kind: "" or one of the three above; version: of that kind;
    watch: True for a stream.
    """

    media: str
    kind: str = ""
    version: str = "v1"
    pretty: bool = False


class NotAcceptable(Refused):
    """406 with this Status."""


@dataclass(frozen=True, slots=True)
class Clause:
    """One media range of an Accept header: type, subtype, parameters, and quality."""

    type: str
    subtype: str
    parameters: Mapping[str, str]
    quality: float

    def precedes(self, other: Clause) -> bool:
        """True if this range is moved before another one.

        Quirk: this is no order: a less specific range of a better quality and a more specific range
        both precede each other (goautoneg, Less).
        """
        return (
            self.quality > other.quality
            or (self.type != "*" and other.type == "*")
            or (self.subtype != "*" and other.subtype == "*")
        )

    def covers(self, media: str) -> bool:
        """True if the range includes a media type."""
        kind, _, below = media.partition("/")
        return (self.type, self.subtype) in ((kind, below), (kind, "*"), ("*", "*"))


# Subresources with a form of a table (storage.go of their kinds: ConvertToTable).
_TABULAR = ("", "scale", "status")


# Kinds of which the status has no tables, as those of extensions and aggregation.
_PLAIN_STATUS = ("apiservices", "customresourcedefinitions", "networkpolicies")


def has_table(resource: Resource, subresource: str) -> bool:
    """True if an answer of the resource can become a Table: upstream's storage converts it.

    Kinds that are only created, such as reviews, are not converted.
    """
    if resource.custom:
        return True
    if subresource == "status" and resource.plural in _PLAIN_STATUS:
        return False
    return subresource in _TABULAR and ("get" in resource.verbs or bool(subresource))


def parse_accept(header: str) -> list[Clause]:
    """The ranges, best first; malformed ones are left out.

    Mirrors  goautoneg, ParseAccept: only spaces are trimmed; a quality that is no number is 0.
    """
    clauses = [clause for part in header.split(",") if (clause := _clause(part.strip(" "))) is not None]
    if len(clauses) > _INSERTED_MAX:
        return sorted(clauses, key=lambda each: (-each.quality, each.type == "*", each.subtype == "*"))
    for end in range(1, len(clauses)):  # sort.Sort inserts into short slices
        at = end
        while at and clauses[at].precedes(clauses[at - 1]):
            clauses[at - 1], clauses[at] = clauses[at], clauses[at - 1]
            at -= 1
    return clauses


def _clause(part: str) -> Clause | None:
    media, _, rest = part.partition(";")
    kind, _, below = media.partition("/")
    kind = kind.strip(" ")
    if not below:
        if kind != "*":
            return None
        below = "*"
    elif below.find("/") not in (-1, len(below) - 1):
        return None
    parameters: dict[str, str] = {}
    quality = 1.0
    for text in rest.split(";"):
        key, _, given = text.partition("=")
        value, _, more = given.partition("=")
        if not given or more:
            continue
        if key.strip(" ") == "q":
            quality = _quality(value)
        else:
            parameters[key.strip(" ")] = value.strip(" ")
    return Clause(kind, below.rstrip("/").strip(" "), parameters, quality)


def _quality(text: str) -> float:
    """A number as strconv.ParseFloat reads it with 32 bits; 0 for other texts."""
    return c_float(float(text)).value if _NUMBER.fullmatch(text) else 0.0


def wants_indentation(options: Mapping[str, str], agent: str) -> bool:
    """True if `?pretty` is true, or if it is not given and the client is one that people read.

    Mirrors  negotiate.go, isPrettyPrint.
    """
    text = options.get("pretty", "")
    return text in _TRUE if text else agent.startswith(_BROWSERS)


def produced(names: Names, listing: bool = False) -> list[str]:
    """What a route says it produces, in upstream's order."""
    media = [names.media_json, names.media_yaml, names.media_protobuf]
    if listing:
        media += [f"{names.media_json};stream=watch", f"{names.media_protobuf};stream=watch"]
    return media


def check_route(
    names: Names, header: str, listing: bool, json_only: bool = False, of_text: bool = False
) -> None:
    """The route's evaluation of the header, before the handler's own. Raises NotAcceptable.

    of_text: True if the route also produces text, as that of a log does
    """
    if json_only:
        check_produced(header, [names.media_json])
    elif of_text:
        check_produced(header, ["text/plain", *produced(names)])
    else:
        check_produced(header, produced(names), produced(names, listing))


def check_patch(names: Names, content: str, length: str) -> None:
    """The route's evaluation of the type of a patch, before that of the header Accept.

    content, length: the headers Content-Type and Content-Length
    Raises NotAcceptable.  Quirk: a patch without a body passes.
    """
    known = (
        names.media_json_patch,
        names.media_merge_patch,
        names.media_strategic_patch,
        names.media_apply_patch,
        "*/*",
    )
    given = [part.partition(";")[0].strip() for part in content.split(",")]
    if length.isdecimal() and int(length) > 0 and not any(media in known for media in given):
        raise NotAcceptable(status.unsupported_patch())


def check_consumed(names: Names, header: str, json_only: bool) -> None:
    """The route's evaluation of the type of a body, also of a request that has none.

    Raises NotAcceptable.  Quirk: as for a form that the route does not produce (go-restful).
    """
    known = [names.media_json] if json_only else produced(names)
    given = [part.partition(";")[0].strip() for part in header.split(",")] if header else ["*/*"]
    if not any(media == "*/*" or media in known for media in given):
        text = "406: Not Acceptable\n\nAvailable representations: "
        raise NotAcceptable(status.status(406, "NotAcceptable", text, {}))


def check_produced(header: str, known: Sequence[str], shown: Sequence[str] = ()) -> None:
    """Raise NotAcceptable if a client wants none of the types that a route produces.

    shown: the types that the refusal lists; () for the same
    """
    for part in (header or "*/*").split(","):
        media = part.partition(";")[0].strip()
        if media == "*/*" or media in known:
            return
    text = f"406: Not Acceptable\n\nAvailable representations: {', '.join(shown or known)}"
    raise NotAcceptable(status.status(406, "NotAcceptable", text, {}))


@lru_cache(maxsize=1024)
def form_of(
    names: Names,
    header: str,
    pretty: bool,
    *,
    convertible: bool,
    tabular: bool,
    watching: bool,
    protobuf: bool,
    routed: bool,
    listed: bool,
) -> Form:
    """The form of a resource's answer, remembered by the header.  Raises NotAcceptable.

    routed: True if a route of the resource evaluates the header first
    listed: True if it is a route of a list
    """
    if routed:
        check_route(names, header, listed, of_text=not convertible)
    return choose(
        names,
        header,
        pretty,
        convertible=convertible,
        tabular=tabular,
        watching=watching,
        protobuf=protobuf,
    )


def choose(
    names: Names,
    header: str,
    pretty: bool,
    *,
    convertible: bool,
    tabular: bool = True,
    watching: bool = False,
    protobuf: bool = True,
) -> Form:
    """The requested form. Raises NotAcceptable.

    pretty: True if JSON is indented even if the header does not
    convertible: True if the reply can become metadata; tabular: or a Table
    """
    if not header:
        return Form(names.media_json, pretty=pretty)
    for clause in parse_accept(header):
        for media in produced(names):
            if not clause.covers(media):
                continue
            if media == names.media_protobuf and not protobuf and not _converts(clause):
                continue
            form = _converted(names, clause, media, pretty, convertible)
            if form is None or (form.kind == TABLE and not tabular):
                continue
            if watching and media == names.media_yaml:  # Quirk: no further range is tried
                raise NotAcceptable(status.not_acceptable(produced(names, True)[3:]))
            return form
    raise NotAcceptable(status.not_acceptable(produced(names)))


def _converts(clause: Clause) -> bool:
    """True if a range asks for another kind."""
    return any(name in clause.parameters for name in ("as", "g", "v"))


def _converted(names: Names, clause: Clause, media: str, pretty: bool, convertible: bool) -> Form | None:
    parameters = clause.parameters
    stream = parameters.get("stream", "")
    if stream and (stream != "watch" or media == names.media_yaml):
        return None
    if parameters.get("sv") and (not convertible or parameters["sv"] != "v1"):
        return None
    pretty = pretty or parameters.get("pretty") == "1"
    if not _converts(clause):
        return Form(media, pretty=pretty)
    kind = parameters.get("as", "")
    if (
        not convertible
        or kind not in (TABLE, PARTIAL, PARTIAL_LIST)
        or (kind == TABLE and media == names.media_protobuf)
        or parameters.get("g") != names.group("meta")
        or parameters.get("v") not in META_VERSIONS
    ):
        return None
    return Form(media, kind, parameters["v"], pretty)


def error_form(names: Names, header: str, pretty: bool) -> Form:
    """The form of an error: as asked for without a conversion, otherwise indented JSON.

    Mirrors  responsewriters/writers.go (ErrorNegotiated, WriteRawJSON).
    """
    try:
        return choose(names, header, pretty, convertible=False)
    except NotAcceptable:
        return Form(names.media_json, pretty=True)


def accepts_gzip(header: str) -> bool:
    """True if an Accept-Encoding header names gzip (writers.go, negotiateContentEncoding)."""
    return any(token.strip() == "gzip" for token in header.split(","))
