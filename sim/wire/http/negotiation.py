"""The form of a reply: media type, Table or metadata only, pretty-printed or not.

An Accept header becomes a `Form`, or upstream's 406.

Mirrors  kubernetes v1.25 apiserver pkg/endpoints/handlers/negotiation/negotiate.go and
         responsewriters/writers.go (gzip), go-restful's
         route selection (which evaluates the header first, case-sensitively and without wildcards
         of a type).
Differs  a Table in protobuf, which does not exist, is skipped; upstream chooses it and then refuses
         with 406.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sim.api import status
from sim.api.schema.resource import Resource
from sim.api.types import Obj
from sim.ident import Names

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


class NotAcceptable(Exception):
    """406 with this Status."""

    def __init__(self, body: Obj) -> None:
        super().__init__("not acceptable")
        self.body = body


@dataclass(frozen=True, slots=True)
class Clause:
    """One media range of an Accept header."""

    media: str
    parameters: Mapping[str, str]
    quality: float


# Subresources with a form of a table (storage.go of their kinds: ConvertToTable).
_TABULAR = ("", "scale", "status")


def has_table(resource: Resource, subresource: str) -> bool:
    """True if an answer of the resource can become a Table: upstream's storage converts it.

    Kinds that are only created, such as reviews, are not converted.
    """
    if resource.custom:
        return True
    return subresource in _TABULAR and ("get" in resource.verbs or bool(subresource))


def parse_accept(header: str) -> list[Clause]:
    """The ranges, best first; equal ones in the order given."""
    clauses = []
    for part in header.split(","):
        media, *rest = (text.strip() for text in part.split(";"))
        if not media:
            continue
        parameters = {}
        for text in rest:
            key, _, value = text.partition("=")
            parameters[key.strip()] = value.strip()
        try:
            quality = float(parameters.pop("q", "1"))
        except ValueError:
            quality = 1.0
        clauses.append(Clause(media, parameters, quality))
    return sorted(clauses, key=lambda clause: (-clause.quality, clause.media == "*/*"))


def produced(names: Names, listing: bool = False) -> list[str]:
    """What a route says it produces, in upstream's order."""
    media = [names.media_json, names.media_yaml, names.media_protobuf]
    if listing:
        media += [f"{names.media_json};stream=watch", f"{names.media_protobuf};stream=watch"]
    return media


def check_route(names: Names, header: str, listing: bool, json_only: bool = False) -> None:
    """The route's evaluation of the header, before the handler's own. Raises NotAcceptable."""
    if json_only:
        check_produced(header, [names.media_json])
    else:
        check_produced(header, produced(names), produced(names, listing))


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


def choose(
    names: Names,
    header: str,
    options: Mapping[str, str],
    *,
    convertible: bool,
    tabular: bool = True,
    watching: bool = False,
    protobuf: bool = True,
) -> Form:
    """The requested form. Raises NotAcceptable.

    convertible: True if the reply can become metadata; tabular: or a Table
    """
    pretty = "pretty" in options and options["pretty"].lower() not in ("0", "false")
    if not header:
        return Form(names.media_json, pretty=pretty)
    clauses = parse_accept(header)
    for clause in clauses:
        media = _media(names, clause.media, watching)
        if media is None or (
            media == names.media_protobuf and not protobuf and "as" not in clause.parameters
        ):
            continue
        form = _converted(names, clause, media, pretty, convertible)
        if form is not None and (tabular or form.kind != TABLE):
            return form
    accepted = produced(names)
    yaml_watch = watching and any(clause.media == names.media_yaml for clause in clauses)
    if yaml_watch:
        accepted = produced(names, True)[3:]
    raise NotAcceptable(status.not_acceptable(accepted))


def _media(names: Names, asked: str, watching: bool) -> str | None:
    if asked in ("*/*", "application/*", names.media_json):
        return names.media_json
    if asked == names.media_protobuf:
        return asked
    return names.media_yaml if asked == names.media_yaml and not watching else None


def _converted(names: Names, clause: Clause, media: str, pretty: bool, convertible: bool) -> Form | None:
    parameters = clause.parameters
    if parameters.get("stream", "watch") != "watch":
        return None
    kind = parameters.get("as", "")
    pretty = pretty or parameters.get("pretty") in ("1", "true")
    if not kind:
        return Form(media, pretty=pretty)
    if (
        not convertible
        or kind not in (TABLE, PARTIAL, PARTIAL_LIST)
        or (kind == TABLE and media.endswith("protobuf"))
        or parameters.get("g") != names.group("meta")
        or parameters.get("v") not in META_VERSIONS
    ):
        return None
    return Form(media, kind, parameters["v"], pretty)


def error_form(names: Names, header: str) -> Form:
    """The form of an error: YAML or protobuf where that is asked for, otherwise JSON."""
    for clause in parse_accept(header):
        if clause.media in (names.media_yaml, names.media_protobuf) and "as" not in clause.parameters:
            return Form(clause.media)
        if clause.media in ("*/*", names.media_json):
            break
    return Form(names.media_json)


def accepts_gzip(header: str) -> bool:
    """True if an Accept-Encoding header names gzip (writers.go, negotiateContentEncoding)."""
    return any(token.strip() == "gzip" for token in header.split(","))
