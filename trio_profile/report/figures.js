// Figures: drawn when they come into view, and all of them before the page is printed.

const INK = "#7c828c";
const FAINT = "rgba(124,130,140,0.12)";
const PAPER = { width: 660, height: 340 };
const NARROW = 480;
const CONFIG = {
  displayModeBar: "hover",
  displaylogo: false,
  showSendToCloud: false, // plotly offers to upload the data unless told not to
  modeBarButtons: [["toImage", "zoom2d", "pan2d", "resetScale2d"]],
};

const places = [...document.querySelectorAll(".drawing")];
const figures = new Map();
const coming = new IntersectionObserver(
  (seen) => seen.filter(({ isIntersecting }) => isIntersecting).forEach(({ target }) => draw(target)),
  { rootMargin: "600px 0px" },
);
const widths = new ResizeObserver((seen) => seen.forEach(({ target }) => fit(target)));

if (places.length) {
  const start = () => places.forEach((place) => coming.observe(place));
  if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", start);
  else start();
  addEventListener("beforeprint", () => places.forEach(drawForPaper));
  addEventListener("afterprint", () => places.forEach((place) => redraw(figures.get(place))));
}

/** plotly's script is 1.3 megabytes. It runs when the first figure is needed, so that the page is seen before. */
function load() {
  if (window.Plotly) return;
  const script = document.createElement("script");
  script.textContent = document.getElementById("plotly").textContent;
  document.head.append(script);
  script.remove();
}

/** Draw a figure, once. */
function draw(place) {
  if (figures.has(place)) return;
  coming.unobserve(place);
  load();
  const figure = JSON.parse(place.querySelector("script").textContent);
  figure.drawing = place.appendChild(document.createElement("div"));
  figure.picker = place.closest("figure").querySelector(".picker");
  figure.colours = figure.data.map(coloursOf);
  figure.coloured = figure.data.map(() => true);
  figure.width = place.clientWidth;
  figures.set(place, figure);
  const filename = place.id.replace(/^figure-/, "");
  const config = { ...CONFIG, toImageButtonOptions: { format: "svg", filename } };
  Plotly.newPlot(figure.drawing, figure.data, layoutOf(figure), config);
  place.style.minHeight = "";
  paint(figure);
  describe(figure.drawing);
  figure.drawing.on("plotly_hover", ({ points }) => paint(figure, points[0].data.meta?.group));
  figure.drawing.on("plotly_unhover", () => paint(figure));
  figure.drawing.on("plotly_afterplot", () => thinOut(figure.drawing));
  thinOut(figure.drawing);
  if (figure.picker) listen(figure);
  widths.observe(place);
}

/** The layout of a figure for its width. What a reader zoomed into stays. */
function layoutOf({ layout, narrow, width }) {
  return structuredClone({ ...layout, ...(width < NARROW ? narrow : {}), width, uirevision: "kept" });
}

function redraw(figure) {
  Plotly.react(figure.drawing, figure.data, layoutOf(figure));
}

/** Follow the width of the place. */
function fit(place) {
  const figure = figures.get(place);
  if (!place.clientWidth || place.clientWidth === figure.width) return;
  figure.width = place.clientWidth;
  redraw(figure);
}

/** Draw a figure as wide as paper. */
function drawForPaper(place) {
  draw(place);
  const { drawing, data, layout } = figures.get(place);
  const height = data[0]?.type === "waterfall" ? layout.height : PAPER.height; // each bar keeps its height
  Plotly.react(drawing, data, structuredClone({ ...layout, ...PAPER, height }));
}

/** The caption, the label and the tables say what a figure shows. Its letters alone would say little. */
function describe(drawing) {
  for (const svg of drawing.querySelectorAll(".main-svg")) svg.setAttribute("aria-hidden", "true");
  for (const button of drawing.querySelectorAll(".modebar-btn")) {
    button.setAttribute("aria-label", button.dataset.title ?? "");
  }
}

/** Hide labels of points that lie upon other labels. Each point still tells its name when it is pointed at. */
function thinOut(drawing) {
  const kept = [];
  for (const label of drawing.querySelectorAll(".textpoint text")) {
    const box = label.getBoundingClientRect();
    const covers = ({ left, right, top, bottom }) => left < box.right && box.left < right && top < box.bottom && box.top < bottom;
    const hidden = kept.some(covers);
    label.style.visibility = hidden ? "hidden" : "";
    if (!hidden) kept.push(box);
  }
}

// Quiet groups, and the picker

/** The colours of a trace that is not quiet. */
function coloursOf({ line, marker, fillcolor, error_x, error_y }) {
  return [line?.color, marker?.color, fillcolor, error_x?.color, error_y?.color].map((colour) => colour ?? null);
}

/** Draw the groups that are picked, and the one that is pointed at, in their colours. All others are quiet. */
function paint(figure, pointed) {
  const boxes = [...(figure.picker?.querySelectorAll("input") ?? [])];
  const picked = new Map(boxes.map((box) => [box.value, box.checked]));
  const coloured = figure.data.map(({ meta }) => !meta || meta.group === pointed || (picked.get(meta.group) ?? !meta.quiet));
  const changed = [...coloured.keys()].filter((number) => coloured[number] !== figure.coloured[number]);
  figure.coloured = coloured;
  if (!changed.length) return;
  const [line, marker, fill, across, upright] = [INK, INK, FAINT, INK, INK].map((ink, part) =>
    changed.map((number) => (coloured[number] ? figure.colours[number][part] : ink)),
  );
  const colours = { "line.color": line, "marker.color": marker, fillcolor: fill };
  const bars = { "error_x.color": across, "error_y.color": upright };
  const opacity = changed.map((number) => (coloured[number] ? 1 : 0.5));
  Plotly.restyle(figure.drawing, { ...colours, ...bars, opacity }, changed);
}

function listen(figure) {
  const { picker } = figure;
  picker.addEventListener("change", () => paint(figure));
  for (const button of picker.querySelectorAll("button")) {
    button.addEventListener("click", () => {
      for (const box of picker.querySelectorAll("input")) box.checked = button.dataset.pick === "all";
      paint(figure);
    });
  }
  for (const label of picker.querySelectorAll("label")) {
    const group = label.querySelector("input").value;
    for (const event of ["pointerenter", "focusin"]) label.addEventListener(event, () => paint(figure, group));
    for (const event of ["pointerleave", "focusout"]) label.addEventListener(event, () => paint(figure));
  }
}
