"""``srosr completion``: the script that lets a shell complete commands and options."""

from __future__ import annotations

import click

__all__ = ["completion"]

SHELLS = ("bash", "zsh", "fish")


@click.command()
@click.argument("shell", type=click.Choice(SHELLS))
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    """Print a script that lets the shell complete commands, options and files.

    \b
    Examples:
      eval "$(srosr completion bash)"                                   for now; in ~/.bashrc for always
      eval "$(srosr completion zsh)"                                    the same for zsh, in ~/.zshrc
      srosr completion fish > ~/.config/fish/completions/srosr.fish
    """
    from click.shell_completion import ShellComplete, get_completion_class

    kind = get_completion_class(shell)
    assert kind is not None
    # Of the class's own method bash would first be started to ask for its version.
    click.echo(ShellComplete.source(kind(context.find_root().command, {}, "srosr", "_SROSR_COMPLETE")))
