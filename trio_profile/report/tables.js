// Tables: sort by a column, show more columns, keep the columns that name a row in sight, tell what is out of sight.

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
  const rule = heading.closest(".table").querySelector(".order");
  rule.dataset.first ??= rule.textContent;
  rule.textContent = next === "none" ? rule.dataset.first : `Sorted by ${heading.textContent.trim()}, ${next}.`;
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
  const order = row.dataset.orders?.split(",")[column];
  if (order) return Number(order);
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
  if (column >= 0) for (const row of table.rows) row.cells[column].classList.add("switch");
  const apply = () => {
    table.classList.toggle("chosen", value !== "");
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
  const above = table.closest(".table").querySelector(".above");
  above.insertBefore(bar, above.querySelector(".others, .further"));
  apply();
}

// Columns that name a row, and what is out of sight

const widths = new ResizeObserver((seen) => seen.forEach(({ target }) => place(target.querySelector("table") ?? target)));
for (const scroll of document.querySelectorAll(".scroll")) {
  widths.observe(scroll);
  widths.observe(scroll.firstElementChild);
  scroll.addEventListener("scroll", () => mark(scroll), { passive: true });
}

/** Fade the edges behind which a table goes on, and say how much of it is there. */
function mark(scroll) {
  const table = scroll.querySelector("table");
  const { left, top } = scroll.getBoundingClientRect();
  const [right, bottom] = [left + scroll.clientWidth + 1, top + scroll.clientHeight + 1];
  const columns = [...table.tHead.rows[0].cells].filter((cell) => cell.getBoundingClientRect().right > right).length;
  const isLong = scroll.classList.contains("long"); // no other table hides rows
  const rows = isLong ? [...table.tBodies[0].rows].filter((row) => row.getBoundingClientRect().bottom > bottom).length : 0;
  scroll.classList.toggle("cut", columns > 0);
  scroll.classList.toggle("cut-below", rows > 0);
  const parts = [[columns, "column"], [rows, "row"]].filter(([count]) => count);
  const text = parts.map(([count, name]) => `${count} more ${name}${count > 1 ? "s" : ""}`).join(" and ");
  scroll.closest(".table").querySelector(".further").textContent = text && `scroll for ${text}`;
}

/** Tell the style where the columns that name a row stick, and whether the table is wider than its place. */
function place(table) {
  const scroll = table.parentElement;
  scroll.classList.toggle("wide", table.getBoundingClientRect().width > scroll.clientWidth + 1);
  mark(scroll);
  const keys = [...table.tHead.rows[0].cells].filter((cell) => cell.classList.contains("key"));
  let left = 0;
  keys.forEach((cell, number) => {
    table.style.setProperty(`--left-${number}`, `${left}px`);
    left += cell.getBoundingClientRect().width;
  });
}

// On paper a wide table is several tables. Each has the columns that name a row.

const MOST_PRINTED = 16;

addEventListener("beforeprint", () => document.querySelectorAll(".table:not(.prose) table").forEach(split));
addEventListener("afterprint", () => {
  document.querySelectorAll(".part").forEach((part) => part.remove());
  document.querySelectorAll(".split").forEach((table) => table.classList.remove("split"));
});

/** Put the parts of a table before it, unless paper holds it whole. */
function split(table) {
  const heads = [...table.tHead.rows[0].cells];
  if (heads.length <= MOST_PRINTED || table.classList.contains("split")) return;
  const keys = heads.filter((cell) => cell.classList.contains("key")).length;
  const others = heads.length - keys;
  const size = Math.ceil(others / Math.ceil(others / (MOST_PRINTED - keys)));
  for (let first = keys; first < heads.length; first += size) {
    const part = table.cloneNode(true);
    part.removeAttribute("id");
    part.className = "part";
    part.style.setProperty("--columns", keys + size);
    for (const row of part.rows) {
      [...row.cells].forEach((cell, at) => { if (at >= keys && (at < first || at >= first + size)) cell.remove(); });
    }
    table.before(part);
  }
  table.classList.add("split");
}
