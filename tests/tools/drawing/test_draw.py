"""The drawing shows every node and every direction of every cable, and nothing hostile gets through."""

import re
from collections import Counter
from dataclasses import replace
from itertools import combinations
from xml.etree import ElementTree as ET

import pytest

from gradwire.planning.fabrics.fabric import Egress, Fabric, Wire, cable
from gradwire.planning.fabrics.spec import parse_fabric
from gradwire.tools.drawing.svg import fabric_svg
from gradwire.traces.units import show_bps

SVG = "{http://www.w3.org/2000/svg}"
SPECS = [
    "star:hosts=2",
    "star:hosts=64",
    "fat-tree:k=4",
    "fat-tree:k=4,levels=2",
    "leaf-spine:leaves=3,spines=5,hosts=2",
    "bigraph:n=8,m=2",
    "bigraph:n=2,m=1",
    "fat-tree:k=8",
    "bigraph:n=16,m=8",
    "leaf-spine:leaves=16,spines=8,hosts=8",
    "star:hosts=600",
    "torus:x=4,y=4",
    "torus:x=1,y=3",
    "torus:x=32,y=4",
    "mesh:x=2,y=5",
]


def drawn(svg: str) -> ET.Element:
    return ET.fromstring(svg)


@pytest.mark.parametrize("spec", SPECS)
def test_every_direction_of_every_cable_is_a_line_that_tells_its_name(spec: str) -> None:
    fabric = parse_fabric(spec)
    titles = Counter(title.text for title in drawn(fabric_svg(fabric)).iter(f"{SVG}title"))
    for egress, peer in fabric.peers.items():
        rate = show_bps(fabric.rates[egress])
        assert titles[f"{egress.node}→{peer.node}, {rate}"] == 1


@pytest.mark.parametrize("spec", SPECS)
def test_no_two_nodes_lie_on_each_other_and_all_lie_inside(spec: str) -> None:
    root = drawn(fabric_svg(parse_fabric(spec), loads={}))
    width, height = float(root.attrib["width"]), float(root.attrib["height"])
    spots = []
    for circle in root.iter(f"{SVG}circle"):
        x, y, r = (float(circle.attrib[key]) for key in ("cx", "cy", "r"))
        spots.append((x, y, r, r))
    for box in root.iterfind(f".//{SVG}g/{SVG}rect"):
        x, y, w, h = (float(box.attrib[key]) for key in ("x", "y", "width", "height"))
        spots.append((x + w / 2, y + h / 2, w / 2, h / 2))
    assert all(a <= x <= width - a and b <= y <= height - b for x, y, a, b in spots)
    for (x, y, a, b), (u, v, c, d) in combinations(spots, 2):
        assert abs(x - u) >= a + c or abs(y - v) >= b + d


def test_a_bigraph_has_its_layers_between_two_rows_of_hosts() -> None:
    root = drawn(fabric_svg(parse_fabric("bigraph:n=4,m=2")))
    heights = {t.text or "": float(t.attrib["y"]) for t in root.iter(f"{SVG}text")}
    assert heights["h0"] < heights["upper0"] < heights["lower0"] < heights["h4"]


@pytest.mark.parametrize("family", ["torus", "mesh"])
def test_a_grid_has_node_x_y_in_column_x_and_row_y(family: str) -> None:
    root = drawn(fabric_svg(parse_fabric(f"{family}:x=4,y=3")))
    spots = {t.text or "": (float(t.attrib["x"]), float(t.attrib["y"])) for t in root.iter(f"{SVG}text")}
    columns = [{spots[f"node{3 * x + y}"][0] for y in range(3)} for x in range(4)]
    rows = [{spots[f"node{3 * x + y}"][1] for x in range(4)} for y in range(3)]
    assert all(len(same) == 1 for same in columns + rows)
    assert columns == sorted(columns, key=min)
    assert rows == sorted(rows, key=min)


def test_only_the_cables_around_a_torus_are_bent_and_they_end_at_their_switches() -> None:
    bent = {}
    for group in drawn(fabric_svg(parse_fabric("torus:x=4,y=2"))).iter(f"{SVG}g"):
        path = group.find(f"{SVG}path")
        if path is not None:
            bent[(group.findtext(f"{SVG}title") or "").split(",")[0]] = path.attrib["d"]
    assert sorted(bent) == ["node0→node6", "node1→node7", "node6→node0", "node7→node1"]
    root = drawn(fabric_svg(parse_fabric("torus:x=4,y=2")))
    spots = {t.text or "": (float(t.attrib["x"]), float(t.attrib["y"])) for t in root.iter(f"{SVG}text")}
    for name, shape in bent.items():
        numbers = [float(number) for number in re.findall(r"-?[\d.]+", shape)]
        a, b = name.split("→")
        assert numbers[0] == pytest.approx(spots[a][0], abs=5)
        assert numbers[-2] == pytest.approx(spots[b][0], abs=5)


def test_a_tree_has_its_levels_above_each_other() -> None:
    root = drawn(fabric_svg(parse_fabric("fat-tree:k=4")))
    heights = {t.text or "": float(t.attrib["y"]) for t in root.iter(f"{SVG}text")}
    assert heights["core0"] < heights["agg0"] < heights["edge0"] < heights["h0"]


@pytest.mark.parametrize(
    ("load", "shade"),
    [(0.0, 0), (0.01, 1), (0.25, 1), (0.26, 2), (0.75, 3), (1.0, 4), (1.0 + 1e-12, 4), (1.01, 5), (9.0, 5)],
)
def test_a_links_shade_follows_its_load(load: float, shade: int) -> None:
    fabric = parse_fabric("star:hosts=2")
    root = drawn(fabric_svg(fabric, loads={Egress("h0", 0): load}, load_means="busy"))
    (group,) = [g for g in root.iter(f"{SVG}g") if (g.findtext(f"{SVG}title") or "").startswith("h0→switch0")]
    assert group.findtext(f"{SVG}title") == f"h0→switch0, 100 Mb/s, busy {load:.2f}"
    assert group.findall(f"{SVG}line")[1].attrib["class"] == f"lane load{shade}"


def test_both_directions_of_a_cable_keep_to_the_right() -> None:
    root = drawn(fabric_svg(parse_fabric("star:hosts=2")))
    ways = {}
    for group in root.iter(f"{SVG}g"):
        line = group.find(f"{SVG}line")
        if line is not None:
            ways[(group.findtext(f"{SVG}title") or "").split(",")[0]] = line.attrib
    up, down = ways["h1→switch0"], ways["switch0→h1"]  # h1 hangs to the lower right of its switch
    assert float(up["x1"]) > float(down["x2"])  # going up and left, right is further right
    assert float(up["y1"]) < float(down["y2"])


@pytest.mark.parametrize("loads", [None, {}])
def test_a_legend_is_drawn_only_with_loads(loads: dict[Egress, float] | None) -> None:
    texts = {t.text for t in drawn(fabric_svg(parse_fabric("star:hosts=2"), loads)).iter(f"{SVG}text")}
    assert ("idle" in texts) == (loads is not None)


@pytest.mark.parametrize("load_means", ["load", "share of the time busy"])
def test_the_legend_ends_inside_the_narrowest_drawing(load_means: str) -> None:
    letter = 7.0  # of 11 pixels' height, wider than most
    root = drawn(fabric_svg(parse_fabric("star:hosts=2"), {}, load_means=load_means))
    notes = [t for t in root.iter(f"{SVG}text") if t.attrib.get("class") == "note"]
    assert [note.text for note in notes][-1] == "above"
    for note in notes:
        assert float(note.attrib["x"]) + letter * len(note.text or "") <= float(root.attrib["width"])


def test_a_links_own_title_is_told_instead_of_its_load() -> None:
    fabric = parse_fabric("star:hosts=2")
    root = drawn(fabric_svg(fabric, {}, titles={Egress("h0", 0): "<b>, all day"}))
    titles = Counter(title.text for title in root.iter(f"{SVG}title"))
    assert titles["<b>, all day"] == 1
    assert titles["h0→switch0, 100 Mb/s, load 0.00"] == 0
    assert titles["h1→switch0, 100 Mb/s, load 0.00"] == 1


def test_labels_are_text_whatever_they_contain() -> None:
    fabric = parse_fabric("star:hosts=2")
    svg = fabric_svg(fabric, {}, labels={"h0": "<script>alert(1)</script>"}, load_means="</text><script>")
    assert "<script" not in svg
    assert {t.text for t in drawn(svg).iter(f"{SVG}text")} >= {"<script>alert(1)</script>"}


def test_the_drawing_loads_nothing_and_serves_light_and_dark_readers() -> None:
    svg = fabric_svg(parse_fabric("fat-tree:k=4"), {})
    assert "prefers-color-scheme:dark" in svg
    assert re.findall(r"https?://[^\"]+", svg) == ["http://www.w3.org/2000/svg"]
    assert "url(" not in svg


def test_hosts_of_a_crowd_have_one_label_for_all_of_a_switch() -> None:
    labels = {f"h{i}": f"rank {i}" for i in range(64)}
    texts = {
        t.text for t in drawn(fabric_svg(parse_fabric("star:hosts=64"), labels=labels)).iter(f"{SVG}text")
    }
    assert texts == {"switch0", "h0–h63"}


@pytest.mark.parametrize(
    "spec", ["fat-tree:k=8", "bigraph:n=16,m=8", "leaf-spine:leaves=16,spines=8,hosts=8"]
)
def test_at_128_hosts_no_two_labels_lie_on_each_other(spec: str) -> None:
    letter, height = 6.0, 9.0
    boxes = []
    for text in drawn(fabric_svg(parse_fabric(spec))).iter(f"{SVG}text"):
        x, y, width = float(text.attrib["x"]), float(text.attrib["y"]), letter * len(text.text or "")
        x += width / 2 if text.attrib.get("class") == "note" else 0
        boxes.append((x, y, width))
    assert len(boxes) > 16 + 8
    for (x, y, a), (u, v, b) in combinations(boxes, 2):
        assert abs(x - u) >= (a + b) / 2 or abs(y - v) >= height


def test_a_switch_whose_name_does_not_fit_shows_its_number_and_the_row_what_is_numbered() -> None:
    texts = Counter(t.text for t in drawn(fabric_svg(parse_fabric("fat-tree:k=8"))).iter(f"{SVG}text"))
    assert {"edge", "agg", "core15", "31"} <= set(texts)
    assert "edge31" not in texts


def test_the_worst_link_stands_out_and_is_named() -> None:
    fabric = parse_fabric("fat-tree:k=4")
    loads = dict.fromkeys(fabric.rates, 0.5) | {Egress("edge3", 4): 2.0}
    root = drawn(fabric_svg(fabric, loads))
    texts = [t.text for t in root.iter(f"{SVG}text") if t.attrib.get("class") == "said"]
    assert texts == ["edge3→agg3 2.00"]
    lines = [line.attrib for line in root.iter(f"{SVG}line")]
    (halo,) = [line for line in lines if line["class"] == "worst"]
    (lane,) = [line for line in lines if line["class"] == "lane load5" and line["y1"] != line["y2"]]
    assert all(halo[key] == lane[key] for key in ("x1", "y1", "x2", "y2"))


def test_where_many_links_are_equally_loaded_none_stands_out() -> None:
    fabric = parse_fabric("fat-tree:k=4")
    assert 'class="said"' not in fabric_svg(fabric, dict.fromkeys(fabric.rates, 1.0))


def test_a_failed_cable_is_dashed_both_ways_and_says_so() -> None:
    fabric = parse_fabric("leaf-spine:leaves=2,spines=2,hosts=1")
    failed = fabric.cables[Egress("leaf1", 2)]
    root = drawn(fabric_svg(fabric, failed=[failed]))
    dashed = [
        group.findtext(f"{SVG}title") or ""
        for group in root.iter(f"{SVG}g")
        if any(line.attrib["class"] == "lane failed" for line in group.findall(f"{SVG}line"))
    ]
    assert sorted(dashed) == ["leaf1→spine0, 100 Mb/s, failed", "spine0→leaf1, 100 Mb/s, failed"]
    assert "failed" in {t.text for t in root.iter(f"{SVG}text")}


def test_cables_that_join_the_same_two_switches_lie_side_by_side() -> None:
    wire = Wire(10**8)
    cables = [("h0", "left", wire), ("h1", "right", wire), *[("left", "right", wire)] * 3]
    cables += [("left", "top", wire), ("right", "top", wire), ("top", "left", wire)]
    fabric = Fabric("made", "file", {}, ("h0", "h1"), ("left", "right", "top"), cable({"h0", "h1"}, cables))
    root = drawn(fabric_svg(fabric))
    lanes = [
        e for kind in ("line", "path") for e in root.iter(f"{SVG}{kind}") if "plain" in e.attrib["class"]
    ]
    shapes = Counter(tuple(sorted(lane.attrib.items())) for lane in lanes)
    assert len(lanes) == 2 * len(fabric.links)
    assert max(shapes.values()) == 1


def test_what_is_cabled_like_a_bigraph_is_drawn_like_one() -> None:
    known = parse_fabric("bigraph:n=4,m=2")
    like = replace(known, family="file", shape={})
    assert fabric_svg(like) == fabric_svg(known)


def test_a_switch_that_hangs_in_the_air_is_an_error() -> None:
    fabric = replace(parse_fabric("star:hosts=2"), switches=("switch0", "switch1"))
    with pytest.raises(ValueError, match="no cables join one of its switches to a host"):
        fabric_svg(fabric)


def test_the_link_that_the_caller_points_out_is_marked_though_another_has_more_load() -> None:
    fabric = parse_fabric("star:hosts=2")
    loads = {Egress("h0", 0): 0.5, Egress("switch0", 2): 0.9}
    titles = [
        {text.text for text in drawn(fabric_svg(fabric, loads, worst=worst)).iter(f"{SVG}text")}
        for worst in (Egress("h0", 0), None)
    ]
    assert ["h0→switch0 0.50" in texts for texts in titles] == [True, False]
    assert ["switch0→h1 0.90" in texts for texts in titles] == [False, True]
