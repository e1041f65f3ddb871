"""How a process uses the API: client, informers, work queues, events, leader election."""

from sim.client.channel import Channel
from sim.client.client import DEFAULT_QPS, Client
from sim.client.election import ElectionOptions, LeaderElector
from sim.client.election_multi import candidate
from sim.client.events import EventRecorder
from sim.client.folded import FoldedCalls
from sim.client.heartbeat import Heartbeat
from sim.client.informer import Informer, Informers, unmoved
from sim.client.limiter import ItemExponential, Limiter, MaxOf, SharedBucket, TokenBucket, default_limiter
from sim.client.queue import WorkQueue

__all__ = [
    "DEFAULT_QPS",
    "Channel",
    "Client",
    "ElectionOptions",
    "EventRecorder",
    "FoldedCalls",
    "Heartbeat",
    "Informer",
    "Informers",
    "ItemExponential",
    "LeaderElector",
    "Limiter",
    "MaxOf",
    "SharedBucket",
    "TokenBucket",
    "WorkQueue",
    "candidate",
    "default_limiter",
    "unmoved",
]
