// What an entry tells beside its text: more digits, or why it is doubted; and what the head of a column means. It shows
// when the entry is pointed at, touched or focused. Without scripts the browser shows the same title when it is pointed at.

const TOLD = "table [title], table [data-told]";
const tip = document.createElement("div");
tip.className = "tip";
tip.hidden = true;
tip.setAttribute("aria-hidden", "true"); // screen readers find the same text at the entry
document.body.append(tip);
let shown = null;

for (const table of document.querySelectorAll(".table table")) {
  // Tab goes to the first of these entries, and arrows go on from there.
  table.tBodies[0].querySelectorAll("td[title], th[title]").forEach((entry, place) => { entry.tabIndex = place ? -1 : 0; });
}

document.addEventListener("pointerover", (event) => {
  if (event.pointerType !== "touch") show(event.target.closest?.(TOLD) ?? null);
});
document.addEventListener("focusin", (event) => show(event.target.closest(TOLD)));
document.addEventListener("focusout", () => show(null));
document.addEventListener("scroll", () => shown && place(shown), { capture: true, passive: true });
document.addEventListener("click", (event) => {
  const told = event.target.closest?.(TOLD) ?? null;
  // The first touch of a mark tells the reason, the second one goes to the doubts.
  if (told?.matches("a") && event.pointerType === "touch" && told.dataset.touched === undefined) event.preventDefault();
  for (const mark of document.querySelectorAll("[data-touched]")) delete mark.dataset.touched;
  if (told) told.dataset.touched = "";
  show(told);
});
document.addEventListener("keydown", (event) => {
  if (event.key === "Escape") show(null);
  const entry = event.target.closest?.("tbody [tabindex]:not(.mark)");
  const step = { ArrowRight: [0, 1], ArrowLeft: [0, -1], ArrowDown: [1, 0], ArrowUp: [-1, 0] }[event.key];
  if (!entry || !step) return;
  const next = neighbour(entry, step);
  if (!next) return;
  event.preventDefault();
  entry.tabIndex = -1;
  next.tabIndex = 0;
  next.focus();
});

/** The next entry with more to tell, in its row or in its column; null at the edge of the table. */
function neighbour(entry, [down, right]) {
  let cell = entry;
  while (cell) {
    const row = down ? (down > 0 ? cell.parentElement.nextElementSibling : cell.parentElement.previousElementSibling) : null;
    cell = down ? row?.cells[cell.cellIndex] : right > 0 ? cell.nextElementSibling : cell.previousElementSibling;
    if (cell?.hasAttribute("tabindex") && cell.offsetParent !== null) return cell;
  }
  return null;
}

/** Show what an element tells; null hides the tip. */
function show(told) {
  if (told === shown) return;
  shown = told;
  tip.hidden = told === null;
  if (told === null) return;
  take(told);
  tip.textContent = told.dataset.told;
  place(told);
}

/** Put the tip above an element, or below it where there is no room. */
function place(told) {
  const at = told.getBoundingClientRect();
  const { width, height } = tip.getBoundingClientRect();
  const left = Math.min(Math.max(8, at.left), Math.max(8, document.documentElement.clientWidth - width - 8));
  const above = at.top - height - 6;
  tip.style.transform = `translate(${left}px, ${above < 8 ? at.bottom + 6 : above}px)`;
}

/** Take the title from an element, so that the browser does not show it too. Screen readers still find the text. */
function take(told) {
  if (!told.hasAttribute("title")) return;
  told.dataset.told = told.title;
  told.setAttribute(told.matches(".mark") ? "aria-label" : "aria-description", told.title);
  told.removeAttribute("title");
}
