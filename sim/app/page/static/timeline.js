// The timeline: marks, faults and verdicts at their instants, and below it the lanes of what went on.

import { colors, colorOfPart, fitted } from "./draw.js";
import { short } from "./model.js";

const FONT = "11px system-ui, sans-serif";
const HUES = ["--hue-1", "--hue-2", "--hue-3", "--hue-4", "--hue-5"];
const LABELS = 168; // pixels of the names at the left, where there is room
const WORKLOADS_MAX = 60; // lanes; those that lacked pods first

const short_of = (text, length = 26) => (text.length > length ? `${text.slice(0, length - 1)}…` : text);
const hue = (index) => getComputedStyle(document.documentElement).getPropertyValue(HUES[index % HUES.length]).trim();

// The scale of time that both canvases share.
export class Scale {
  constructor() {
    this.span = 0; // microseconds that are shown; 0 for all
    this.from = 0;
    this.to = 1e6;
    this.left = 0;
    this.width = 1;
  }

  fit(width, end, shown) {
    this.left = width > 640 ? LABELS : 0;
    this.width = Math.max(1, width - this.left - 2);
    this.end = Math.max(end, 1e6);
    this.to = this.span && this.span < this.end ? Math.min(this.end, Math.max(this.span, shown + this.span * (shown < end ? 0.5 : 0))) : this.end;
    this.from = this.span && this.span < this.end ? this.to - this.span : 0;
  }

  x(us) {
    return this.left + ((Math.min(this.to, Math.max(this.from, us)) - this.from) / (this.to - this.from)) * this.width;
  }

  instant(offsetX) {
    const at = this.from + ((offsetX - this.left) / this.width) * (this.to - this.from);
    return Math.min(this.end, Math.max(0, at));
  }

  // Round instants at which the axis is labelled.
  ticks() {
    const wanted = (this.to - this.from) / Math.max(2, this.width / 110);
    const steps = [1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1200, 1800, 3600, 7200, 14400, 28800, 86400].map((one) => one * 1e6);
    const step = steps.find((one) => one >= wanted) || Math.ceil(wanted / 86400e6) * 86400e6;
    const found = [];
    for (let us = Math.ceil(this.from / step) * step; us <= this.to; us += step) found.push(us);
    return found;
  }
}

function name(context, text, y, scale, height) {
  context.font = FONT;
  context.fillStyle = colors.soft;
  if (scale.left) context.fillText(short_of(text), 2, y + height / 2 + 4);
  else {
    context.globalAlpha = 0.95;
    context.fillStyle = colors.ink;
    context.fillText(short_of(text, 40), 3, y + 9);
    context.globalAlpha = 1;
  }
}

function cursor(context, scale, us, height) {
  if (us < scale.from || us > scale.to) return;
  context.strokeStyle = colors.accent;
  context.lineWidth = 2;
  context.beginPath();
  context.moveTo(scale.x(us), 0);
  context.lineTo(scale.x(us), height);
  context.stroke();
}

// Marks, verdicts and faults above the axis.
export class Timeline {
  constructor(canvas, scale) {
    this.canvas = canvas;
    this.scale = scale;
  }

  draw(model, shownUs) {
    const [context, width, height] = fitted(this.canvas);
    const { scale } = this;
    const now = model.now();
    scale.fit(width, now, shownUs);
    context.font = FONT;
    this.axis(context, height);
    if (scale.left) name(context, "marks, expectations", 0, scale, 18);
    this.verdicts(context, model, height);
    this.faults(context, model, now, height);
    this.marks(context, model, height);
    cursor(context, scale, shownUs, height - 14);
  }

  axis(context, height) {
    const { scale } = this;
    context.strokeStyle = colors.line;
    context.lineWidth = 1;
    context.fillStyle = colors.soft;
    for (const us of scale.ticks()) {
      const x = Math.round(scale.x(us)) + 0.5;
      context.beginPath();
      context.moveTo(x, 0);
      context.lineTo(x, height - 14);
      context.stroke();
      const text = short(us);
      const wide = context.measureText(text).width;
      context.fillText(text, Math.min(Math.max(scale.left, x - wide / 2), scale.left + scale.width - wide), height - 3);
    }
  }

  // A triangle where an expectation turned green or red.
  verdicts(context, model) {
    const { scale } = this;
    for (const { state, at_us: us } of model.judged) {
      if (us === null || us === undefined || us < scale.from || us > scale.to || !(state === "holds" || state === "failed")) continue;
      const x = scale.x(us);
      context.fillStyle = state === "holds" ? colors.good : colors.lost;
      context.beginPath();
      if (state === "holds") context.arc(x, 9, 5, 0, 2 * Math.PI);
      else for (const [dx, dy] of [[-6, 3], [6, 3], [0, 15]]) context.lineTo(x + dx, dy);
      context.fill();
    }
  }

  marks(context, model, height) {
    const { scale } = this;
    let free = scale.left;
    for (const [text, { kind, begin }] of model.live.steps) {
      if (kind !== "mark" || begin < scale.from || begin > scale.to) continue;
      const x = scale.x(begin);
      context.strokeStyle = colors.ink;
      context.lineWidth = 1;
      context.setLineDash([3, 2]);
      context.beginPath();
      context.moveTo(x, 0);
      context.lineTo(x, height - 14);
      context.stroke();
      context.setLineDash([]);
      const shown = short_of(text, 40);
      const wide = context.measureText(shown).width;
      const left = Math.min(x + 3, scale.left + scale.width - wide);
      if (left < free) continue;
      free = left + wide + 8;
      context.fillStyle = colors.paper;
      context.fillRect(left - 1, 1, wide + 2, 14);
      context.fillStyle = colors.ink;
      context.fillText(shown, left, 12);
    }
  }

  faults(context, model, now, height) {
    const { scale } = this;
    const lasting = new Set(model.time.faults.map((one) => one.name));
    const room = Math.max(1, Math.floor((height - 34) / 15));
    const busy = []; // to which x each row is taken
    if (scale.left) name(context, "faults and actions", 18, scale, 16);
    for (const [text, { kind, begin, end }] of model.live.steps) {
      const last = end ?? (lasting.has(text) ? now : begin);
      if (kind === "mark" || last < scale.from || begin > scale.to) continue;
      const x = scale.x(begin);
      const wide = Math.max(4, scale.x(last) - x);
      const shown = short_of(text);
      const label = context.measureText(shown).width;
      const inside = wide > label + 8;
      const right = inside ? x + wide : Math.min(x + wide + label + 8, scale.left + scale.width);
      let row = busy.findIndex((taken) => taken <= x);
      if (row < 0) row = busy.length < room ? busy.length : 0;
      busy[row] = right;
      const y = 19 + row * 15;
      context.fillStyle = end === null && !lasting.has(text) ? colors.plain : colors.lost;
      context.globalAlpha = inside ? 0.4 : 0.85;
      context.fillRect(x, y, wide, 13);
      context.globalAlpha = 1;
      context.fillStyle = colors.ink;
      if (inside) context.fillText(shown, x + 4, y + 10);
      else if (x + wide + label + 4 < scale.left + scale.width) context.fillText(shown, x + wide + 4, y + 10);
      else context.fillText(shown, Math.max(scale.left, x - label - 4), y + 10);
    }
  }
}

// One lane below the other: requests, leaders, processes, links, workloads.
export class Lanes {
  constructor(canvas, scale) {
    this.canvas = canvas;
    this.scale = scale;
    this.rows = []; // { y, height, text, about: instant to text }
  }

  // The lanes there are; sets the height of the canvas.
  layout(model) {
    const { lanes } = model;
    const extra = this.scale.left ? 0 : 11; // for the name above
    const rows = [];
    const add = (height, text, draw, about) => rows.push({ y: rows.reduce((sum, row) => sum + row.height, 0), height: height + extra, text, draw, about });
    if (lanes.requests.length) {
      const clients = this.clients(lanes.requests);
      add(46, `${model.counted}/s by client`, (...given) => this.requests(...given, lanes.requests, clients), (us) => about_requests(lanes.requests, us));
    }
    for (const [lease, series] of [...lanes.leader].sort()) add(15, `leader ${lease.split("/")[1]}`, (...given) => this.reigns(...given, series, model.time.renewed?.[lease], model.now()), (us) => `holder ${at(series, us)?.[1] || "nobody"}`);
    for (const kind of ["process", "link"]) {
      for (const [text, series] of lanes[kind]) if (series.some(([, state], index) => state !== "running" && state !== "open" && !(state === "down" && !index))) add(13, text, (...given) => this.states(...given, series), (us) => at(series, us)?.[1] ?? "");
    }
    const lack = ([, series]) => Math.max(0, ...series.map(([, available, wanted]) => (wanted ? 1 - available / wanted : 0)));
    const workloads = [...lanes.workload].sort((one, other) => lack(other) - lack(one) || one[0].localeCompare(other[0]));
    for (const [text, series] of workloads.slice(0, WORKLOADS_MAX)) add(20, text, (...given) => this.available(...given, series), (us) => { const point = at(series, us); return point && point[2] !== null ? `${point[1]} of ${point[2]} available` : "not there"; });
    this.rows = rows;
    const height = Math.max(20, rows.reduce((sum, row) => sum + row.height, 0) + 4);
    if (this.height !== height) this.canvas.style.height = `${(this.height = height)}px`;
  }

  draw(model, shownUs) {
    this.layout(model);
    const [context, , height] = fitted(this.canvas);
    const { scale } = this;
    for (const { y, height: tall, text, draw } of this.rows) {
      const top = scale.left ? y : y + 11;
      const deep = scale.left ? tall : tall - 11;
      draw(context, top + 1, deep - 3);
      name(context, text, y, scale, tall);
    }
    cursor(context, scale, shownUs, height);
  }

  // Call `take` with each piece of a series that is shown: its ends in pixels and its values.
  pieces(series, take) {
    const { scale } = this;
    for (let index = 0; index < series.length; index += 1) {
      const end = series[index + 1]?.[0] ?? scale.end;
      if (end < scale.from || series[index][0] > scale.to) continue;
      take(scale.x(series[index][0]), scale.x(Math.min(end, scale.end)), series[index]);
    }
  }

  states(context, y, height, series) {
    this.pieces(series, (left, right, [, state]) => {
      const fine = state === "running" || state === "open";
      context.fillStyle = colorOfPart(state);
      context.globalAlpha = fine ? 0.35 : 1;
      context.fillRect(left, y + (fine ? height / 3 : 0), Math.max(1, right - left), fine ? height / 3 : height);
    });
    context.globalAlpha = 1;
  }

  // Who led: a colour of each holder; nobody, or a lease that ran out, is empty with a red line.
  reigns(context, y, height, series, renewed, now) {
    const holders = [...new Set(series.map(([, holder]) => holder))];
    const { scale } = this;
    const none = (from, to) => {
      if (to < scale.from || from > scale.to || to <= from) return;
      context.fillStyle = colors.paper;
      context.fillRect(scale.x(from), y, scale.x(to) - scale.x(from), height);
      context.fillStyle = colors.lost;
      context.fillRect(scale.x(from), y + height / 2 - 1, Math.max(2, scale.x(to) - scale.x(from)), 3);
    };
    this.pieces(series, (left, right, [, holder]) => {
      if (!holder) return;
      context.fillStyle = hue(holders.indexOf(holder));
      context.globalAlpha = 0.5;
      context.fillRect(left, y, Math.max(1, right - left - 1), height);
      context.globalAlpha = 1;
      context.fillStyle = colors.ink;
      const shown = holder.split("_")[0];
      if (right - left > context.measureText(shown).width + 8) context.fillText(shown, left + 4, y + height - 2);
    });
    series.forEach(([us, holder, lapsed], index) => {
      const lasts = series[index - 1]?.[3] || 15e6;
      if (lapsed) none(lapsed + lasts, us);
      if (!holder) none(us, series[index + 1]?.[0] ?? now);
    });
    if (renewed && series.at(-1)?.[1]) none(renewed[0] + renewed[1], now);
  }

  // How many of the wanted pods are available; red is what lacks.
  available(context, y, height, series) {
    const most = Math.max(1, ...series.map(([, available, wanted]) => Math.max(available, wanted || 0)));
    this.pieces(series, (left, right, [, available, wanted]) => {
      if (wanted === null) return;
      const width = Math.max(1, right - left);
      const up = (available / most) * height;
      const all = (wanted / most) * height;
      context.fillStyle = colors.good;
      context.fillRect(left, y + height - up, width, up);
      context.fillStyle = colors.lost;
      if (all > up) context.fillRect(left, y + height - all, width, all - up);
    });
  }

  // The clients with the most requests; the others are one.
  clients(samples) {
    const counts = new Map();
    for (const [, , parts] of samples) for (const [client, , number] of parts) counts.set(client, (counts.get(client) || 0) + number);
    return [...counts].sort((one, other) => other[1] - one[1]).slice(0, HUES.length - 1).map(([client]) => client);
  }

  requests(context, y, height, samples, clients) {
    const { scale } = this;
    const shown = samples.filter(([from, to]) => to >= scale.from && from <= scale.to);
    const each = Math.max(1, Math.ceil(shown.length / scale.width)); // samples a pixel
    const columns = [];
    for (let index = 0; index < shown.length; index += each) {
      const part = shown.slice(index, index + each);
      const [from, to] = [part[0][0], part.at(-1)[1]];
      const rates = new Array(clients.length + 1).fill(0);
      for (const [, , parts] of part) for (const [client, , number] of parts) rates[(clients.indexOf(client) + clients.length + 1) % (clients.length + 1)] += number / Math.max(1e-6, (to - from) / 1e6);
      columns.push([from, to, rates]);
    }
    const most = Math.max(1, ...columns.map(([, , rates]) => rates.reduce((sum, rate) => sum + rate, 0)));
    const fills = [...clients, ""].map((_, index) => hue(index));
    for (const [from, to, rates] of columns) {
      let bottom = y + height;
      rates.forEach((rate, index) => {
        const tall = (rate / most) * (height - 14);
        context.fillStyle = fills[index];
        context.fillRect(scale.x(from), bottom - tall, Math.max(1, scale.x(to) - scale.x(from)), tall);
        bottom -= tall;
      });
    }
    context.fillStyle = colors.ink;
    const text = `${most.toFixed(0)}/s`;
    if (scale.left) context.fillText(text, scale.left - context.measureText(text).width - 4, y + 9);
    let left = scale.left + 4;
    [...clients, "others"].forEach((client, index) => {
      const label = short_of(client);
      const wide = context.measureText(label).width;
      if (left + wide + 20 > scale.left + scale.width) return;
      context.fillStyle = colors.paper;
      context.globalAlpha = 0.75;
      context.fillRect(left - 2, y, wide + 16, 12);
      context.globalAlpha = 1;
      context.fillStyle = fills[index];
      context.fillRect(left, y + 2, 8, 8);
      context.fillStyle = colors.ink;
      context.fillText(label, left + 11, y + 10);
      left += wide + 22;
    });
  }

  // What a point shows, in words.
  about(x, y) {
    const row = this.rows.find((one) => y >= one.y && y < one.y + one.height);
    return row && x >= this.scale.left ? `${row.text}: ${row.about(this.scale.instant(x))}` : "";
  }
}

// The last point of a series that is not later than an instant.
export function at(series, us) {
  let [low, high] = [0, series.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (series[middle][0] <= us) low = middle + 1;
    else high = middle;
  }
  return series[low - 1];
}

function about_requests(samples, us) {
  const found = samples.find(([from, to]) => from <= us && us < to);
  if (!found) return "not known";
  const [from, to, parts] = found;
  const counts = new Map();
  for (const [client, , number] of parts) counts.set(client, (counts.get(client) || 0) + number);
  return [...counts].sort((one, other) => other[1] - one[1]).slice(0, 5).map(([client, number]) => `${client} ${(number / ((to - from) / 1e6)).toFixed(1)}/s`).join(", ");
}
