// Texts of numbers and times. Nothing here touches the document.

const UNITS = ["B", "KB", "MB", "GB", "TB"];

/** A count: exact up to 99,999, then with a letter. */
export function count(value) {
  if (value == null) return "–";
  if (value < 100_000) return Math.round(value).toLocaleString("en");
  if (value < 1e6) return `${Math.round(value / 1e3)} k`;
  if (value < 1e9) return `${(value / 1e6).toPrecision(3)} M`;
  return `${(value / 1e9).toPrecision(3)} G`;
}

export function bytes(value) {
  if (value == null) return "–";
  let unit = 0;
  while (value >= 1000 && unit < UNITS.length - 1) {
    value /= 1000;
    unit += 1;
  }
  return `${value >= 100 || unit === 0 ? Math.round(value) : value.toPrecision(2)} ${UNITS[unit]}`;
}

/** A rate per second. Small ones keep a decimal place, so that "0" means nothing at all. */
export function rate(value) {
  if (value == null || Number.isNaN(value)) return "–";
  if (value > 0 && value < 0.05) return "<0.1/s";
  if (value > 0 && value < 10) return `${value.toFixed(1)}/s`;
  return `${count(value)}/s`;
}

/** A rate with what is counted, in the plural. */
export function perSecond(value, noun) {
  return rate(value).replace("/s", ` ${noun}/s`);
}

/** A duration in milliseconds. */
export function duration(ms) {
  if (ms == null) return "–";
  if (ms < 1) return "<1 ms";
  if (ms < 1000) return `${Math.round(ms)} ms`;
  if (ms < 9950) return `${(ms / 1000).toFixed(1)} s`;
  if (ms < 60_000) return `${Math.round(ms / 1000)} s`;
  const minutes = Math.floor(ms / 60_000);
  if (minutes < 60) return `${minutes} min ${Math.floor(ms / 1000) % 60} s`;
  const hours = Math.floor(minutes / 60);
  return hours < 48 ? `${hours} h ${minutes % 60} min` : `${Math.floor(hours / 24)} days`;
}

/** The time since something happened. */
export function ago(ms) {
  if (ms == null) return "never";
  return ms < 1000 ? "just now" : `${age(ms)} ago`;
}

/** A duration in whole seconds, for texts that change as time passes. */
export function age(ms) {
  return ms < 60_000 ? `${Math.floor(ms / 1000)} s` : duration(ms);
}

export function clock(time) {
  return new Date(time).toLocaleTimeString("en-GB");
}

export function plural(value, one, many = `${one}s`) {
  return `${count(value)} ${value === 1 ? one : many}`;
}

export function percent(share) {
  return `${Math.round(share * 100)} %`;
}
