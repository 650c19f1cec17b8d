// The page itself: its data, which arms it shows, light or dark, printing, and copying. Other scripts use `report`.
"use strict";

const report = {
  /** What charts and the table show, as envknee.show.page_data writes them. */
  data: JSON.parse(document.getElementById("data").textContent),
  /** Names of arms that are switched off. */
  hiddenArms: new Set(),
  /** Functions to call when arms or colours change. */
  onArms: [],
  onColours: [],
};

/** Make an element with text, which is never read as HTML. */
function element(name, text, attributes) {
  const made = document.createElement(name);
  if (text !== undefined) made.textContent = text;
  for (const [key, value] of Object.entries(attributes || {})) made.setAttribute(key, value);
  return made;
}

/** Copy text; where a browser forbids that, select it, so that Ctrl-C copies it. */
async function copyText(text, button, selected) {
  const label = button.textContent;
  try {
    await navigator.clipboard.writeText(text);
    button.textContent = "Copied";
  } catch {
    if (selected) getSelection().selectAllChildren(selected);
    button.textContent = selected ? "Selected: press Ctrl-C" : "Not allowed here";
  }
  setTimeout(() => { button.textContent = label; }, 2000);
}

for (const pre of document.querySelectorAll("pre")) {
  const button = element("button", "Copy", { type: "button", class: "copy" });
  button.addEventListener("click", () => copyText(pre.textContent, button, pre));
  pre.before(button);
}

const tools = document.getElementById("tools");
tools.hidden = false;

document.getElementById("theme").addEventListener("change", (event) => {
  const chosen = event.target.value;
  if (chosen === "auto") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = chosen;
  report.onColours.forEach((redraw) => redraw());
});
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => report.onColours.forEach((redraw) => redraw()));

document.getElementById("print").addEventListener("click", () => print());

for (const box of document.querySelectorAll("#arms input")) {
  box.checked = true;
  box.addEventListener("change", () => {
    if (box.checked) report.hiddenArms.delete(box.value);
    else report.hiddenArms.add(box.value);
    report.onArms.forEach((redraw) => redraw());
  });
}
