"use strict";
(() => {
const MOST_LINKS = 12, MOST_MOVES = 200, LATER_MS = 1000;
const byId = id => document.getElementById(id);
let links = [], lanes = [], hosts = [], over = false, following = true;

// Figures, in the units of the tables.
function scaled(value, units) {
  for (const [unit, size] of units) if (value >= size) return `${+(value / size).toPrecision(3)} ${unit}`;
  return `${Math.round(value)} ${units[units.length - 1][2]}`;
}
const bps = value => scaled(value, [["Gb/s", 1e9], ["Mb/s", 1e6], ["kb/s", 1e3, "b/s"]]);
const bytes = value => scaled(value, [["GB", 1e9], ["MB", 1e6], ["kB", 1e3, "B"]]);
const percent = share => `${Math.round(100 * share)} %`;

// The shades of tools/drawing/svg.py: idle, then a quarter each; a burst above the rate is a full link.
const shade = share => share <= 0 ? 0 : Math.min(4, Math.ceil(4 * share));

function cell(row, text, style = "", share = null) {
  const made = row.insertCell();
  made.className = style;
  if (share !== null) {
    const bar = document.createElement("i"), over = document.createElement("span");
    bar.style.width = `${Math.min(100, 100 * share)}%`;
    over.textContent = text;
    made.append(bar, over);
  } else made.textContent = text;
  return made;
}

function showRun(run) {
  links = run.links;
  hosts = run.hosts;
  for (const part of document.querySelectorAll(".of-a-run")) part.hidden = false;
  byId("fabric").textContent = run.fabric;
  byId("drawing").innerHTML = run.svg;
  lanes = [];
  for (const group of document.querySelectorAll("#drawing [data-link]"))
    lanes[group.dataset.link] = [group.querySelector("title"), group.querySelector(".lane")];
  byId("moves").replaceChildren();
  byId("links").replaceChildren();
  byId("ranks").replaceChildren();
  byId("with-ranks").hidden = !hosts.length;
}

function showLoad(load) {
  byId("clock").textContent = `${load.t_s.toFixed(1)} s since the fabric is up`;
  const down = new Set(load.down), now = new Map(load.links.map(([number, ...rest]) => [number, rest]));
  lanes.forEach(([title, lane], number) => {
    const [name, rate] = links[number], [used, queued, dropped] = now.get(number) || [0, 0, 0];
    lane.setAttribute("class", `lane ${down.has(number) ? "failed" : `load${shade(used / rate)}`}`);
    title.textContent = `${name}, ${bps(rate)}: ${down.has(number) ? "down" : `${bps(used)} (${percent(used / rate)})`}, `
      + `${bytes(queued)} in the queue, ${dropped} packet${dropped === 1 ? "" : "s"} dropped`;
  });
  showLinks(load.links, down);
  showRanks(load.ranks);
  showMoves(load.moves);
}

function showLinks(used, down) {
  const body = byId("links");
  body.replaceChildren();
  const share = ([number, rate]) => rate / links[number][1];
  for (const one of [...used].sort((a, b) => share(b) - share(a)).slice(0, MOST_LINKS)) {
    const [number, rate, queued, dropped] = one, row = body.insertRow();
    cell(row, links[number][0] + (down.has(number) ? " (down)" : ""), down.has(number) ? "is-down" : "");
    cell(row, bps(rate), "n");
    cell(row, percent(share(one)), "n share", share(one));
    cell(row, bytes(queued), "n");
    cell(row, dropped, dropped ? "n dropped" : "n");
  }
}

function showRanks(ranks) {
  const body = byId("ranks");
  ranks.forEach(([done, all, underWay, moved, toMove], rank) => {
    const row = body.rows[rank] || body.insertRow();
    row.replaceChildren();
    cell(row, rank, "n");
    cell(row, hosts[rank]);
    cell(row, `${done} of ${all}`, "n");
    cell(row, percent(moved / Math.max(1, toMove)), "n share", moved / Math.max(1, toMove));
    cell(row, underWay, "n");
  });
}

function showMoves(moves) {
  const list = byId("moves");
  for (const move of moves) {
    const line = document.createElement("li"), when = document.createElement("time");
    when.textContent = `${move.t_s.toFixed(2)} s`;
    line.append(when, move.text);
    list.append(line);
  }
  while (list.children.length > MOST_MOVES) list.firstChild.remove();
  follow();
}

// The controller's last move stays in view, also when lines break anew, until somebody scrolls up.
function follow() {
  const list = byId("moves");
  if (following) list.scrollTop = list.scrollHeight;
}
byId("moves").addEventListener("scroll", ({target: list}) => {
  following = list.scrollHeight - list.scrollTop - list.clientHeight < 8;
});
addEventListener("resize", follow);

function showRows(message) {
  byId("with-rows").hidden = false;
  const {n_done: done, n_cells: all, rows} = message;
  byId("cells").textContent = `${done} of ${all} cells` + (rows.length < done ? `, the newest ${rows.length} shown` : "");
  const heads = byId("heads"), body = byId("rows");
  heads.replaceChildren();
  body.replaceChildren();
  const head = heads.insertRow();
  for (const [title, isNumber] of message.columns) {
    const made = document.createElement("th");
    made.scope = "col";
    made.className = isNumber ? "n" : "";
    made.textContent = title;
    head.append(made);
  }
  for (const texts of message.rows) {
    const row = body.insertRow();
    texts.forEach((text, column) => cell(row, text, message.columns[column][1] ? "n" : ""));
  }
}

function showProgress({n_done: done, n_cells: all, left, best}) { // of a sweep
  byId("with-progress").hidden = false;
  byId("done").max = all;
  byId("done").value = done;
  byId("left").textContent = `${done} of ${all} cells done${left && `, ${left}`}`;
  byId("best").replaceChildren(...best.map(text => {
    const line = document.createElement("li");
    line.textContent = text;
    return line;
  }));
}

const SHOW = {
  title: message => { byId("title").textContent = document.title = message.text; },
  phase: message => { byId("phase").textContent = message.text; },
  run: showRun, load: showLoad, rows: showRows, progress: showProgress,
  over: () => { over = true; byId("phase").textContent = "over"; state("over", ""); },
  everything: message => { byId("moves").replaceChildren(); message.messages.forEach(show); },
};
function show(message) { if (SHOW[message.kind]) SHOW[message.kind](message); }

function state(text, style) {
  byId("link-state").textContent = text;
  byId("link-state").className = `chip ${style}`;
  document.querySelector("main").classList.toggle("lost-data", style === "lost");
}

function connect() {
  const socket = new WebSocket(`ws://${location.host}/stream`);
  socket.onopen = () => state("live", "live");
  socket.onmessage = event => show(JSON.parse(event.data));
  socket.onclose = () => {
    if (over) return;
    state("not connected; trying again", "lost");
    setTimeout(connect, LATER_MS);
  };
}
connect();
})();
