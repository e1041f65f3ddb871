"""How a process uses the API: client, informers, work queues, events, leader election.

Controllers, schedulers and agents use the API only by this package, under a rate limit and over
links that may fail, as client-go would.
"""

from sim.client.cache.handlers import Heartbeats, unmoved
from sim.client.cache.informer import Informer, Informers
from sim.client.client import DEFAULT_QPS, Client
from sim.client.election.elector import ElectionOptions, LeaderElector
from sim.client.election.multilock import candidate
from sim.client.events.recorder import EventRecorder
from sim.client.fast.coalesced_calls import CoalescedCalls
from sim.client.fast.lease_renewal import Heartbeat
from sim.client.queue import WorkQueue
from sim.client.rest.channel import Channel
from sim.client.rest.limiter import (
    ItemExponential,
    Limiter,
    MaxOf,
    SharedBucket,
    TokenBucket,
    default_limiter,
)

__all__ = [
    "DEFAULT_QPS",
    "Channel",
    "Client",
    "ElectionOptions",
    "EventRecorder",
    "CoalescedCalls",
    "Heartbeat",
    "Heartbeats",
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
