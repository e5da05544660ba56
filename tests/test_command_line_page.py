"""What README and the page on the command line show is what happens."""

import re
import shlex
from pathlib import Path

import pytest
from click.testing import CliRunner

from srosr.cli.app import main

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "guide" / "command-line.md"
README = ROOT / "README.md"


def transcripts():
    """Return the commands of the page with the output shown under each."""
    for block in re.findall(r"```console\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.S):
        for part in block.split("$ ")[1:]:
            command, _, shown = part.partition("\n")
            yield command, shown


def as_pattern(shown):
    """Return a pattern in which … stands for the rest of a line, or on a line of its own for any lines."""
    lines = []
    for line in shown.rstrip("\n").split("\n"):
        lines.append("(?:.*\n)*" if line == "…" else re.escape(line).replace("…", ".*") + "\n")
    return "".join(lines)


@pytest.mark.slow
def test_the_page_shows_what_the_commands_print(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    commands = []
    for command, shown in transcripts():
        name, *arguments = shlex.split(command)
        assert name == "srosr"
        done = CliRunner().invoke(main, arguments)
        assert done.exit_code == 0, done.output
        assert re.fullmatch(as_pattern(shown), done.output), f"{command} printed\n{done.output}"
        commands.append(arguments[0])
    assert commands == ["datasets", "fit", "predict", "explain", "evaluate"]


def test_the_five_lines_of_python_run(capsys):
    (code,) = re.findall(r"```python\n(.*?)```", README.read_text(encoding="utf-8"), re.S)
    exec(compile(code, "README.md", "exec"), {})
    shown = capsys.readouterr().out
    assert "-1" in shown.splitlines()[0] and "Rejected: the unknown score" in shown


def test_the_lines_of_shell_are_commands_that_work(tmp_path, monkeypatch):
    monkeypatch.setattr("srosr.evaluation.metric_table._RESAMPLES", 25)
    monkeypatch.chdir(tmp_path)
    text = README.read_text(encoding="utf-8").split("## At the shell")[1].split("##")[0]
    lines = re.findall(r"^    (srosr .*?)(?:  #.*)?$", text, re.M)
    assert len(lines) == 7
    for line in lines:
        done = CliRunner().invoke(main, shlex.split(line, comments=True)[1:])
        assert done.exit_code == 0, done.output
    there = {"known.csv", "new.csv", "model.srosr", "decisions.csv", "srosr-explanation.png", "report"}
    assert there == {path.name for path in tmp_path.iterdir()}
