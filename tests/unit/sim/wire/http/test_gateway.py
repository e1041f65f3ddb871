"""Requests of clients outside, as the journal keeps them."""

from __future__ import annotations

from sim.api.types import Request, UserInfo
from sim.wire.http.gateway import pack, unpack


def test_request_keeps_every_part_that_its_answer_depends_on() -> None:
    user = UserInfo(name="alice", groups=("dev",), uid="u")
    sent = Request(
        verb="create",
        resource="configmaps",
        namespace="d",
        options={"dryRun": "All"},
        body=b"{}",
        repeated="yaml: unmarshal errors:\n  line 1: key",
        manager="m",
        user=user,
    )
    read = unpack(pack(sent))
    names = ("verb", "resource", "namespace", "options", "body", "content_type", "repeated", "manager")
    assert [getattr(read, name) for name in names] == [getattr(sent, name) for name in names]
