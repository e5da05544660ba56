"""``srosr completion``: print the script that lets a shell complete commands and options."""

from __future__ import annotations

import click

SHELLS = ("bash", "zsh", "fish")


@click.command()
@click.argument("shell", type=click.Choice(SHELLS))
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    """Print a script that lets the shell complete commands, options and files.

    \b
    Examples:
      eval "$(srosr completion bash)"                                   in this shell; put it in ~/.bashrc for all
      eval "$(srosr completion zsh)"                                    the same for zsh and ~/.zshrc
      srosr completion fish > ~/.config/fish/completions/srosr.fish
    """
    from click.shell_completion import ShellComplete, get_completion_class

    kind = get_completion_class(shell)
    assert kind is not None
    # The class's own method would start bash to ask for its version.
    click.echo(ShellComplete.source(kind(context.find_root().command, {}, "srosr", "_SROSR_COMPLETE")))
