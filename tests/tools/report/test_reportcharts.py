"""What the page's charts draw follows from rows and readings."""

from dataclasses import replace
from pathlib import Path

import pytest

from gradwire.results.linktimes import LinkTimes, RunTimes
from gradwire.results.row import Row, Spread
from gradwire.results.runview import load_run
from gradwire.tools.pageparts import part
from gradwire.tools.report.cells import ReportCell, grids, short_specs
from gradwire.tools.report.charts import HUES, LEAST_QUEUE_NBYTES, MOST_SERIES, chart_data
from tests.made_plans import MIB, allreduce_plan
from tests.made_runs import made_run

ROW = Row(
    fabric="star:hosts=8",
    algorithm="ring",
    placement="linear",
    routes="ecmp",
    ranks=8,
    bytes=1000,
    verdict="valid",
    time_s=Spread(2.0, 1.6, 2.5),
    busbw_Bps=1e6,
    bound_s=1.0,
    ratio=2.0,
    host_rates_bps=(10_000_000,),
)


def cells(*rows: Row) -> list[ReportCell]:
    return [ReportCell(number, row, None) for number, row in enumerate(rows, start=1)]


def test_a_curve_has_the_bus_bandwidth_of_each_size_and_of_its_fastest_and_slowest_repeat() -> None:
    bad = replace(ROW, bytes=500, busbw_Bps=5e5, ratio=4.0, verdict="not valid")
    other = replace(ROW, algorithm="halving-doubling", bytes=500)
    data = chart_data(cells(ROW, bad, other))
    assert data
    assert data["curves"]["sizes"] == [500, 1000]
    ring, halving = data["curves"]["series"]
    assert ring["name"] == "ring, linear, ecmp"
    assert ring["points"] == [
        (1000, 0.8e6, 1e6, 1.25e6, "1 MB/s, 2.00 × bound", False),
        (500, 0.4e6, 5e5, 0.625e6, "500 kB/s, 4.00 × bound, not valid", True),
    ]
    assert [point[0] for point in halving["points"]] == [500]
    assert data["curves"]["rates"] == [[1.25e6, "hosts' links, 10 Mb/s"]]


@pytest.mark.parametrize(
    ("rows", "names"),
    [
        ([replace(ROW, fabric="star:hosts=9")], ["star:hosts=8", "star:hosts=9"]),
        (
            [replace(ROW, fabric="star:hosts=9", algorithm="bruck")],
            ["ring, linear, ecmp on star:hosts=8", "bruck, linear, ecmp on star:hosts=9"],
        ),
    ],
)
def test_a_curve_is_called_by_what_the_others_do_not_share(rows: list[Row], names: list[str]) -> None:
    data = chart_data(cells(ROW, replace(ROW, bytes=500), *rows))
    assert data
    assert [series["name"] for series in data["curves"]["series"]] == names


def test_one_size_or_no_bandwidth_makes_no_curve() -> None:
    assert chart_data(cells(ROW, replace(ROW, algorithm="ina"))) is None
    assert chart_data(cells(*(replace(ROW, bytes=n, busbw_Bps=None) for n in (1, 2)))) is None


def test_of_very_many_curves_the_first_are_drawn_and_the_rest_counted() -> None:
    rows = [replace(ROW, algorithm=f"a{n}", bytes=size) for n in range(MOST_SERIES + 5) for size in (1, 2)]
    data = chart_data(cells(*rows))
    assert data
    assert len(data["curves"]["series"]) == MOST_SERIES
    assert data["curves"]["left_out"] == 5


def test_every_colour_that_a_chart_asks_for_is_in_the_style_sheet_in_light_and_dark() -> None:
    for name in HUES:
        assert part("report.css").count(f"--{name}:") == 2


def test_links_over_time_are_drawn_with_the_worst_marked(tmp_path: Path) -> None:
    row = made_run(tmp_path / "a", allreduce_plan("star:hosts=2", nbytes=MIB), (1.0,))
    view = load_run(Path(row.folder or ""))
    uses = [use.egress for use in view.links[:3]]
    times = [LinkTimes(egress, (0.5, 1.0), (0, 900), (0, 0)) for egress in uses]
    seen = replace(view, times=RunTimes((0.0, 0.5, 1.0), tuple(times)))
    data = chart_data([ReportCell(4, row, seen)])
    assert data
    drawn = data["links"][4]
    assert [link["name"] for link in drawn["links"]] == [use.name for use in view.links[:3]]
    assert [link["worst"] for link in drawn["links"]] == [e == view.load.worst.egress for e in uses]
    assert drawn["edges"] == [0, 500_000, 1_000_000]
    assert drawn["most"] == LEAST_QUEUE_NBYTES
    assert drawn["links"][0] | {"worst": None, "name": None} == {
        "name": None, "rate": "100 Mb/s", "worst": None, "load": [500, 1000], "queue": [0, 900], "read": True,
        "dropped": None,
    }  # fmt: skip


def test_cells_of_one_fabric_and_choice_share_a_place_in_the_grid_and_refused_ones_have_one() -> None:
    refused = replace(ROW, bytes=0, placement="hdrm", verdict="refused", time_s=None, ratio=None)
    slower = replace(ROW, time_s=Spread(9.0, 9.0, 9.0), fabric="star:hosts=9")
    (grid,) = grids(cells(ROW, ROW, slower, refused))
    assert grid.columns == ("star:hosts=8", "star:hosts=9")
    assert [(name, [[cell.number for cell in some] for some in row]) for name, row in grid.rows] == [
        ("ring, linear, ecmp", [[1, 2], [3]]),
        ("ring, hdrm, ecmp", [[4], []]),
    ]
    assert (set(grid.best), set(grid.alike)) == ({1}, {2})


@pytest.mark.parametrize("rows", [[ROW], [ROW, replace(ROW, verdict="not valid")]])
def test_a_single_valid_cell_is_not_called_the_best(rows: list[Row]) -> None:
    (grid,) = grids(cells(*rows))
    assert grid.best == frozenset()


def test_each_size_has_its_own_best_in_a_grid_of_its_own_or_in_a_row_of_one_fabric() -> None:
    quick, slow = Spread(1.0, 1.0, 1.0), Spread(2.0, 2.0, 2.0)
    rows = [
        replace(ROW, algorithm=name, bytes=size, time_s=time_s)
        for name, size, time_s in (
            ("a", 1000, quick),
            ("a", 2000, slow),
            ("b", 1000, slow),
            ("b", 2000, quick),
        )
    ]
    (grid,) = grids(cells(*rows))
    assert grid.columns == ("a, linear, ecmp", "b, linear, ecmp")
    assert [(size, [[cell.number for cell in some] for some in row]) for size, row in grid.rows] == [
        ("1 kB", [[1], [3]]),
        ("2 kB", [[2], [4]]),
    ]
    assert grid.best == {1, 4}
    other = replace(ROW, fabric="star:hosts=9", bytes=2000, time_s=slow)
    assert [(grid.name, set(grid.best)) for grid in grids(cells(*rows, other))] == [
        ("1 kB", {1}),
        ("2 kB", {4}),
    ]


def test_a_fabrics_short_name_has_what_others_of_its_family_have_not() -> None:
    tree, narrow, wide = "fat-tree:k=4,levels=2,rate=50M", "star:hosts=8,rate=50M", "star:hosts=16,rate=50M"
    assert short_specs([tree, narrow, wide]) == {
        tree: "fat-tree",
        narrow: "star:hosts=8",
        wide: "star:hosts=16",
    }
    plain, slow = "star:hosts=8", "star:hosts=8,rate=50M"
    assert short_specs([plain, slow]) == {plain: "star", slow: "star:rate=50M"}
    assert short_specs(["lab", "lab.yaml"]) == {"lab": "lab", "lab.yaml": "lab.yaml"}
