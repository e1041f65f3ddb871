"""Options of a daemon's log: its format, what is written, and where to.

Mirrors  kubernetes v1.25 component-base logs/api/v1/options.go: addKlogFlags, Validate,
         validateFormatOptions; klog v2.70 klog.go: InitFlags, moduleSpec.
Differs  log-backtrace-at is refused: a simulated process has no stack.
"""

from __future__ import annotations

from collections.abc import Mapping

from sim.dataclass import dataclass
from sim.options.base import at_least, boolean, duration, integer, more_than, one_of, option, string
from sim.options.features.gates import enabled
from sim.units import quantity_value

TEXT, JSON = "text", "json"
SEVERITIES = ("INFO", "WARNING", "ERROR", "FATAL")
_ALPHA, _BETA = "LoggingAlphaOptions", "LoggingBetaOptions"


def _modules(value: object) -> tuple[tuple[str, int], ...]:
    """ "pattern=N,..." in the order in which they are compared."""
    pairs = [part.partition("=") for part in str(value).split(",") if part]
    try:
        found = tuple((name, integer(level)) for name, _, level in pairs)
    except ValueError:
        found = (("", 0),)
    if not all(name and level >= 0 for name, level in found):
        raise ValueError("levels of files such as kubelet=2,event=3")
    return tuple(pair for pair in found if pair[1])


def _severity(value: object) -> int:
    if isinstance(value, str) and value.upper() in SEVERITIES:
        return SEVERITIES.index(value.upper())
    return integer(value)


def _size(value: object) -> int:
    if isinstance(value, str | int) and not isinstance(value, bool):
        try:
            return quantity_value(value)
        except ValueError:
            pass
    raise ValueError("a quantity such as 64Ki")


@dataclass(frozen=True)  # without slots: it is one of several bases
class LogFlags:
    """What a daemon logs, and where to."""

    logging_format: str = option("logging-format", string, TEXT, check=one_of(TEXT, JSON))
    verbosity: int = option("v", integer, 0, check=at_least(0))
    vmodule: tuple[tuple[str, int], ...] = option("vmodule", _modules, "")
    log_flush_us: int = option("log-flush-frequency", duration, "5s", check=more_than(0))
    json_split_stream: bool = option("log-json-split-stream", boolean, False)
    json_info_buffer: int = option("log-json-info-buffer-size", _size, "0", check=at_least(0))
    add_dir_header: bool = option("add-dir-header", boolean, False)
    also_to_stderr: bool = option("alsologtostderr", boolean, False)
    log_dir: str = option("log-dir", string, "")
    log_file: str = option("log-file", string, "")
    log_file_max_mib: int = option("log-file-max-size", integer, 1800, check=at_least(0))
    log_to_stderr: bool = option("logtostderr", boolean, True)
    one_output: bool = option("one-output", boolean, False)
    skip_headers: bool = option("skip-headers", boolean, False)
    skip_log_headers: bool = option("skip-log-headers", boolean, False)
    stderr_threshold: int = option("stderrthreshold", _severity, 2)

    def check_logs(self, gates: Mapping[str, str]) -> None:
        """Raises ValueError for options that contradict each other, or need a gate."""
        buffers = self.json_split_stream or self.json_info_buffer
        if buffers and not enabled(gates, _ALPHA):
            name = "log-json-split-stream" if self.json_split_stream else "log-json-info-buffer-size"
            raise ValueError(f"{name}: Feature {_ALPHA} is disabled")
        if self.logging_format == TEXT:
            return
        if not enabled(gates, _BETA):
            raise ValueError(f"logging-format: Log format {JSON} is disabled, see {_BETA} feature")
        if self.vmodule:
            raise ValueError("vmodule: Only supported for text log format")
        legacy = {
            "add-dir-header": self.add_dir_header,
            "alsologtostderr": self.also_to_stderr,
            "log-dir": self.log_dir,
            "log-file": self.log_file,
            "log-file-max-size": self.log_file_max_mib != 1800,
            "logtostderr": not self.log_to_stderr,
            "one-output": self.one_output,
            "skip-headers": self.skip_headers,
            "skip-log-headers": self.skip_log_headers,
            "stderrthreshold": self.stderr_threshold != SEVERITIES.index("ERROR"),
        }
        changed = next((name for name, given in legacy.items() if given), "")
        if changed:
            raise ValueError(f"logging-format: Non-default format doesn't honor flag: {changed}")
