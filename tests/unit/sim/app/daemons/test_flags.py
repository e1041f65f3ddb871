"""Command lines by pflag's rules."""

from __future__ import annotations

import pytest

from sim.app.daemons.flags import FlagError, parse_flags
from sim.options.base import Option, boolean, integer, mapping, string, strings

KNOWN = {
    name: Option(name, read, "", None, "")
    for name, read in (
        ("leader-elect", boolean),
        ("v", integer),
        ("master", string),
        ("controllers", strings),
        ("feature-gates", mapping),
    )
}


@pytest.mark.parametrize(
    ("words", "values"),
    [
        ([], {}),
        (["--master=a=b"], {"master": "a=b"}),
        (["--master", "--v"], {"master": "--v"}),
        (["--leader-elect", "--v", "4"], {"leader-elect": "true", "v": "4"}),
        (["--leader-elect=false", "-v=4"], {"leader-elect": "false", "v": "4"}),
        (["-v4"], {"v": "4"}),
        (["-v", "4"], {"v": "4"}),
        (["--leader_elect"], {"leader-elect": "true"}),
        (["--master=a", "--master=b"], {"master": "b"}),
        (["--controllers=*", "--controllers", "-job"], {"controllers": "*,-job"}),
        (["--feature-gates=A=true", "--feature-gates=B=false"], {"feature-gates": "A=true,B=false"}),
        (["--master=a", "--"], {"master": "a"}),
    ],
)
def test_words_become_values_as_pflag_reads_them(words: list[str], values: dict[str, object]) -> None:
    assert parse_flags(words, KNOWN).values == values


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["--nope"], "unknown flag: --nope"),
        (["-x"], "unknown shorthand flag: 'x' in -x"),
        (["--master"], "flag needs an argument: --master"),
        (["---v"], "bad flag syntax: ---v"),
        (["--=3"], "bad flag syntax: --=3"),
        (["run"], 'unknown command "run"'),
        (["--", "run"], 'unknown command "run"'),
    ],
)
def test_a_wrong_command_line_has_the_words_of_pflag(words: list[str], text: str) -> None:
    with pytest.raises(FlagError) as caught:
        parse_flags(words, KNOWN)
    assert str(caught.value) == text


@pytest.mark.parametrize(
    ("words", "asked"), [(["-h"], "help"), (["--version"], "version"), (["--help=false"], "")]
)
def test_every_program_takes_help_and_version(words: list[str], asked: str) -> None:
    assert parse_flags(words, KNOWN).asked == asked
