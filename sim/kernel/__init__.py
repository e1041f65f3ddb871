"""Virtual time, actors, network, randomness and trace.  Everything public is imported from here.

One queue in the order (time, sequence number) decides what runs next. Nothing else in the program
may depend on the order in which the operating system or Trio does things.
"""

from sim.kernel.actor import Actor, ActorExit, Clock, Context, State, Supervisor
from sim.kernel.blocks import MARK, Blocks, DamageError, block
from sim.kernel.draws.streams import stream
from sim.kernel.gate import POSITION, Gate, Journal, NoJournal, NotKeptError, Operation, unheard
from sim.kernel.kernel import DEFAULT_EPOCH_US, Kernel
from sim.kernel.network import Link, Network, Rule
from sim.kernel.outside import Outside, OutsideAnswer, OutsideRequest
from sim.kernel.pace import NEVER_US
from sim.kernel.standstill import DeadlockError, LivelockError
from sim.kernel.sync import TIMED_OUT, Future, Mailbox
from sim.kernel.tasks import KernelTask
from sim.kernel.timer import Timer
from sim.kernel.trace.comparison import Checksums, Comparison
from sim.kernel.trace.files import CutError, Decoder, Record, TraceError, read, read_header
from sim.kernel.trace.records import Kind, RecordKind, SoFar, Trace

__all__ = [
    "DEFAULT_EPOCH_US",
    "MARK",
    "NEVER_US",
    "POSITION",
    "TIMED_OUT",
    "Actor",
    "Blocks",
    "Checksums",
    "Comparison",
    "ActorExit",
    "Clock",
    "Context",
    "CutError",
    "DamageError",
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
    "NoJournal",
    "NotKeptError",
    "Operation",
    "Outside",
    "OutsideAnswer",
    "OutsideRequest",
    "Record",
    "RecordKind",
    "Rule",
    "SoFar",
    "State",
    "Supervisor",
    "Timer",
    "Trace",
    "TraceError",
    "block",
    "read",
    "read_header",
    "stream",
    "unheard",
]
