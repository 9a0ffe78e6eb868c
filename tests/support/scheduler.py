"""Threads that run one at a time on a simulated clock, in an order determined by a seed.

At each lock, condition, event and semaphore, and at each start, join and sleep, the next thread is
drawn again, so rare interleavings are as likely as common ones, and a seed repeats one exactly.
The clock moves when nobody can go on without it; seldom before, as on a slow machine. When nobody
can go on at all, or only the clock does, the stacks of all threads are the error.
"""

from __future__ import annotations

import gc
import math
import random
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from types import FunctionType, ModuleType
from typing import Any

LATE = 0.02
"""Share of the choices at which a short timeout passes although a thread could continue."""

SHORT = 1.0
"""Seconds: longer timeouts than this pass only if no thread can continue."""

STAYS = (0.0, 0.5, 0.9)
"""Probabilities that a thread continues if it need not wait; a schedule has one of them."""

PATIENCE = 30.0
"""Seconds of real time after which a schedule counts as stuck outside of its scheduler."""

_OUTSIDE = (__file__, threading.__file__)


class ScheduleError(AssertionError):
    """Error for threads that hang or fail; the message gives the seed, and stacks of a hang."""


class _Abandoned(BaseException):
    """Exception that ends the threads of a schedule that hangs."""


class _Task:
    """Thread of a schedule, and the condition that it waits for."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.ident = 0
        self.turn = threading.Semaphore(0)
        self.condition: Callable[[], bool] | None = None
        self.deadline: float | None = None
        self.ended = False

    def ready(self, now: float) -> bool:
        """Return whether the thread can continue."""
        if self.condition is None or self.condition():
            return True
        return self.deadline is not None and self.deadline <= now


class Scheduler:
    """Scheduler of one run, in which a seed chooses the next thread at every switch.

    Parameters
    ----------
    seed : of all choices.
    limit : seconds on the schedule's clock after which it counts as hanging.
    """

    def __init__(self, *, seed: int, limit: float = 100.0) -> None:
        self.seed = seed
        self.now = 0.0
        self._limit = limit
        self._random = random.Random(seed)
        self._stay = self._random.choice(STAYS)
        self._tasks: list[_Task] = []
        self._current: _Task | None = None
        self._by_ident: dict[int, _Task] = {}
        self._over = threading.Event()
        self._hang: str | None = None
        self._errors: list[tuple[str, BaseException]] = []
        self._threading = _Threading(self)
        self._time = _Time(self)

    def run(self, work: Callable[[], None], *, modules: Iterable[ModuleType]) -> None:
        """Run a function in a first thread, and wait until all threads have ended.

        Parameters
        ----------
        work : starts the other threads.
        modules : whose names `threading` and `time` mean the schedule's meanwhile.

        Raises
        ------
        ScheduleError
            When threads hang, or one ends with an exception.
        """
        collects = gc.isenabled()
        gc.disable()  # a collection runs finalizers, which take locks, when it likes
        try:
            with self._exchanged(modules):
                first = self._threading.Thread(target=work, name="first")
                task = first.start_unscheduled()
                self._current = task
                task.turn.release()
                ended = self._over.wait(PATIENCE)
                if not ended:
                    self._abandon("A thread waits for something that the scheduler does not know")
        finally:
            if collects:
                gc.enable()
        if self._hang is not None:
            raise ScheduleError(self._hang)
        if self._errors:
            name, error = self._errors[0]
            raise ScheduleError(
                f"Thread {name} of the schedule with seed {self.seed} ended with {error!r}."
            ) from error

    # What the primitives need.

    @property
    def task(self) -> _Task | None:
        """Task of the calling thread, or None for a thread outside the schedule."""
        return self._by_ident.get(threading.get_ident())

    @property
    def hangs(self) -> bool:
        """Whether the schedule was abandoned, so that its threads are ending."""
        return self._hang is not None

    def add(self, name: str) -> _Task:
        """Add a thread, which may be chosen to run from now on."""
        task = _Task(f"{name}-{len(self._tasks)}")
        self._tasks.append(task)
        return task

    def main(self, task: _Task, work: Callable[[], object]) -> None:
        """Run a thread's work when it is first chosen, and choose a successor at its end."""
        task.ident = threading.get_ident()
        task.turn.acquire()
        self._by_ident[task.ident] = task
        try:
            if self._hang is None:
                work()
        except _Abandoned:
            pass
        except BaseException as error:
            self._errors.append((task.name, error))
        finally:
            task.ended = True
            del self._by_ident[task.ident]
            if all(other.ended for other in self._tasks):
                self._over.set()
            elif self._hang is None:
                successor = self._choose(None)
                if successor is not None:
                    self._current = successor
                    successor.turn.release()

    def pause(self) -> None:
        """Let the scheduler choose the next thread, which may be another one."""
        task = self.task
        if task is not None:
            self._switch(task)

    def wait(self, condition: Callable[[], bool], timeout: float | None = None) -> bool:
        """Wait until a condition holds; return False if it does not within the given seconds."""
        task = self.task
        if task is None:
            return True
        if timeout is not None:
            task.deadline = self.now + timeout
        task.condition = condition
        try:
            self._switch(task)
        finally:
            task.condition = task.deadline = None
        return condition()

    def _switch(self, task: _Task) -> None:
        if self._hang is not None:
            raise _Abandoned
        successor = self._choose(task)
        if successor is not None and successor is not task:
            self._current = successor
            successor.turn.release()
            task.turn.acquire()
        if self._hang is not None:
            raise _Abandoned

    def _choose(self, caller: _Task | None) -> _Task | None:
        """Choose the next thread at random; abandon the schedule and return None if it hangs."""
        while True:
            alive = [task for task in self._tasks if not task.ended]
            ready = [task for task in alive if task.ready(self.now)]
            waits = [task.deadline for task in alive if task not in ready and task.deadline]
            next_deadline = min(waits, default=math.inf)
            late = next_deadline - self.now < SHORT and self._random.random() < LATE
            if ready and not late:
                if caller in ready and self._random.random() < self._stay:
                    return caller
                return self._random.choice(ready)
            if not waits:
                self._abandon("All threads wait for each other")
                return None
            self.now = next_deadline
            if self.now > self._limit:
                self._abandon(f"Nothing but the clock moves, which is at {self.now:g} s")
                return None

    def _abandon(self, reason: str) -> None:
        """End a schedule that hangs, with a reason and all stacks as its error."""
        frames = sys._current_frames()
        lines = [f"{reason}, in the schedule with seed {self.seed}. Its threads:"]
        for task in self._tasks:
            if task.ended or task.ident not in frames:
                continue
            stack = traceback.extract_stack(frames[task.ident])
            own_frames = [entry for entry in stack if entry.filename not in _OUTSIDE]
            lines += [f"{task.name}:", *map(str.rstrip, traceback.format_list(own_frames))]
        self._hang = "\n".join(lines)
        for task in self._tasks:
            if task is not self.task:
                task.turn.release()

    @contextmanager
    def _exchanged(self, modules: Iterable[ModuleType]) -> Iterator[None]:
        originals: list[tuple[ModuleType, str, ModuleType]] = []
        try:
            for module in modules:
                for name, ours in (("threading", self._threading), ("time", self._time)):
                    real = sys.modules[name]
                    if vars(module).get(name) is real:
                        originals.append((module, name, real))
                        setattr(module, name, ours)
            yield
        finally:
            for module, name, real in originals:
                setattr(module, name, real)


class _Lock:
    """Replacement for `threading.Lock` in a schedule."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._locked = False

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        if self._scheduler.task is None:  # a finalizer after the schedule's end
            self._locked = True
            return True
        if not blocking:
            self._scheduler.pause()
        elif not self._scheduler.wait(self._free, None if timeout < 0 else timeout):
            return False
        if self._locked:
            return False
        self._locked = True
        return True

    def release(self) -> None:
        if self._scheduler.task is None or self._scheduler.hangs:
            self._locked = False
            return
        if not self._locked:
            raise RuntimeError("release unlocked lock")
        self._locked = False
        self._scheduler.pause()

    def locked(self) -> bool:
        return self._locked

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(self, *_: object) -> None:
        self.release()

    def _free(self) -> bool:
        return not self._locked

    # `threading.Condition` would try to take the lock in order to find out.
    _is_owned = locked


class _Thread:
    """Replacement for `threading.Thread` in a schedule."""

    def __init__(
        self,
        scheduler: Scheduler,
        *,
        target: Callable[..., object],
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
        name: str | None = None,
        daemon: bool | None = None,
    ) -> None:
        self._scheduler = scheduler
        self._work = lambda: target(*args, **(kwargs or {}))
        self.name = name or "thread"
        self.daemon = daemon
        self._task: _Task | None = None

    def start(self) -> None:
        self.start_unscheduled()
        self._scheduler.pause()

    def start_unscheduled(self) -> _Task:
        """Start the thread without choosing the next one."""
        task = self._task = self._scheduler.add(self.name)
        # From the thread that starts it, whose signal mask it inherits.
        threading.Thread(target=self._run, args=(task,), name=self.name, daemon=True).start()
        return task

    def join(self, timeout: float | None = None) -> None:
        task = self._task
        if task is not None:
            self._scheduler.wait(lambda: task.ended, timeout)

    def is_alive(self) -> bool:
        return self._task is not None and not self._task.ended

    def _run(self, task: _Task) -> None:
        vars(threading.current_thread())["_scheduled"] = self
        self._scheduler.main(task, self._work)


class _Threading:
    """Replacement for the module `threading` in a schedule; outside threads get the real one.

    Conditions, events and semaphores are the standard library's own code over the schedule's lock.
    """

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        names = {
            **vars(threading),
            "Lock": self._lock,
            "_allocate_lock": self._lock,
            "_time": lambda: scheduler.now,
        }
        for original in (
            vars(threading)["_RLock"],
            threading.Condition,
            threading.Semaphore,
            threading.Event,
        ):
            names[original.__name__] = _rebound(original, names)
        names["RLock"] = names["_RLock"]
        self._names = names

    def _lock(self) -> _Lock:
        return _Lock(self._scheduler)

    def Thread(self, **arguments: Any) -> _Thread:  # noqa: N802  # a name of `threading`
        return _Thread(self._scheduler, **arguments)

    def current_thread(self) -> object:
        thread = threading.current_thread()
        return vars(thread).get("_scheduled", thread)

    def __getattr__(self, name: str) -> Any:
        ours = self._scheduler.task is not None
        return (self._names if ours else vars(threading))[name]


class _Time:
    """Replacement for the module `time` in a schedule."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler

    def monotonic(self) -> float:
        return self._scheduler.now

    perf_counter = monotonic

    def sleep(self, seconds: float) -> None:
        self._scheduler.wait(lambda: False, seconds)

    def __getattr__(self, name: str) -> Any:
        return getattr(time, name)


def _rebound(original: type, names: dict[str, Any]) -> type:
    """Return a copy of a class whose methods look up global names in `names`."""

    def bound(value: object) -> object:
        if not isinstance(value, FunctionType):
            return value
        twin = FunctionType(value.__code__, names, value.__name__, value.__defaults__)
        twin.__kwdefaults__ = value.__kwdefaults__
        return twin

    left_out = ("__dict__", "__weakref__")
    fields = {name: bound(value) for name, value in vars(original).items() if name not in left_out}
    return type(original.__name__, (), fields)
