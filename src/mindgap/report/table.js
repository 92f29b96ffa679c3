"use strict";
// Filters, sorts and pages tables whose rows are `tbody` elements. Opens rows, copies scripts. No framework.

const STEP = 200; // rows that are drawn at first, and with each press of "show more"

function liveTable(root) {
  const form = document.querySelector(`form[data-for="${root.id}"]`);
  const more = document.querySelector(`button[data-more="${root.id}"]`);
  const rows = [...root.tBodies];
  const words = new Map(rows.map((row) => [row, (row.dataset.text ?? row.rows[0].textContent).toLowerCase()]));
  let matching = rows;
  let shown = STEP;

  function draw() {
    const visible = new Set(matching.slice(0, shown));
    for (const row of rows) if (row.hidden === visible.has(row)) row.hidden = !row.hidden;
    form.elements.count.value = `${matching.length} of ${rows.length} rows`;
    more.hidden = matching.length <= shown;
  }

  function clear() {
    for (const each of form.querySelectorAll("select, input")) each.value = "";
  }

  function filter() {
    const text = form.elements.text.value.toLowerCase().split(/\s+/).filter(Boolean);
    const chosen = [...form.querySelectorAll("select")].filter((each) => each.value);
    const has = (row, select) => (row.dataset[select.name] ?? "").split("\n").includes(select.value);
    matching = rows.filter(
      (row) => chosen.every((each) => has(row, each)) && text.every((word) => words.get(row).includes(word)),
    );
    shown = STEP;
    draw();
  }

  function sort(button) {
    const heading = button.closest("th");
    const up = heading.getAttribute("aria-sort") !== "ascending";
    for (const each of root.querySelectorAll("th[aria-sort]")) each.removeAttribute("aria-sort");
    heading.setAttribute("aria-sort", up ? "ascending" : "descending");
    const key = (row) => {
      const cell = row.rows[0].cells[heading.cellIndex];
      const text = cell.dataset.sort ?? cell.textContent.trim();
      return "number" in button.dataset ? Number.parseFloat(text) : text.toLowerCase();
    };
    const keys = new Map(rows.map((row) => [row, key(row)]));
    rows.sort((one, other) => compare(keys.get(one), keys.get(other), up));
    root.append(...rows);
    filter();
  }

  form.addEventListener("input", filter);
  form.addEventListener("change", filter);
  form.addEventListener("reset", (event) => {
    event.preventDefault();
    clear();
    filter();
  });
  form.addEventListener("submit", (event) => event.preventDefault());
  more.addEventListener("click", () => {
    shown += STEP;
    draw();
  });
  for (const button of root.querySelectorAll("th button")) button.addEventListener("click", () => sort(button));
  root.reveal = (row) => {
    clear();
    filter();
    shown = Math.max(shown, matching.indexOf(row) + 1);
    draw();
  };
  root.choose = (name, value) => {
    clear();
    form.elements[name].value = value;
    filter();
    form.scrollIntoView();
  };
  filter();
}

// What cannot be compared (no number) is last in both directions.
function compare(one, other, up) {
  if (Number.isNaN(one) || Number.isNaN(other)) return Number.isNaN(one) - Number.isNaN(other);
  const order = one < other ? -1 : one > other ? 1 : 0;
  return up ? order : -order;
}

function open(row, wanted) {
  const button = row.querySelector("button[aria-expanded]");
  const opened = wanted ?? button.getAttribute("aria-expanded") !== "true";
  button.setAttribute("aria-expanded", opened);
  row.querySelector("tr.detail").hidden = !opened;
}

async function copy(button) {
  const source = document.getElementById(button.dataset.copy);
  try {
    await navigator.clipboard.writeText(source.textContent);
    button.textContent = "copied";
  } catch {
    getSelection().selectAllChildren(source);
    button.textContent = document.execCommand("copy") ? "copied" : "selected: press Ctrl+C";
  }
}

function follow() {
  const row = document.getElementById(decodeURIComponent(location.hash.slice(1)));
  if (row?.tagName !== "TBODY") return;
  row.closest("table").reveal(row);
  open(row, true);
  row.scrollIntoView();
}

for (const each of document.querySelectorAll("table.live")) liveTable(each);
document.addEventListener("click", (event) => {
  const button = event.target.closest("button");
  if (button?.matches("[aria-expanded]")) open(button.closest("tbody"));
  else if (button?.matches("[data-copy]")) copy(button);
  else if (button?.matches("[data-table]")) {
    document.getElementById(button.dataset.table).choose(button.dataset.name, button.dataset.value);
  }
});
addEventListener("hashchange", follow);
follow();
