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
LOG_OPTIONS = """
    logging-format v vmodule log-json-info-buffer-size log-json-split-stream add-dir-header alsologtostderr log-backtrace-at log-dir log-file log-file-max-size log-flush-frequency
    logtostderr one-output skip-headers skip-log-headers stderrthreshold
"""
# Of the server of a daemon that is no API server.
SERVER_OPTIONS = """
    authentication-skip-lookup authentication-tolerate-lookup-failure authentication-token-webhook-cache-ttl
    authorization-webhook-cache-authorized-ttl authorization-webhook-cache-unauthorized-ttl client-ca-file
    requestheader-client-ca-file requestheader-allowed-names requestheader-username-headers
    requestheader-group-headers requestheader-extra-headers-prefix cert-dir tls-cert-file tls-private-key-file
    tls-cipher-suites tls-min-version tls-sni-cert-key http2-max-streams-per-connection permit-address-sharing
    permit-port-sharing
"""
FRONT = "addresses and certificates of the servers are those of orrery serve"


def refusals(by_reason: Mapping[str, str]) -> Mapping[str, str]:
    """Reasons by the name of the option.

    by_reason: names of options, with blanks between them, by the reason
    """
    return MappingProxyType({name: reason for reason, names in by_reason.items() for name in names.split()})
