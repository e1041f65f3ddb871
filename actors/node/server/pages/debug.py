"""/debug of an agent: profiles and the level of its log.

Mirrors  kubernetes v1.25 pkg/kubelet/server/server.go: InstallProfilingHandler,
         InstallDebugFlagsHandler; apiserver pkg/server/routes/flags.go; component-base
         logs/api/v1 (GlogSetter).
Differs  a simulated agent has no processor time, heap or threads of its own, so that of the
         profiles only the command line can be read.
"""

from __future__ import annotations

from actors.node.server.exchange import AgentRequest, AgentResponse, error
from sim.klog import Klog
from sim.units import parse_whole

NO_PROFILE = (
    "a simulated process has no profile of its own: orrery serve has one at /debug/pprof of the API server"
)
_INDEX = """<html>
<head>
<title>/debug/pprof/</title>
</head>
<body>
/debug/pprof/<br>
<br>
Types of profiles available:
<a href='cmdline'>cmdline</a>
</body>
</html>
"""


def profile(name: str, agent_name: str) -> AgentResponse:
    """A page below /debug/pprof/.  agent_name: the program"""
    if not name:
        return AgentResponse(200, _INDEX.encode(), "text/html; charset=utf-8")
    return AgentResponse(200, agent_name.encode()) if name == "cmdline" else error(404, NO_PROFILE)


def set_level(request: AgentRequest, log: Klog | None) -> AgentResponse:
    """PUT /debug/flags/v.  log: that of the agent, if it is kept"""
    if request.method != "PUT":
        return error(406, "unsupported http method")
    given = request.body.decode("utf-8", "replace")
    level = parse_whole(given, 32)
    if level is None:
        problem = f'strconv.ParseInt: parsing "{given}": invalid syntax'
        return error(400, f"failed set klog.logging.verbosity {given}: {problem}")
    if log is not None:
        log.verbosity = level
    return error(200, f"successfully set klog.logging.verbosity to {given}")
