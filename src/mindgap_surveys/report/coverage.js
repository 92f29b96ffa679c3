// Draws the dtypes and layouts of an operator when its row is opened, and shows what two platforms have apart.

const matrix = JSON.parse(document.getElementById("cells").textContent);
const pairs = JSON.parse(document.getElementById("pairs").textContent);
const operators = document.getElementById("operators");
const filters = document.querySelector('form[data-for="operators"]');
const source = document.getElementById("source");
const target = document.getElementById("target");
const dimmed = document.getElementById("dimmed");
const FIRST = 4; // the first platform's column, counted from 1

function made(tag, text, name) {
  const element = document.createElement(tag);
  if (text !== undefined) element.textContent = text;
  if (name) element.className = name;
  return element;
}

function cellsOf(op) {
  const table = made("table", undefined, "cells");
  const head = table.createTHead().insertRow();
  for (const name of ["dtype", "layout", ...matrix.platforms]) head.append(made("th", name));
  const body = table.createTBody();
  for (const [dtype, layout, ...numbers] of matrix.rows[op]) {
    const row = body.insertRow();
    row.append(made("td", dtype), made("td", layout));
    for (let i = 0; i < numbers.length; i += 2) {
      const word = matrix.words[numbers[i]];
      const cell = made("td", word, `m-${word.replace(" ", "-")}`);
      cell.title = matrix.reasons[numbers[i + 1]];
      row.append(cell);
    }
  }
  return table;
}

function reasonsOf(op) {
  const list = made("ul", undefined, "reasons");
  matrix.platforms.forEach((platform, place) => {
    const seen = new Map();
    for (const [, , ...numbers] of matrix.rows[op]) {
      const text = `${matrix.words[numbers[2 * place]]}: ${matrix.reasons[numbers[2 * place + 1]]}`;
      seen.set(text, (seen.get(text) ?? 0) + 1);
    }
    for (const [text, count] of seen) {
      const item = made("li");
      item.append(made("b", platform), ` ${text} `, made("small", `${count} of ${matrix.rows[op].length}`));
      list.append(item);
    }
  });
  return list;
}

operators.addEventListener("click", (event) => {
  const button = event.target.closest("button[aria-expanded]");
  const place = button?.closest("tbody").querySelector("tr.detail td");
  if (place && !place.hasChildNodes()) place.append(cellsOf(button.textContent), reasonsOf(button.textContent));
});

function apart() {
  const pair = source.value && target.value && source.value !== target.value ? `${source.value}>${target.value}` : "";
  filters.elements.lost.value = pair;
  filters.dispatchEvent(new Event("change"));
  const [lost, keys] = pairs[pair] ?? [0, 0];
  const [gained] = pairs[`${target.value}>${source.value}`] ?? [0];
  document.getElementById("apart").value = pair
    ? `${lost} operators lose something (${keys} dtypes and layouts); the other way: ${gained}`
    : "";
  const shown = [source, target].map((each) => `:not(:nth-child(${Number(each.value) + FIRST}))`).join("");
  dimmed.textContent = pair ? `#operators > * > tr:not(.detail) > :nth-child(n+${FIRST})${shown} { opacity: .25; }` : "";
}

for (const each of [source, target]) each.addEventListener("change", apart);
filters.addEventListener("reset", () => {
  source.value = target.value = "";
  apart();
});
