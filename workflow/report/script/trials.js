// The table of trials: sorted, filtered, and shown in parts, so that ten thousand trials stay quick.
"use strict";

const TRIALS_SHOWN = 100;
const TRIALS_PRINTED = 500;

const table = {
  ...report.data.trials,
  body: document.querySelector(".trials tbody"),
  sortedBy: 0,
  descending: false,
  first: 0,
  shown: TRIALS_SHOWN,
};
table.texts = table.rows.map((row) => row.cells.join(" ").toLowerCase());
table.placeOf = new Map(table.rows.map((row, place) => [row.cells[0], place]));

/** Return what a cell is sorted by: its number, or its text; an empty cell comes last. */
function sortKey(cell, isNumber) {
  if (!isNumber || cell === "") return cell;
  const number = parseFloat(cell.replaceAll(",", ""));
  return Number.isNaN(number) ? cell : number;
}

function compareCells(a, b) {
  if (a === "" || b === "") return (a === "") - (b === "");
  const order = typeof a === typeof b && typeof a === "string" ? a.localeCompare(b) : (a > b) - (a < b);
  return table.descending ? -order : order;
}

/** Return the places of all trials that the filters leave, in order. */
function wantedTrials() {
  const words = document.getElementById("filter").value.toLowerCase().split(/\s+/).filter(Boolean);
  const status = document.getElementById("status").value;
  const { arm, status: statusColumn } = table.columns;
  const places = [];
  table.rows.forEach(({ cells }, place) => {
    if (report.hiddenArms.has(cells[arm])) return;
    if (status !== "" && cells[statusColumn] !== status) return;
    if (words.every((word) => table.texts[place].includes(word))) places.push(place);
  });
  const isNumber = table.heads[table.sortedBy].style === "n";
  const keys = new Map(places.map((place) => [place, sortKey(table.rows[place].cells[table.sortedBy], isNumber)]));
  return places.sort((a, b) => compareCells(keys.get(a), keys.get(b)) || a - b);
}

function trialRow({ cells, good, links }) {
  const trial = cells[0].padStart(4, "0");
  const row = element("tr", undefined, { class: good ? "good" : "bad", id: `trial-${trial}` });
  cells.forEach((cell, place) => {
    const { head, style } = table.heads[place];
    row.append(element("td", cell, { class: style, "data-head": head }));
  });
  const last = element("td", undefined, { class: "links" });
  for (const word of table.link_sets[links]) {
    last.append(element("a", word, { href: table.addresses[word].join(trial), rel: "noreferrer" }), " ");
  }
  row.append(last);
  return row;
}

function showTrials() {
  const places = wantedTrials();
  table.first = Math.max(0, Math.min(table.first, Math.floor((places.length - 1) / table.shown) * table.shown));
  const end = Math.min(table.first + table.shown, places.length);
  table.body.replaceChildren(...places.slice(table.first, end).map((place) => trialRow(table.rows[place])));
  const number = (value) => value.toLocaleString("en");
  const range = places.length ? `${number(table.first + 1)} to ${number(end)} of ${number(places.length)}` : "none";
  const filtered = places.length < table.rows.length ? ` (${number(table.rows.length)} in all)` : "";
  document.getElementById("shown").textContent = range + filtered;
  document.getElementById("before").disabled = table.first === 0;
  document.getElementById("after").disabled = end === places.length;
  document.querySelectorAll(".trials thead th").forEach((head, place) => {
    if (place === table.sortedBy) head.setAttribute("aria-sort", table.descending ? "descending" : "ascending");
    else head.removeAttribute("aria-sort");
  });
  document.getElementById("sort").value = table.sortedBy;
  document.getElementById("direction").textContent = table.descending ? "Descending" : "Ascending";
  return places;
}

function sortTrials(column) {
  table.descending = column === table.sortedBy && !table.descending;
  table.sortedBy = column;
  table.first = 0;
  showTrials();
}

/** Show the row of a trial, without filters. */
function goToTrial(number) {
  document.getElementById("filter").value = "";
  document.getElementById("status").value = "";
  Object.assign(table, { sortedBy: 0, descending: false });
  const place = wantedTrials().indexOf(table.placeOf.get(String(number)));
  if (place < 0) return;
  table.first = Math.floor(place / table.shown) * table.shown;
  showTrials();
  document.getElementById("all-trials").open = true;
  const row = document.getElementById(`trial-${String(number).padStart(4, "0")}`);
  row.classList.add("found");
  row.scrollIntoView({ block: "center" });
}

function startTable() {
  document.getElementById("trial-tools").hidden = false;
  document.getElementById("cut")?.remove();
  const status = document.getElementById("status");
  for (const said of new Set(table.rows.map((row) => row.cells[table.columns.status]))) {
    status.append(element("option", said, { value: said }));
  }
  const sort = document.getElementById("sort");
  table.heads.forEach(({ head }, place) => sort.append(element("option", head, { value: place })));
  document.querySelectorAll(".trials thead th").forEach((head, place) => {
    if (place >= table.heads.length) return;
    const button = element("button", head.textContent, { type: "button" });
    button.addEventListener("click", () => sortTrials(place));
    head.replaceChildren(button);
  });
  const again = () => { table.first = 0; showTrials(); };
  document.getElementById("filter").addEventListener("input", again);
  status.addEventListener("change", again);
  sort.addEventListener("change", () => { table.sortedBy = Number(sort.value); again(); });
  document.getElementById("direction").addEventListener("click", () => { table.descending = !table.descending; again(); });
  document.getElementById("before").addEventListener("click", () => { table.first -= table.shown; showTrials(); });
  document.getElementById("after").addEventListener("click", () => { table.first += table.shown; showTrials(); });
  document.getElementById("copy-trials").addEventListener("click", (event) => {
    const lines = [table.heads.map(({ head }) => head), ...wantedTrials().map((place) => table.rows[place].cells)];
    copyText(lines.map((cells) => cells.join("\t")).join("\n"), event.target);
  });
  addEventListener("beforeprint", () => { table.shown = TRIALS_PRINTED; showTrials(); });
  addEventListener("afterprint", () => { table.shown = TRIALS_SHOWN; showTrials(); });
  report.onArms.push(again);
  showTrials();
  const wanted = location.hash.match(/^#trial-0*(\d+)$/);
  if (wanted) goToTrial(wanted[1]);
}

startTable();
