"""Batches through a transport: several packets under way, results in order, no fault fatal."""

from __future__ import annotations

import threading

from pinion.link import Layout

from .errors import DriverError
from .flight import Flight, Job, Ticket
from .keeper import Keeper
from .profile import Meter
from .queue import Queue
from .recovery import PATIENCE, another
from .transport import Transport


class Session(Keeper):
    """Runs jobs; the parameters are those of `Keeper`. Its threads run until `stop`."""

    def __init__(
        self,
        *,
        transport: Transport,
        layout: Layout,
        queue: Queue,
        meter: Meter,
        timeout: float | None,
        patience: float = PATIENCE,
    ) -> None:
        super().__init__(
            transport=transport,
            layout=layout,
            queue=queue,
            meter=meter,
            timeout=timeout,
            patience=patience,
        )
        self._start(read=self._read, write=self._write, keep=self._keep)

    @property
    def inside(self) -> bool:
        """Whether the caller is one of the session's own threads."""
        return threading.current_thread() in self._threads

    def submit(self, job: Job) -> None:
        """Queue a job; its packets come by `give`.

        Raises
        ------
        DriverError, TransportError
            What broke the session, if something did.
        """
        with self._lock:
            if self._stopping:
                raise DriverError("The device is closed: open it again with pinion.driver.open.")
            if self._reason is not None:
                raise another(self._reason)
            self._queue.jobs.append(job)

    def give(self, flight: Flight) -> None:
        """Seal the next packet of a job, and launch it when its turn comes."""
        self._seal(flight)
        job = flight.job
        with self._lock:
            if job.dead or job.abandoned:
                job.retire(flight, good=False)
                return
            job.ready.append(flight)
            self._pump()

    def reset(self) -> None:
        """Reset the card when everything submitted before is done; also out of a broken state.

        Raises
        ------
        DriverError, TransportError
            Why the card is not ready for work; the session is broken then.
        """
        ticket = Ticket()
        with self._lock:
            if self._stopping:
                raise DriverError("The device is closed: open it again with pinion.driver.open.")
            self._queue.jobs.append(ticket)
            self._to_keep.notify()
        ticket.future.result()

    def stop(self, *, wait: bool) -> None:
        """Finish what was submitted, or only what was launched; returns when the threads ended."""
        hit: list[Job | Ticket] = []
        with self._lock:
            self._stopping = True
            if not wait:
                hit = self._queue.give_up()
                for owner in hit:
                    if isinstance(owner, Job):
                        owner.abandoned = True
            self._to_keep.notify()
        for owner in hit:
            if isinstance(owner, Ticket):
                owner.future.set_exception(DriverError("The device was closed before its reset."))
            elif not owner.launched:
                owner.dead = True
                owner.future.cancel()
            elif owner.launched == owner.landed:
                self._give_up(owner)
        keeper = self._threads[-1]
        keeper.join()
        for thread in self._threads[:-1]:
            # One that is stuck in a transfer of a broken card would hold the program up for ever.
            thread.join(0.0 if self._reason is not None else self._patience)
