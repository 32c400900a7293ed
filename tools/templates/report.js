(() => {
const {data, colours, group, time, bytes} = pageCharts;

// A cell's links: a row for each, its load as high as its share of the rate, and over it what waits in its queue.
const NAME = 14, ROW = 36; // px, of which the first part is the link's name
function links(div, {edges, links, most, failures}) {
  const chart = div.querySelector(".chart"), span = [edges[0], edges[edges.length - 1]];
  function paint({drawingContext: ctx, dygraph}) {
    const {x: left, y: top, w: width} = dygraph.getArea(), px = v => dygraph.toDomXCoord(v);
    const high = ROW - NAME - 3;
    ctx.save();
    ctx.font = "11px system-ui";
    ctx.textBaseline = "middle";
    ctx.fillStyle = ctx.strokeStyle = colours.bad;
    for (const [, down, up] of failures) {
      const x = px(down), end = up === null ? px(span[1]) : px(up);
      ctx.globalAlpha = .12; ctx.fillRect(x, top, end - x, links.length * ROW);
      ctx.globalAlpha = 1; ctx.fillRect(x, top, 1.5, links.length * ROW);
    }
    links.forEach((link, n) => {
      const y = top + n * ROW + NAME + high; // the row's foot
      ctx.fillStyle = colours.line;
      ctx.fillRect(left, y, width, 1);
      ctx.fillStyle = link.worst ? colours.over : colours.ideal;
      link.load.forEach((load, i) => {
        if (!load || edges[i + 1] < dygraph.xAxisRange()[0] || edges[i] > dygraph.xAxisRange()[1]) return;
        const x = px(edges[i]), h = Math.min(1, load / 1000) * high;
        ctx.fillRect(x, y - h, Math.max(.7, px(edges[i + 1]) - x), h);
      });
      if (link.queue) {
        ctx.strokeStyle = colours.ink;
        ctx.lineWidth = 1.2;
        ctx.beginPath();
        link.queue.forEach((size, i) => {
          if (size === null) return;
          const h = y - size / most * high, goesOn = i && link.queue[i - 1] !== null;
          ctx[goesOn ? "lineTo" : "moveTo"](px(edges[i]), h);
          ctx.lineTo(px(edges[i + 1]), h);
        });
        ctx.stroke();
      }
      ctx.fillStyle = colours.bad;
      if (link.dropped) link.dropped.forEach((count, i) => { if (count) ctx.fillRect(px(edges[i]), y - high - 3, Math.max(2, px(edges[i + 1]) - px(edges[i])), 3); });
      const name = link.name + ", " + link.rate + (link.worst ? ": the worst link" : "");
      ctx.fillStyle = colours.ink;
      ctx.textAlign = "left";
      ctx.fillText(name, left + 2, y - high - NAME / 2 - 1);
    });
    ctx.restore();
  }
  group(div, span, add => {
    add(chart, links.length * ROW + 26, span.map(at => [at, null]), {
      labels: ["time", "none"], valueRange: [0, 1], plugins: [{activate: () => ({didDrawChart: paint})}],
      axes: {y: {drawAxis: false, drawGrid: false}},
    }, (at, down) => {
      const link = links[Math.floor(down * links.length)], i = edges.findIndex(edge => edge > at) - 1;
      if (!link || i < 0) return "";
      const size = !link.read ? null : link.queue ? link.queue[i] : 0, queue = size === null ? "queue not read" : "queue " + bytes(size);
      const dropped = link.dropped && link.dropped[i] ? ", " + link.dropped[i] + (link.dropped[i] === 1 ? " packet" : " packets") + " dropped" : "";
      const out = failures.filter(([, from, to]) => from <= at && (to === null || at < to)).map(([cable]) => "\n" + cable + " is down");
      return link.name + "\n" + time(edges[i]) + " to " + time(edges[i + 1]) + "\nload " + (link.load[i] / 10).toFixed(1) + " % of " + link.rate + "\n" + queue + dropped + out.join("");
    });
  });
}

const section = document.getElementById("curves");
if (section) pageCurves(section, data.curves);
for (const div of document.querySelectorAll(".over-time")) { // drawn when they can be seen: before that they have no width
  const details = div.closest("details"), draw = () => {
    if (!details.open || div.dataset.drawn) return;
    div.dataset.drawn = "yes";
    links(div, data.links[div.dataset.cell]);
  };
  details.addEventListener("toggle", draw);
  draw();
}
for (const anchor of document.querySelectorAll('a[href^="#cell-"]')) // what a link leads to is to be seen
  anchor.addEventListener("click", () => { const cell = document.querySelector(anchor.getAttribute("href")); if (cell) cell.closest("details").open = true; });
})();
