// The last minute of each number: values as sampled, and rates of counters from successive
// snapshots. Bounded: a minute for each name, and names that are no longer sampled are dropped.

const WINDOW = 60_000;
/** The span over which a rate is averaged: long enough to be calm, short enough to be live. */
const RATE_SPAN = 2_000;

export class Series {
  #points = new Map();
  #seen = new Set();
  #now = 0;

  /** Begins a snapshot taken at `now`, in milliseconds of the server's clock. */
  begin(now) {
    // After a restart of the program its clock may be earlier: begin anew.
    if (now < this.#now) this.#points.clear();
    this.#now = now;
    this.#seen.clear();
  }

  /** Forgets the names that this snapshot did not have. */
  end() {
    for (const name of this.#points.keys()) {
      if (!this.#seen.has(name)) this.#points.delete(name);
    }
  }

  /** Adds a sample of a gauge. */
  gauge(name, value) {
    this.#add(name, value, value);
    return value;
  }

  /** Adds a sample of a counter, and returns its rate per second; null before there are two samples. */
  counter(name, value) {
    const points = this.#add(name, value, null);
    let first = points.length - 1;
    while (first > 0 && points[first].at > this.#now - RATE_SPAN) first -= 1;
    const last = points[points.length - 1];
    const elapsed = last.at - points[first].at;
    // A counter that went backwards belongs to a new source.
    const rate = elapsed > 0 ? Math.max(0, last.raw - points[first].raw) / (elapsed / 1000) : null;
    last.shown = rate;
    return rate;
  }

  /** Returns the samples of the last minute as [age in ms, value], oldest first. */
  last(name) {
    const known = (this.#points.get(name) ?? []).filter((it) => it.shown != null);
    return known.map((it) => [this.#now - it.at, it.shown]);
  }

  #add(name, raw, shown) {
    this.#seen.add(name);
    let points = this.#points.get(name);
    if (!points) this.#points.set(name, (points = []));
    if (points.length && points[points.length - 1].at === this.#now) points.pop();
    points.push({ at: this.#now, raw, shown });
    while (points[0].at < this.#now - WINDOW - RATE_SPAN) points.shift();
    return points;
  }
}

export { WINDOW };
