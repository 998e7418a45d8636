// The cards below the diagram: each informer with its handlers and relists, each work queue with
// its keys, each gRPC channel with its endpoints.

import * as format from "./format.js";
import { drawSparkline, element, fillTable, isLookedAt, keyed, setAttribute, setText, sparkline, table } from "./dom.js";
import { sinksOf } from "./diagram.js";
import { explanation } from "./explanations.js";

const INFORMER = ["Objects", "Memory", "Version", "Last event"];
const CONTROLLER = ["Ready", "Delayed", "In flight", "Failed"];
const QUEUE = ["Ready", "Delayed", "In flight", "Added"];
const CHANNEL = ["Ready", "Calls", "In flight", "Failed"];
const HANDLERS = [["Handler", "name"], ["Backlog", "number"], ["Oldest", "number"], ["Changes", "number"], ["Delivered", "number"], ["Merged", "number"], ["Panics", "number"]];
const RELISTS = [["When", "time"], ["Reason", "name"], ["Objects", "number"], ["Took", "number"], ["Version", "mono"], ["Message", "text"]];
const KEYS = [["Key", "mono"], ["State", "name"], ["Time", "number"], ["Attempts", "number"], ["Queued because", "text"]];
const ENDPOINTS = [["Endpoint", "mono"], ["State", "name"], ["Share", "share"], ["Calls", "number"], ["In flight", "number"], ["Failed", "number"], ["Peak latency", "number"], ["Error", "text"]];

/** A card: a summary with facts and a sparkline, and a body that opens. `part` explains the facts. */
function card(part, label, facts, isOpen) {
  const list = element("dl", { class: "facts" });
  for (const fact of facts) list.append(element("div", { title: explanation(part, fact) }, element("dt", {}, fact), element("dd")));
  const title = element("span", { class: "title" }, element("span", { class: "name" }), element("span", { class: "kind" }));
  const pill = element("span", { class: "pill" });
  const trend = element("span", { class: "trend" }, sparkline(label), element("span", { class: "now" }));
  const summary = element("summary", {}, title, pill, list, trend);
  return element("details", { class: "card", open: isOpen }, summary, element("div", { class: "body" }));
}

function setCard(target, { name, kind, state, tone, facts, samples, now }) {
  setText(target.querySelector(".title .name"), name);
  setText(target.querySelector(".title .kind"), kind);
  const pill = target.querySelector(".pill");
  setText(pill, state);
  setAttribute(pill, "data-tone", tone);
  const values = target.querySelectorAll("summary dd");
  facts.forEach((it, index) => setText(values[index], it));
  drawSparkline(target.querySelector(".spark"), samples, now);
  setText(target.querySelector(".now"), now);
}

function message() {
  return element("p", { class: "message", hidden: true });
}

function setMessage(target, text, tone) {
  setAttribute(target, "hidden", text ? null : "");
  setAttribute(target, "data-tone", tone);
  setText(target, text ?? "");
}

export function updateInformers(snapshot, rates, series) {
  const container = document.getElementById("informers");
  const create = (informer) => {
    const created = card("informer", "events a second", INFORMER, informer === snapshot.informers[0]);
    created.lastElementChild.append(
      message(), element("p", { class: "line" }),
      table("handlers", "Handlers", HANDLERS), table("lists", "Lists, newest first", RELISTS),
    );
    return created;
  };
  keyed(container, snapshot.informers, (it) => it.id, create, (target, it) => {
    setCard(target, {
      name: it.name, kind: it.manager ? `${it.kind} · ${it.manager}` : it.kind, state: it.state, tone: it.tone,
      facts: [format.count(it.objects), it.bytes == null ? "not measured" : format.bytes(it.bytes), it.resource_version || "–", format.ago(it.last_event_ms)],
      samples: series.last(`i${it.id}`), now: format.rate(rates.informers.get(it.id)?.received),
    });
    if (!isLookedAt(target)) return;
    const [problem, line, handlers, relists] = target.lastElementChild.children;
    setMessage(problem, it.problem && `${it.problem.message} (for ${format.duration(it.problem.since_ms)}, ${format.plural(it.problem.count, "failure")}${it.retry_in_ms == null ? "" : `, next attempt in ${format.duration(it.retry_in_ms)}`})`, it.tone);
    setText(line, watchLine(it));
    fillTable(handlers, HANDLERS, it.handlers.map(handlerRow));
    fillTable(relists, RELISTS, it.history.map(relistRow));
  });
  show("informers-section", snapshot.informers.length);
}

function watchLine(informer) {
  const { requested, interrupted, last_interruption: last } = informer.watch;
  const parts = [`${informer.resource} watched ${requested === 1 ? "once" : `${format.count(requested)} times`}`];
  parts.push(interrupted ? `${format.count(interrupted)} of the watches interrupted` : "never interrupted");
  if (last) parts.push(`last ${format.ago(last.ago_ms)}: ${last.message}`);
  if (informer.rewinds) parts.push(`history went backwards ${format.plural(informer.rewinds, "time")}`);
  if (informer.undecodable) parts.push(`${format.plural(informer.undecodable, "object")} cannot be decoded`);
  return `${parts.join("; ")}.`;
}

function handlerRow(it) {
  const late = it.oldest_ms > 1000 ? "warn" : null;
  return {
    key: it.id,
    cells: [it.name, [format.count(it.pending), late], [it.pending ? format.duration(it.oldest_ms) : "–", late], format.count(it.received), format.count(it.delivered), format.count(it.merged), [format.count(it.panics), it.panics ? "bad" : null]],
  };
}

function relistRow(it) {
  const tone = it.reason === "start" ? null : "warn";
  return {
    key: it.number,
    cells: [format.ago(it.ago_ms), [it.text, tone], format.count(it.objects), format.duration(it.took_ms), it.resource_version, it.message ?? ""],
  };
}

export function updateQueues(snapshot, rates, series) {
  const container = document.getElementById("queues");
  const sinks = sinksOf(snapshot);
  const create = (sink) => {
    const created = card("queue", sink.controller ? "reconciles a second" : "keys taken a second", sink.controller ? CONTROLLER : QUEUE, sink === sinks[0]);
    created.lastElementChild.append(message(), element("p", { class: "line" }), table("keys", "Keys in flight and waiting for a retry", KEYS), element("p", { class: "line none", hidden: true }));
    return created;
  };
  keyed(container, sinks, (it) => it.key, create, (target, sink) => {
    const { work, controller } = sink;
    const failing = rates.failures.get(sink.key) > 0;
    const last = controller ? format.count(controller.failures) : format.count(work.added);
    const isStandby = controller?.role === "standby";
    setCard(target, {
      name: sink.name, kind: controller ? kindOf(controller) : "queue",
      state: work.stopping ? "shutting down" : failing ? "failing" : isStandby ? "standby" : controller && !controller.started ? "waiting to start" : work.held ? "working" : "idle",
      tone: work.stopping || failing ? "warn" : controller && !controller.started ? "wait" : "ok",
      facts: [format.count(work.ready), format.count(work.delayed), format.count(work.held), last],
      samples: series.last(sink.key), now: format.rate(rates.taken.get(sink.key)),
    });
    if (!isLookedAt(target)) return;
    const [problem, line, keys, none] = target.lastElementChild.children;
    setMessage(problem, null);
    setText(line, queueLine(sink));
    fillTable(keys, KEYS, work.keys.map((it) => keyRow(it, controller)));
    setAttribute(none, "hidden", work.keys.length ? "" : null);
    setText(none, "No key is in flight or waits for a retry.");
  });
  show("queues-section", sinks.length);
}

function kindOf(controller) {
  if (!controller.manager) return "controller";
  return controller.role === "leader" ? `controller · ${controller.manager}, leader` : `controller · ${controller.manager}`;
}

function queueLine({ work, controller }) {
  const parts = [`${format.plural(work.added, "key")} added, ${format.count(work.taken)} taken`];
  if (controller) {
    parts.unshift(`${format.plural(controller.workers, "worker")}, fed by ${controller.informers.join(", ") || "no informer"}`);
    const mean = controller.reconciles ? controller.busy_ms / controller.reconciles : null;
    parts.push(`${format.plural(controller.reconciles, "reconcile")}, ${format.duration(mean)} each on average`);
  }
  const hidden = work.held + work.delayed - work.keys.length;
  if (hidden > 0) parts.push(`${format.plural(hidden, "key")} not listed`);
  return `${parts.join("; ")}.`;
}

/** What is shown instead of causes that were not recorded, because no one looked yet. */
const BEFORE_THE_FIRST_LOOK = "not known: it began before the first look at this page";

function keyRow(it, controller) {
  const time = it.for_ms != null ? format.duration(it.for_ms) : it.due_ms != null ? `in ${format.duration(it.due_ms)}` : "–";
  return {
    key: `${it.state}/${it.key}`,
    cells: [it.key, [it.state, it.attempts > 0 ? "warn" : null], time, [format.count(it.attempts), it.attempts > 0 ? "warn" : null], it.causes ?? (controller && it.state.startsWith("in flight") ? BEFORE_THE_FIRST_LOOK : "")],
  };
}

export function updateChannels(snapshot, rates, series) {
  const container = document.getElementById("channels");
  const create = (channel) => {
    const created = card("channel", "calls a second", CHANNEL, channel === snapshot.channels[0]);
    created.lastElementChild.append(message(), table("endpoints", "Endpoints", ENDPOINTS), element("p", { class: "line none", hidden: true }), element("p", { class: "line latency" }));
    return created;
  };
  keyed(container, snapshot.channels, (it) => it.id, create, (target, it) => {
    setCard(target, {
      name: it.name, kind: it.target, state: it.state, tone: it.tone,
      facts: [`${it.ready} of ${it.total}`, format.count(it.calls), format.count(it.in_flight), format.count(it.failures)],
      samples: series.last(`g${it.id}`), now: format.rate(rates.channels.get(it.id)),
    });
    if (!isLookedAt(target)) return;
    const [problem, endpoints, none, latency] = target.lastElementChild.children;
    setMessage(problem, it.problem, "warn");
    fillTable(endpoints, ENDPOINTS, it.endpoints.map((endpoint) => endpointRow(endpoint, rates.shares.get(`${it.id}/${endpoint.id}`))));
    for (const cell of endpoints.querySelectorAll("td.share")) {
      cell.style.setProperty("--share", (parseInt(cell.textContent, 10) || 0) / 100);
    }
    const rest = it.total - it.endpoints.length;
    setAttribute(none, "hidden", it.total === 0 || rest > 0 ? null : "");
    setText(none, rest > 0 ? `${format.plural(rest, "endpoint")} not listed.` : "There is no endpoint.");
    setText(latency, latencyLine(it));
  });
  show("channels-section", snapshot.channels.length);
}

/** What the column of latencies means: only one policy of channels needs them, and measures them. */
function latencyLine(channel) {
  return channel.measures_latency
    ? "Peak latency: a slow response raises it at once, and it decays from then on. An endpoint that was not called has none."
    : "Latencies are not measured: the policy of this channel does not need them. Channels with the policy PeakEwma show them.";
}

function endpointRow(it, share) {
  const state = it.ejected ? "ejected" : it.healthy ? it.state : `${it.state}, unhealthy`;
  return {
    key: it.id,
    cells: [it.id, [state, it.tone], share == null ? "–" : format.percent(share), format.count(it.calls), format.count(it.in_flight), [format.count(it.failures), it.failures ? "warn" : null], it.latency_ms == null ? "–" : format.duration(it.latency_ms), it.error ?? ""],
  };
}

function show(section, count) {
  setAttribute(document.getElementById(section), "hidden", count ? null : "");
}
