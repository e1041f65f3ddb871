"""The review of a token: a create of one asks the authenticator; none is stored."""

from __future__ import annotations

from sim.api.kinds.kind import Kind, Row

KIND = Kind(rows=(Row("authentication", "v1", "tokenreviews", "TokenReview", namespaced=False, verbs="c"),))
