"""Static tokens: a file that names a user for each token.

The text of the file becomes users by token, and a token its user.

Mirrors  kubernetes v1.25 apiserver pkg/authentication/token/tokenfile/tokenfile.go.
Differs  a line without a token is an error, where upstream drops it with a warning; a line that
         begins with # is a comment.
"""

from __future__ import annotations

import csv
from collections.abc import Mapping

from sim.api.auth.authenticator import Accepted, Outcome
from sim.api.types import UserInfo
from sim.errors import InputError

COLUMNS_MIN = 3


class StaticTokens:
    """Users by token."""

    def __init__(self, users: Mapping[str, UserInfo]) -> None:
        self._users = users

    def authenticate(self, token: str, audiences: tuple[str, ...]) -> Outcome:
        """The user of a token."""
        user = self._users.get(token)
        return None if user is None else Accepted(user, lasting=True)


def parse_users(text: str, place: str) -> dict[str, UserInfo]:
    """The users of a token file: token,user,uid and, quoted, groups.  Raises InputError.

    place: the file, for errors
    """
    try:
        rows = list(csv.reader(text.splitlines(), skipinitialspace=True))
    except csv.Error as error:
        raise InputError(str(error), place) from None
    found = {}
    for number, columns in enumerate(rows, 1):
        if not columns or columns[0].startswith("#"):
            continue
        if len(columns) < COLUMNS_MIN or not columns[0] or not columns[1]:
            raise InputError("a line needs token, user and uid", f"{place}:{number}")
        groups = columns[3].split(",") if len(columns) > COLUMNS_MIN else []
        named = tuple(group.strip() for group in groups if group.strip())
        found[columns[0]] = UserInfo(columns[1], named, columns[2])
    return found
