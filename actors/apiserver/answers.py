"""How replies leave an API server, and what a request holds until then.

Turns the reply of a request into the work that it costs (`processors`), the latency of the storage,
its records in the audit and in the metrics, and the call of its client.

Holds: a request is answered once; its seats, and its place among the requests in flight, are free
    when it is answered and none of its work is in the queue of the processors.

Mirrors  kubernetes v1.25 apiserver pkg/server/filters/timeout.go: a request that has timed out goes
         on until its work is done, and pkg/server/config.go: the filters that count it are inside.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from actors.apiserver.flights import Flight, Traffic
from actors.apiserver.incarnation import Incarnation
from actors.apiserver.metering import Tally, count_flight
from actors.apiserver.ports import Server
from sim.api.types import Reply
from sim.kernel import State


class Answers:
    """The answers of one server.

    traffic: the requests in flight; tally: numbers of answers by client and code
    """

    def __init__(
        self, server: Server, traffic: Traffic, tally: Tally, life: Callable[[], Incarnation | None]
    ) -> None:
        """life: the running incarnation"""
        self._server, self.traffic, self.tally, self._life = server, traffic, tally, life

    def take_up(self, flight: Flight, then: Callable[[int], None], number: int) -> None:
        """Do what a request costs in any case, and then carry it out."""
        life = self._life()
        if life is not None and life.processors is not None:
            cost = life.processors.cost_us(flight.request)
            self._work(flight, cost, number, then, number)

    def _work(
        self, flight: Flight, cost: tuple[int, int], number: int, then: Callable[[Any], None], argument: Any
    ) -> None:
        """Do work of a request, and then call a function if it has not been answered."""
        life = self._life()
        assert life is not None and life.processors is not None
        flight.works = True

        def done(_: object) -> None:
            flight.works = False
            if number in self.traffic.flights:
                then(argument)
            else:
                self.release(number, flight)

        life.processors.do(*cost, done, None)

    def give(self, number: int, reply: Reply, delay_us: int) -> None:
        """Answer a request after its work and the latency of the storage."""
        flight, life = self.traffic.flights.get(number), self._life()
        if flight is None:
            return
        processors = None if life is None else life.processors
        if processors is not None and (cost_us := processors.found_us(flight.request, reply)):
            self._work(flight, (cost_us, 1), number, self._later, (number, reply, delay_us))
        else:
            self._later((number, reply, delay_us))

    def _later(self, given: tuple[int, Reply, int]) -> None:
        number, reply, delay_us = given
        kernel = self._server.kernel
        if delay_us and self.traffic.flights[number].outside is None:
            kernel.call_later(delay_us, self._deliver, (number, reply))
        else:
            self._deliver((number, reply))

    def _deliver(self, answered: tuple[int, Reply]) -> None:
        if answered[0] not in self.traffic.flights:
            return
        life = self._life()
        if life is not None and life.ctx.state is not State.RUNNING:
            life.ctx.run(self._send, answered)
        else:
            self._send(answered)

    def _send(self, answered: tuple[int, Reply]) -> None:
        number, reply = answered
        flight = self.traffic.flights.pop(number, None)
        if flight is None or flight.respond is None:
            return
        life, server = self._life(), self._server
        if not flight.works:
            self.traffic.count(flight, -1)
        if life is not None and life.goaway is not None and flight.outside is None:
            reply = life.goaway.mark(reply)
        if life is not None and life.audit is not None:
            reply = life.audit.end_flight(flight, reply)
        if server.kernel.meters is not None:
            count_flight(server.kernel, flight, reply, server.name, None if life is None else life.seats)
        flight.respond(self.tally.counted(flight.request, reply))
        if not flight.works:
            self._leave(number, flight)

    def release(self, number: int, flight: Flight) -> None:
        """Free what a request holds that has been answered, or that no client waits for."""
        if not flight.works:
            self.traffic.count(flight, -1)
            self._leave(number, flight)

    def _leave(self, number: int, flight: Flight) -> None:
        life = self._life()
        if flight.seated and life is not None and life.seats is not None:
            life.seats.leave(number)
            self._server.rebound()
