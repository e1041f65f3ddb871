"""What a process logs, by the options of its log."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from sim.app.daemons.logs import Log, begin
from sim.options.base import parse
from sim.options.groups.logs import LogFlags

LOG = logging.getLogger("sim.test")
HEADER = r"[IWEF]\d{4} \d\d:\d\d:\d\d\.\d{6} +\d+ test_logs\.py:\d+\] "


@pytest.fixture(autouse=True)
def _restored() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    libraries = {name: logging.getLogger(name).level for name in ("httpx", "httpcore")}
    yield
    root.handlers[:], root.level = handlers, level
    for name, before in libraries.items():
        logging.getLogger(name).setLevel(before)


def log(**given: object) -> Log:
    values = {name.replace("_", "-"): value for name, value in given.items()}
    flags: LogFlags = parse(LogFlags, values)
    return begin(flags, "prog")


def say() -> None:
    """A line of each severity, and some of higher levels."""
    LOG.info("a %s", "b")
    LOG.info("two", extra={"v": 2})
    LOG.debug("four")
    LOG.warning("w", extra={"values": {"object": "x/y", "n": 1}})
    LOG.error("e")


def messages(text: str) -> list[str]:
    """The messages of lines of text, with headers as those of klog."""
    assert all(re.match(HEADER, line) for line in text.splitlines())
    return [re.sub(HEADER, "", line) for line in text.splitlines()]


PLAIN = ["a b", '"w" object="x/y" n=1', "e"]


@pytest.mark.parametrize(
    ("given", "lines"),
    [
        ({}, PLAIN),
        ({"v": 2}, [PLAIN[0], "two", *PLAIN[1:]]),
        ({"v": 4}, [PLAIN[0], "two", "four", *PLAIN[1:]]),
        ({"vmodule": "test_*=4"}, [PLAIN[0], "two", "four", *PLAIN[1:]]),
        ({"vmodule": "other=4"}, PLAIN),
    ],
)
def test_levels_choose_what_is_logged(
    given: dict[str, object], lines: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    log(**given)
    say()
    assert messages(capsys.readouterr().err) == lines


def test_verbosity_changes_while_the_process_runs(capsys: pytest.CaptureFixture[str]) -> None:
    kept = log()
    kept.set_verbosity(4)
    say()
    kept.set_verbosity(0)
    LOG.debug("four")
    assert messages(capsys.readouterr().err).count("four") == 1


def test_json_lines_have_the_fields_of_upstream(capsys: pytest.CaptureFixture[str]) -> None:
    log(logging_format="json")
    say()
    entries = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    assert [(each["msg"], each.get("v")) for each in entries] == [("a b", 0), ("w", None), ("e", None)]
    assert (entries[1]["object"], entries[1]["n"]) == ("x/y", 1)
    assert all(each["ts"] > 1e12 and each["caller"].startswith("daemons/test_logs.py:") for each in entries)


def test_headers_are_left_out_or_have_the_folder(capsys: pytest.CaptureFixture[str]) -> None:
    log(skip_headers=True)
    say()
    assert capsys.readouterr().err.splitlines() == PLAIN
    log(add_dir_header=True)
    say()
    assert " daemons/test_logs.py:" in capsys.readouterr().err


def test_a_log_file_takes_all_lines_and_grows(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "log"
    for _ in range(2):
        kept = log(log_file=str(file), logtostderr=False, skip_log_headers=True)
        say()
        kept.flush()
    assert messages(file.read_text()) == PLAIN * 2
    assert messages(capsys.readouterr().err) == ["e", "e"]  # stderrthreshold
    kept = log(log_file=str(file), logtostderr=False, stderrthreshold="FATAL")
    say()
    assert capsys.readouterr().err == ""
    kept.flush()
    assert "Log file created at: " in file.read_text()


@pytest.mark.parametrize(("one", "lines"), [(False, 3), (True, 1)])
def test_a_folder_has_a_file_of_each_severity(one: bool, lines: int, tmp_path: Path) -> None:
    kept = log(log_dir=str(tmp_path), logtostderr=False, one_output=one, skip_log_headers=True)
    say()
    kept.flush()
    counts = {path.name.split(".log.")[1].split(".")[0]: path.read_text() for path in tmp_path.iterdir()}
    assert {name: len(text.splitlines()) for name, text in counts.items()} == {
        "INFO": lines,
        "WARNING": 1 if one else 2,
        "ERROR": 1,
    }
    assert {path.name.split(".")[0] for path in tmp_path.iterdir()} == {"prog"}


def test_lines_of_files_are_written_after_the_flush_frequency(tmp_path: Path) -> None:
    file = tmp_path / "log"
    kept = log(log_file=str(file), logtostderr=False, log_flush_frequency="20ms", skip_log_headers=True)
    say()
    assert kept.flushed.wait(30)
    assert messages(file.read_text()) == PLAIN


def test_a_failure_has_its_trace(capsys: pytest.CaptureFixture[str]) -> None:
    log()
    try:
        raise KeyError("x")
    except KeyError:
        LOG.exception("it failed")
    error = capsys.readouterr().err
    assert '"it failed" err="' in error
    assert "KeyError: 'x'" in error
