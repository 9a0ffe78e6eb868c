"""Headless Chromium, controlled over a pipe: it opens, queries and captures pages.

The browser speaks its DevTools protocol on two file descriptors, so neither a port nor a package is
needed. Only pages from files, or of a server of this machine, are opened; what a page asks of the
network fails and is reported.
"""

from __future__ import annotations

import base64
import itertools
import json
import os
import select
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")

LIMIT = 120.0
"""Limit in seconds, only to end a browser that hangs."""


class BrowserError(RuntimeError):
    """Error for a browser that ended, hung, or rejected a command; the message says which."""


@dataclass
class Trouble:
    """Errors of a page: addresses that failed to load, and errors of scripts.

    Members
    -------
    failed : addresses that could not be loaded.
    errors : exceptions of scripts, and their error output.
    """

    failed: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)


def find_browser() -> str | None:
    """Return the path of an installed Chromium, or None."""
    return next((path for name in NAMES if (path := shutil.which(name))), None)


class Browser:
    """Browser with one page; a context manager that closes it.

    Members
    -------
    trouble : of the page since it was opened.
    """

    def __init__(self, path: str) -> None:
        self._profile = tempfile.TemporaryDirectory(prefix="pinion-browser-")
        own_in, self._out = os.pipe()
        self._in, own_out = os.pipe()
        flags = ["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"]
        flags += ["--remote-debugging-pipe", "--no-first-run", "--disable-extensions"]
        flags += [
            "--disable-background-networking",
            "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
        ]
        self._process = subprocess.Popen(
            [path, *flags, f"--user-data-dir={self._profile.name}", "about:blank"],
            # The browser reads commands from descriptor 3 and answers on 4.
            preexec_fn=lambda: _as_three_and_four(own_in, own_out),
            pass_fds=(3, 4, own_in, own_out),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(own_in)
        os.close(own_out)
        self._numbers = itertools.count(1)
        self._waiting = b""
        self._events: list[dict[str, Any]] = []
        self._urls: dict[str, str] = {}
        self._session = ""
        self.trouble = Trouble()
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        attached = self.call("Target.attachToTarget", targetId=target, flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Send a DevTools command and wait for its response.

        Raises
        ------
        BrowserError : the browser refuses it, or is gone.
        """
        number = next(self._numbers)
        message: dict[str, Any] = {"id": number, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._out, json.dumps(message).encode() + b"\0")
        while True:
            heard = self._hear()
            if heard.get("id") == number:
                if "error" in heard:
                    raise BrowserError(f"{method}: {heard['error']['message']}")
                result: dict[str, Any] = heard["result"]
                return result

    def look(self, *, width: int, height: int, dark: bool = False, phone: bool = False) -> None:
        """Set the window's size [CSS pixels], the colour scheme, and whether it is a phone's."""
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=phone,
        )
        feature = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[feature])

    def open(self, place: Path | str, anchor: str = "") -> None:
        """Open a page from a file or a local server, and wait until it has loaded."""
        address = place if isinstance(place, str) else place.resolve().as_uri()
        self.trouble = Trouble()
        self._events.clear()
        self.call("Page.navigate", url=address + anchor)
        self.until(lambda: any(e["method"] == "Page.loadEventFired" for e in self._events))

    def ask(self, expression: str) -> Any:
        """Return the value of a JavaScript expression on the page, after awaiting promises.

        Raises
        ------
        BrowserError : it throws.
        """
        answer = self.call(
            "Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True
        )
        if "exceptionDetails" in answer:
            raise BrowserError(f"{expression}: {answer['exceptionDetails'].get('text')}")
        return answer["result"].get("value")

    def until(self, holds: Callable[[], bool]) -> None:
        """Wait until a condition holds.

        Raises
        ------
        BrowserError : it did not come within `LIMIT`, which only ends a hang.
        """
        end = time.monotonic() + LIMIT
        while not holds():
            if time.monotonic() > end:
                raise BrowserError(f"The condition did not hold within {LIMIT:.0f} s.")
            self.ask("1")  # hears events
            time.sleep(0.02)

    def photograph(self, place: Path, *, whole: bool = False) -> None:
        """Write a screenshot (PNG) of the whole page or of the window."""
        answer = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(base64.b64decode(answer["data"]))

    def close(self) -> None:
        """End the browser and remove its profile."""
        os.close(self._out)
        os.close(self._in)
        self._process.terminate()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        shutil.rmtree(self._profile.name, ignore_errors=True)

    def __enter__(self) -> Browser:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _hear(self) -> dict[str, Any]:
        while b"\0" not in self._waiting:
            ready, _, _ = select.select([self._in], [], [], LIMIT)
            more = os.read(self._in, 1 << 20) if ready else b""
            if not more:
                raise BrowserError("The browser ended." if ready else "The browser sent nothing.")
            self._waiting += more
        message, _, self._waiting = self._waiting.partition(b"\0")
        heard: dict[str, Any] = json.loads(message)
        if "method" in heard:
            self._note(heard["method"], heard.get("params", {}))
            self._events.append(heard)
        return heard

    def _note(self, method: str, event: dict[str, Any]) -> None:
        if method == "Network.requestWillBeSent":
            self._urls[event["requestId"]] = event["request"]["url"]
        elif method == "Network.loadingFailed" and not event.get("canceled"):
            name = self._urls.get(event["requestId"], "?")
            self.trouble.failed.append(f"{name}: {event['errorText']}")
        elif method == "Runtime.exceptionThrown":
            details = event["exceptionDetails"]
            text = details.get("exception", {}).get("description", details["text"])
            self.trouble.errors.append(text)
        elif method == "Log.entryAdded" and event["entry"]["level"] == "error":
            self.trouble.errors.append(f"{event['entry']['text']} {event['entry'].get('url', '')}")
        elif method == "Runtime.consoleAPICalled" and event["type"] in ("error", "assert"):
            texts = [str(a.get("value", a.get("description"))) for a in event["args"]]
            self.trouble.errors.append(" ".join(texts))


def _as_three_and_four(read: int, write: int) -> None:
    """Move the pipe's ends to file descriptors 3 and 4, in the child process."""
    # Move away from 3 and 4 first, so that neither overwrites the other.
    read, write = os.dup(read), os.dup(write)
    os.dup2(read, 3)
    os.dup2(write, 4)
    os.set_inheritable(3, True)
    os.set_inheritable(4, True)
