"""The command that opens the interactive page."""

from __future__ import annotations

import tempfile
import webbrowser
from html import escape
from pathlib import Path
from typing import Annotated

import typer

from memgrad import explorer
from memgrad.cli.options import MEMORY, as_mixture
from memgrad.memory import Mixture


def explore(
    memory: Annotated[Mixture | None, typer.Option(parser=as_mixture, metavar="MEMORY", help=MEMORY)] = None,
    preset: Annotated[int, typer.Option(min=1, max=explorer.STEPS, help="The scene of the story to start at.")] = 1,
    no_browser: Annotated[
        bool, typer.Option("--no-browser", "--print-url", help="Print the address without opening a browser.")
    ] = False,
    serve: Annotated[
        bool,
        typer.Option("--serve", help="Serve the page to this machine only, for browsers that cannot open files."),
    ] = False,
    port: Annotated[
        int | None, typer.Option(min=0, max=65535, help="The port for --serve [default: a free one, as with 0].")
    ] = None,
) -> None:
    """Open the explorer: an interactive page about memories, methods, noise and time. It works without a network.

    For example:

    - `memgrad explore`
    - `memgrad explore --preset 6  # why Nesterov's method amplifies noise`
    - `memgrad explore --memory poly:3 --preset 2`
    - `memgrad explore --memory "inst + (1+k)^0.15*poly:8" --preset 13  # ADana, part by part`
    - `memgrad explore --print-url`
    - `memgrad explore --serve --port 8000  # over HTTP, until Ctrl-C`
    """
    if port is not None and not serve:
        raise ValueError("--port is for --serve: add --serve, or leave out --port.")
    view = explorer.view(step=preset, memory=memory)
    if serve:
        _serve(view, port or 0, no_browser)
        return
    address = f"{explorer.PAGE.as_uri()}#{view}"
    typer.echo(address)
    if not no_browser and not webbrowser.open(_doorway(address).as_uri()):
        typer.echo("Could not start a browser: open the address above in one.", err=True)


def _doorway(address: str) -> Path:
    """A small file that redirects to the address: many desktops drop what follows # when they open a file."""
    link = escape(address, quote=True)
    with tempfile.NamedTemporaryFile("w", suffix=".html", prefix="memgrad-explore-", delete=False) as file:
        file.write(f'<!doctype html><meta charset="utf-8"><meta http-equiv="refresh" content="0; url={link}">\n')
        file.write(f'<title>memgrad explorer</title><a href="{link}">Open the explorer</a>\n')
    return Path(file.name)


def _serve(view: str, port: int, no_browser: bool) -> None:
    from memgrad.explorer.server import loopback

    try:
        opened = loopback(port)
    except OSError as error:
        raise ValueError(f"port {port} cannot be used: {error.strerror}. Pass another --port, or 0 for any.") from None
    with opened as server:
        address = f"http://127.0.0.1:{server.server_address[1]}/#{view}"
        typer.echo(f"{address}\nPress Ctrl-C to stop.")
        if not no_browser:
            webbrowser.open(address)
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            typer.echo("\nEnded.")
