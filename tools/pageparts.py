"""What all pages are made of: templates, and what goes into them unchanged.

A page is one file that needs no other, and asks nothing of the network.
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape

from gradwire.traces.units import show_nbytes, show_s

TEMPLATES = Path(__file__).with_name("templates")


def environment() -> Environment:
    """Templates of this folder, filters for sizes, times and shares, and `part` for scripts and styles."""
    environment = Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    filters: dict[str, Callable[..., str]] = {
        "bytes": show_nbytes,
        "seconds": show_s,
        "percent": lambda share: f"{share:.0%}",
    }
    environment.filters |= filters
    environment.filters["breakable"] = breakable
    environment.globals["part"] = part
    return environment


def part(name: str) -> Markup:
    """A file of ours, unchanged."""
    return Markup((TEMPLATES / name).read_text(encoding="utf-8"))


def as_script(value: Any) -> Markup:
    """JSON for a script element: no text in it can end the element."""
    text = json.dumps(value, separators=(",", ":"))
    return Markup(text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026"))


def breakable(spec: str) -> Markup:
    """A fabric's spec, which may be broken after each comma."""
    return Markup(escape(spec).replace(",", Markup(",<wbr>")))
