"""``srosr serve``: decisions over HTTP, and a page."""

from __future__ import annotations

import logging
import os
import re
import socket
import stat
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import click

from ..operations.input_errors import InputError
from .console import device_option, err, jobs_option
from .input_data import parse_shape

if TYPE_CHECKING:
    from ..server.settings import ServerSettings

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}", re.ASCII)
_BACKLOG = 512
#: Characters of a token at least.
_SHORTEST_TOKEN, _LARGEST_TOKEN_FILE = 16, 4096


@click.command()
@click.argument("models", metavar="[MODEL...]", nargs=-1)
@click.option("--demo", is_flag=True, help="Serve a model of six digits, with samples to try; needs no file.")
@click.option("--host", default="127.0.0.1", show_default=True, help="The address to listen on.")
@click.option("--port", type=click.IntRange(0, 65535), default=8000, show_default=True, help="0 takes a free one.")
@click.option(
    "--token-file", type=click.Path(path_type=Path), metavar="FILE",
    help="A file with a token, one line; requests must carry it as Authorization: Bearer TOKEN.",
)  # fmt: skip
@click.option("--insecure", is_flag=True, help="Serve other machines without a token.")
@click.option("--read-only", is_flag=True, help="Nothing can be changed over HTTP.")
@click.option(
    "--allow-host", "allowed_hosts", metavar="NAME", multiple=True,
    help="A further name by which the server may be addressed. Repeatable.",
)  # fmt: skip
@click.option(
    "--picture-shape", metavar="HxW",
    help="The features of tables are the gray values of pictures of this height and width: show them on the page.",
)  # fmt: skip
@click.option(
    "--max-body", type=click.FloatRange(0.001, 10_000), default=64, show_default=True, metavar="MB",
    help="Largest body of a request.",
)  # fmt: skip
@click.option(
    "--max-rows", type=click.IntRange(1), default=100_000, show_default=True, metavar="N",
    help="Most samples of a request.",
)  # fmt: skip
@click.option(
    "--longest-wait", type=click.FloatRange(0, 1000), default=2, show_default=True, metavar="MS",
    help="Milliseconds that a sample waits for others that are arriving, to be decided together.",
)  # fmt: skip
@jobs_option("Number of threads of a model.")
@device_option()
@click.option("--open", "open_page", is_flag=True, help="Open the page in the browser.")
@click.option("--log-requests", is_flag=True, help="Print a line for each request: address, method, path, status.")
def serve(
    models: tuple[str, ...],
    demo: bool,
    host: str,
    port: int,
    token_file: Path | None,
    insecure: bool,
    read_only: bool,
    allowed_hosts: tuple[str, ...],
    picture_shape: str | None,
    max_body: float,
    max_rows: int,
    longest_wait: float,
    jobs: int | None,
    device: str,
    open_page: bool,
    log_requests: bool,
) -> None:
    """Serve models over HTTP: decisions, explanations, changes, and a page on which one can see why.

    Each MODEL is a file that srosr fit wrote, called by its name without suffix, or NAME=PATH. The page is at the
    address that the command prints; programs use /v1/models/NAME/decide and its neighbors, which /openapi.json
    describes. Samples that arrive together are decided together.

    A model file that changes is loaded and takes the place of the old one; no request is lost. One that cannot be
    loaded leaves the old one serving, and /readyz says so. Changes over HTTP are written to the model file; the
    versions before are kept in a folder beside it, and can be restored.

    Only this machine can reach the server unless --host says otherwise; then a token is needed. TLS is the task of a
    proxy before it. SIGTERM and Ctrl-C let requests in flight end, at most 30 seconds, and the exit status is 0.

    \b
    Examples:
      srosr serve --demo --open
      srosr serve model.srosr
      srosr serve flowers.srosr faces=models/v7.srosr --port 8080 --read-only
      srosr serve model.srosr --host 0.0.0.0 --token-file token.txt
      curl localhost:8000/v1/models/model/decide --json '{"samples": [[5.1, 3.5, 1.4, 0.2]]}'
      curl localhost:8000/v1/models/model/decide -H 'Content-Type: text/csv' --data-binary @new.csv
    """
    if not models and not demo:
        raise InputError("give a MODEL that srosr fit wrote, or --demo to try it without one.")
    _require_libraries()
    from ..server.settings import ServerSettings, is_loopback

    sources = name_models(models)
    token = None
    if token_file is not None:
        token, warning = read_token(token_file)
        if warning is not None:
            err().print(f"Note: {warning}", style="yellow")
    if not is_loopback(host) and token is None and not insecure:
        raise InputError(
            f"--host {host} lets other machines in: give a token with --token-file FILE, or --insecure if the network "
            "is yours alone."
        )
    settings = ServerSettings(
        host=host,
        token=token,
        read_only=read_only,
        allowed_hosts=allowed_hosts,
        picture_shape=None if picture_shape is None else parse_shape("--picture-shape", picture_shape),
        longest_wait=longest_wait / 1000,
        jobs=jobs,
        device=device,
        log_requests=log_requests,
    )
    limits = replace(settings.limits, body=round(max_body * 1e6), rows=max_rows)
    bound = bind_socket(host, port)
    try:
        with TemporaryDirectory(prefix="srosr-serve-", ignore_cleanup_errors=True) as folder:
            _serve(replace(settings, limits=limits), sources, Path(folder), bound, demo, open_page)
    finally:
        bound.close()


def _serve(
    settings: ServerSettings, sources: dict[str, Path], folder: Path, bound: Any, demo: bool, open_page: bool
) -> None:
    """Load the models and serve them until a signal comes."""
    from ..server.application import run_server
    from ..server.demo_model import make_demo
    from ..server.store import ModelStore

    samples = None
    console = err()
    if demo:
        with console.status("Fitting the model of digits (the first run also compiles the solver) …"):
            if not console.is_terminal:
                console.print("Fitting the model of digits …")
            path, samples = make_demo(folder)
        if path.stem in sources:
            raise InputError(f"--demo serves a model called {path.stem}: give yours another name, as in NAME=PATH.")
        sources = {path.stem: path, **sources}
        settings = replace(settings, picture_shape=settings.picture_shape or samples.shape)
    store = ModelStore(sources, settings, folder)
    with console.status("Loading models …"):
        store.load_all()
    _start_log(settings.log_requests)
    address = _format_address(settings.host, bound)

    others = " and all addresses of this machine" if settings.host in ("0.0.0.0", "::") else ""
    click.echo(f"Serving {', '.join(sources)} at {address}{others} (Ctrl-C ends it)")
    if open_page:
        import webbrowser

        webbrowser.open(address)
    run_server(settings, store, folder, bound, samples)


def _require_libraries() -> None:
    """Raise if the extra is not installed."""
    try:
        import fastapi  # noqa: F401
        import prometheus_client  # noqa: F401
        import python_multipart  # noqa: F401
        import uvicorn  # noqa: F401
    except ImportError as error:
        raise InputError(f'serve needs {error.name}, which is not installed: pip install "srosr[serve]".') from None


def _start_log(requests: bool) -> None:
    """Print the messages of the server, and a line for each request if asked, on standard error."""
    logging.basicConfig(format="%(asctime)s %(message)s", level=logging.WARNING)
    logging.getLogger("srosr.server").setLevel(logging.INFO)
    access = logging.getLogger("uvicorn.access")
    access.setLevel(logging.INFO if requests else logging.WARNING)
    access.addFilter(_hide_query)


def _hide_query(record: logging.LogRecord) -> bool:
    """Remove the query from the line of a request: it may contain names of columns or a misplaced token."""
    client, method, path, *rest = record.args  # type: ignore[misc]
    record.args = (client, method, str(path).partition("?")[0], *rest)
    return True


def _format_address(host: str, bound: Any) -> str:
    port = bound.getsockname()[1]
    shown = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(host, f"[{host}]" if ":" in host else host)
    return f"http://{shown}:{port}/"


def name_models(arguments: Iterable[str]) -> dict[str, Path]:
    """Return the paths of models by their names: ``NAME=PATH``, or a path whose stem is the name.

    Examples
    --------
    >>> [(name, path.as_posix()) for name, path in name_models(["a/digits.srosr", "faces=b/model.srosr"]).items()]
    [('digits', 'a/digits.srosr'), ('faces', 'b/model.srosr')]
    """
    found: dict[str, Path] = {}
    for argument in arguments:
        name, equals, path = argument.partition("=")
        # A path with = in it, but no name before it, is a path.
        if not equals or os.sep in name or os.path.exists(argument):
            name, path = Path(argument).stem, argument
        if _NAME.fullmatch(name) is None:
            raise InputError(
                f"{argument}: the model would be called {name!r}; give it a name of at most 64 letters, digits, dots, "
                "hyphens and underscores, as in NAME=PATH."
            )
        if name in found:
            raise InputError(f"two models are called {name}: give one of them another name, as in NAME=PATH.")
        found[name] = Path(path)
    return found


def read_token(path: Path) -> tuple[str, str | None]:
    """Return the token in a file, and a warning if others can read the file.

    The file has one line of at least 16 printable ASCII characters without spaces.
    """
    try:
        with open(path, "rb") as file:
            content = file.read(_LARGEST_TOKEN_FILE + 1)
            mode = os.fstat(file.fileno()).st_mode
    except OSError as error:
        raise InputError(f"--token-file {path}: {error.strerror or error}.") from None
    try:
        token = content.decode("ascii").strip()
    except UnicodeDecodeError:
        token = " "
    if not token.isprintable() or " " in token or not _SHORTEST_TOKEN <= len(token) <= _LARGEST_TOKEN_FILE:
        raise InputError(
            f"--token-file {path} must have one line of at least {_SHORTEST_TOKEN} letters, digits or signs without "
            "spaces; python -c 'import secrets; print(secrets.token_urlsafe())' prints one."
        )
    open_to_others = os.name == "posix" and bool(stat.S_IMODE(mode) & 0o077)
    return token, f"{path} can be read by others: chmod 600 keeps the token yours." if open_to_others else None


def bind_socket(host: str, port: int) -> socket.socket:
    """Return a socket that is bound to an address; an error names the option at fault."""
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
    except OSError as error:
        raise InputError(f"--host {host}: {error.strerror or error}.") from None
    try:
        bound = socket.create_server(address[:2], family=family, backlog=_BACKLOG)
    except OSError as error:
        reason = os.strerror(error.errno) if error.errno else error
        raise InputError(f"--port {port}: {reason}; choose another with --port.") from None
    bound.setblocking(False)
    return bound
