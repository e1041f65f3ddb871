"""The reviews of access: a create of one asks the authorizer; none is stored."""

from __future__ import annotations

from sim.api.schema.kind import Kind, Row

LOCAL_SUBJECT_ACCESS_REVIEW = Kind(
    rows=(Row("authorization", "v1", "localsubjectaccessreviews", "LocalSubjectAccessReview", verbs="c"),)
)
SELF_SUBJECT_ACCESS_REVIEW = Kind(
    rows=(
        Row(
            "authorization",
            "v1",
            "selfsubjectaccessreviews",
            "SelfSubjectAccessReview",
            namespaced=False,
            verbs="c",
        ),
    )
)
SELF_SUBJECT_RULES_REVIEW = Kind(
    rows=(
        Row(
            "authorization",
            "v1",
            "selfsubjectrulesreviews",
            "SelfSubjectRulesReview",
            namespaced=False,
            verbs="c",
        ),
    )
)
SUBJECT_ACCESS_REVIEW = Kind(
    rows=(
        Row(
            "authorization", "v1", "subjectaccessreviews", "SubjectAccessReview", namespaced=False, verbs="c"
        ),
    )
)
