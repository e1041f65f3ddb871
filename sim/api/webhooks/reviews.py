"""The form of the reviews that webhooks answer with, as Go's decoder of webhook clients has it.

A JSON value becomes the fields of the review that was asked for, or `BadReview` with the text of
the decoder's error: about its kind and version, or about the first value of a wrong type.  The same
holds for the reviews of services that judge tokens, requests and images.

Holds: an answer without kind or version counts as the review that was asked for.

Mirrors  kubernetes v1.25 apiserver pkg/util/webhook/client.go (the scheme of a client);
         apimachinery pkg/runtime/serializer/{json,versioning}; api admission/v1/types.go;
         apiextensions-apiserver pkg/apis/apiextensions/v1/types.go (ConversionReview).
"""

from __future__ import annotations

from functools import lru_cache

from sim.api.schema.field_schemas import META, SchemaNode, schema_of
from sim.api.schema.field_validation import DecodeError, conform, head_problem
from sim.api.types import Json, Obj

VERSIONS = ("v1", "v1beta1")
_GROUPLESS = ("Status", "APIVersions", "APIGroup", "APIGroupList", "APIResourceList")
_DEFINITIONS = {
    "TokenReview": "io.k8s.api.authentication.v1.TokenReview",
    "SubjectAccessReview": "io.k8s.api.authorization.v1.SubjectAccessReview",
}
_IMAGE_REVIEW = "io.k8s.api.imagepolicy.v1alpha1.ImageReview"
_PACKAGES = {
    "AdmissionReview": "io.k8s.api.admission",
    "ConversionReview": "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions",
}


class BadReview(ValueError):
    """The answer cannot be decoded; the message is the one that users see."""


def decoded_review(answer: Json, asked: Obj) -> Obj:
    """The fields of an answer.  Raises BadReview.

    asked: the review that was sent
    """
    value = {} if answer is None else answer
    if problem := head_problem(value):
        raise BadReview(problem)
    version, kind = value.get("apiVersion") or asked["apiVersion"], value.get("kind") or asked["kind"]
    if version.count("/") > 1:
        raise BadReview(f"unexpected GroupVersion string: {version}")
    group, _, wanted = asked["apiVersion"].rpartition("/")
    given_group, _, short = version.rpartition("/")
    is_review = kind == asked["kind"] and given_group == group and short in VERSIONS
    if not is_review and kind not in _GROUPLESS:
        registered = f'no kind "{kind}" is registered for version "{version}"'
        raise BadReview(f'{registered} in scheme "pkg/runtime/scheme.go:100"')
    if not is_review or short != wanted:
        given_type = f"{short if is_review else 'v1'}.{kind}"
        raise BadReview(f"converting ({given_type}) to ({wanted}.{asked['kind']}): unknown conversion")
    made, _ = conform(_review(kind, wanted), value, kind)
    if isinstance(made, DecodeError):
        raise BadReview(made.message)
    return {**made, "apiVersion": value.get("apiVersion"), "kind": value.get("kind")}


def decoded_status(answer: Json, kind: str) -> Obj:
    """The status of a TokenReview, SubjectAccessReview or ImageReview.  Raises BadReview.

    Mirrors  client-go v1.25 rest/request.go (Result.Into): an answer without kind and version
             counts as the kind that was asked for.
    """
    value = {} if answer is None else answer
    if problem := head_problem(value):
        raise BadReview(problem)
    made, _ = conform(_access_review(kind), value, kind)
    if isinstance(made, DecodeError):
        raise BadReview(made.message)
    return made.get("status") or {}


@lru_cache
def _access_review(kind: str) -> SchemaNode:
    if kind in _DEFINITIONS:
        return schema_of(_DEFINITIONS[kind])
    status = SchemaNode("object", f"{_IMAGE_REVIEW}Status")
    notes = _scalar("map")
    notes.values = _scalar("string")
    status.properties = {
        "allowed": _scalar("boolean"),
        "reason": _scalar("string"),
        "auditAnnotations": notes,
    }
    review = SchemaNode("object", _IMAGE_REVIEW)
    review.properties = {"status": status, "apiVersion": _scalar("string"), "kind": _scalar("string")}
    return review


@lru_cache
def _review(kind: str, version: str) -> SchemaNode:
    package = f"{_PACKAGES[kind]}.{version}"
    fields = {"uid": _scalar("string", "types.UID")}
    if kind == "AdmissionReview":
        name = "AdmissionResponse"
        encoded, texts, notes = SchemaNode("string", format="byte"), _scalar("array"), _scalar("map")
        encoded.go_type = "[]uint8"
        texts.items = notes.values = _scalar("string")
        fields |= {
            "allowed": _scalar("boolean"),
            "status": schema_of(f"{META}Status"),
            "patch": encoded,
            "patchType": _scalar("string", f"{version}.PatchType"),
            "auditAnnotations": notes,
            "warnings": texts,
        }
    else:
        name = "ConversionResponse"
        objects = _scalar("array", "[]runtime.RawExtension")
        objects.items = SchemaNode("any")
        fields |= {"convertedObjects": objects, "result": schema_of(f"{META}Status")}
    response = SchemaNode("object", f"{package}.{name}")
    response.properties = fields
    review = SchemaNode("object", f"{package}.{kind}")
    review.properties = {"response": response, "apiVersion": _scalar("string"), "kind": _scalar("string")}
    return review


def _scalar(kind: str, go_type: str = "") -> SchemaNode:
    node = SchemaNode(kind)
    node.go_type = go_type
    return node
