"""What the page on the server shows is what happens: its commands, its client, its options and its deployment files."""

import configparser
import contextlib
import io
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import numpy as np
import pytest
from command_runs import right
from server_runs import serve, server_required
from test_command_line_page import as_pattern

server_required()
Image = pytest.importorskip("PIL.Image")

from sklearn.datasets import load_digits  # noqa: E402

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "guide" / "server.md").read_text(encoding="utf-8")
SHOWN = "127.0.0.1:8000"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder in which the commands of the page are run, with its table, a model of pictures and two pictures."""
    folder = tmp_path_factory.mktemp("page")
    (code,) = re.findall(r"```\{code-block\} python\n(.*?)```", PAGE, re.S)
    with contextlib.chdir(folder):
        exec(compile(code, "server.md", "exec"), {})
    X, y = load_digits(return_X_y=True)
    for digit, new in enumerate(("zero", "one", "two")):
        own = folder / "photos" / str(digit)
        own.mkdir(parents=True)
        for i, row in enumerate(np.flatnonzero(y == digit)[:12]):
            Image.fromarray((X[row].reshape(8, 8) * 15.9).astype(np.uint8)).save(own / f"{i}.png")
        (folder / "new").mkdir(exist_ok=True)
        shutil.copyfile(own / "0.png", folder / "new" / f"{new}.png")
    common = ("--seed", "0", "-o")
    right("fit", folder / "iris.csv", "--label", "species", *common, folder / "flowers.srosr")
    right("fit", folder / "photos", "--features", "pixels", "--size", "8x8", *common, folder / "photos.srosr")
    return folder


@pytest.fixture(scope="module")
def server(folder):
    with serve(folder / "flowers.srosr", folder / "photos.srosr", settings={"jobs": 1}) as server:
        server.show = lambda text: text.replace(SHOWN, f"127.0.0.1:{server.port}")
        yield server


@pytest.fixture(scope="module")
def help_text():
    return right("serve", "--help")


def run_in_shell(command, folder, values):
    """Run a command as a user would and return what it printed."""
    environment = os.environ | values | {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    shell = ["bash", "-e", "-o", "pipefail", "-c", command]
    return subprocess.run(shell, cwd=folder, env=environment, text=True, capture_output=True, check=True).stdout


def test_the_page_shows_what_curl_prints(folder, server, monkeypatch):
    monkeypatch.chdir(folder)
    values, commands = {}, 0
    for block in re.findall(r"```console\n(.*?)```", PAGE, re.S):
        for part in re.split(r"^\$ ", block, flags=re.M)[1:]:
            command, shown = re.fullmatch(r"((?:.*\\\n)*.*)\n((?:.*\n)*)", part).groups()
            if command.startswith("srosr serve"):  # it runs already
                continue
            if match := re.match(r"(\w+)=\$\(", command):
                values[match[1]] = run_in_shell(server.show(f"{command}\necho ${match[1]}"), folder, values).strip()
                assert values[match[1]]
                continue
            own = command.startswith("srosr ")
            printed = right(*shlex.split(command)[1:]) if own else run_in_shell(server.show(command), folder, values)
            if shown.strip():
                assert re.fullmatch(as_pattern(shown), printed.rstrip("\n") + "\n"), f"{command} printed\n{printed}"
            commands += 1
    assert commands >= 16
    assert ElementTree.parse(folder / "why.svg").getroot().tag.endswith("svg")


def test_the_client_of_the_page_has_thirty_lines_and_works(server):
    (code,) = re.findall(r"```python\n(.*?)```", PAGE, re.S)
    assert len([line for line in code.split("\n\n\nflowers = ")[0].splitlines() if line.strip()]) <= 30
    scope, printed = {}, io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(server.show(code), "server.md", "exec"), scope)
    assert printed.getvalue().startswith("setosa 0.0") and "Rejected: the unknown score" in printed.getvalue()
    before = server.get("/v1/models/flowers")[1]["version"]
    assert scope["flowers"].set_threshold(target_rejection=0.02) != before
    with pytest.raises(RuntimeError, match="422: "):
        scope["flowers"].decide([[1, 2, 3]])
    assert server.post("/v1/models/flowers/restore", {"version": before})[0] == 200


def test_every_path_of_the_api_is_on_the_page_and_no_other(server):
    paths = server.get("/openapi.json")[1]["paths"]
    shown = set(re.findall(r"`(GET|POST) (/[^`]*)`", PAGE.split("## Reference")[1]))
    there = {(method.upper(), path) for path, item in paths.items() for method in item}
    assert there == shown - {("GET", "/"), ("GET", "/openapi.json")}


def test_every_metric_and_option_on_the_page_exists(server, help_text):
    names, exported = set(re.findall(r"`(srosr_\w+)", PAGE)), server.request("GET", "/metrics")[2].decode()
    assert len(names) >= 5 and not [name for name in names if name not in exported]
    others = "--label --seed --data-binary --impute --demo --json --http1.1 --drop-missing --no-header --state"
    shown = set(re.findall(r"`(--[a-z-]+)", PAGE)) - set(others.split())
    shown.update(re.findall(r"--[a-z-]+", " ".join(re.findall(r"srosr serve [^\n`#|]*", PAGE))))
    assert not [option for option in shown if option not in help_text]


@pytest.fixture(scope="module")
def instructions():
    text = (ROOT / "deploy" / "Dockerfile").read_text(encoding="utf-8")
    text = re.sub(r"^#.*\n", "", text, flags=re.M).replace("\\\n", " ")
    return [tuple(line.split(None, 1)) for line in text.splitlines() if line.strip()]


def test_the_image_serves_as_a_user_without_rights_and_downloads_only_the_package(instructions, help_text):
    known = "FROM COPY RUN ENV USER VOLUME WORKDIR EXPOSE HEALTHCHECK STOPSIGNAL ENTRYPOINT CMD"
    assert {name for name, _ in instructions} <= set(known.split())
    last = dict(instructions)
    assert last["USER"].split(":")[0] not in ("0", "root")
    runs = " ".join(value for name, value in instructions if name == "RUN")
    assert '"/source[serve,images]"' in runs and not re.search(r"curl|wget|apt-get|git ", runs)
    command = json.loads(last["ENTRYPOINT"])
    assert command[:2] == ["srosr", "serve"]
    assert all(option in help_text for option in command if option.startswith("--"))
    assert last["EXPOSE"] == command[command.index("--port") + 1]
    kept = (ROOT / "deploy" / "Dockerfile.dockerignore").read_text(encoding="utf-8").splitlines()
    kept = {line[1:] for line in kept if line.startswith("!")}
    assert kept == {"src", "pyproject.toml", "README.md", "LICENSE"} and all((ROOT / name).exists() for name in kept)


def test_the_check_of_the_image_sees_whether_the_server_is_alive(server, instructions):
    _, option, code = json.loads(dict(instructions)["HEALTHCHECK"].split("CMD", 1)[1])
    alive = subprocess.run([sys.executable, option, server.show(code)], timeout=30)
    closed = [sys.executable, option, code.replace(SHOWN, "127.0.0.1:9")]
    assert alive.returncode == 0 != subprocess.run(closed, timeout=30, stderr=subprocess.DEVNULL).returncode


def test_the_unit_starts_a_command_that_exists_and_gives_it_few_rights(help_text):
    unit = configparser.RawConfigParser(strict=False)
    unit.optionxform = str
    unit.read(ROOT / "deploy" / "srosr.service", encoding="utf-8")
    service = unit["Service"]
    command = shlex.split(service["ExecStart"])
    assert command[1] == "serve" and all(option in help_text for option in command if option.startswith("--"))
    assert "${CREDENTIALS_DIRECTORY}/token" in command and service["LoadCredential"].startswith("token:")
    # The server drains for 30 seconds, and must itself end its children.
    assert int(service["TimeoutStopSec"]) > 30 and service["KillMode"] == "mixed" and service["KillSignal"] == "SIGTERM"
    for name in ("NoNewPrivileges", "DynamicUser", "PrivateTmp", "ProtectHome", "PrivateDevices", "LockPersonality"):
        assert service[name] == "yes", name
    assert service["ProtectSystem"] == "strict" and service["CapabilityBoundingSet"] == ""
