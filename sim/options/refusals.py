"""Options of the daemons that have no effect in this program, each with the reason.

Turns names by reason into reasons by name.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

# Reasons that hold for options of several daemons.
CLIENT = "the process is connected to the API servers of its cluster without a client configuration"
HELP = "orrery options and orrery --version print this"
LOGS = "the process writes no log: its decisions are in the trace"
PROFILE = "a simulated process uses no time of the machine that could be profiled"
SERVER = "the process serves no requests"
OLD_LOGS = """
    add-dir-header alsologtostderr log-backtrace-at log-dir log-file log-file-max-size log-flush-frequency
    logtostderr one-output skip-headers skip-log-headers stderrthreshold
"""
FRONT = "addresses and certificates of the servers are those of orrery serve"


def refusals(by_reason: Mapping[str, str]) -> Mapping[str, str]:
    """Reasons by the name of the option.

    by_reason: names of options, with blanks between them, by the reason
    """
    return MappingProxyType({name: reason for reason, names in by_reason.items() for name in names.split()})
