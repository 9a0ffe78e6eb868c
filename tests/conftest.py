"""What holds for every test."""

from __future__ import annotations

import os
import signal

import pytest
from hypothesis import HealthCheck, settings

# Property tests draw the same examples on every run and every machine, and have all the time they
# want: what fails, fails again. `--hypothesis-profile=random` draws new ones and prints the lines
# that repeat a failure; `--hypothesis-seed=N` repeats a whole run.
settings.register_profile(
    "repeated",
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile(
    "random", settings.get_profile("repeated"), derandomize=False, print_blob=True
)
settings.load_profile("repeated")


def pytest_configure() -> None:
    """Ctrl-C as in a terminal, and tables as wide as in a file.

    A shell starts its background jobs with Ctrl-C ignored; children inherit that, and tests that
    interrupt one would wait for ever. GNU readline, which pytest imports, sets COLUMNS in the
    environment of all that is started from then on, though nobody asked for a width.
    """
    os.environ.pop("COLUMNS", None)
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture
def plain_sharing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave operations on the units that the schedule gives them.

    Annealing saves selectors, changes no bit, and takes a third of the time of a large build.
    """
    from pinion.hls.schedule import sharing

    monkeypatch.setattr(sharing, "MOVES", 0)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_setupnodes() -> None:
    """A run in several processes that is killed ends as by Ctrl-C: it takes its workers along."""

    def interrupt(*_: object) -> None:
        # Another one, as from `timeout`, would break the end off.
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        raise KeyboardInterrupt

    signal.signal(signal.SIGTERM, interrupt)


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """A worker that nobody listens to ends here: xdist would warn that it cannot say so."""
    if not hasattr(session.config, "workerinput"):
        return
    (channel,) = (
        plugin.channel
        for plugin in session.config.pluginmanager.get_plugins()
        if hasattr(plugin, "channel")
    )
    try:
        channel.waitclose(timeout=0)
    except channel.TimeoutError:
        return
    except EOFError:  # what is at the other end was killed
        pass
    os._exit(pytest.ExitCode.INTERRUPTED)
