"""What holds for every test."""

from __future__ import annotations

import signal

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
    """Ctrl-C as in a terminal: a shell starts its background jobs with it ignored.

    Children inherit that, and tests that interrupt one would wait for ever.
    """
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
