"""`gradwire serve`: show the pages and files of a folder in a browser."""

from pathlib import Path
from typing import Annotated

import typer

from gradwire.tools.live.view import MAX_PORT
from gradwire.tools.outputs import RUNS

PORT = 8480


def serve(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="Folder to show.")] = Path(RUNS),
    port: Annotated[
        int, typer.Option("--port", min=0, max=MAX_PORT, help="Port on loopback; 0 for any free one.")
    ] = PORT,
) -> None:
    """Show the results, pages and files of a folder in a browser on this machine.

    gradwire serve
    gradwire serve runs/20260704-101500 --port 0

    For pages that lie on another machine or in the lab VM, whose Vagrantfile
    forwards the port. It listens on loopback alone and changes nothing. Hidden
    files and symbolic links are left out. Started as root, it
    runs as the user who called sudo, or as nobody.
    """
    from gradwire.tools.work.serve import serve_folder

    serve_folder(folder, port)
