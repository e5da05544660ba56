"""What the page on the server shows is what happens: its commands, its client, its options and its deployment files."""

from __future__ import annotations

import configparser
import contextlib
import io
import json
import os
import re
import shlex
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest
from command_runs import right
from server_attack_runs import Attacked, make_models
from server_runs import server_required
from test_command_line_page import as_pattern

server_required()
pytest.importorskip("PIL")

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "guide" / "server.md"
SHOWN = "127.0.0.1:8000"


def read_transcripts() -> list[tuple[str, str]]:
    """Return the commands of the page, of one or several lines, with the output shown under each."""
    found = []
    for block in re.findall(r"```console\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.S):
        for part in re.split(r"^\$ ", block, flags=re.M)[1:]:
            lines = part.splitlines()
            length = 1 + next(i for i, line in enumerate(lines) if not line.endswith("\\"))
            command, shown = "\n".join(lines[:length]), "\n".join(lines[length:])
            found.append((command, shown))
    return found


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """Return a folder in which the commands of the page are run, with a model of pictures and two pictures."""
    folder = make_models(tmp_path_factory.mktemp("page"))
    (folder / "new").mkdir()
    for name, digit in (("one", 1), ("two", 2)):
        (folder / "new" / f"{name}.png").write_bytes((folder / "photos" / str(digit) / "0.png").read_bytes())
    return folder


@pytest.fixture(scope="module")
def server(folder):
    with Attacked(folder, names=("flowers", "photos")) as server:
        yield server


def run_in_shell(command: str, folder: Path, values: dict[str, str]) -> str:
    """Run a command as a user would and return what it printed; variables that it sets are kept in ``values``."""
    environment = os.environ | values | {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    done = subprocess.run(
        ["bash", "-o", "pipefail", "-c", f"{command}\n"],
        cwd=folder,
        env=environment,
        text=True,
        capture_output=True,
        timeout=120,
    )
    assert done.returncode == 0, f"{command} ended with {done.returncode}: {done.stdout}{done.stderr}"
    return done.stdout


def test_the_page_shows_what_curl_prints(folder, server, monkeypatch):
    (code,) = re.findall(r"```\{code-block\} python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.S)
    monkeypatch.chdir(folder)
    exec(compile(code, "server.md", "exec"), {})
    values: dict[str, str] = {}
    commands = 0
    for command, shown in read_transcripts():
        if command.startswith("srosr serve"):  # it runs already
            continue
        if match := re.match(r"(\w+)=\$\(", command):
            command = f"{command}\necho ${match[1]}"
            values[match[1]] = run_in_shell(command.replace(SHOWN, server.address), folder, values).strip()
            assert values[match[1]]
            continue
        if command.startswith("srosr "):
            printed = right(*shlex.split(command)[1:])
        else:
            printed = run_in_shell(command.replace(SHOWN, server.address), folder, values)
        if shown.strip():
            printed = printed if printed.endswith("\n") else f"{printed}\n"
            assert re.fullmatch(as_pattern(shown), printed), f"{command} printed\n{printed}"
        commands += 1
    assert commands >= 18
    assert ElementTree.parse(folder / "why.svg").getroot().tag.endswith("svg")


def test_the_client_of_the_page_has_thirty_lines_and_works(folder, server):
    (code,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.S)
    client = code.split("\n\n\nflowers = ")[0]
    assert len([line for line in client.splitlines() if line.strip()]) <= 30
    scope: dict = {}
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(code.replace(SHOWN, server.address), "server.md", "exec"), scope)
    assert printed.getvalue().startswith("setosa 0.0") and "Rejected: the unknown score" in printed.getvalue()
    flowers = scope["flowers"]
    before = json.loads(server.send("GET", "/v1/models/flowers")[2])["version"]
    assert flowers.set_threshold(target_rejection=0.02) != before
    with pytest.raises(RuntimeError, match="422: "):
        flowers.decide([[1, 2, 3]])


def test_every_path_of_the_api_is_on_the_page_and_no_other(server):
    document = json.loads(server.send("GET", "/openapi.json")[2])
    reference = PAGE.read_text(encoding="utf-8").split("## Reference")[1]
    shown = set(re.findall(r"`(GET|POST) (/[^`]*)`", reference))
    there = {
        (method.upper(), path)
        for path, item in document["paths"].items()
        for method in item
        if not path.startswith("/v1/demo")
    }
    shown = {(method, path) for method, path in shown if path not in ("/", "/openapi.json", "/v1/demo/samples")}
    assert there == shown


def test_every_metric_on_the_page_is_measured(server):
    names = set(re.findall(r"`(srosr_\w+)", PAGE.read_text(encoding="utf-8")))
    exported = server.send("GET", "/metrics")[2].decode()
    assert len(names) >= 5
    assert not [name for name in names if name not in exported]


def test_every_option_on_the_page_exists():
    help_text = _help()
    section = PAGE.read_text(encoding="utf-8")
    others = "--label --seed --data-binary --impute --demo --json --http1.1 --drop-missing --no-header"
    for line in re.findall(r"srosr serve [^\n`#|]*", section):
        for option in re.findall(r"--[a-z-]+", line):
            assert option in help_text, f"{line}: there is no {option}"
    for option in re.findall(r"`(--[a-z-]+)", section):
        assert option in help_text or option in others.split(), f"there is no {option}"


def _help() -> str:
    done = subprocess.run(
        [sys.executable, "-m", "srosr", "serve", "--help"], text=True, capture_output=True, timeout=60
    )
    assert done.returncode == 0
    return done.stdout


# -- deployment --------------------------------------------------------------------------------------------


def read_dockerfile() -> list[tuple[str, str]]:
    """Return the instructions of the Dockerfile."""
    text = (ROOT / "deploy" / "Dockerfile").read_text(encoding="utf-8")
    text = re.sub(r"^#.*\n", "", text, flags=re.M).replace("\\\n", " ")
    return [tuple(line.split(None, 1)) for line in text.splitlines() if line.strip()]


def test_the_image_serves_as_a_user_without_rights_and_downloads_only_the_package():
    instructions = read_dockerfile()
    known = "FROM COPY RUN ENV USER VOLUME WORKDIR EXPOSE HEALTHCHECK STOPSIGNAL ENTRYPOINT CMD"
    assert {name for name, _ in instructions} <= set(known.split())
    last = {name: value for name, value in instructions}
    assert last["USER"].split(":")[0] not in ("0", "root")
    runs = " ".join(value for name, value in instructions if name == "RUN")
    assert '"/source[serve,images]"' in runs and not re.search(r"curl|wget|apt-get|git ", runs)
    command = json.loads(last["ENTRYPOINT"])
    assert command[:2] == ["srosr", "serve"]
    help_text = _help()
    assert all(option in help_text for option in command if option.startswith("--"))
    assert last["EXPOSE"] == command[command.index("--port") + 1]
    check = json.loads(last["HEALTHCHECK"].split("CMD", 1)[1])
    compile(check[2], "HEALTHCHECK", "exec")


def test_the_check_of_the_image_sees_whether_the_server_is_alive(server):
    check = json.loads(dict(read_dockerfile())["HEALTHCHECK"].split("CMD", 1)[1])
    alive = [sys.executable, *check[1:2], check[2].replace(SHOWN, server.address)]
    assert subprocess.run(alive, timeout=30).returncode == 0
    dead = [sys.executable, *check[1:2], check[2].replace(SHOWN, "127.0.0.1:9")]
    assert subprocess.run(dead, timeout=30, stderr=subprocess.DEVNULL).returncode != 0


def test_the_files_that_the_image_is_built_from_are_in_its_context():
    kept = (ROOT / "deploy" / "Dockerfile.dockerignore").read_text(encoding="utf-8").splitlines()
    kept = {line[1:] for line in kept if line.startswith("!")}
    assert kept == {"src", "pyproject.toml", "README.md", "LICENSE"} and all((ROOT / name).exists() for name in kept)


def test_the_unit_starts_a_command_that_exists_and_gives_it_few_rights():
    unit = configparser.RawConfigParser(strict=False)
    unit.optionxform = str
    unit.read(ROOT / "deploy" / "srosr.service", encoding="utf-8")
    service = unit["Service"]
    command = shlex.split(service["ExecStart"])
    help_text = _help()
    assert command[1] == "serve" and all(option in help_text for option in command if option.startswith("--"))
    assert "${CREDENTIALS_DIRECTORY}/token" in command and service["LoadCredential"].startswith("token:")
    # The server drains for 30 seconds, and must itself end its children.
    assert int(service["TimeoutStopSec"]) > 30 and service["KillMode"] == "mixed" and service["KillSignal"] == "SIGTERM"
    for name in ("NoNewPrivileges", "DynamicUser", "PrivateTmp", "ProtectHome", "PrivateDevices", "LockPersonality"):
        assert service[name] == "yes", name
    assert service["ProtectSystem"] == "strict" and service["CapabilityBoundingSet"] == ""
