"""Every operation that OpenAPI names is answered by what serves it.

To see it fail: leave a verb out of a resource's row and not out of the document, or name an
operation in the document that no route has.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from tests.actor.test_http import served

NOT_ALLOWED = 405
OPERATIONS_MIN = 750  # v1.25 names 753, those below /watch included
METHODS = ("get", "post", "put", "patch", "delete", "head", "options")
PATCH = {"Content-Type": "application/merge-patch+json"}


def operations(document: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Method and path of each operation, with names in place of parameters.

    A write is a dry run, and a watch begins at a version that cannot be read, so that it ends.
    """
    for path, entries in document["paths"].items():
        filled = re.sub(r"\{[^}]+\}", "x", path.replace("{namespace}", "default"))
        for method in METHODS:
            if method in entries:
                watches = "/watch/" in path or (method == "get" and path.endswith("/log"))
                query = "resourceVersion=none" if watches else "" if method == "get" else "dryRun=All"
                yield method.upper(), f"{filled}?{query}"


async def test_every_operation_of_the_document_is_allowed() -> None:
    async with served() as (_, client):
        document = (await client.get("/openapi/v2")).json()
        asked = list(operations(document))
        refused = []
        for method, path in asked:
            headers = PATCH if method == "PATCH" else None
            body = {} if method in ("POST", "PUT", "PATCH") else None
            answer = await client.request(method, path, json=body, headers=headers)
            if answer.status_code == NOT_ALLOWED:
                refused.append((method, path))
        assert refused == []
        assert len(asked) >= OPERATIONS_MIN
