"""What ends a request from outside before the API server has it: a Status as an exception."""

from __future__ import annotations

from sim.api.types import Obj


class Refused(Exception):
    """The request is answered by this Status."""

    def __init__(self, body: Obj) -> None:
        super().__init__(type(self).__name__)
        self.body = body
