"""``srosr serve`` before it serves: what it refuses, and the demonstration."""

import json
import socket
import subprocess
import sys

import numpy as np
import pytest
from command_runs import error_of, right
from server_runs import save_model, serve, server_required

server_required()


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    path = tmp_path_factory.mktemp("model") / "model.srosr"
    save_model(path)
    return path


def test_it_says_what_is_wrong_before_it_listens(model, tmp_path):
    assert error_of("serve").startswith("give a MODEL that srosr fit wrote, or --demo")
    assert error_of("serve", tmp_path / "none.srosr").endswith(
        "none.srosr does not exist: give a model that srosr fit wrote."
    )
    assert error_of("serve", tmp_path).endswith("is a folder: give a model that srosr fit wrote.")
    (tmp_path / "broken.srosr").write_bytes(model.read_bytes()[:-1])
    assert "broken.srosr" in error_of("serve", tmp_path / "broken.srosr")
    assert error_of("serve", model, model).startswith("two models are called model")
    assert "would be called 'a b'" in error_of("serve", f"a b={model}")
    assert error_of("serve", model, "--host", "0.0.0.0").startswith("--host 0.0.0.0 lets other machines in")
    assert error_of("serve", model, "--token-file", tmp_path / "none").startswith("--token-file")
    assert error_of("serve", model, "--picture-shape", "8").startswith("--picture-shape 8: write height and width")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        assert error_of("serve", model, "--port", port).startswith(f"--port {port}: Address already in use; choose")


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


def test_the_help_shows_how_to_begin():
    text = right("serve", "--help")
    assert (
        "srosr serve --demo --open" in text and "--token-file" in text and "exit status is 0" in " ".join(text.split())
    )


def test_the_demonstration_has_a_model_and_samples_to_try():
    with serve("--demo", "--jobs", "1") as server:
        listed = server.get("/v1/models")[1]
        assert (
            listed["demo"]
            and listed["models"][0]["name"] == "digits"
            and listed["models"][0]["picture_shape"] == [8, 8]
        )
        status, drawn = server.get("/v1/demo/samples?n=40&seed=3")
        assert status == 200 and len(drawn["samples"]) == 40 and drawn["shape"] == [8, 8]
        assert sorted(drawn["known"] + drawn["unknown"]) == list(range(10)) and len(drawn["known"]) == 6
        assert [str(digit) for digit in drawn["known"]] == listed["models"][0]["classes"]
        values = np.array([sample["values"] for sample in drawn["samples"]])
        assert values.shape == (40, 64) and values.min() >= 0 and values.max() <= 16
        assert drawn == server.get("/v1/demo/samples?n=40&seed=3")[1] != server.get("/v1/demo/samples?n=40&seed=4")[1]
        _, answer = server.post("/v1/models/digits/decide", {"samples": values.tolist()})
        right_ones = [
            row["label"] == str(sample["digit"]) if sample["known"] else row["verdict"] == "rejected"
            for row, sample in zip(answer["decisions"], drawn["samples"], strict=True)
        ]
        assert np.mean(right_ones) > 0.8
        sevens = server.get(f"/v1/demo/samples?digit={drawn['unknown'][0]}&n=5")[1]["samples"]
        assert {sample["digit"] for sample in sevens} == {drawn["unknown"][0]}
        for query in ("digit=11", "n=0", "n=x", "m=1", "n=1&n=2"):
            assert server.get(f"/v1/demo/samples?{query}")[0] == 422
        _, _, content = server.request("GET", "/openapi.json")
        document = json.loads(content)
        assert document["openapi"].startswith("3.") and "/v1/models/{model}/decide" in document["paths"]
        bodies = document["paths"]["/v1/models/{model}/decide"]["post"]["requestBody"]["content"]
        assert {"application/json", "text/csv", "application/x-npy", "multipart/form-data", "image/*"} <= set(bodies)
        assert server.stop() == 0


def test_a_model_may_have_the_name_of_the_demonstration_only_without_it(model):
    assert error_of("serve", f"digits={model}", "--demo").startswith("--demo serves a model called digits")
