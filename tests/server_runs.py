"""A real server for tests: ``srosr serve`` in a process of its own, on a free port, with a small model.

A start takes seconds of processor time for the server and each of its children. So tests that need no settings of their
own share the server of :func:`share_server`, or that of :func:`share_strict` with small limits. :func:`save_model` fits
and saves the model that most tests use; :func:`server_required` skips a file of tests where the extra ``serve`` is
missing, unless ``SROSR_REQUIRE_SERVE=1``.
"""

import http.client
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import numpy as np
import pytest

#: Seconds in which a server must be ready: several start at a time on a machine that is busy.
START = 120.0
STRICT = {
    "body": 2_000_000, "rows": 1000, "columns": 2000, "pixels": 100_000, "files": 3, "body_seconds": 3.0,
    "large_bodies": 2,
}  # fmt: skip
#: A server with limits that the command has no options for, which looks often for models that have changed, and has
#: few children: paths, limits and settings as JSON.
_LAUNCH = """
import json, logging, sys, tempfile
from pathlib import Path
from srosr.server import store as stores
from srosr.cli.serve import bind_socket, name_models
from srosr.server.application import run_server
from srosr.server.store import ModelStore
from srosr.server.settings import Limits, ServerSettings

logging.basicConfig(level=logging.INFO)
paths, limits, settings = map(json.loads, sys.argv[1:])
settings = ServerSettings(limits=Limits(**limits), **{"readers": 1, "workers": 1} | settings)
stores.POLL_INTERVAL = 0.2
with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
    bound = bind_socket("127.0.0.1", 0)
    store = ModelStore(name_models(paths), settings, Path(folder))
    store.load_all()
    address = f"http://127.0.0.1:{bound.getsockname()[1]}/"
    print("Serving at", address, flush=True)
    run_server(settings, store, Path(folder), bound)
"""


def server_required():
    """Skip the tests of a file if the extra ``serve`` is not installed and need not be."""
    if os.environ.get("SROSR_REQUIRE_SERVE") == "1":
        return
    for name in ("fastapi", "uvicorn", "h11", "prometheus_client", "python_multipart"):
        pytest.importorskip(name, reason=f"needs the extra serve: {name} is not installed")


def make_samples(seed=0, n=25, features=6):
    """Return samples of three classes of text, and samples of none of them."""
    random = np.random.default_rng(seed)
    centers = 4 * np.eye(4, features) + 1
    X = np.concatenate([center + 0.4 * random.normal(size=(n, features)) for center in centers[:3]])
    unknown = centers[3] + 0.4 * random.normal(size=(n, features))
    return X, np.repeat(["a", "b", "c"], n), unknown


def save_model(path, **parameters):
    """Fit a classifier to three classes and save it; return the classifier."""
    from srosr import SROSRClassifier

    X, y, _ = make_samples()
    clf = SROSRClassifier(random_state=0, n_jobs=1, **parameters).fit(X, y)
    clf.save(path)
    return clf


class Server:
    """A server that runs, and a client of it."""

    def __init__(self, process, port, token=None):
        self.process, self.port, self.token = process, port, token

    @property
    def address(self):
        return f"http://127.0.0.1:{self.port}"

    def connect(self, timeout=60):
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)

    def request(self, method, path, body=None, headers=None, timeout=60):
        """Return status, headers in lower case and body of an answer; the path is sent as it is."""
        headers = dict(headers or {})
        if self.token is not None:
            headers.setdefault("Authorization", f"Bearer {self.token}")
        connection = self.connect(timeout)
        connection._validate_path = lambda path: None
        try:
            with suppress(BrokenPipeError, ConnectionResetError):  # the server may answer without reading all
                connection.request(method, path, body, headers)
            answer = connection.getresponse()
            content = answer.read()
            return answer.status, {name.lower(): value for name, value in answer.getheaders()}, content
        finally:
            connection.close()

    def begin(self, path, body, sent=0, **headers):
        """Post so many bytes of a body; return the connection, on which the others and the answer may follow."""
        connection = self.connect()
        connection.putrequest("POST", path)
        usual = {"Content-Type": "application/json", "Content-Length": len(body)}
        for name, value in {**usual, **{name.replace("_", "-"): value for name, value in headers.items()}}.items():
            connection.putheader(name, str(value))
        connection.endheaders(body[:sent])
        return connection

    def exchange(self, content, seconds=10.0):
        """Send bytes as they are; return what comes back until the connection ends, at most for so long."""
        found = b""
        with socket.create_connection(("127.0.0.1", self.port), timeout=seconds) as connection, suppress(OSError):
            with suppress(ConnectionError):
                connection.sendall(content)
            while part := connection.recv(65536):
                found += part
        return found

    def read_metric(self, name):
        """Return the value of a metric, 0 if nothing has been counted yet."""
        lines = self.request("GET", "/metrics")[2].decode().splitlines()
        return next((float(line.split()[-1]) for line in lines if line.startswith(f"{name} ")), 0.0)

    def get(self, path, **headers):
        """Return the status and the JSON of an answer."""
        status, _, content = self.request("GET", path, headers=headers)
        return status, json.loads(content)

    def post(self, path, value=None, headers=None, *, body=None, media_type="application/json"):
        """Post JSON, or a body of another media type; return the status and the JSON of the answer."""
        content = json.dumps(value).encode() if body is None else body
        status, _, answer = self.request("POST", path, content, {"Content-Type": media_type, **(headers or {})})
        return status, json.loads(answer)

    def stop(self, timeout=60):
        """End the server by SIGTERM; return its exit status."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(timeout)

    def read_log(self):
        """Return what the server has written to standard error so far."""
        return Path(self.process.log).read_text()


@contextmanager
def serve(*arguments, token=None, folder=None, environment=None, limits=None, settings=None):
    """Run ``srosr serve`` with these arguments on a free port until the block ends.

    ``folder`` gets the log, ``token`` is sent with each request. With ``limits`` or ``settings``, dicts of attributes
    of ``Limits`` and ``ServerSettings`` of the server, arguments are models only.
    """
    with tempfile.TemporaryDirectory() as own:
        log = Path(folder or own) / "server.log"
        command = [sys.executable, "-m", "srosr", "serve", "--port", "0", *map(str, arguments)]
        if limits is not None or settings is not None:
            given = [list(map(str, arguments)), limits or {}, settings or {}]
            command = [sys.executable, "-c", _LAUNCH, *map(json.dumps, given)]
        with open(log, "wb") as errors:
            process = subprocess.Popen(
                command, stdout=subprocess.PIPE, stderr=errors, env={**os.environ, **(environment or {})}
            )
        process.log = log
        try:
            line = process.stdout.readline().decode()
            if not line.startswith("Serving "):
                process.wait(START)
                raise AssertionError(f"the server did not start: {log.read_text()}")
            port = int(line.split("http://")[1].split("/")[0].rpartition(":")[2])
            yield Server(process, port, token)
        finally:
            if process.poll() is None:
                process.terminate()
                try:
                    process.wait(40)
                except subprocess.TimeoutExpired:
                    process.kill()
            process.stdout.close()
            process.wait()


_shared = {}


def make_once(request, kind, make):
    """Return what ``make`` gives as a context: made once for all files of tests of a process, and ended with them."""
    if kind not in _shared:
        stack = ExitStack()
        request.session.addfinalizer(stack.close)
        _shared[kind] = stack.enter_context(make())
    return _shared[kind]


def share_server(request):
    """Return the server that tests of several files use, with its models in ``place``.

    *plain*, *named* (a table with names and gaps) and *shapes* (pictures, if they can be read) are left as they are;
    *model*, *grouped* (a table with groups), *other* (of another method) and the rest are there to be changed.
    """
    return make_once(request, "models of all kinds", _serve_models)


@contextmanager
def _serve_models():
    from command_runs import QUICK, right
    from pandas import DataFrame

    from srosr import KNNDistance

    impute = ("--standardize", "--impute", "median")
    few = (*QUICK, "-q")
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        save_model(place / "plain.srosr")
        copies = [place / f"{name}.srosr" for name in ("model", "swapped", "broken", "watched", "mended", "barred")]
        for copy in copies:
            shutil.copyfile(place / "plain.srosr", copy)
        X, y, _ = make_samples()
        KNNDistance().fit(X, y).save(place / "rival.srosr")
        models = [place / f"{name}.srosr" for name in ("plain", "named", "grouped")]
        table = DataFrame(X, columns=[f"f{i}" for i in range(X.shape[1])]).assign(kind=y)
        table.to_csv(place / "train.csv", index=False)
        right("fit", place / "train.csv", "-o", models[1], "--label", "kind", *impute, *few)
        table.assign(person=[f"p{i % 9}" for i in range(len(X))]).to_csv(place / "train.csv", index=False)
        right("fit", place / "train.csv", "-o", models[2], "--label", "kind", "--group", "person", *few)
        models += fit_shapes(place)
        with serve(*models, *copies, f"other={place / 'rival.srosr'}", settings={"jobs": 1}) as server:
            server.place = place
            yield server


def share_strict(request):
    """Return a server with the limits in ``STRICT``; its models *changed* and *fuzzed* are there to be changed."""
    return make_once(request, "small limits", _serve_strict)


@contextmanager
def _serve_strict():
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        models = [place / f"{name}.srosr" for name in ("plain", "changed", "fuzzed")]
        save_model(models[0])
        for copy in models[1:]:
            shutil.copyfile(models[0], copy)
        with serve(*models, *fit_shapes(place), limits=STRICT, settings={"jobs": 1}) as server:
            server.place = place
            yield server


def fit_shapes(place):
    """Fit a model to pictures of dots and bars; return its path in a list, which is empty if that is not possible."""
    from command_runs import QUICK, right

    try:
        from PIL import Image
    except ImportError:
        return []
    random = np.random.default_rng(0)
    for name, row, width in (("dot", 2, 2), ("bar", 5, 8)):
        (place / "shapes" / name).mkdir(parents=True)
        for number in range(12):
            gray = 40 * random.random((8, 8))
            gray[row, :width] = 250
            Image.fromarray(gray.astype(np.uint8)).save(place / "shapes" / name / f"{number}.png")
    right("fit", place / "shapes", "--features", "pixels", "-o", place / "shapes.srosr", *QUICK, "-q")
    return [place / "shapes.srosr"]


def wait_until(check, seconds=30.0, pause=0.1):
    """Return what ``check`` returns as soon as it is true."""
    end = time.monotonic() + seconds
    while True:
        found = check()
        if found:
            return found
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(pause)


def check_error(answer, *statuses):
    """Check that an answer, as ``request`` returns it, is an error of one sentence; return the sentence."""
    status, headers, body = answer
    assert status in statuses, (status, body[:300])
    assert headers["content-type"] == "application/json"
    (text,) = json.loads(body).values()
    assert list(json.loads(body)) == ["error"] and text.endswith((".", "?")) and "\n" not in text, text
    assert status != 422 or not re.search(" --[a-z]", text), f"options of commands are parameters here: {text}"
    check_tells_nothing(body)
    return text


def check_tells_nothing(body):
    """Check that an answer has no traceback, and no path of this machine: of the package, models or temporary files."""
    text = body.decode("utf-8", "replace")
    own = f"{tempfile.gettempdir()}/", str(Path.home())
    for place in ("Traceback", ".py", "/site-packages", "/srosr/", "/usr/", *own):
        assert place not in text, text[:300]


def make_form(files, **fields):
    """Return the body and the headers of a form; the names of its files are sent as they are."""
    parts = [f'name="files"; filename="{name}"\r\n\r\n'.encode() + content for name, content in files]
    parts += [f'name="{name}"\r\n\r\n{value}'.encode() for name, value in fields.items()]
    body = b"".join(b"--frontier\r\nContent-Disposition: form-data; " + part + b"\r\n" for part in parts)
    return body + b"--frontier--\r\n", {"Content-Type": "multipart/form-data; boundary=frontier"}
