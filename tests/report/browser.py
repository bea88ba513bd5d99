"""A browser without a window, spoken to through a pipe: https://chromedevtools.github.io/devtools-protocol."""

import base64
import itertools
import json
import os
import shutil
import subprocess

PATH = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


class Browser:
    """One page in a browser; `asked` has the addresses that it wanted, `errors` what went wrong in it."""

    def __init__(self, folder):
        (theirs_in, self._out), (self._in, theirs_out) = os.pipe(), os.pipe()
        options = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--remote-debugging-pipe"]
        command = [PATH, *options, "--no-first-run", f"--user-data-dir={folder}", "about:blank"]
        line = f'exec "$@" 3<&{theirs_in} 4>&{theirs_out}'
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        self._process = subprocess.Popen(
            ["bash", "-c", line, "browser", *command], pass_fds=(theirs_in, theirs_out), **quiet
        )
        os.close(theirs_in)
        os.close(theirs_out)
        self._numbers, self._rest, self._session = itertools.count(1), b"", None
        self.asked, self.errors, self._loaded = [], [], False
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.call(f"{domain}.enable")

    def call(self, method, **params):
        """Give a command, and return its result."""
        number = next(self._numbers)
        message = {"id": number, "method": method, "params": params}
        if self._session is not None:
            message["sessionId"] = self._session
        os.write(self._out, json.dumps(message).encode() + b"\0")
        while (found := self._next()).get("id") != number:
            self._note(found)
        assert "error" not in found, found
        return found["result"]

    def open(self, path, width=1200, scripts=True):
        """Show a file in a window of that width."""
        self.asked, self.errors, self._loaded = [], [], False
        size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
        self.call("Emulation.setDeviceMetricsOverride", **size)
        self.call("Emulation.setScriptExecutionDisabled", value=not scripts)
        self.call("Page.navigate", url=f"file://{path}")
        while not self._loaded:
            self._note(self._next())

    def value(self, expression):
        """Return the value of an expression in the page, as data."""
        found = self.call("Runtime.evaluate", expression=expression, returnByValue=True)
        assert "exceptionDetails" not in found, found
        return found["result"].get("value")

    def picture(self):
        """Return the whole page as PNG."""
        found = self.call("Page.captureScreenshot", captureBeyondViewport=True)
        return base64.b64decode(found["data"])

    def close(self):
        """End it."""
        os.close(self._out)
        os.close(self._in)
        self._process.terminate()
        self._process.wait(30)

    def _next(self):
        while b"\0" not in self._rest:
            more = os.read(self._in, 1 << 16)
            assert more, "the browser has ended"
            self._rest += more
        message, _, self._rest = self._rest.partition(b"\0")
        return json.loads(message)

    def _note(self, event):
        method, params = event.get("method"), event.get("params", {})
        if method == "Network.requestWillBeSent":
            self.asked.append(params["request"]["url"])
        elif method == "Page.loadEventFired":
            self._loaded = True
        elif method == "Runtime.exceptionThrown":
            self.errors.append(params["exceptionDetails"])
        elif method == "Log.entryAdded" and params["entry"]["level"] == "error":
            self.errors.append(params["entry"])
