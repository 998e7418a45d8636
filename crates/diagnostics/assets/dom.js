// Building and updating elements. Every text goes in as text, never as markup: names, keys and
// messages come from objects that anyone may have written.

import { explanation } from "./explanations.js";
import { WINDOW } from "./series.js";

const SVG = "http://www.w3.org/2000/svg";

/** Creates an element with attributes and children. A child that is not a node becomes text. */
export function element(name, attributes = {}, ...children) {
  const created = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (value === true) created.setAttribute(key, "");
    else if (value !== false && value != null) created.setAttribute(key, value);
  }
  created.append(...children.filter((it) => it != null));
  return created;
}

export function svg(name, attributes = {}) {
  const created = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) created.setAttribute(key, value);
  return created;
}

/** Sets a text only if it differs, so that a selection and a screen reader are left alone. */
export function setText(target, text) {
  if (target.textContent !== text) target.textContent = text;
}

export function setAttribute(target, name, value) {
  if (value == null || value === false) target.removeAttribute(name);
  else if (target.getAttribute(name) !== String(value)) target.setAttribute(name, value);
}

/**
 * Makes the children of a container match a list: elements are kept by key, so that open details,
 * the focus and the scroll position survive an update. Returns true if children came, went or moved.
 */
export function keyed(container, items, keyOf, create, update) {
  const known = new Map();
  for (const child of container.children) known.set(child.dataset.key, child);
  const counts = new Map();
  let changed = false;
  let place = container.firstElementChild;
  for (const item of items) {
    // Names are the choice of programs: two of them may be equal.
    const name = String(keyOf(item));
    const before = counts.get(name) ?? 0;
    counts.set(name, before + 1);
    const key = before ? `${name}\u0000${before}` : name;
    let child = known.get(key);
    if (child) {
      known.delete(key);
    } else {
      child = create(item);
      child.dataset.key = key;
      changed = true;
    }
    if (child === place) {
      place = place.nextElementSibling;
    } else {
      container.insertBefore(child, place);
      changed = true;
    }
    update(child, item);
  }
  for (const child of known.values()) {
    child.remove();
    changed = true;
  }
  return changed;
}

const WIDTH = 120;
const HEIGHT = 28;

/** A small chart of the last minute. */
export function sparkline(label) {
  const chart = svg("svg", { class: "spark", viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", "aria-label": label });
  chart.setAttribute("preserveAspectRatio", "none");
  const base = svg("path", { class: "base", d: `M0 ${HEIGHT - 0.5}H${WIDTH}` });
  chart.append(base, svg("path", { class: "area" }), svg("path", { class: "line" }));
  chart.dataset.label = label;
  return chart;
}

/** Draws samples as [age in ms, value]; `text` is the newest value in words. */
export function drawSparkline(chart, samples, text) {
  const top = Math.max(1e-9, ...samples.map(([, value]) => value));
  const points = samples
    .filter(([age]) => age <= WINDOW)
    .map(([age, value]) => {
      const x = WIDTH * (1 - age / WINDOW);
      const y = HEIGHT - 1.5 - (HEIGHT - 4) * (value / top);
      return [x.toFixed(1), y.toFixed(1)];
    });
  const [, area, line] = chart.children;
  const path = points.map(([x, y], index) => `${index ? "L" : "M"}${x} ${y}`).join("");
  setAttribute(line, "d", points.length > 1 ? path : "");
  const first = points[0];
  setAttribute(area, "d", points.length > 1 ? `${path}V${HEIGHT}H${first[0]}Z` : "");
  setAttribute(chart, "aria-label", `${chart.dataset.label}, last minute: now ${text}`);
}

/** A table with these columns: [title, class]. Their titles are explained as those of `part`. */
export function table(part, caption, columns) {
  const head = element("tr");
  for (const [title, kind] of columns) head.append(element("th", { scope: "col", class: kind, title: explanation(part, title) }, title));
  return element(
    "div",
    { class: "scroll", tabindex: "0", role: "region", "aria-label": caption },
    element("table", {}, element("caption", {}, caption), element("thead", {}, head), element("tbody")),
  );
}

/** Returns true if the contents of a card have to be updated: it is open, or was never filled. */
export function isLookedAt(card) {
  if (card.open || !("filled" in card.dataset)) {
    card.dataset.filled = "";
    return true;
  }
  return false;
}

/** Fills a table: each row has a key and the texts of its cells, or [text, class]. */
export function fillTable(target, columns, rows) {
  const create = () => {
    const row = element("tr");
    for (const [title, kind] of columns) row.append(element("td", { class: kind, "data-title": title }));
    return row;
  };
  keyed(target.querySelector("tbody"), rows, (row) => row.key, create, (row, { cells }) => {
    cells.forEach((cell, index) => {
      const [text, tone] = Array.isArray(cell) ? cell : [cell, null];
      setText(row.children[index], text);
      setAttribute(row.children[index], "data-tone", tone);
    });
  });
  setAttribute(target, "hidden", rows.length === 0 ? "" : null);
}
