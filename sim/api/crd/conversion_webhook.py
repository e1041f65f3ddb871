"""Conversion of custom resources by a webhook.

An object of one version becomes the `Question` for the webhook of its definition, and the answer
becomes the object in the wanted version, or a refusal.

Holds: of an object's metadata only labels and annotations are taken from an answer; an object that
has the wanted version already is not sent; each object is a review of its own, as in upstream,
which converts where it decodes.

Mirrors  apiextensions-apiserver v1.25 pkg/apiserver/conversion/webhook_converter.go.
Differs  the uid of a review depends on the object and on the number of reviews before it,
         upstream's is random. managedFields of other versions are not converted.
"""

from __future__ import annotations

from hashlib import sha256
from typing import Any

from sim.api.crd.definition_form import SERVICE_PORT, names_of
from sim.api.crd.served import CustomResource
from sim.api.refusals import internal
from sim.api.schema.json_text import go_quote
from sim.api.store import Question
from sim.api.types import Json, Obj
from sim.api.validation import metadata as metadata_rules
from sim.api.webhooks.reviews import BadReview, decoded_review
from sim.units import SECOND

REVIEW_VERSIONS = ("v1", "v1beta1")
TIMEOUT_US = 30 * SECOND  # of Go's client for webhooks without a time of their own
_SUCCESS = "Success"
_NO_SUCCESS = "response.result.status was '{}', not 'Success'"


class BadAnswer(Exception):
    """The answer of a webhook breaks a rule; the message is upstream's."""


def version_of(obj: Obj) -> str:
    """The version of an object, without its group."""
    return str(obj.get("apiVersion") or "").rpartition("/")[2]


def question_of(resource: CustomResource, obj: Obj, wanted: str) -> Question:
    """What the webhook is asked for an object, which has not the wanted version."""
    webhook = resource.definition["spec"]["conversion"]["webhook"]
    client = webhook["clientConfig"]
    service = client.get("service")
    address = None
    if service is not None:
        path = "/" + (service.get("path") or "").removeprefix("/")
        address = (service["namespace"], service["name"], path, service.get("port", SERVICE_PORT))
    known = [one for one in webhook.get("conversionReviewVersions") or () if one in REVIEW_VERSIONS]
    if not known:
        raise internal("no supported conversion review versions")
    wanted_version = f"{resource.group}/{wanted}"
    body = {
        "apiVersion": names_of(resource.definition).api_version("apiextensions", known[0]),
        "kind": "ConversionReview",
        "request": {
            "uid": _uid(obj, wanted_version, next(resource.reviews)),
            "desiredAPIVersion": wanted_version,
            "objects": [obj],
        },
    }
    name = f"conversion_webhook_for_{resource.definition['metadata']['name']}"
    return Question(name, client.get("url") or "", address, body, TIMEOUT_US, client.get("caBundle") or "")


def _uid(obj: Obj, wanted: str, number: int) -> str:
    metadata = obj.get("metadata") or {}
    named = [str(metadata.get(field)) for field in ("uid", "resourceVersion", "namespace", "name")]
    digits = sha256("\n".join([wanted, str(number), *named]).encode()).hexdigest()
    return f"{digits[:8]}-{digits[8:12]}-4{digits[13:16]}-8{digits[17:20]}-{digits[20:32]}"


def answered(resource: CustomResource, question: Question, answer: Json, failure: str) -> Obj:
    """The converted object.  Raises Refusal."""
    request = question.body["request"]
    (given,) = request["objects"]
    wanted = request["desiredAPIVersion"]
    kind = f"{given.get('apiVersion')}, Kind={resource.kind}"
    try:
        if failure:
            raise BadAnswer(f"failed: {failure}")
        made = _objects(question, answer)
        if len(made) != 1:
            raise BadAnswer(f"returned {len(made)} objects, expected 1")
        return _checked(given, made[0], wanted)
    except BadAnswer as error:
        raise internal(f"conversion webhook for {kind} {error}") from None


def _objects(question: Question, answer: Json) -> list[Json]:
    """The objects in an answer that reports success."""
    version = question.body["apiVersion"]
    try:
        decoded = decoded_review(answer, question.body)
    except BadReview as error:
        raise BadAnswer(f"failed: {error}") from None
    found = f"{decoded['apiVersion'] or '/'}, Kind={decoded['kind'] or ''}"
    if version.endswith("/v1") and found != f"{version}, Kind=ConversionReview":
        wanted = f"{version}, Kind=ConversionReview"
        raise BadAnswer(f"failed: expected webhook response of {wanted}, got {found}")
    response = decoded.get("response")
    if response is None:
        raise BadAnswer("failed: no response provided")
    asked, uid = question.body["request"]["uid"], str(response.get("uid") or "")
    if version.endswith("/v1") and uid != asked:
        raise BadAnswer(f"failed: expected response.uid={go_quote(asked)}, got {go_quote(uid)}")
    result = response.get("result")
    result = result if isinstance(result, dict) else {}
    status, message = result.get("status") or "", result.get("message")
    if status != _SUCCESS:
        raise BadAnswer(f"failed: {message or _NO_SUCCESS.format(status)}")
    objects = response.get("convertedObjects")
    return objects if isinstance(objects, list) else []


def _checked(given: Obj, made: Json, wanted: str) -> Obj:
    """A converted object with the metadata of the one that was sent."""
    where = "returned invalid object"
    if not isinstance(made, dict):
        raise BadAnswer(f"{where}: not an object")
    if made.get("apiVersion") != wanted:
        expected = f"(expected {wanted}, received {made.get('apiVersion') or ''})"
        raise BadAnswer(f"{where} at index 0: invalid groupVersion {expected}")
    if made.get("kind") != given.get("kind"):
        expected = f"(expected {given.get('kind')}, received {made.get('kind') or ''})"
        raise BadAnswer(f"{where} at index 0: invalid kind {expected}")
    before, after = given["metadata"], made.get("metadata")
    before_names, after_names = (one if isinstance(one, dict) else {} for one in (before, after))
    for field, shown in (("name", "name"), ("namespace", "namespace"), ("uid", "UID")):
        expected, got = before_names.get(field) or "", after_names.get(field) or ""
        if expected != got:
            raise BadAnswer(f"{where}: must have the same {shown}: {expected} != {got}")
    try:
        return {**made, "metadata": _metadata(before, after)}
    except BadAnswer as error:
        raise BadAnswer(f"returned invalid metadata: {error}") from None


_GO_TYPES: dict[type, str] = {
    bool: "bool",
    int: "int64",
    float: "float64",
    str: "string",
    list: "[]interface {}",
    dict: "map[string]interface {}",
    type(None): "<nil>",
}


def _metadata(before: Obj, after: Json) -> Obj:
    if after is None:
        raise BadAnswer("missing metadata in converted object")
    if not isinstance(after, dict):
        raise BadAnswer(f"invalid metadata of type {_GO_TYPES[type(after)]} in converted object")
    made = dict(before)
    for field in ("labels", "annotations"):
        given: Any = after.get(field)
        if given is None:
            made.pop(field, None)
            continue
        if not isinstance(given, dict):
            kind = _GO_TYPES[type(given)]
            raise BadAnswer(f"invalid metadata.{field} of type {kind} in converted object")
        for key, value in given.items():
            if not isinstance(value, str):
                kind = _GO_TYPES[type(value)]
                text = f"metadata.{field}[{key}] must be a string, but is {kind} in converted object"
                raise BadAnswer(text)
        if given != before.get(field):
            _check(field, given)
        made[field] = given
    return made


def _check(field: str, given: Obj) -> None:
    if field == "labels":
        errors = metadata_rules.labels(given, "metadata.labels")
    else:
        errors = metadata_rules.annotation_map(given, "metadata.annotation")
    texts = list(dict.fromkeys(f"{error.field}: {error.message}" for error in errors))
    if texts:
        raise BadAnswer(texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]")
