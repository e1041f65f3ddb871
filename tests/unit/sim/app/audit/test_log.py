"""The audit log: its lines, and the files that take the place of a large one."""

import gzip
from pathlib import Path
from typing import Any

import pytest

from sim.api.audit.settings import LogSettings
from sim.app.audit.log import AuditLog
from sim.errors import InputError
from sim.units import HOUR, SECOND

AT_US = 1_640_995_200 * SECOND  # 2022-01-01T00:00:00Z


def log(tmp_path: Path, **settings: Any) -> AuditLog:
    return AuditLog(LogSettings(str(tmp_path / "audit.log"), **settings))


def names(tmp_path: Path) -> list[str]:
    return sorted(path.name for path in tmp_path.iterdir())


def test_events_are_lines_of_a_private_file(tmp_path: Path) -> None:
    written = log(tmp_path)
    assert written.write([{"n": 1}, {"n": 2}], AT_US)
    file = tmp_path / "audit.log"
    assert file.read_bytes() == b'{"n":1}\n{"n":2}\n'
    assert file.stat().st_mode & 0o777 == 0o600
    written.close()


def test_file_that_is_there_is_replaced_only_by_force(tmp_path: Path) -> None:
    file = tmp_path / "audit.log"
    file.write_text("mine")
    with pytest.raises(InputError, match="exists already"):
        log(tmp_path)
    assert file.read_text() == "mine"
    AuditLog(LogSettings(str(file)), force=True).close()
    assert file.read_text() == ""


def test_large_file_is_put_aside_under_its_time(tmp_path: Path) -> None:
    written = log(tmp_path, size_max=20)
    for number in range(5):
        written.write([{"n": number}], AT_US + number * 1000)
    written.close()
    older = ["audit-2022-01-01T00-00-00.002.log", "audit-2022-01-01T00-00-00.004.log"]
    assert names(tmp_path) == [*older, "audit.log"]
    assert (tmp_path / older[0]).read_bytes() == b'{"n":0}\n{"n":1}\n'
    assert (tmp_path / "audit.log").read_bytes() == b'{"n":4}\n'


def test_only_so_many_older_files_are_kept(tmp_path: Path) -> None:
    (tmp_path / "audit-2021-01-01T00-00-00.000.log").write_text("of the user")
    written = log(tmp_path, size_max=1, backups_max=1)
    for number in range(4):
        written.write([{"n": number}], AT_US + number * 1000)
    written.close()
    kept = ["audit-2021-01-01T00-00-00.000.log", "audit-2022-01-01T00-00-00.003.log", "audit.log"]
    assert names(tmp_path) == kept


def test_older_files_are_removed_after_their_days(tmp_path: Path) -> None:
    written = log(tmp_path, size_max=1, age_max_days=1)
    for hour in (0, 1, 20, 26):
        written.write([{"n": hour}], AT_US + hour * HOUR)
    written.close()
    kept = ["audit-2022-01-01T20-00-00.000.log", "audit-2022-01-02T02-00-00.000.log", "audit.log"]
    assert names(tmp_path) == kept


def test_older_files_are_compressed(tmp_path: Path) -> None:
    written = log(tmp_path, size_max=1, compresses=True)
    written.write([{"n": 0}], AT_US)
    written.write([{"n": 1}], AT_US)
    written.close()
    older = tmp_path / "audit-2022-01-01T00-00-00.000.log.gz"
    assert gzip.decompress(older.read_bytes()) == b'{"n":0}\n'
    assert names(tmp_path) == [older.name, "audit.log"]


def test_files_of_one_instant_have_different_names(tmp_path: Path) -> None:
    written = log(tmp_path, size_max=1)
    for number in range(3):
        written.write([{"n": number}], AT_US)
    written.close()
    older = ["audit-2022-01-01T00-00-00.000.log", "audit-2022-01-01T00-00-00.001.log"]
    assert names(tmp_path) == [*older, "audit.log"]


def test_event_that_cannot_be_written_is_reported(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    written = log(tmp_path, size_max=1)
    written.write([{"n": 0}], AT_US)
    (tmp_path / "audit.log").unlink()
    assert not written.write([{"n": 1}], AT_US)
    assert "cannot be written" in caplog.text
    written.close()


def test_standard_output_takes_the_lines(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    written = AuditLog(LogSettings("-"))
    assert written.write([{"n": 1}], AT_US)
    written.close()
    assert capfdbinary.readouterr().out == b'{"n":1}\n'
