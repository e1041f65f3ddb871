"""Virtual time, actors, network, randomness and trace.  Everything public is imported from here."""

from sim.kernel.actor import Actor, ActorExit, Clock, Context, State, Supervisor
from sim.kernel.gate import Gate, Journal, Operation
from sim.kernel.kernel import DEFAULT_EPOCH_US, NEVER_US, Kernel, KernelTask
from sim.kernel.network import Link, Network, Rule
from sim.kernel.report import DeadlockError, LivelockError
from sim.kernel.streams import stream
from sim.kernel.sync import TIMED_OUT, Future, Mailbox
from sim.kernel.timer import Timer
from sim.kernel.trace import Kind, Trace
from sim.kernel.tracefile import CutError, Decoder, Record, TraceError, read, read_header

__all__ = [
    "DEFAULT_EPOCH_US",
    "NEVER_US",
    "TIMED_OUT",
    "Actor",
    "ActorExit",
    "Clock",
    "Context",
    "CutError",
    "Decoder",
    "DeadlockError",
    "Future",
    "Gate",
    "Journal",
    "Kernel",
    "KernelTask",
    "Kind",
    "Link",
    "LivelockError",
    "Mailbox",
    "Network",
    "Operation",
    "Record",
    "Rule",
    "State",
    "Supervisor",
    "Timer",
    "Trace",
    "TraceError",
    "read",
    "read_header",
    "stream",
]
