"""The first event in which a replay differs from what was served, in words.

Turns the number of a record of the replay, its trace and the operations of the journal into lines:
the event with its causes, and the operation from outside before it.

Mirrors  nothing upstream.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sim.app.inspect.traces import row
from sim.app.process.printed import visible
from sim.kernel import Operation
from sim.report.story import Book, clock
from sim.wire.http.gateway import unpack

CAUSES_MAX = 8  # lines of causes


def first_difference(differs_at: int, book: Book, operations: Sequence[Operation]) -> list[str]:
    """Name the event, its causes (the first cause first), and the operation before it.

    differs_at: number of the record; 0 if the journal does not show which it is
    """
    if not differs_at:
        return ["the journal does not show which event differs first"]
    record = book.get(differs_at)
    if record is None:
        return [f"the first event that differs is number {differs_at:,}, which the replay does not have"]
    lines = [
        f"the first event that differs is number {differs_at:,} of the replay, at {clock(record.at_us)}:"
    ]
    lines += map(row, book.story(record)[-CAUSES_MAX:])
    before = [operation for operation in operations if operation.at_us <= record.at_us]
    if not before:
        return [*lines, "no operation from outside was before it"]
    last = before[-1]
    number = f"operation {len(before):,} of {len(operations):,}"
    return [*lines, visible(f"before it, {number} from outside, at {clock(last.at_us)}: {_words(last)}")]


def _words(operation: Operation) -> str:
    """What an operation is, on one line."""
    payload: Any = operation.payload
    if operation.name == "request":
        request = unpack(payload[:4])
        place = "/".join(
            filter(None, (request.resource, request.namespace, request.name, request.subresource))
        )
        return f"{request.verb} {place} by {request.user.name}"
    if operation.name == "forward":
        return f"{payload[0][0]} {payload[0][1]}"
    return operation.name
