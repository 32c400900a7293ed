"use strict";
// Lines over sizes or numbers of ranks, on an axis of their logarithm, each with a band over repeats or seeds.
const pageCurves = (() => {
const {colours, group, bytes} = pageCharts;
const number = v => +v.toPrecision(3) + "";
const SHOW = {
  bytes, ranks: n => n + "", "": number, "B/s": v => bytes(v) + "/s",
  s: v => { const [unit, size] = [["s", 1], ["ms", 1e-3], ["µs", 1e-6]].find(([, size]) => v >= size) || ["ns", 1e-9]; return number(v / size) + " " + unit; },
};

function curves(section, {sizes, series, rates = [], x = "bytes", y = "B/s", log = false}) {
  const hue = n => series[n].hue === undefined ? n : series[n].hue, showX = SHOW[x], showY = SHOW[y];
  const at = sizes.map(Math.log2), edge = Math.max(.15, (at[at.length - 1] - at[0]) / 40);
  const boxes = [...section.querySelectorAll("[data-series]")];
  const points = series.map(one => new Map(one.points.map(point => [point[0], point])));
  const rows = sizes.map((size, n) => [at[n], ...points.map(of => { const point = of.get(size); return point ? point.slice(1, 4) : [null, null, null]; })]);
  const least = Math.min(...series.flatMap(one => one.points.map(point => point[1])));
  const most = Math.max(...rates.map(([rate]) => rate), ...series.flatMap(one => one.points.map(point => point[3])));
  const isValid = (n, place) => !points[n].get(sizes[at.indexOf(place)])[5];
  function ticks(min, max, pixels) {
    const room = Math.max(1, Math.floor(pixels / 64)), step = Math.ceil(sizes.length / room);
    return sizes.flatMap((size, n) => n % step ? [] : [{v: at[n], label: showX(size)}]);
  }
  function logTicks(min, max) { // 1, 2, 5, 10, … or only 1, 10, …
    const steps = Math.log10(max / min) > 3 ? [1] : [1, 2, 5], ticks = [];
    for (let power = Math.floor(Math.log10(min)); power <= Math.log10(max); power++)
      for (const step of steps) { const v = step * 10 ** power; if (v >= min && v <= max) ticks.push({v, label: showY(v)}); }
    return ticks;
  }
  function limits(ctx, area, chart) { // what hosts' links carry
    ctx.save();
    ctx.strokeStyle = ctx.fillStyle = colours.dim;
    ctx.font = "11px system-ui";
    ctx.setLineDash([2, 3]);
    for (const [rate, name] of rates) {
      const y = chart.toDomYCoord(rate);
      ctx.beginPath(); ctx.moveTo(area.x, y); ctx.lineTo(area.x + area.w, y); ctx.stroke();
      ctx.fillText(name, area.x + 4, y - 4);
    }
    ctx.restore();
  }
  function dot(chart, name, ctx, x, y, colour, size) { // hollow if it is not valid
    const n = Number(name.slice(1)), value = chart.toDataXCoord(x), near = at.reduce((a, b) => Math.abs(b - value) < Math.abs(a - value) ? b : a);
    ctx.beginPath(); ctx.arc(x, y, size, 0, 2 * Math.PI);
    ctx.fillStyle = isValid(n, near) ? colour : colours.page;
    ctx.strokeStyle = colour;
    ctx.lineWidth = 1.5;
    ctx.fill(); ctx.stroke();
  }
  const charts = group(section, [at[0] - edge, at[at.length - 1] + edge], add => {
    add(section.querySelector(".chart"), 320, rows, {
      labels: ["x", ...series.map((_, n) => "s" + n)], customBars: true, connectSeparatedPoints: true, strokeWidth: 1.8, fillAlpha: .12,
      drawPoints: true, pointSize: 3.5, drawPointCallback: dot, underlayCallback: limits, valueRange: log ? [least / 1.3, most * 1.3] : [0, most * 1.08], logscale: log,
      colors: series.map((_, n) => colours["hue" + hue(n) % 8]), visibility: boxes.map(box => box.checked),
      series: Object.fromEntries(series.flatMap((one, n) => hue(n) < 8 && !one.dashed ? [] : [["s" + n, {strokePattern: [6, 3]}]])),
      axes: {x: {ticker: ticks}, y: {pixelsPerLabel: 34, axisLabelFormatter: v => v ? showY(v) : "0", ...(log ? {ticker: logTicks} : {})}},
    }, place => {
      const near = at.reduce((best, one, n) => Math.abs(one - place) < Math.abs(at[best] - place) ? n : best, 0);
      const there = series.flatMap((one, n) => { const point = points[n].get(sizes[near]); return point && boxes[n].checked ? [[point[2], point[4] + "  " + one.name]] : []; });
      return [x === "ranks" ? sizes[near] + " ranks" : showX(sizes[near]), ...there.sort((a, b) => b[0] - a[0]).map(([, text]) => text)].join("\n");
    });
  }, .2);
  for (const box of boxes) box.addEventListener("change", () => charts.draw());
}
return curves;
})();
