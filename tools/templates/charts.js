"use strict";
// Charts: dygraphs draws them.  Those of a group show the same part of one axis, and a cursor at the same place.
const pageCharts = (() => {
const data = JSON.parse(document.getElementById("data").textContent);
const small = matchMedia("(max-width: 639px)");
const colours = {}; // by name, without the --
const drawings = []; // what draws all charts of a group again

function readColours() {
  document.documentElement.classList.toggle("dark", matchMedia("(prefers-color-scheme: dark)").matches);
  const style = getComputedStyle(document.documentElement);
  for (const name of data.colours) colours[name] = style.getPropertyValue("--" + name).trim();
}
function time(us) {
  const size = Math.abs(us);
  if (size >= 1e6) return +(us / 1e6).toPrecision(6) + " s";
  if (size >= 1e3) return +(us / 1e3).toPrecision(6) + " ms";
  return +us.toFixed(1) + " µs";
}
function bytes(count) {
  const [unit, size] = [["GB", 1e9], ["MB", 1e6], ["kB", 1e3]].find(([, size]) => count >= size) || ["B", 1];
  return +(count / size).toPrecision(3) + " " + unit;
}
function timeTicks(min, max, pixels, options, chart) { // one unit and as many digits for all
  const ticks = Dygraph.numericTicks(min, max, pixels, options, chart);
  const width = ticks.length > 1 ? ticks[1].v - ticks[0].v : 1;
  const [unit, name] = width >= 1e5 ? [1e6, " s"] : width >= 100 ? [1e3, " ms"] : [1, " µs"];
  const digits = Math.max(0, -Math.floor(Math.log10(width / unit) + 1e-9));
  return ticks.map(({v}) => ({v, label: (v / unit).toFixed(digits) + name}));
}
function element(tag, text, parent, className) {
  const made = document.createElement(tag);
  if (text !== undefined) made.textContent = text;
  if (className) made.className = className;
  if (parent) parent.append(made);
  return made;
}
let isPrinting = false;
function drawAgain() {
  if (isPrinting) return;
  readColours();
  for (const draw of drawings) draw();
}

const unseen = document.createElement("div"); // for dygraphs' legend, which would be measured, in the page, with every drawing

// The charts in `section`, over an axis from span[0] to span[1]; draw(add) adds each of them.
function group(section, span, draw, least = 1) {
  const charts = [];
  let shown = span;

  // A chart in `div`; tell(place on the axis, part of the height from its top) gives the text of its tooltip.
  function add(div, height, rows, options, tell) {
    const narrow = small.matches, {axes: {x = {}, y}, ...others} = options;
    div.style.height = height + "px";
    const chart = new Dygraph(div, rows, {
      dateWindow: shown, legend: "never", labelsDiv: unseen, xAxisHeight: 26, interactionModel: {}, highlightCircleSize: 0, rightGap: 10,
      gridLineColor: colours.line, gridLineWidth: 1, axisLineColor: colours.line, axisLabelFontSize: 12,
      axes: {
        x: {ticker: timeTicks, pixelsPerLabel: narrow ? 58 : 90, axisLabelWidth: narrow ? 58 : 86, axisTickSize: 7, ...x},
        y: {pixelsPerLabel: 22, axisLabelWidth: narrow ? 70 : 88, axisLineColor: "transparent", ...y},
      },
      ...others,
    });
    const [hair, picked, tip] = ["hair", "picked", "tip"].map(name => element("div", "", div, name));
    charts.push({chart, div, tell, hair, picked, tip});
  }
  function show(min, max) {
    if (max - min < least) max = min + least;
    min = Math.max(span[0], min); max = Math.min(span[1], max);
    if (!(max > min)) return;
    shown = [min, max];
    for (const {chart} of charts) chart.updateOptions({dateWindow: [min, max]});
    point();
  }
  function zoom(how, at) {
    const [min, max] = shown, width = max - min;
    const centre = at === undefined ? (min + max) / 2 : at;
    if (how === "in") show(centre - (centre - min) / 2, centre + (max - centre) / 2);
    if (how === "out") show(centre - (centre - min) * 2, centre + (max - centre) * 2);
    if (how === "left") { const by = Math.min(width / 3, min - span[0]); show(min - by, max - by); }
    if (how === "right") { const by = Math.min(width / 3, span[1] - max); show(min + by, max + by); }
    if (how === "all") show(...span);
  }
  function place(one, event) { // where in the plot the pointer is
    const at = one.div.getBoundingClientRect(), {x, y, w, h} = one.chart.getArea();
    const left = event.clientX - at.left, top = event.clientY - at.top;
    return {left, top, x: Math.max(x, Math.min(left, x + w)), inside: left >= x && left <= x + w && top >= y && top < y + h, down: (top - y) / h};
  }
  function point(one, at) { // the cursor in all charts, the tooltip in one; neither without a place
    for (const {hair, tip, chart} of charts) {
      const {y, h} = chart.getArea();
      tip.hidden = true;
      hair.hidden = !at;
      if (at) Object.assign(hair.style, {left: at.x + "px", top: y + "px", height: h + "px"});
    }
    const text = at && one.tell(one.chart.toDataXCoord(at.x), at.down);
    if (!text) return;
    one.tip.hidden = false;
    one.tip.textContent = text;
    one.tip.style.left = Math.max(0, Math.min(at.left + 14, one.div.clientWidth - one.tip.offsetWidth - 4)) + "px";
    one.tip.style.top = at.top + 16 + "px";
  }
  function pick(one, from, to) { // the part of the axis between two places, while it is chosen
    const {y, h} = one.chart.getArea();
    one.picked.hidden = false;
    Object.assign(one.picked.style, {left: Math.min(from, to) + "px", width: Math.abs(to - from) + "px", top: y + "px", height: h + "px"});
  }
  function wirePointer() {
    const under = event => charts.find(one => one.div.contains(event.target));
    const click = 4; // px: what is less is no drag
    let drag = null; // the chart and where it began
    const end = () => { if (drag) drag.one.picked.hidden = true; drag = null; };
    section.addEventListener("pointerdown", event => {
      const one = under(event), at = one && place(one, event);
      point(one, at && at.inside ? at : undefined);
      if (!at || !at.inside || !event.isPrimary || event.button) return;
      drag = {one, from: at.x};
      one.div.setPointerCapture(event.pointerId);
    });
    section.addEventListener("pointermove", event => {
      const one = drag ? drag.one : under(event), at = one && place(one, event);
      point(one, at && (drag || at.inside) ? at : undefined);
      if (drag && Math.abs(at.x - drag.from) >= click) pick(one, drag.from, at.x);
    });
    section.addEventListener("pointerup", event => {
      if (!drag) return;
      const {one, from} = drag, at = place(one, event), [min, max] = [from, at.x].sort((a, b) => a - b).map(x => one.chart.toDataXCoord(x));
      end();
      if (Math.abs(at.x - from) < click) return;
      show(min, max);
      if (event.pointerType !== "touch") point(one, at.inside ? at : undefined); // what is there now
    });
    section.addEventListener("pointercancel", end);
    section.addEventListener("pointerleave", event => { if (event.pointerType !== "touch") point(); });
    section.addEventListener("dblclick", event => { if (under(event)) show(...span); });
    section.addEventListener("wheel", event => {
      const one = under(event);
      if (!one || !event.ctrlKey) return;
      event.preventDefault();
      zoom(event.deltaY < 0 ? "in" : "out", one.chart.toDataXCoord(place(one, event).x));
    }, {passive: false});
  }
  function wireKeys() {
    section.addEventListener("keydown", event => {
      const how = {"+": "in", "=": "in", "-": "out", ArrowLeft: "left", ArrowRight: "right", "0": "all"}[event.key];
      if (how && event.target.classList.contains("chart")) { event.preventDefault(); zoom(how); }
    });
    const tools = section.querySelector(".tools");
    if (!tools) return;
    tools.hidden = false;
    tools.addEventListener("click", event => { const how = event.target.dataset.zoom; if (how) zoom(how); });
  }
  function drawAll() {
    for (const {chart} of charts.splice(0)) chart.destroy();
    draw(add, () => shown);
    point();
    for (const {picked} of charts) picked.hidden = true;
  }
  drawings.push(drawAll);
  drawAll();
  if (charts.length) { wirePointer(); wireKeys(); }
  return {show, draw: drawAll, all: () => show(...span)};
}

// On paper charts are as they were last drawn: Chromium leaves out what a script draws when a page is being printed.
function fit(room) {
  isPrinting = Boolean(room);
  for (const chart of document.querySelectorAll(".chart")) {
    const width = chart.offsetWidth;
    Object.assign(chart.style, room ? {width: width + "px", zoom: Math.min(1, room(chart) / width)} : {width: "", zoom: ""});
  }
}
addEventListener("beforeprint", () => fit(chart => chart.closest(".over-time") ? 560 : 1000)); // px of a page's width, and of a cell's
addEventListener("afterprint", () => fit());
readColours();
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawAgain);
small.addEventListener("change", drawAgain); // other changes of width dygraphs follows by itself
return {data, colours, group, element, time, bytes};
})();
