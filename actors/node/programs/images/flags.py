"""The flags of a program written in golang."""

from __future__ import annotations


def flags_of(words: tuple[str, ...], switches: tuple[str, ...] = ()) -> tuple[dict[str, str], list[str]]:
    """The flags of a subcommand and the words that are none.  switches: flags without a value"""
    found: dict[str, str] = {}
    rest: list[str] = []
    given = list(words)
    while given:
        word = given.pop(0)
        if not word.startswith("-") or word == "-":
            rest.append(word)
            continue
        name, equals, value = word.lstrip("-").partition("=")
        if not equals:
            value = "true" if name in switches or not given else given.pop(0)
        found[name] = value
    return found, rest
