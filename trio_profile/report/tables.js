// Tables: sort by a column, show more columns, keep the columns that name a row in sight.

const collator = new Intl.Collator("en", { numeric: true });
const PREFIXES = { k: 1e3, M: 1e6, G: 1e9, T: 1e12, P: 1e15, Ki: 2 ** 10, Mi: 2 ** 20, Gi: 2 ** 30, Ti: 2 ** 40 };
const RAISED = "⁰¹²³⁴⁵⁶⁷⁸⁹";

// Sorting

for (const button of document.querySelectorAll("button.sort")) {
  const heading = button.parentElement;
  heading.setAttribute("aria-sort", "none");
  button.addEventListener("click", () => sortBy(heading));
}

/** Sort a table by a column: ascending, then descending, then as it was. */
function sortBy(heading) {
  const next = { none: "ascending", ascending: "descending", descending: "none" }[heading.getAttribute("aria-sort")];
  for (const other of heading.parentElement.children) {
    if (other.hasAttribute("aria-sort")) other.setAttribute("aria-sort", "none");
  }
  heading.setAttribute("aria-sort", next);
  const body = heading.closest("table").tBodies[0];
  const rows = [...body.rows];
  rows.forEach((row, place) => (row.dataset.place ??= place));
  const column = heading.cellIndex;
  const keyed = rows.map((row) => ({ row, place: Number(row.dataset.place), key: keyOf(row, column) }));
  const turn = next === "descending" ? -1 : 1;
  const order = next === "none" ? () => 0 : (a, b) => turn * compare(a.key, b.key);
  // What has no value stands at the end in either direction.
  keyed.sort((a, b) => (next !== "none" && (a.key === null) - (b.key === null)) || order(a, b) || a.place - b.place);
  body.append(...keyed.map(({ row }) => row));
}

/** What a row is sorted by: a number, a text, or null for no value. */
function keyOf(row, column) {
  const entry = row.cells[column];
  if (entry.classList.contains("absent")) return null;
  if (entry.dataset.order !== undefined) return Number(entry.dataset.order);
  const text = entry.textContent.trim();
  return text === "" || text === "–" ? null : (numberIn(text) ?? text);
}

/** The number that a text begins with, such as 1.6, −3, 2.1 × 10⁻⁴ or 2.118 MiB; null if it begins with none. */
function numberIn(text) {
  const plain = text
    .replaceAll("−", "-")
    .replace(/[\u202f\u00a0 ](?=\d)/g, (space, at) => (/\d/.test(text[at - 1] ?? "") ? "" : " "))
    .replace(/10([⁻⁰¹²³⁴⁵⁶⁷⁸⁹]+)/, (_, raised) => `10^${[...raised].map((sign) => (sign === "⁻" ? "-" : RAISED.indexOf(sign))).join("")}`);
  const found = /^([+-]?\d[\d.]*(?:e[+-]?\d+)?)(?:\s*×\s*10\^(-?\d+))?(?:\s([kKMGTP]i?)(?=B|MAC|FLOP|\s|$))?/.exec(plain);
  if (!found) return null;
  return Number(found[1]) * 10 ** Number(found[2] ?? 0) * (PREFIXES[found[3]] ?? 1);
}

function compare(a, b) {
  if (a === null || b === null) return 0;
  if (typeof a === "number" && typeof b === "number") return a - b;
  return collator.compare(String(a), String(b));
}

// More columns

for (const button of document.querySelectorAll("button.others")) {
  const table = document.getElementById(button.getAttribute("aria-controls"));
  fold(table, true);
  button.addEventListener("click", () => {
    const folded = button.getAttribute("aria-expanded") === "true";
    button.setAttribute("aria-expanded", String(!folded));
    button.textContent = folded ? "more columns" : "fewer columns";
    fold(table, folded);
  });
}

/** Hide the columns that are not always in sight, or show them. */
function fold(table, folded) {
  table.classList.toggle("folded", folded);
  const shown = [...table.tHead.rows[0].cells].filter((cell) => !folded || !cell.classList.contains("more"));
  table.parentElement.style.setProperty("--columns", shown.length);
}

// Rows that are chosen by the value of a column, or by a word. Print has all rows.

for (const table of document.querySelectorAll("table[data-switch], table[data-filter]")) choose(table);

/** Put the choice above a table, and hide the other rows. */
function choose(table) {
  const column = Number(table.dataset.switch ?? -1);
  const rows = [...table.tBodies[0].rows];
  const textOf = (part) => [...part.childNodes].filter(({ nodeType }) => nodeType === Node.TEXT_NODE).map((one) => one.textContent).join("").trim();
  const valueOf = (row) => textOf(row.cells[column].querySelector("span") ?? row.cells[column]);
  const bar = document.createElement("span");
  bar.className = "choice";
  let value = table.dataset.chosen ?? "";
  let word = "";
  const apply = () => {
    for (const row of rows) {
      const other = value !== "" && valueOf(row) !== value;
      row.classList.toggle("out", other || !row.textContent.toLowerCase().includes(word));
    }
  };
  if (column >= 0) {
    const name = table.tHead.rows[0].cells[column].textContent.trim();
    const group = bar.appendChild(document.createElement("span"));
    group.setAttribute("role", "group");
    group.setAttribute("aria-label", name);
    for (const each of [...new Set(rows.map(valueOf)), ""]) {
      const button = group.appendChild(document.createElement("button"));
      button.type = "button";
      button.textContent = each || "all";
      button.setAttribute("aria-pressed", String(each === value));
      button.addEventListener("click", () => {
        value = each;
        for (const other of group.children) other.setAttribute("aria-pressed", String(other === button));
        apply();
      });
    }
  }
  if (table.dataset.filter !== undefined) {
    const input = bar.appendChild(document.createElement("input"));
    input.type = "search";
    input.placeholder = "filter";
    input.setAttribute("aria-label", "Show only rows that contain");
    input.addEventListener("input", () => { word = input.value.trim().toLowerCase(); apply(); });
  }
  const others = table.closest(".table").querySelector(".above");
  others.insertBefore(bar, others.querySelector(".others"));
  apply();
}

// Columns that name a row

const widths = new ResizeObserver((seen) => seen.forEach(({ target }) => place(target)));
document.querySelectorAll(".table table").forEach((table) => widths.observe(table));

/** Tell the style where the columns that name a row stick, and whether the table is wider than its place. */
function place(table) {
  const scroll = table.parentElement;
  scroll.classList.toggle("wide", scroll.scrollWidth > scroll.clientWidth + 1);
  const keys = [...table.tHead.rows[0].cells].filter((cell) => cell.classList.contains("key"));
  let left = 0;
  keys.forEach((cell, number) => {
    table.style.setProperty(`--left-${number}`, `${left}px`);
    left += cell.getBoundingClientRect().width;
  });
}
