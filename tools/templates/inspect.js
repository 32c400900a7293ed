"use strict";
(() => {
const data = JSON.parse(document.getElementById("data").textContent);
const KINDS = ["compute", "communication", "wait"];
const NAMES = ["compute", "exposed communication", "wait"];
const charts = [];
const span = [data.begin, data.end]; // µs, of everything
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
function axisTimes(u, splits) {
  const width = splits.length > 1 ? splits[1] - splits[0] : 1;
  const [unit, name] = width >= 1e5 ? [1e6, " s"] : width >= 100 ? [1e3, " ms"] : [1, " µs"];
  const digits = Math.max(0, -Math.floor(Math.log10(width / unit) + 1e-9));
  return splits.map(v => (v / unit).toFixed(digits) + name);
}
function element(tag, text, parent, className) {
  const made = document.createElement(tag);
  if (text !== undefined) made.textContent = text;
  if (className) made.className = className;
  if (parent) parent.append(made);
  return made;
}

// One x axis for all charts: whichever is zoomed, the others follow.
let moving = false;
function show(min, max) {
  const least = 1; // µs
  if (max - min < least) max = min + least;
  min = Math.max(span[0], min); max = Math.min(span[1], max);
  if (!(max > min)) return;
  moving = true;
  for (const chart of charts) chart.setScale("x", {min, max});
  moving = false;
}
function follow(u, key) {
  if (key === "x" && !moving) show(u.scales.x.min, u.scales.x.max);
}
function zoom(how, at) {
  const {min, max} = charts[0].scales.x, width = max - min;
  const centre = at === undefined ? (min + max) / 2 : at;
  if (how === "in") show(centre - (centre - min) / 2, centre + (max - centre) / 2);
  if (how === "out") show(centre - (centre - min) * 2, centre + (max - centre) * 2);
  if (how === "left") { const by = Math.min(width / 3, min - span[0]); show(min - by, max - by); }
  if (how === "right") { const by = Math.min(width / 3, span[1] - max); show(min + by, max + by); }
  if (how === "all") show(...span);
}

function tip(chart, text, left, top) {
  const root = chart.root.parentElement;
  let box = root.querySelector(".tip");
  if (!text) { if (box) box.hidden = true; return; }
  if (!box) box = element("div", "", root, "tip");
  box.hidden = false;
  box.textContent = text;
  const x = left + chart.over.offsetLeft, room = root.clientWidth - box.offsetWidth - 4;
  box.style.left = Math.max(0, Math.min(x + 14, room)) + "px";
  box.style.top = (top + chart.over.offsetTop + 16) + "px";
}
function base(height, over) {
  const narrow = innerWidth < 640;
  const grid = {stroke: () => colours.line, width: 1};
  return {
    width: over.clientWidth, height, legend: {show: false}, padding: [6, 10, 0, 0],
    cursor: {sync: {key: "time"}, y: false, points: {show: false}, drag: {x: true, y: false, dist: 4}},
    scales: {x: {time: false, range: (u, min, max) => [min, max]}},
    axes: [
      {stroke: () => colours.dim, grid, ticks: grid, values: axisTimes, size: 28, space: narrow ? 70 : 90, font: "12px system-ui"},
      {stroke: () => colours.dim, grid: {show: false}, ticks: {show: false}, size: narrow ? 74 : 92, font: "12px system-ui"},
    ],
  };
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
function paint(u) {
  const {ctx} = u, {left, top, width, height} = u.bbox, row = height / rows;
  const {min, max} = u.scales.x, px = v => u.valToPos(v, "x", true);
  ctx.save();
  ctx.beginPath(); ctx.rect(left, top, width, height); ctx.clip();
  data.iterations.forEach(([number, start, end], i) => {
    if (end < min || start > max) return;
    ctx.fillStyle = colours.dim;
    ctx.globalAlpha = i % 2 ? .05 : .12;
    ctx.fillRect(px(start), top, px(end) - px(start), height);
  });
  ctx.globalAlpha = 1;
  ctx.font = Math.round(11 * devicePixelRatio) + "px system-ui";
  ctx.textBaseline = "middle";
  ctx.textAlign = "left";
  data.moved.forEach(([lane, start, length, label]) => {
    if (start + length < min || start > max) return;
    const x = Math.max(px(start), left), w = Math.max(1.5, Math.min(px(start + length), left + width) - x), y = top + lane * row;
    ctx.fillStyle = colours.moved;
    ctx.fillRect(x, y + row * .12, w, row * .76);
    if (w > 6.2 * devicePixelRatio * label.length) { ctx.fillStyle = colours.page; ctx.fillText(label, x + 4, y + row / 2); }
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
function drawTimeline(over) {
  const options = base(rows * rowHeight + 36, over);
  options.scales.y = {range: [0, rows]};
  options.axes[1].splits = () => Array.from({length: rows}, (_, i) => rows - i - .5);
  options.axes[1].values = () => Array.from({length: rows}, (_, i) => i < lanes ? (i ? "" : data.lane_name) : data.short[i - lanes]);
  options.axes[1].gap = 4;
  options.series = [{}, {show: false}];
  options.hooks = {
    draw: [paint], setScale: [follow],
    setCursor: [u => {
      const {left, top} = u.cursor;
      if (left < 0 || !u.over.matches(":hover")) return tip(u);
      const row = Math.floor(top / (u.over.clientHeight / rows)), at = u.posToVal(left, "x");
      const slack = (u.scales.x.max - u.scales.x.min) / u.over.clientWidth * 2;
      tip(u, row < lanes ? movedAt(row, at, slack) : row < rows ? spanAt(row - lanes, at) : "", left, top);
    }],
  };
  charts.push(new uPlot(options, [span, [null, null]], over));
}

function drawRates(into) {
  const most = Math.max(1e-6, ...data.rates.flatMap(host => [...host.out, ...host.in].filter(v => v !== null)).reduce((a, v) => [Math.max(a[0], v)], [0]));
  for (const host of data.rates) {
    const name = element("p", host.name, into, "host");
    if (host.in[0] === null || host.out[0] === null)
      name.textContent += host.in[0] === null ? ", in: not captured" : ", out: not captured";
    const over = element("div", undefined, into, "chart");
    over.tabIndex = 0;
    over.setAttribute("role", "img");
    over.setAttribute("aria-label", "Rates of " + host.name);
    const isLast = host === data.rates[data.rates.length - 1];
    const options = base(isLast ? 104 : 78, over);
    if (!isLast) { options.axes[0].values = () => []; options.axes[0].size = 2; options.axes[0].ticks = {show: false}; }
    options.scales.y = {range: [0, most * 1.05]};
    options.axes[1].values = (u, splits) => splits.map(v => v ? rate(v) : "0");
    options.axes[1].space = 30;
    options.axes[1].grid = {show: true, stroke: () => colours.line, width: 1};
    const line = {width: 1.2, points: {show: false}, spanGaps: false, paths: uPlot.paths.stepped({align: 1})};
    options.series = [{}, {...line, stroke: () => colours.out}, {...line, stroke: () => colours.in}];
    options.hooks = {setScale: [follow], setCursor: [u => {
      const {idx, left, top} = u.cursor;
      if (left < 0 || idx == null || !u.over.matches(":hover")) return tip(u);
      const value = n => u.data[n][idx] === null ? "not captured" : rate(u.data[n][idx] || 0);
      tip(u, time(u.data[0][idx]) + ", " + data.window + "\nout " + value(1) + "\nin  " + value(2), left, top);
    }]};
    charts.push(new uPlot(options, [data.at, host.out, host.in], over));
  }
}

function draw() {
  readColours();
  const shown = charts.length ? [charts[0].scales.x.min, charts[0].scales.x.max] : span;
  for (const chart of charts.splice(0)) chart.destroy();
  const timeline = document.getElementById("timeline"), rates = document.getElementById("rates");
  if (!timeline) return;
  timeline.hidden = !data.spans.rank.length;
  if (!timeline.hidden) drawTimeline(timeline);
  rates.replaceChildren();
  drawRates(rates);
  if (charts.length) show(...shown);
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
  section.addEventListener("wheel", event => {
    const chart = charts.find(one => one.root.contains(event.target));
    if (!chart || !event.ctrlKey) return;
    event.preventDefault();
    zoom(event.deltaY < 0 ? "in" : "out", chart.posToVal(event.clientX - chart.over.getBoundingClientRect().left, "x"));
  }, {passive: false});
  section.addEventListener("keydown", event => {
    const how = {"+": "in", "=": "in", "-": "out", ArrowLeft: "left", ArrowRight: "right", "0": "all"}[event.key];
    if (how && event.target.classList.contains("chart")) { event.preventDefault(); zoom(how); }
  });
}

// Tables: a click on a heading sorts; numbers largest first.
function key(row, column) {
  const cell = row.cells[column], told = cell.dataset.k;
  return told === undefined ? cell.textContent.trim() : told === "" ? null : Number(told);
}
function sort(heading) {
  const body = heading.closest("table").tBodies[0], column = heading.cellIndex, all = [...body.rows];
  const keys = new Map(all.map(row => [row, key(row, column)]));
  const numbers = [...keys.values()].some(one => typeof one === "number");
  const was = heading.getAttribute("aria-sort"), up = was ? was === "descending" : !numbers;
  for (const other of heading.parentElement.cells) other.removeAttribute("aria-sort");
  heading.setAttribute("aria-sort", up ? "ascending" : "descending");
  const compare = (a, b) => typeof a === "number" ? a - b : a.localeCompare(b, undefined, {numeric: true});
  all.sort((one, two) => {
    const a = keys.get(one), b = keys.get(two);
    if (a === null || b === null) return (a === null) - (b === null); // what there is not comes last
    return up ? compare(a, b) : compare(b, a);
  });
  body.append(...all);
}
for (const heading of document.querySelectorAll(".sortable th")) heading.firstElementChild.addEventListener("click", () => sort(heading));
for (const input of document.querySelectorAll("[data-filter]")) {
  input.parentElement.hidden = false;
  input.addEventListener("input", () => {
    const wanted = input.value.toLowerCase();
    for (const row of document.getElementById(input.dataset.filter).tBodies[0].rows)
      row.hidden = !row.textContent.toLowerCase().includes(wanted);
  });
}
draw();
wire();
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
let width = innerWidth;
addEventListener("resize", () => { if (innerWidth !== width) { width = innerWidth; draw(); } });
})();
