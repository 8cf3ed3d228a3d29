"""A headless Chromium driven over a pipe by its DevTools protocol: no driver, no port, no package."""

import base64
import json
import os
import select
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

BINARY = next(
    (found for name in ("chromium", "chromium-browser", "google-chrome") if (found := shutil.which(name))), ""
)
FLAGS = ("--headless=new", "--no-sandbox", "--disable-gpu", "--remote-debugging-pipe", "--disable-extensions",
         "--no-first-run", "--disable-background-networking", "--disable-component-update")  # fmt: skip
PIPES = """import fcntl, os, sys  # the browser reads descriptor 3 and writes 4
reads, writes = (fcntl.fcntl(int(fd), fcntl.F_DUPFD, 10) for fd in sys.argv[1:3])
os.dup2(reads, 3)
os.dup2(writes, 4)
os.execv(sys.argv[3], sys.argv[3:])
"""

PAINTED = """(() => {
  const painted = mark => [...mark.children].some(e => {
    const style = getComputedStyle(e), box = e.getBoundingClientRect();
    const ink = colour => colour && colour !== 'none' && !/, 0\\)$/.test(colour);
    return +style.opacity > 0 && (ink(style.stroke) || (ink(style.fill) && +style.fillOpacity > 0))
      && (box.width > 0 || box.height > 0);
  });
  const seen = [...document.querySelectorAll('figure svg')].filter(svg => svg.getBoundingClientRect().width > 0);
  return seen.map(svg => {
    const cells = [...svg.querySelectorAll('.cell')];
    return [svg.closest('figure').id, svg.closest('.chart').getBoundingClientRect().right,
      (cells.length ? cells : [svg]).map(cell => [...cell.querySelectorAll('.role-mark')].some(painted))];
  });
})()"""
"""Gives each figure that is seen: its name, its right edge, and whether each of its panels has ink."""


class Browser:
    """One page of it. `events` holds what was said on the console, and every request that was made."""

    def __init__(self, write: int, read: int) -> None:
        self._write, self._read, self._buffer, self._count = write, read, b"", 0
        self._session: str | None = None
        self.events: list[dict[str, Any]] = []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        self._count += 1
        asked = {"id": self._count, "method": method, "params": params}
        if self._session:
            asked["sessionId"] = self._session
        os.write(self._write, json.dumps(asked).encode() + b"\0")
        while (answer := self._next()).get("id") != self._count:
            self.events.append(answer)
        assert "error" not in answer, answer
        return dict(answer["result"])

    def _next(self) -> dict[str, Any]:
        end = time.monotonic() + 60
        while b"\0" not in self._buffer:
            assert select.select([self._read], [], [], max(0, end - time.monotonic()))[0], "Chromium does not answer"
            self._buffer += (said := os.read(self._read, 1 << 20))
            assert said, "Chromium has ended"
        message, _, self._buffer = self._buffer.partition(b"\0")
        return dict(json.loads(message))

    def open(self, page: Path, width: int, height: int = 900, *, dark: bool = False, media: str = "screen") -> None:
        self.events.clear()
        mobile = width < 600
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=mobile)
        scheme = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
        self.call("Emulation.setEmulatedMedia", media=media, features=scheme)
        self.call("Page.navigate", url=page.resolve().as_uri())
        while not any(event.get("method") == "Page.loadEventFired" for event in self.events):
            self.events.append(self._next())

    def value(self, expression: str) -> Any:
        found = self.call("Runtime.evaluate", expression=expression, returnByValue=True)
        assert "exceptionDetails" not in found, found
        return found["result"].get("value")

    def requests(self) -> list[str]:
        """What was fetched besides the page itself."""
        sent = [e["params"]["request"]["url"] for e in self.events if e.get("method") == "Network.requestWillBeSent"]
        return sent[1:]

    def complaints(self) -> list[str]:
        """Errors and warnings of the console, and exceptions."""
        kinds = ("Runtime.consoleAPICalled", "Runtime.exceptionThrown", "Log.entryAdded")
        return [json.dumps(event["params"]) for event in self.events if event.get("method") in kinds]

    def pdf(self, path: Path) -> None:
        data = self.call(
            "Page.printToPDF", printBackground=True, preferCSSPageSize=True, paperWidth=8.27, paperHeight=11.7
        )
        path.write_bytes(base64.b64decode(data["data"]))


@contextmanager
def chromium(profile: Path) -> Iterator[Browser]:
    """A browser with a profile of its own."""
    to_browser, write = os.pipe()
    read, from_browser = os.pipe()
    fds = (to_browser, from_browser)

    command = [sys.executable, "-c", PIPES, *map(str, fds), BINARY, *FLAGS, f"--user-data-dir={profile}"]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, pass_fds=fds)
    for fd in fds:
        os.close(fd)
    try:
        yield Browser(write, read)
    finally:
        os.close(write)
        os.close(read)
        process.terminate()
        process.wait(10)
