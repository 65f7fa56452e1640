"""Drives an installed Firefox over Marionette, its own remote protocol: `length:[0, id, command, parameters]` over a socket."""

import json
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

PROGRAM = next(filter(None, map(shutil.which, ("firefox-esr", "firefox"))), None)
START_S = 90
PREFERENCES = {
    "browser.shell.checkDefaultBrowser": False,
    "datareporting.policy.dataSubmissionEnabled": False,
    "app.update.auto": False,
    "browser.startup.page": 0,
    "network.captive-portal-service.enabled": False,
    "network.connectivity-service.enabled": False,
}


class Firefox:
    """One window of a Firefox that has no network."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection, self._number = connection, 0
        self._read()  # what the server says of itself
        self.ask("WebDriver:NewSession", capabilities={"alwaysMatch": {"acceptInsecureCerts": True}})
        self.of_browser("Services.io.offline = true; Services.console.reset();")

    def ask(self, command: str, **parameters: Any) -> Any:
        """The answer to a command of Marionette's."""
        self._number += 1
        message = json.dumps([0, self._number, command, parameters]).encode()
        self._connection.sendall(str(len(message)).encode() + b":" + message)
        _, _, error, answer = self._read()
        assert error is None, error
        return answer["value"] if isinstance(answer, dict) and "value" in answer else answer

    def evaluate(self, script: str, *given: Any) -> Any:
        """What the body of a function returns in the page."""
        return self.ask("WebDriver:ExecuteScript", script=script, args=list(given), scriptTimeout=60_000)

    def of_browser(self, script: str) -> Any:
        """What the body of a function returns among the browser's own scripts."""
        self.ask("Marionette:SetContext", value="chrome")
        try:
            return self.evaluate(script)
        finally:
            self.ask("Marionette:SetContext", value="content")

    def open(self, path: Path, address: str = "") -> None:
        """Open a page of ours from a file and wait until it is drawn."""
        self.ask("WebDriver:Navigate", url="about:blank")
        self.ask("WebDriver:Navigate", url=path.as_uri() + address)
        self.settle()

    def settle(self) -> None:
        """Wait until all places are drawn."""
        until = time.monotonic() + 60
        while self.evaluate("return document.body.dataset.state") != "drawn":
            assert time.monotonic() < until, "the page was not drawn"
            time.sleep(0.05)

    def press(self, keys: str) -> None:
        """Press keys, one after another, in what has the focus."""
        actions = [{"type": kind, "value": key} for key in keys for kind in ("keyDown", "keyUp")]
        self.ask("WebDriver:PerformActions", actions=[{"type": "key", "id": "keys", "actions": actions}])
        self.settle()

    def resize(self, width: int, height: int = 900) -> None:
        """Give the window another size."""
        self.ask("WebDriver:SetWindowRect", width=width, height=height)
        time.sleep(0.3)
        self.settle()

    def problems(self, path: Path) -> list[str]:
        """What the console has said of a page since the start."""
        script = f"return Services.console.getMessageArray().map(String).filter((words) => words.includes({json.dumps(path.name)}));"
        return list(self.of_browser(script))

    def _read(self) -> Any:
        length = b""
        while not length.endswith(b":"):
            length += self._byte(1)
        return json.loads(self._byte(int(length[:-1])))

    def _byte(self, count: int) -> bytes:
        read = b""
        while len(read) < count:
            part = self._connection.recv(count - len(read))
            assert part, "Firefox has closed the connection"
            read += part
        return read


@contextmanager
def started(folder: Path) -> Iterator[Firefox]:
    """A headless Firefox with a profile of its own in `folder`."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    lines = [f"user_pref({json.dumps(name)}, {json.dumps(value)});" for name, value in PREFERENCES.items()]
    (folder / "user.js").write_text("\n".join([*lines, f'user_pref("marionette.port", {port});']), encoding="utf-8")
    options = ("--headless", "--marionette", "--remote-allow-system-access", "--no-remote", "--profile", str(folder))
    process = subprocess.Popen([str(PROGRAM), *options], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        with _connected(port) as connection:
            yield Firefox(connection)
    finally:
        process.terminate()
        process.wait(timeout=30)


def _connected(port: int) -> socket.socket:
    until = time.monotonic() + START_S
    while True:
        try:
            return socket.create_connection(("127.0.0.1", port), timeout=120)
        except OSError:
            assert time.monotonic() < until, "Firefox did not start"
            time.sleep(0.2)
