"""Shows a folder in a browser, for `gradwire serve`."""

import os
from pathlib import Path

from gradwire.planning.runfiles import check_folder
from gradwire.results.runlist import listed_runs
from gradwire.tools.console import console, plain
from gradwire.tools.folderview import MOST_ENTRIES, entries
from gradwire.tools.live.page import give_up_root
from gradwire.tools.pageparts import environment
from gradwire.tools.serving import FolderServer, where_to_look
from gradwire.tools.table import Cell
from gradwire.tools.work.runs import HEADS, row_of


def serve_folder(folder: Path, port: int) -> None:
    """Serve its pages and files on loopback until Ctrl-C."""
    check_folder(folder, "name a folder with results, pages or captures")
    name = folder.absolute().name or "/"
    os.chdir(folder)  # from here on all names are seen from it, also where its own path could not be read
    root = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        server = FolderServer(port, root, lambda fd, names: listing(fd, (name, *names)))
    except OSError as error:
        reason = os.strerror(error.errno or 0)
        raise OSError(
            f"--port {port}: {reason}; choose another port, or --port 0 for any free one"
        ) from error
    give_up_root()
    with server:
        console().print(where_to_look(server.server_port), soft_wrap=True)
        server.serve_forever()


def listing(folder: int, names: tuple[str, ...]) -> str:
    """The page of a folder behind a descriptor: results, pages, and other files; `names` lead to it."""
    found = entries(folder)
    results = {each.folder: row_of(each) for each in listed_runs(Path(f"/proc/self/fd/{folder}"))}
    runs = [
        (each, [cell if isinstance(cell, Cell) else Cell(cell) for cell in results[each.name]])
        for each in found
        if each.is_folder and each.name in results
    ]
    pages = [each for each in found if each.is_page]
    return (
        environment()
        .get_template("folder.html")
        .render(
            title=plain("/".join(names)),
            up="../" if len(names) > 1 else "",
            columns=HEADS,
            runs=runs,
            pages=pages,
            others=[each for each in found if each.name not in results and not each.is_page],
            is_cut=len(found) == MOST_ENTRIES,
        )
    )
