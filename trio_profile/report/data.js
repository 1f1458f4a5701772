// The data of the page, saved as a file.

for (const button of document.querySelectorAll("[data-save]")) {
  button.setAttribute("aria-label", `Save the data as ${button.textContent}`);
  button.addEventListener("click", () => save(button.dataset.save));
}

/** Save the rows as CSV, or the document as JSON. The name is that of the page's title. */
async function save(form) {
  const [id, type] = { csv: ["csv", "text/csv"], json: ["data", "application/json"] }[form];
  const text = await unpacked(document.getElementById(id));
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([form === "csv" ? JSON.parse(text) : text], { type }));
  link.download = `${document.title.replace(/ – trio-profile$/, "").replace(/[^\p{L}\p{N}.]+/gu, "-")}.${form}`;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href));
}

/** The text of an element. A long one is deflated, and in base64. */
async function unpacked({ type, textContent }) {
  if (type !== "application/zlib") return textContent;
  const bytes = Uint8Array.from(atob(textContent), (letter) => letter.charCodeAt(0));
  return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"))).text();
}
