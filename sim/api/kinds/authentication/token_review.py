"""The review of a token: the authenticator answers a create of one, and none is stored."""

from __future__ import annotations

from sim.api.schema.kind import Kind, Row

KIND = Kind(rows=(Row("authentication", "v1", "tokenreviews", "TokenReview", namespaced=False, verbs="c"),))
