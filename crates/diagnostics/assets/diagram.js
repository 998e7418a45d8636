// The pipeline as it is: one lane for each informer, from the server to its handlers, then the work
// queues and reconcilers that the handlers feed, and a lane for each gRPC channel. Nodes are HTML;
// the edges between them are SVG, drawn where the nodes are. What an edge connects is known by ids:
// names may be equal. On narrow screens the lanes are stacked and have no edges.

import * as format from "./format.js";
import { element, keyed, setAttribute, setText, svg } from "./dom.js";
import { explanation } from "./explanations.js";

const HEADS = ["Server", "Reflector", "Delta queue", "Cache", "Handlers", "Work queue", "Reconciler"];
/** The most lanes, handlers of a lane and endpoints of a channel that are drawn; the rest is a number. */
const MAX_LANES = 24;
const MAX_HANDLERS = 6;
const MAX_ENDPOINTS = 6;
/** The distance of work queues, in pixels. */
const SINK_GAP = 10;
/** The time for which an interrupted watch is marked. */
const RECENT = 8_000;

const NARROW = matchMedia("(max-width: 1150px)");

export class Diagram {
  #root = document.getElementById("diagram");
  #stages = document.getElementById("stages");
  #edges = document.getElementById("edges");
  #server = node("server", "Server");
  #lanes = element("div", { class: "lanes" });
  #sinks = element("div", { class: "sinks" });
  #channels = element("div", { class: "lanes" });
  #more = element("p", { class: "more", hidden: true });
  /** What to connect: [from, to, rate, the class of a special edge]. */
  #links = [];
  /** The nodes that feed each work queue, by its key. */
  #feeds = new Map();

  constructor() {
    const heads = HEADS.map((title) => element("span", { class: "head", "aria-hidden": "true", title: explanation("pipeline", title) }, title));
    this.#stages.append(...heads, this.#server, this.#lanes, this.#sinks, this.#channels, this.#more);
    setText(this.#server.querySelector(".name"), "API server");
    new ResizeObserver(() => this.#arrange()).observe(this.#root);
  }

  update(snapshot, rates) {
    this.#links = [];
    const lanes = snapshot.informers.slice(0, MAX_LANES);
    let row = 2;
    const rows = new Map();
    for (const informer of lanes) {
      rows.set(informer.id, row);
      row += Math.max(1, Math.min(informer.handlers.length, MAX_HANDLERS));
    }
    // In the order of what feeds them, so that few edges cross.
    const sinks = byRow(sinksOf(snapshot), (sink) => feedRows(sink, lanes, rows));
    const informerRows = Math.max(row - 2, sinks.length ? 1 : 0);
    keyed(this.#lanes, lanes, (it) => it.id, createLane, (lane, it) => this.#updateLane(lane, it, rows.get(it.id), rates));
    keyed(this.#sinks, sinks, (it) => it.key, createSink, (sink, it) => this.#updateSink(sink, it, rates));
    place(this.#sinks, `2 / span ${Math.max(1, informerRows)}`);
    setAttribute(this.#sinks, "hidden", sinks.length ? null : "");
    row = 2 + informerRows;
    const channels = snapshot.channels;
    keyed(this.#channels, channels, (it) => it.id, createChannel, (lane, it) => this.#updateChannel(lane, it, row++, rates));
    this.#updateServer(snapshot, lanes.length ? informerRows : 0, rates);
    const hidden = snapshot.informers.length - lanes.length;
    setAttribute(this.#more, "hidden", hidden > 0 ? null : "");
    setText(this.#more, `and ${format.plural(hidden, "informer")} more, listed below`);
    this.#connectHandlers(lanes, sinks, rates);
    // After the layout that this update causes.
    requestAnimationFrame(() => this.#arrange());
  }

  #arrange() {
    this.#placeSinks();
    this.#drawEdges();
  }

  #updateServer(snapshot, rows, rates) {
    const total = snapshot.informers.reduce((sum, it) => sum + (rates.informers.get(it.id)?.received ?? 0), 0);
    place(this.#server, `2 / span ${Math.max(1, rows)}`);
    setAttribute(this.#server, "hidden", rows ? null : "");
    setLine(this.#server, 0, format.perSecond(total, "events"));
    setLine(this.#server, 1, `to ${format.plural(snapshot.informers.length, "informer")}`);
  }

  #updateLane(lane, informer, row, rates) {
    const [title, reflector, queue, cache, handlers] = lane.children;
    const rate = rates.informers.get(informer.id)?.received;
    const shown = informer.handlers.slice(0, MAX_HANDLERS);
    const span = `${row} / span ${Math.max(1, shown.length)}`;
    for (const it of [reflector, queue, cache]) place(it, span);
    setText(title, informer.manager ? `${informer.name} · ${informer.manager}` : informer.name);
    setName(reflector, informer.name, informer.manager);
    setAttribute(reflector, "data-tone", informer.tone);
    const cut = informer.watch.last_interruption;
    const isRecent = cut && cut.ago_ms < RECENT && informer.tone === "ok";
    setLine(reflector, 0, isRecent ? "watch was cut" : informer.state, isRecent ? "warn" : informer.tone);
    setLine(reflector, 1, format.perSecond(rate, "events"));
    const full = informer.queued / Math.max(1, informer.queue_capacity);
    setBar(queue, full);
    setLine(queue, 0, `${format.count(informer.queued)} waiting`, full > 0.5 ? "warn" : null);
    setLine(queue, 1, `of ${format.count(informer.queue_capacity)}`);
    const held = informer.bytes == null ? "" : `, ${format.bytes(informer.bytes)}`;
    setLine(cache, 0, `${format.plural(informer.objects, "object")}${held}`);
    setLine(cache, 1, informer.resource_version ? `version ${informer.resource_version}` : "no version yet");
    const update = (child, it) => {
      place(child, row + shown.indexOf(it));
      setName(child, it.name);
      const late = it.oldest_ms > 1000;
      setAttribute(child, "data-tone", late ? "warn" : "ok");
      setLine(child, 0, it.pending ? `${format.count(it.pending)} waiting` : "no backlog", late ? "warn" : null);
      setLine(child, 1, it.pending && it.oldest_ms != null ? `oldest ${format.duration(it.oldest_ms)}` : `${format.count(it.merged)} merged`);
      this.#links.push([cache, child, rates.handlers.get(it.id), null]);
    };
    keyed(handlers, shown, (it) => it.id, () => node("handler", "Handler"), update);
    const broken = informer.tone === "bad" ? "broken" : null;
    this.#links.push([this.#server, reflector, rate, broken], [reflector, queue, rate, null], [queue, cache, rate, null]);
  }

  #updateSink(sink, item, rates) {
    const [title, queue, reconciler] = sink.children;
    const { work, controller } = item;
    setText(title, controller?.manager ? `${item.name} · ${controller.manager}` : item.name);
    setName(queue, item.name, controller?.manager);
    setLine(queue, 0, `${format.count(work.ready)} ready`, work.ready > 1000 ? "warn" : null);
    setLine(queue, 1, `${format.count(work.delayed)} delayed`);
    setAttribute(reconciler, "hidden", controller ? null : "");
    const rate = rates.taken.get(item.key);
    if (!controller) {
      setLine(queue, 1, `${format.count(work.delayed)} delayed, ${format.count(work.held)} held`);
      return;
    }
    setName(reconciler, item.name, controller.manager);
    const failing = rates.failures.get(item.key) > 0;
    setAttribute(reconciler, "data-tone", failing ? "warn" : "ok");
    const state = controller.role ?? (controller.started ? "running" : "not started");
    setLine(reconciler, 0, state, controller.started ? "ok" : "wait");
    setLine(reconciler, 1, format.perSecond(rate, "reconciles"));
    setLine(reconciler, 2, `${work.held} of ${controller.workers} busy`);
    setAttribute(queue, "data-tone", "ok");
    this.#links.push([queue, reconciler, rate, controller.role === "standby" ? "idle" : null]);
  }

  #updateChannel(lane, channel, row, rates) {
    const [title, head, endpoints] = lane.children;
    setText(title, channel.name);
    place(head, row);
    place(endpoints, row);
    setName(head, channel.name);
    setAttribute(head, "data-tone", channel.tone);
    const rate = rates.channels.get(channel.id);
    setLine(head, 0, `${channel.ready} of ${format.plural(channel.total, "endpoint")} ready`, channel.tone);
    setLine(head, 1, format.perSecond(rate, "calls"));
    const shown = channel.endpoints.slice(0, MAX_ENDPOINTS);
    const update = (chip, it) => {
      setAttribute(chip, "data-tone", it.tone);
      setName(chip, it.id);
      const key = `${channel.id}/${it.id}`;
      const share = rates.shares.get(key);
      setLine(chip, 0, it.ejected ? "ejected" : it.state, it.tone);
      setLine(chip, 1, share == null ? "no calls yet" : `${format.percent(share)} of all calls`);
      setLine(chip, 2, format.rate(rates.endpoints.get(key)));
      chip.style.setProperty("--share", share ?? 0);
      this.#links.push([head, chip, rates.endpoints.get(key), it.tone === "bad" ? "broken" : null]);
    };
    keyed(endpoints, shown, (it) => it.id, () => node("endpoint", "Endpoint", 3), update);
    const rest = channel.total - shown.length;
    setAttribute(endpoints, "data-more", rest > 0 ? `and ${rest} more` : null);
  }

  #connectHandlers(lanes, sinks, rates) {
    const [laneNodes, sinkNodes] = [children(this.#lanes), children(this.#sinks)];
    this.#feeds = new Map();
    for (const { key, controller } of sinks) {
      const feeds = [];
      const queue = sinkNodes.get(key).children[1];
      const connect = (from, rate, special) => {
        feeds.push(from);
        this.#links.push([from, queue, rate, special]);
      };
      for (const informer of lanes) {
        const lane = laneNodes.get(String(informer.id));
        const [cache, handlers] = [lane.children[3], children(lane.lastElementChild)];
        const own = informer.handlers.filter((it) => controller?.handlers.includes(it.id));
        // A handler that is not drawn is behind its cache.
        for (const it of own) connect(handlers.get(String(it.id)) ?? cache, rates.handlers.get(it.id), null);
        // A standby has a cache and no handler at it yet.
        if (!own.length && controller?.informer_ids.includes(informer.id)) connect(cache, 0, "idle");
      }
      this.#feeds.set(key, feeds);
    }
  }

  /** Moves each work queue to the height of what feeds it, without overlaps. */
  #placeSinks() {
    if (NARROW.matches || !this.#root.offsetParent) return;
    const sinks = Array.from(this.#sinks.children);
    const heights = sinks.map((it) => it.offsetHeight);
    const needed = heights.reduce((sum, it) => sum + it + SINK_GAP, -SINK_GAP);
    this.#sinks.style.setProperty("--height", `${Math.max(0, needed)}px`);
    const frame = this.#sinks.getBoundingClientRect();
    let least = 0;
    const tops = sinks.map((sink, index) => {
      const rects = (this.#feeds.get(sink.dataset.key) ?? []).map((it) => it.getBoundingClientRect());
      const middles = rects.map((it) => (it.top + it.bottom) / 2 - frame.top);
      const middle = middles.reduce((sum, it) => sum + it, 0) / middles.length;
      const top = Math.max(least, middles.length ? middle - heights[index] / 2 : least);
      least = top + heights[index] + SINK_GAP;
      return top;
    });
    let most = frame.height;
    for (let index = sinks.length - 1; index >= 0; index -= 1) {
      const top = Math.max(0, Math.min(tops[index], most - heights[index]));
      sinks[index].style.setProperty("--top", `${Math.round(top)}px`);
      most = top - SINK_GAP;
    }
  }

  #drawEdges() {
    if (NARROW.matches || !this.#root.offsetParent) {
      this.#edges.replaceChildren();
      return;
    }
    const frame = this.#root.getBoundingClientRect();
    setAttribute(this.#edges, "viewBox", `0 0 ${frame.width} ${frame.height}`);
    const links = this.#links.filter(([from, to]) => !from.hidden && !to.hidden && from.isConnected && to.isConnected);
    while (this.#edges.children.length > links.length) this.#edges.lastElementChild.remove();
    while (this.#edges.children.length < links.length) this.#edges.append(svg("path"));
    links.forEach(([from, to, rate, special], index) => {
      const [a, b] = [from.getBoundingClientRect(), to.getBoundingClientRect()];
      const [x1, y1] = [a.right - frame.left, anchor(a, b) - frame.top];
      const [x2, y2] = [b.left - frame.left, anchor(b, a) - frame.top];
      const bend = Math.max(12, (x2 - x1) / 2);
      const path = this.#edges.children[index];
      const flat = Math.abs(y1 - y2) < 0.5;
      setAttribute(path, "d", flat ? `M${x1} ${y1}H${x2}` : `M${x1} ${y1}C${x1 + bend} ${y1} ${x2 - bend} ${y2} ${x2} ${y2}`);
      setAttribute(path, "class", special ?? (rate > 0 ? "moving" : "still"));
    });
  }
}

/** The height at which an edge leaves a node: level with its other end if that is beside the node. */
function anchor(rect, other) {
  const middle = (other.top + other.bottom) / 2;
  const isTall = rect.height > other.height * 2.5;
  return isTall ? Math.min(Math.max(middle, rect.top + 12), rect.bottom - 12) : (rect.top + rect.bottom) / 2;
}

/** Returns the rows of the nodes that feed a work queue. */
function feedRows({ controller }, lanes, rows) {
  const found = [];
  for (const informer of lanes) {
    const row = rows.get(informer.id);
    informer.handlers.slice(0, MAX_HANDLERS).forEach((it, index) => {
      if (controller?.handlers.includes(it.id)) found.push(row + index);
    });
    if (controller?.informer_ids.includes(informer.id)) found.push(row);
  }
  return found;
}

/** Sorts by the mean of the rows of each item; those without rows are last. */
function byRow(items, rowsOf) {
  const mean = (rows) => (rows.length ? rows.reduce((sum, it) => sum + it, 0) / rows.length : Infinity);
  const keys = new Map(items.map((it) => [it, mean(rowsOf(it))]));
  const compare = (a, b) => (keys.get(a) === keys.get(b) ? 0 : keys.get(a) < keys.get(b) ? -1 : 1);
  return items.toSorted(compare);
}

/** The work queues: those of controllers, and those that stand alone. */
export function sinksOf(snapshot) {
  const controllers = snapshot.controllers.map((it) => ({ key: `c${it.id}`, name: it.name, work: it.queue, controller: it }));
  return controllers.concat(snapshot.queues.map((it) => ({ key: `q${it.id}`, name: it.name, work: it })));
}

function node(kind, stage, lines = 2) {
  const texts = Array.from({ length: lines }, () => element("span", { class: "value" }));
  return element(
    "div",
    { class: `node ${kind}` },
    element("span", { class: "stage", title: explanation("pipeline", stage) ?? explanation("pipeline", `${stage}s`) }, stage),
    element("span", { class: "name" }),
    element("span", { class: "owner", hidden: true }),
    ...texts,
  );
}

function createLane() {
  const queue = node("queue", "Delta queue");
  queue.insertBefore(element("span", { class: "bar", "aria-hidden": "true" }, element("span")), queue.querySelector(".value"));
  setText(queue.querySelector(".name"), "deltas");
  const cache = node("cache", "Cache");
  setText(cache.querySelector(".name"), "cache");
  const title = element("h3", { class: "lane-title" });
  return element("div", { class: "lane" }, title, node("reflector", "Reflector"), queue, cache, element("div", { class: "handlers" }));
}

function createSink() {
  return element("div", { class: "sink" }, element("h3", { class: "lane-title" }), node("work", "Work queue"), node("reconciler", "Reconciler", 3));
}

function createChannel() {
  const title = element("h3", { class: "lane-title" });
  return element("div", { class: "lane grpc" }, title, node("channel", "gRPC channel"), element("div", { class: "endpoints" }));
}

/** Sets the name of a node, and the manager that it belongs to. */
function setName(target, name, owner = null) {
  const line = target.querySelector(".name");
  setText(line, name);
  // It may be cut.
  setAttribute(line, "title", name);
  const second = target.querySelector(".owner");
  setAttribute(second, "hidden", owner ? null : "");
  setText(second, owner ?? "");
}

function setLine(target, index, text, tone = null) {
  const line = target.querySelectorAll(".value")[index];
  setText(line, text);
  setAttribute(line, "data-tone", tone);
}

function setBar(target, share) {
  target.querySelector(".bar > span").style.width = `${share > 0 ? Math.min(100, Math.max(3, Math.round(share * 100))) : 0}%`;
}

/** Sets the row of a node in the grid. Narrow screens ignore it. */
function place(target, row) {
  target.style.setProperty("--row", String(row));
}

function children(container) {
  return new Map(Array.from(container.children, (it) => [it.dataset.key, it]));
}
