"use strict";
(() => {
const data = JSON.parse(document.getElementById("data").textContent);
const KINDS = ["compute", "communication", "wait"];
const NAMES = ["compute", "exposed communication", "wait"];
const charts = [];
const span = [data.begin, data.end]; // µs, of everything
const small = matchMedia("(max-width: 639px)");
let colours = {};

function readColours() {
  const style = getComputedStyle(document.documentElement);
  for (const name of ["ink", "dim", "line", "page", "compute", "communication", "wait", "moved", "out", "in"])
    colours[name] = style.getPropertyValue("--" + name).trim();
}
function time(us) {
  const size = Math.abs(us);
  if (size >= 1e6) return +(us / 1e6).toPrecision(6) + " s";
  if (size >= 1e3) return +(us / 1e3).toPrecision(6) + " ms";
  return +us.toFixed(1) + " µs";
}
function rate(mbps) {
  return mbps >= 1000 ? +(mbps / 1000).toPrecision(4) + " Gb/s" : +mbps.toPrecision(4) + " Mb/s";
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

// One x axis for all charts: they show the same times, and a cursor at the same time.
let shown = span;
function show(min, max) {
  const least = 1; // µs
  if (max - min < least) max = min + least;
  min = Math.max(span[0], min); max = Math.min(span[1], max);
  if (!(max > min)) return;
  shown = [min, max];
  for (const {chart} of charts) chart.updateOptions({dateWindow: [min, max]});
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

const unseen = document.createElement("div"); // for dygraphs' legend, which would be measured, in the page, with every drawing
// A chart in `div`; tell(µs, part of the height from its top) gives the text of its tooltip.
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
function place(one, event) { // where in the plot the pointer is, or undefined
  const at = one.div.getBoundingClientRect(), {x, y, w, h} = one.chart.getArea();
  const left = event.clientX - at.left, top = event.clientY - at.top;
  return {left, top, x: Math.max(x, Math.min(left, x + w)), inside: left >= x && left <= x + w && top >= y && top < y + h, down: (top - y) / h};
}
function point(one, at) { // the cursor in all charts, the tooltip in one
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
function pick(one, from, to) { // the times between two places, while they are chosen
  const {y, h} = one.chart.getArea();
  one.picked.hidden = false;
  Object.assign(one.picked.style, {left: Math.min(from, to) + "px", width: Math.abs(to - from) + "px", top: y + "px", height: h + "px"});
}
function wirePointer(section) {
  const under = event => charts.find(one => one.div.contains(event.target));
  const least = 4; // px: what is less is a click
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
    if (drag && Math.abs(at.x - drag.from) >= least) pick(one, drag.from, at.x);
  });
  section.addEventListener("pointerup", event => {
    if (!drag) return;
    const {one, from} = drag, to = place(one, event).x, [min, max] = [from, to].sort((a, b) => a - b).map(x => one.chart.toDataXCoord(x));
    end();
    if (Math.abs(to - from) >= least) show(min, max);
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

// The timeline: lanes of collectives on top, then a row for each rank.
const rowHeight = data.ranks.length > 40 ? 14 : data.ranks.length > 12 ? 20 : 26;
const lanes = data.lanes, rows = lanes + data.ranks.length;
const ofRank = data.ranks.map(() => []);
for (let i = 0; i < data.spans.rank.length; i++) ofRank[data.spans.rank[i]].push(i);

function firstAfter(list, at) { // in a rank's spans, which are in order: the first that ends after `at`
  let low = 0, high = list.length;
  while (low < high) {
    const middle = (low + high) >> 1, i = list[middle];
    if (data.spans.start[i] + data.spans.time[i] < at) low = middle + 1; else high = middle;
  }
  return low;
}
function paint({drawingContext: ctx, dygraph: chart}) { // over the grid; dygraphs clips to the plot
  const {x: left, y: top, w: width, h: height} = chart.getArea(), row = height / rows;
  const [min, max] = chart.xAxisRange(), px = v => chart.toDomXCoord(v);
  ctx.save();
  data.iterations.forEach(([number, start, end], i) => {
    if (end < min || start > max) return;
    ctx.fillStyle = colours.dim;
    ctx.globalAlpha = i % 2 ? .05 : .12;
    ctx.fillRect(px(start), top, px(end) - px(start), height);
  });
  ctx.globalAlpha = 1;
  ctx.font = "11px system-ui";
  ctx.textBaseline = "middle";
  ctx.textAlign = "left";
  data.moved.forEach(([lane, start, length, label]) => {
    if (start + length < min || start > max) return;
    const x = Math.max(px(start), left), w = Math.max(1.5, Math.min(px(start + length), left + width) - x), y = top + lane * row;
    ctx.fillStyle = colours.moved;
    ctx.fillRect(x, y + row * .12, w, row * .76);
    if (w > 24 && ctx.measureText(label).width + 8 <= w) { ctx.fillStyle = colours.page; ctx.fillText(label, x + 4, y + row / 2); }
  });
  const high = [.5, .84, .2];
  ofRank.forEach((list, rank) => {
    const y = top + (lanes + rank) * row;
    for (let n = firstAfter(list, min); n < list.length; n++) {
      const i = list[n], start = data.spans.start[i];
      if (start > max) break;
      const kind = data.spans.kind[i], x = px(start), w = Math.max(1, px(start + data.spans.time[i]) - x);
      ctx.fillStyle = colours[KINDS[kind]];
      ctx.fillRect(x, y + row * (1 - high[kind]) / 2, w, row * high[kind]);
    }
  });
  ctx.restore();
}
function spanAt(rank, at) {
  const list = ofRank[rank], i = list[firstAfter(list, at)];
  if (i === undefined || data.spans.start[i] > at) return "";
  const iteration = data.spans.iteration[i];
  return data.ranks[rank] + ": " + NAMES[data.spans.kind[i]] + "\n" + time(data.spans.time[i]) + " from " +
    time(data.spans.start[i]) + (iteration < 0 ? "" : ", iteration " + iteration);
}
function movedAt(lane, at, slack) {
  const found = data.moved.filter(one => one[0] === lane && one[1] - slack <= at && at <= one[1] + one[2] + slack)[0];
  return found ? found[4] + "\n" + time(found[2]) + " from " + time(found[1]) : "";
}
function drawTimeline(div) {
  // dygraphs takes labels as HTML, so what a capture says must not be among them: `short` has numbers only.
  const labels = Array.from({length: rows}, (_, i) => i < lanes ? (i ? "" : data.lane_name) : data.short[i - lanes]);
  const ticks = labels.map((label, i) => ({v: rows - i - .5, label}));
  add(div, rows * rowHeight + 26, span.map(at => [at, null]), {
    labels: ["time", "none"], valueRange: [0, rows], plugins: [{activate: () => ({didDrawChart: paint})}],
    axes: {y: {ticker: () => ticks, drawGrid: false}},
  }, (at, down) => {
    const row = Math.floor(down * rows), slack = (shown[1] - shown[0]) / div.clientWidth * 2;
    return row < 0 || row >= rows ? "" : row < lanes ? movedAt(row, at, slack) : spanAt(row - lanes, at);
  });
}

function drawRates(into) {
  const most = data.rates.flatMap(host => [...host.out, ...host.in]).reduce((a, v) => Math.max(a, v), 1e-6);
  const wide = data.at[1] - data.at[0] || span[1] - span[0];
  for (const host of data.rates) {
    const name = element("p", host.name, into, "host");
    if (host.in[0] === null || host.out[0] === null)
      name.textContent += host.in[0] === null ? ", in: not captured" : ", out: not captured";
    const div = element("div", undefined, into, "chart");
    div.tabIndex = 0;
    div.setAttribute("role", "img");
    div.setAttribute("aria-label", "Rates of " + host.name);
    const isLast = host === data.rates[data.rates.length - 1];
    add(div, isLast ? 102 : 76, data.at.map((at, n) => [at, host.out[n], host.in[n]]), {
      labels: ["time", "out", "in"], colors: [colours.out, colours.in], strokeWidth: 1.2, stepPlot: true, valueRange: [0, most * 1.05],
      axes: {x: {drawAxis: isLast}, y: {axisLabelFormatter: v => v ? rate(v) : "0"}},
    }, at => {
      const n = Math.floor((at - data.at[0]) / wide), value = v => v === null ? "not captured" : rate(v);
      return n in data.at ? time(data.at[n]) + ", " + data.window + "\nout " + value(host.out[n]) + "\nin  " + value(host.in[n]) : "";
    });
  }
}

function draw() {
  readColours();
  for (const {chart} of charts.splice(0)) chart.destroy();
  const timeline = document.getElementById("timeline"), rates = document.getElementById("rates");
  if (!timeline) return;
  timeline.hidden = !data.spans.rank.length;
  if (!timeline.hidden) drawTimeline(timeline);
  rates.replaceChildren();
  drawRates(rates);
  point();
  for (const {picked} of charts) picked.hidden = true;
}
function wire() {
  const tools = document.querySelector(".tools");
  if (!tools || !charts.length) return;
  tools.hidden = false;
  tools.addEventListener("click", event => { const how = event.target.dataset.zoom; if (how) zoom(how); });
  const choose = tools.querySelector("select");
  if (choose) {
    for (const [number] of data.iterations) element("option", "iteration " + number, choose).value = number;
    choose.addEventListener("change", () => {
      const found = data.iterations.find(([number]) => String(number) === choose.value);
      if (found) { const edge = (found[2] - found[1]) * .02; show(found[1] - edge, found[2] + edge); } else show(...span);
    });
  }
  const section = document.getElementById("time");
  wirePointer(section);
  section.addEventListener("keydown", event => {
    const how = {"+": "in", "=": "in", "-": "out", ArrowLeft: "left", ArrowRight: "right", "0": "all"}[event.key];
    if (how && event.target.classList.contains("chart")) { event.preventDefault(); zoom(how); }
  });
}

draw();
wire();
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
small.addEventListener("change", draw); // other changes of width dygraphs follows by itself
})();
