"""The largest fabrics of switches with so many ports: the table and the JSON of `gradwire fabric --radix`."""

from collections.abc import Sequence

from gradwire.planning.fabrics.family import DEFAULT_RATE_BPS
from gradwire.planning.fabrics.radix import Size
from gradwire.tools.table import Table, columns, table_of
from gradwire.traces.units import show_bps

_HEADS = (
    *columns("fabric", wrap="never"),
    *columns(
        "#hosts", "#switches", "#cables", "#bisection", "#of\nfull", "#ports\na host", "#cables\na host"
    ),
)


def size_table(sizes: Sequence[Size]) -> Table:
    """A row for each fabric; the last two columns are what one host costs."""
    return table_of(_HEADS, sizes, _cells)


def _cells(size: Size) -> tuple[str, ...]:
    return (
        size.spec,
        f"{size.n_hosts:,}",
        f"{size.n_switches:,}",
        f"{size.n_cables:,}",
        show_bps(size.n_cut * DEFAULT_RATE_BPS),
        f"{1 / size.worst_ratio:.0%}",
        f"{size.n_ports / size.n_hosts:.3g}",
        f"{size.n_cables / size.n_hosts:.3g}",
    )


def size_row(size: Size) -> dict[str, object]:
    """As docs/schemas.md, "fabric --json", says."""
    return {
        "fabric": size.spec,
        "family": size.family,
        "hosts": size.n_hosts,
        "switches": size.n_switches,
        "switch_ports": size.n_ports,
        "radix": size.radix,
        "cables": size.n_cables,
        "inner_cables": size.n_inner_cables,
        "bisection_bps": size.n_cut * DEFAULT_RATE_BPS,
        "full_bps": size.n_hosts // 2 * DEFAULT_RATE_BPS,
        "worst_cut_ratio": size.worst_ratio,
        "oversubscription": size.oversubscription,
        "diameter_switches": size.diameter,
        "mean_switches": size.mean_switches,
    }


def grid_note(radix: int) -> str:
    """What these switches make of a torus and a mesh, whose ports do not grow with them."""
    made = {2: "two switches with a host each, torus:x=1,y=2", 3: "a ring of any length, torus:x=1,y=8"}
    made[4] = "a ladder of any length, torus:x=2,y=8"
    return f"A torus or mesh has one host a switch; {radix} ports make {made.get(radix, 'one of any size')}."
