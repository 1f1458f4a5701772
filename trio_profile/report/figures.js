// Figures: drawn when they come into view, and all of them before the page is printed.

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
  (seen) => seen.filter(({ isIntersecting }) => isIntersecting).forEach(({ target }) => {
    setTimeout(load); // a task of its own, and so is each figure: the page stays quick
    setTimeout(() => draw(target));
  }),
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
  figure.width = place.clientWidth;
  figures.set(place, figure);
  const filename = place.id.replace(/^figure-/, "");
  const config = { ...CONFIG, toImageButtonOptions: { format: "svg", filename } };
  Plotly.newPlot(figure.drawing, figure.data, layoutOf(figure), config);
  place.style.minHeight = "";
  describe(figure.drawing);
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
