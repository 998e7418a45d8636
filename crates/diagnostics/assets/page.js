// The page: receives snapshots, computes rates from successive ones, and updates its parts.

import * as format from "./format.js";
import { drawSparkline, element, keyed, setAttribute, setText, sparkline } from "./dom.js";
import { explanation, explanations } from "./explanations.js";
import { Series } from "./series.js";
import { Diagram, sinksOf } from "./diagram.js";
import { updateChannels, updateInformers, updateQueues } from "./details.js";

/** The number of missed snapshots after which an open connection counts as silent. */
const MISSED = 5;

const series = new Series();
const diagram = new Diagram();
let interval = 500;
let lastMessage = null;
let isOpen = false;

function update(snapshot) {
  interval = snapshot.interval_ms;
  series.begin(snapshot.time_ms);
  const rates = sample(snapshot);
  // For tests of the page: each snapshot is another one.
  setAttribute(document.body, "data-snapshot", snapshot.time_ms);
  setText(document.getElementById("program"), snapshot.program.name);
  document.title = `${snapshot.program.name} · dogwatch live page`;
  updateTotals(snapshot, rates);
  series.end();
  updateActions(snapshot.actions);
  diagram.update(snapshot, rates);
  updateInformers(snapshot, rates, series);
  updateQueues(snapshot, rates, series);
  updateChannels(snapshot, rates, series);
  const sources = snapshot.informers.length + snapshot.controllers.length + snapshot.queues.length + snapshot.channels.length;
  setAttribute(document.getElementById("pipeline"), "hidden", sources ? null : "");
  setAttribute(document.getElementById("empty"), "hidden", sources ? "" : null);
  const { program } = snapshot;
  setText(document.getElementById("footer"), `dogwatch ${program.version} · process ${program.pid} · observed for ${format.age(program.uptime_ms)} · a snapshot every ${format.duration(interval)} while a browser looks${snapshot.omitted ? ` · ${format.plural(snapshot.omitted, "source")} not shown` : ""}`);
}

/** Adds the snapshot to the series, and returns the rates of everything by id. */
function sample(snapshot) {
  const rates = { informers: new Map(), handlers: new Map(), taken: new Map(), failures: new Map(), channels: new Map(), endpoints: new Map(), shares: new Map() };
  for (const it of snapshot.informers) {
    rates.informers.set(it.id, { received: series.counter(`i${it.id}`, it.received) });
    for (const handler of it.handlers) {
      rates.handlers.set(handler.id, series.counter(`h${handler.id}`, handler.received));
    }
  }
  for (const sink of sinksOf(snapshot)) {
    const taken = sink.controller ? sink.controller.reconciles : sink.work.taken;
    rates.taken.set(sink.key, series.counter(sink.key, taken));
    if (sink.controller) rates.failures.set(sink.key, series.counter(`${sink.key}/failures`, sink.controller.failures));
  }
  for (const channel of snapshot.channels) {
    let calls = null;
    for (const it of channel.endpoints) {
      const key = `${channel.id}/${it.id}`;
      const rate = series.counter(`e${key}`, it.calls);
      rates.endpoints.set(key, rate);
      if (rate != null) calls = (calls ?? 0) + rate;
      // Of all calls to the endpoints that are there.
      rates.shares.set(key, channel.calls ? it.calls / channel.calls : null);
    }
    // The sum of the endpoints' rates: the total of their counters drops when one is removed.
    rates.channels.set(channel.id, calls);
    if (calls != null) series.gauge(`g${channel.id}`, calls);
  }
  return rates;
}

function updateTotals(snapshot, rates) {
  const sum = (items, value) => items.reduce((total, it) => total + (value(it) ?? 0), 0);
  // Not known before the second snapshot, which is not the same as none.
  const sumOfRates = (items, value) => (items.some((it) => value(it) != null) ? sum(items, value) : null);
  const { informers, controllers, queues, channels } = snapshot;
  const totals = [];
  if (informers.length) {
    const others = informers.filter((it) => it.tone !== "ok");
    const note = others.length ? others.map((it) => `${it.name} ${it.state}`).join(", ") : interruptions(informers);
    const tone = others.length ? others.some((it) => it.tone === "bad") ? "bad" : "warn" : "ok";
    totals.push(["Informers synced", `${informers.length - others.length} of ${informers.length}`, tone, null, note]);
    const objects = sum(informers, (it) => it.objects);
    totals.push(["Objects", format.count(objects), null, ["objects", objects, "gauge"]]);
    const measured = informers.filter((it) => it.bytes != null);
    if (measured.length) totals.push(["Memory of objects", format.bytes(sum(measured, (it) => it.bytes)), null, ["bytes", sum(measured, (it) => it.bytes), "gauge"]]);
    const events = sumOfRates(informers, (it) => rates.informers.get(it.id).received);
    totals.push(["Events", format.rate(events), null, ["events", events, "gauge"]]);
  }
  if (controllers.length) {
    const reconciles = sumOfRates(controllers, (it) => rates.taken.get(`c${it.id}`));
    totals.push(["Reconciles", format.rate(reconciles), null, ["reconciles", reconciles, "gauge"]]);
  }
  if (controllers.length || queues.length) {
    const ready = sum(controllers, (it) => it.queue.ready) + sum(queues, (it) => it.ready);
    totals.push(["Keys waiting", format.count(ready), null, ["waiting", ready, "gauge"]]);
  }
  if (channels.length) {
    const calls = sumOfRates(channels, (it) => rates.channels.get(it.id));
    totals.push(["Calls", format.rate(calls), null, ["calls", calls, "gauge"]]);
  }
  const create = ([title, , , trend]) =>
    element("li", {}, element("span", { class: "label", title: explanation("totals", title) }, title), element("span", { class: "big" }), trend ? sparkline(title) : element("span", { class: "note" }));
  keyed(document.getElementById("totals"), totals, ([title]) => title, create, (tile, [, text, tone, trend, note]) => {
    setText(tile.querySelector(".big"), text);
    setAttribute(tile.querySelector(".big"), "data-tone", tone);
    if (!trend) {
      setText(tile.querySelector(".note"), note);
      return;
    }
    const [name, value] = trend;
    series.gauge(`total/${name}`, value);
    drawSparkline(tile.querySelector(".spark"), series.last(`total/${name}`), text);
  });
}

/** How often the watches of all informers were cut, and how often they listed again. */
function interruptions(informers) {
  const total = (value) => informers.reduce((sum, it) => sum + value(it), 0);
  return `${format.plural(total((it) => it.watch.interrupted), "cut")}, ${format.plural(total((it) => it.relists), "relist")}`;
}

function updateActions(actions) {
  const container = document.getElementById("actions");
  const create = (action) => {
    const button = element("button", { type: "button" }, action.name);
    button.addEventListener("click", () => run(action));
    return button;
  };
  keyed(container, actions, (it) => it.id, create, (button, it) => setAttribute(button, "aria-disabled", it.running ? "true" : null));
  setAttribute(container, "hidden", actions.length ? null : "");
}

async function run(action) {
  const outcome = document.getElementById("outcome");
  const report = (text, tone) => {
    setAttribute(outcome, "hidden", null);
    setAttribute(outcome, "data-tone", tone);
    // With the time, so that the same outcome of another click is seen.
    setText(outcome, `${format.clock(Date.now())} ${action.name}: ${text}`);
  };
  try {
    const response = await fetch(`actions/${action.id}`, { method: "POST" });
    const text = (await response.text()).trim();
    // Accepted means that the action has not ended yet.
    report(text, !response.ok ? "bad" : response.status === 202 ? "wait" : "ok");
  } catch {
    report("the program cannot be reached", "bad");
  }
}

/** Shows whether the numbers on the page are those of the program. */
function updateLink() {
  const link = document.getElementById("link");
  const silent = lastMessage != null && Date.now() - lastMessage > MISSED * interval;
  const state = isOpen && lastMessage != null && !silent ? "live" : lastMessage == null && !isOpen ? "wait" : "lost";
  setAttribute(link, "data-state", state);
  setAttribute(document.body, "data-stale", state === "lost" ? "" : null);
  const since = lastMessage == null ? "" : ` since ${format.clock(lastMessage)}`;
  const texts = { live: "live", wait: "connecting", lost: isOpen ? `no data${since}` : `disconnected${since}, trying again` };
  setText(document.getElementById("link-text"), texts[state]);
}

function connect() {
  const source = new EventSource("events");
  source.addEventListener("open", () => {
    isOpen = true;
    updateLink();
  });
  source.addEventListener("snapshot", (event) => {
    isOpen = true;
    lastMessage = Date.now();
    update(JSON.parse(event.data));
    updateLink();
  });
  source.addEventListener("error", () => {
    isOpen = false;
    updateLink();
    // The browser tries again by itself unless the server answered with an error.
    if (source.readyState === EventSource.CLOSED) setTimeout(connect, 2000);
  });
}

const THEMES = { system: ["◐", "as the system"], light: ["☀", "light"], dark: ["☾", "dark"] };

function setUpTheme() {
  const button = document.getElementById("theme");
  let theme = null;
  // Storage may be disabled.
  try {
    theme = localStorage.getItem("theme");
  } catch {}
  const apply = () => {
    if (!(theme in THEMES)) theme = "system";
    setAttribute(document.documentElement, "data-theme", theme === "system" ? null : theme);
    const [symbol, text] = THEMES[theme];
    setText(button, symbol);
    setAttribute(button, "aria-label", `Colour theme: ${text}`);
    setAttribute(button, "title", `Colour theme: ${text}`);
  };
  button.addEventListener("click", () => {
    const names = Object.keys(THEMES);
    theme = names[(names.indexOf(theme) + 1) % names.length];
    try {
      localStorage.setItem("theme", theme);
    } catch {}
    apply();
  });
  apply();
}

function setUpLegend() {
  const legend = document.getElementById("legend-parts");
  for (const [title, labels] of explanations()) {
    const list = element("dl");
    for (const [label, text] of labels) list.append(element("div", {}, element("dt", {}, label), element("dd", {}, text)));
    legend.append(element("section", {}, element("h3", {}, title), list));
  }
}

setUpTheme();
setUpLegend();
setInterval(updateLink, 500);
connect();
