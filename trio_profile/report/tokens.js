// Draws the kept tokens on the picture: tokens.html has the elements, html.py the data.
const MOST = 4;
const WIDTH = 560; // pixels of a drawing, whatever its width on the page
const NO_SCORE = 255;
// Eleven steps of viridis (matplotlib, CC0), a colour map that is even to the eye and to colour-blind readers.
const VIRIDIS = [
  "#440154", "#482475", "#414487", "#355f8d", "#2a788e", "#21918c", "#22a884", "#44bf70", "#7ad151", "#bddf26", "#fde725",
];
const RGB = VIRIDIS.map((hex) => [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16)));
let printing = false;

const bytes = (text) => Uint8Array.from(atob(text), (char) => char.charCodeAt(0));

function decoded(stage, count) {
  const packed = bytes(stage.kept);
  return {
    ...stage,
    kept: Uint8Array.from({ length: count }, (_, number) => (packed[number >> 3] >> (7 - (number & 7))) & 1),
    scores: stage.scores ? bytes(stage.scores) : null,
    into: stage.into ? new Int32Array(bytes(stage.into).buffer) : null,
  };
}

function colour(score) {
  const place = (score / 254) * (RGB.length - 1);
  const low = Math.min(Math.floor(place), RGB.length - 2);
  const mixed = RGB[low].map((part, i) => Math.round(part + (place - low) * (RGB[low + 1][i] - part)));
  return `rgb(${mixed.join(",")})`;
}

function inks() {
  if (printing) return { paper: "#ffffff", card: "#f6f7f8", ink: "#000000" };
  const style = getComputedStyle(document.documentElement);
  const of = (name) => style.getPropertyValue(name).trim();
  return { paper: of("--paper"), card: of("--card"), ink: of("--ink") };
}

// Where the cells of a grid lie on a canvas. A newline token has a narrow column of its own.
function placed(grid, canvas) {
  const across = grid.columns + (grid.newline ? 1 : 0);
  const width = canvas.width / across, height = canvas.height / grid.rows;
  const cells = [];
  for (let row = 0; row < grid.rows; row++) {
    for (let column = 0; column < across; column++) {
      cells.push({ row, column, number: grid.first + row * across + column, newline: column >= grid.columns });
    }
  }
  return { cells, across, width, height };
}

function fill(context, place, cell, style, alpha) {
  context.globalAlpha = alpha;
  context.fillStyle = style;
  // Whole pixels, so that no seam shows between two cells.
  const [left, right] = [cell.column, cell.column + 1].map((column) => Math.round(column * place.width));
  const [top, bottom] = [cell.row, cell.row + 1].map((row) => Math.round(row * place.height));
  context.fillRect(left, top, right - left, bottom - top);
  context.globalAlpha = 1;
}

// Lines between neighbouring cells of which `differs` is true; the outer edge counts as a cell that is not kept.
function edges(context, grid, place, differs, style, alpha, width) {
  const number = (row, column) =>
    row < 0 || column < 0 || row >= grid.rows || column >= place.across ? -1 : grid.first + row * place.across + column;
  context.beginPath();
  for (let row = 0; row <= grid.rows; row++) {
    for (let column = 0; column <= place.across; column++) {
      const x = column * place.width, y = row * place.height, here = number(row, column);
      if (column < place.across && differs(number(row - 1, column), here)) {
        context.moveTo(x, y);
        context.lineTo(x + place.width, y);
      }
      if (row < grid.rows && differs(number(row, column - 1), here)) {
        context.moveTo(x, y);
        context.lineTo(x, y + place.height);
      }
    }
  }
  context.globalAlpha = alpha;
  context.strokeStyle = style;
  context.lineWidth = width;
  context.stroke();
  context.globalAlpha = 1;
}

function draw(canvas, grid, picture, stage, asScores) {
  const context = canvas.getContext("2d"), ink = inks(), place = placed(grid, canvas);
  const isKept = (number) => number >= 0 && (stage ? stage.kept[number] === 1 : true);
  const into = stage ? stage.into : null;
  const went = (number) => (into && number >= 0 && !isKept(number) ? into[number] : -1);
  context.fillStyle = ink.card;
  context.fillRect(0, 0, canvas.width, canvas.height);
  if (picture) {
    context.filter = asScores ? "grayscale(1)" : "none";
    context.drawImage(picture, 0, 0, place.width * grid.columns, canvas.height);
    context.filter = "none";
  } else {
    for (const cell of place.cells) fill(context, place, cell, ink.ink, isKept(cell.number) ? 0.45 : 0);
  }
  for (const cell of place.cells) {
    const score = asScores && stage && stage.scores ? stage.scores[cell.number] : NO_SCORE;
    if (score !== NO_SCORE) fill(context, place, cell, colour(score), 0.85);
    else if (!isKept(cell.number)) fill(context, place, cell, ink.paper, went(cell.number) >= 0 ? 0.62 : 0.85);
    else if (cell.newline) fill(context, place, cell, ink.ink, 0.45);
  }
  if (!stage) return;
  edges(context, grid, place, (a, b) => went(a) !== went(b) && !isKept(a) && !isKept(b), ink.ink, 0.3, 1);
  const outline = (a, b) => isKept(a) !== isKept(b);
  edges(context, grid, place, outline, ink.paper, 0.8, 4);
  edges(context, grid, place, outline, ink.ink, 1, 1.6);
}

function element(name, properties = {}, ...children) {
  const made = Object.assign(document.createElement(name), properties);
  made.append(...children);
  return made;
}

function start(figure) {
  const data = JSON.parse(figure.querySelector(".token-data").textContent);
  const form = figure.querySelector(".token-controls"), panels = figure.querySelector(".token-panels");
  const layers = [...new Set(data.maps.flatMap((map) => map.stages.map((stage) => stage.layer)))].sort((a, b) => a - b);
  const retentions = [...new Map(data.maps.map((map) => [map.retention, map.where]))].sort((a, b) => a[0] - b[0]);
  const methods = [...new Set(data.maps.map((map) => map.method))];
  const maps = new Map(data.maps.map((map) => [JSON.stringify([map.method, map.retention]), map]));
  const [frameRange, stageRange, retentionRange] = form.querySelectorAll("input[type=range]");
  const sources = data.frames.length ? data.frames : data.grids.map(() => data.picture);
  const pictures = sources.map(() => null); // under each grid, once it is loaded

  // The latest stage of a method up to a layer; null before its first one.
  function stageOf(map, layer) {
    const found = map.stages.filter((stage) => stage.layer <= layer).at(-1);
    if (!found) return null;
    return (found.decoded ??= decoded(found, data.count));
  }

  function said(map, stage, layer, asScores, first) {
    if (!map) return `not measured at ${retentions[retentionRange.value][1]}`;
    const where = layer ? `up to layer ${layer}` : "before the first layer";
    const parts = [stage ? stage.text : `keeps all ${data.count} tokens ${where}`];
    if (stage && stage.merges && stage.into) {
      parts.push(`${stage.into.filter((into, number) => into >= 0 && into !== number).length} others merged into them`);
    } else if (stage && stage.merges) {
      parts.push("others merged, and into which tokens is not recorded");
    }
    if (asScores && !(stage && stage.scores)) parts.push("no scores at this stage");
    if (first && stage) {
      const both = stage.kept.reduce((sum, kept, number) => sum + (kept & first.stage.kept[number]), 0);
      parts.push(`${first.method} keeps ${both} of them too`);
    }
    return parts.join("; ");
  }

  // Height over width of the picture.
  function shape() {
    const last = data.grids.at(-1), picture = pictures[0];
    return picture ? picture.naturalHeight / picture.naturalWidth : last.rows / last.columns;
  }

  function panel(method, layer, asScores, first) {
    const map = maps.get(JSON.stringify([method, retentions[retentionRange.value][0]]));
    const stage = map ? stageOf(map, layer) : null;
    const text = said(map, stage, layer, asScores, first);
    const made = element("figure", { className: "token-panel" });
    const strip = element("div", { className: "token-strip" });
    const drawn = (grid, place) => {
      const canvas = element("canvas", { width: WIDTH });
      const share = grid.columns / (grid.columns + (grid.newline ? 1 : 0)); // of the width, for the picture
      canvas.height = Math.max(1, Math.round(WIDTH * share * shape()));
      canvas.setAttribute("role", "img");
      canvas.setAttribute("aria-label", `${method} at ${map.where}${grid.name ? `, ${grid.name}` : ""}: ${text}`);
      draw(canvas, grid, pictures[place], stage, asScores);
      return canvas;
    };
    for (const [place, grid] of map ? data.grids.entries() : []) {
      if (data.frames.length) strip.append(drawn(grid, place)); // all frames, small, above the chosen one
      if (data.frames.length && place !== Number(frameRange.value)) continue;
      const name = grid.newline ? `${grid.name}, newline tokens at the right` : grid.name;
      if (name) made.append(element("p", { textContent: name }));
      made.append(drawn(grid, place));
    }
    if (strip.childElementCount) {
      strip.children[frameRange.value].className = "chosen";
      made.prepend(strip);
    }
    if (asScores && stage && stage.scores) {
      const bar = element("i");
      bar.style.background = `linear-gradient(to right, ${VIRIDIS.join(",")})`;
      made.append(element("div", { className: "token-legend" }, element("span", {}, stage.low), bar, element("span", {}, stage.high)));
    }
    made.append(element("figcaption", {}, element("strong", { textContent: method }), text));
    return { made, stage };
  }

  function update() {
    const chosen = [...form.querySelectorAll(".token-methods input:checked")].map((box) => box.value);
    for (const box of form.querySelectorAll(".token-methods input")) {
      box.disabled = !box.checked && chosen.length >= MOST;
    }
    const layer = layers[stageRange.value] ?? 0, where = retentions[retentionRange.value][1];
    const after = layer ? `after layer ${layer}` : "before the first layer";
    const frame = `${Number(frameRange.value) + 1} of ${data.frames.length}`;
    for (const [range, text] of [[frameRange, frame], [stageRange, after], [retentionRange, where]]) {
      range.setAttribute("aria-valuetext", text);
      range.parentElement.querySelector("output").textContent = text;
    }
    const asScores = form.querySelector("input[type=radio]:checked").value === "scores";
    let first = null;
    panels.replaceChildren(
      ...chosen.map((method) => {
        const { made, stage } = panel(method, layer, asScores, first);
        if (!first && stage) first = { method, stage };
        return made;
      }),
    );
  }

  const list = form.querySelector(".token-methods");
  for (const method of methods) {
    const box = element("input", { type: "checkbox", value: method, checked: data.methods.includes(method) });
    list.append(element("label", {}, box, method));
  }
  frameRange.max = Math.max(data.frames.length - 1, 0);
  frameRange.value = 0;
  frameRange.parentElement.hidden = data.frames.length < 2;
  stageRange.max = Math.max(layers.length - 1, 0);
  stageRange.value = stageRange.max;
  retentionRange.max = retentions.length - 1;
  retentionRange.value = Math.max(0, retentions.findIndex(([share]) => share === data.at));
  stageRange.parentElement.hidden = layers.length < 2;
  retentionRange.parentElement.hidden = retentions.length < 2;
  list.hidden = methods.length < 2;
  form.querySelector(".token-modes").hidden = !data.maps.some((map) => map.stages.some((stage) => stage.scores));
  form.hidden = false;
  form.addEventListener("input", update);
  form.addEventListener("submit", (event) => event.preventDefault());
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", update);
  addEventListener("beforeprint", () => { printing = true; update(); });
  addEventListener("afterprint", () => { printing = false; update(); });
  update();
  for (const [place, source] of data.picture ? sources.entries() : []) {
    const image = new Image();
    image.onload = () => { pictures[place] = image; update(); };
    image.src = source;
  }
}

document.querySelectorAll("figure.tokens").forEach(start);
