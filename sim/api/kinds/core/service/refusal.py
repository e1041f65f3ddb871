"""The refusal of a Service that cannot get its addresses or ports."""

from __future__ import annotations


class ServiceRefusal(Exception):
    """The Service cannot get what it needs.

    causes: (reason, field, message) of each error of the request
    failure: text if a range is exhausted, or the store does not answer; "" otherwise
    bare: True if upstream gives the failure no reason
    """

    def __init__(self, causes: list[tuple[str, str, str]], failure: str = "", bare: bool = False) -> None:
        super().__init__(failure or causes[0][2])
        self.bare = bare
        self.causes = causes
        self.failure = failure
