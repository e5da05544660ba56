"""``srosr serve`` before it serves: what it refuses, and the demonstration."""

import socket
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from command_runs import error_of, run
from server_runs import save_model, serve, server_required

server_required()


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    path = tmp_path_factory.mktemp("model") / "model.srosr"
    save_model(path)
    return path


@pytest.fixture
def taken_port():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        yield taken.getsockname()[1]


def test_it_says_what_is_wrong_before_it_listens(model, tmp_path, taken_port):
    (tmp_path / "broken.srosr").write_bytes(model.read_bytes()[:-1])
    for arguments, sentence in (
        ((), "give a MODEL that srosr fit wrote, or --demo"),
        ((tmp_path / "none.srosr",), "none.srosr does not exist: give a model that srosr fit wrote."),
        ((tmp_path,), "is a folder: give a model that srosr fit wrote."),
        ((tmp_path / "broken.srosr",), "broken.srosr"),
        ((model, model), "two models are called model"),
        ((f"a b={model}",), "'a b'"),
        ((f"digits={model}", "--demo"), "--demo serves a model called digits"),
        ((model, "--picture-shape", "8"), "--picture-shape 8: write height and width"),
        ((model, "--port", taken_port), f"--port {taken_port}: Address already in use; choose another with --port."),
    ):
        assert sentence in error_of("serve", *arguments)


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.0.0.1", "example.org"])
def test_beyond_loopback_a_token_is_needed(model, host):
    assert error_of("serve", model, "--host", host).startswith(f"--host {host} lets other machines in: give a token")


def test_a_token_has_16_characters_at_least_and_is_not_for_others(model, tmp_path, taken_port):
    path = tmp_path / "token"
    assert error_of("serve", model, "--token-file", path).startswith(f"--token-file {path}: No such file")
    path.touch(0o600)
    for content in ("", "short", "with spaces in the middle of it", "two\nlines-are-too-many", "ünïcödé-is-not-ascii"):
        path.write_text(content)
        assert "must have one line of at least 16" in error_of("serve", model, "--token-file", path)
    path.write_text("correct-horse-battery-staple\n")
    for mode, is_open in ((0o600, False), (0o644, True)):
        path.chmod(mode)
        printed = run("serve", model, "--token-file", path, "--port", taken_port).output
        assert "Address already in use" in printed and ("can be read by others" in printed) == is_open


def test_without_the_libraries_it_names_the_extra(model, monkeypatch):
    monkeypatch.setitem(sys.modules, "fastapi", None)
    assert error_of("serve", model) == 'serve needs fastapi, which is not installed: pip install "srosr[serve]".'


def test_neither_the_package_nor_the_help_imports_the_libraries_of_the_server():
    code = (
        "import sys, srosr, srosr.server\nfrom click.testing import CliRunner\nfrom srosr.cli.app import main\n"
        "assert CliRunner().invoke(main, ['--help']).exit_code == 0\n"
        "assert CliRunner().invoke(main, ['serve', '--help']).exit_code == 0\n"
        "print(sorted({'fastapi', 'uvicorn', 'prometheus_client', 'pydantic'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.fixture(scope="module")
def demo():
    with serve("--demo", "--jobs", "1", "--log-requests") as server:
        yield server
        assert server.stop() == 0


def test_it_listens_on_loopback_and_logs_requests_without_secrets(demo):
    demo.request("GET", "/v1/models?token=secret", headers={"Authorization": "Bearer secret"})
    assert "GET /v1/models" in demo.read_log() and "secret" not in demo.read_log()
    listening, port = "0A", f":{demo.port:04X}"
    rows = [line.split() for kind in ("tcp", "tcp6") for line in Path(f"/proc/net/{kind}").read_text().splitlines()]
    found = {row[1] for row in rows if row[1].endswith(port) and row[3] == listening}
    assert found == {f"0100007F{port}"}, "127.0.0.1, as Linux writes it"


def test_the_demonstration_has_a_model_and_samples_to_try(demo):
    listed, (status, drawn) = demo.get("/v1/models")[1], demo.get("/v1/demo/samples?n=40&seed=3")
    (digits,) = listed["models"]
    assert listed["demo"] and digits["name"] == "digits" and digits["picture_shape"] == drawn["shape"] == [8, 8]
    assert sorted(drawn["known"] + drawn["unknown"]) == list(range(10)) and len(drawn["known"]) == 6
    assert [str(digit) for digit in drawn["known"]] == digits["classes"]
    values = np.array([sample["values"] for sample in drawn["samples"]])
    assert status == 200 and values.shape == (40, 64) and values.min() >= 0 and values.max() <= 16
    assert drawn == demo.get("/v1/demo/samples?n=40&seed=3")[1] != demo.get("/v1/demo/samples?n=40&seed=4")[1]
    _, answer = demo.post("/v1/models/digits/decide", {"samples": values.tolist()})
    right_ones = [
        row["label"] == str(sample["digit"]) if sample["known"] else row["verdict"] == "rejected"
        for row, sample in zip(answer["decisions"], drawn["samples"], strict=True)
    ]
    assert np.mean(right_ones) > 0.8
    sevens = demo.get(f"/v1/demo/samples?digit={drawn['unknown'][0]}&n=5")[1]["samples"]
    assert {sample["digit"] for sample in sevens} == {drawn["unknown"][0]}
    for query in ("digit=11", "n=0", "n=x", "m=1", "n=1&n=2"):
        assert demo.get(f"/v1/demo/samples?{query}")[0] == 422
