(() => {
const {data, colours, group, element, time} = pageCharts;
const KINDS = ["compute", "communication", "wait"];
const NAMES = ["compute", "exposed communication", "wait"];
const span = [data.begin, data.end]; // µs, of everything

function rate(mbps) {
  return mbps >= 1000 ? +(mbps / 1000).toPrecision(4) + " Gb/s" : +mbps.toPrecision(4) + " Mb/s";
}

// The timeline: iterations and lanes of collectives on top, then a row for each rank.
const rowHeight = data.ranks.length > 40 ? 14 : data.ranks.length > 12 ? 20 : 26;
const first = data.iterations.length ? 1 : 0; // the first lane
const ranks = first + data.lanes, rows = ranks + data.ranks.length;
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
  function write(x, w, y, texts) { // the longest of the texts that there is room for
    const text = w > 14 && texts.find(text => ctx.measureText(text).width + 8 <= w);
    if (text) ctx.fillText(text, x + 4, y);
  }
  ctx.save();
  ctx.font = "11px system-ui";
  ctx.textBaseline = "middle";
  ctx.textAlign = "left";
  data.iterations.forEach(([number, start, end], i) => {
    if (end < min || start > max) return;
    const x = Math.max(px(start), left), w = Math.min(px(end), left + width) - x;
    ctx.fillStyle = colours.dim;
    ctx.globalAlpha = i % 2 ? .05 : .12;
    ctx.fillRect(x, top, w, height);
    ctx.globalAlpha = 1;
    write(x, w, top + row / 2, ["iteration " + number, "" + number]);
  });
  data.moved.forEach(([lane, start, length, size, , kind]) => {
    if (start + length < min || start > max) return;
    const x = Math.max(px(start), left), w = Math.max(1.5, Math.min(px(start + length), left + width) - x), y = top + (first + lane) * row;
    ctx.fillStyle = colours.moved;
    ctx.fillRect(x, y + row * .12, w, row * .76);
    ctx.fillStyle = colours.page;
    write(x, w, y + row / 2, [kind + " " + size, kind, size]);
  });
  const high = [.5, .84, .2];
  ofRank.forEach((list, rank) => {
    const y = top + (ranks + rank) * row;
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
function iterationAt(at) {
  const found = data.iterations.find(([, start, end]) => start <= at && at <= end);
  return found ? "iteration " + found[0] + "\n" + time(found[2] - found[1]) + " from " + time(found[1]) : "";
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
function drawTimeline(add, shown, div) {
  // dygraphs takes labels as HTML, so what a capture says must not be among them: `short` has numbers only.
  const labels = Array.from({length: rows}, (_, i) => i < first ? "iterations" : i < ranks ? (i > first ? "" : data.lane_name) : data.short[i - ranks]);
  const ticks = labels.map((label, i) => ({v: rows - i - .5, label}));
  add(div, rows * rowHeight + 26, span.map(at => [at, null]), {
    labels: ["time", "none"], valueRange: [0, rows], plugins: [{activate: () => ({didDrawChart: paint})}],
    axes: {y: {ticker: () => ticks, drawGrid: false}},
  }, (at, down) => {
    const row = Math.floor(down * rows), [min, max] = shown(), slack = (max - min) / div.clientWidth * 2;
    if (row < 0 || row >= rows) return "";
    return row < first ? iterationAt(at) : row < ranks ? movedAt(row - first, at, slack) : spanAt(row - ranks, at);
  });
}

function drawRates(add, into) {
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
      labels: ["time", "out", "in"], colors: [colours.out, colours.in], strokeWidth: 1.2, stepPlot: true, valueRange: [0, data.most_rate * 1.05],
      axes: {x: {drawAxis: isLast}, y: {axisLabelFormatter: v => v ? rate(v) : "0"}},
    }, at => {
      const n = Math.floor((at - data.at[0]) / wide), value = v => v === null ? "not captured" : rate(v);
      return n in data.at ? time(data.at[n]) + ", " + data.window + "\nout " + value(host.out[n]) + "\nin  " + value(host.in[n]) : "";
    });
  }
}

const timeline = document.getElementById("timeline"), rates = document.getElementById("rates");
if (!timeline) return;
timeline.hidden = !data.spans.rank.length;
const section = document.getElementById("time");
const charts = group(section, span, (add, shown) => {
  if (!timeline.hidden) drawTimeline(add, shown, timeline);
  rates.replaceChildren();
  drawRates(add, rates);
});
const choose = section.querySelector(".tools select");
if (choose) {
  for (const [number] of data.iterations) element("option", "iteration " + number, choose).value = number;
  choose.addEventListener("change", () => {
    const found = data.iterations.find(([number]) => String(number) === choose.value);
    if (found) { const edge = (found[2] - found[1]) * .02; charts.show(found[1] - edge, found[2] + edge); } else charts.all();
  });
}
})();
