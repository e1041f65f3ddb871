// The pictures: nodes with their pods as a grid by zone, and the timeline of faults.

import { clock } from "./model.js";

const style = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const STATES = {
  ready: "--good", "not ready": "--not-ready", unknown: "--lost", cordoned: "--succeeded", running: "--good",
  pending: "--pending", terminating: "--leaving", failed: "--failed", succeeded: "--succeeded",
};
let colors = {};

export function readColors() {
  colors = { paper: style("--paper"), ink: style("--ink"), soft: style("--soft"), line: style("--line"), accent: style("--accent"), plain: style("--plain"), lost: style("--lost") };
  for (const [state, name] of Object.entries(STATES)) colors[state] = style(name);
}
export const colorOf = (state) => colors[state] || colors.plain;

function fitted(canvas) {
  const ratio = devicePixelRatio || 1;
  const { clientWidth: width, clientHeight: height } = canvas;
  if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(height * ratio)) {
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(height * ratio);
  }
  const context = canvas.getContext("2d");
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.clearRect(0, 0, width, height);
  return [context, width, height];
}

export class Grid {
  constructor(canvas) {
    this.canvas = canvas;
    this.places = []; // { name, x, y, size, zone }
    this.chosen = -1;
    this.filter = "";
  }

  // Where each node is drawn: zones one below the other, nodes in rows, as large as all fit.
  layout(state, width, height) {
    const zones = new Map();
    for (const [name, node] of state.nodes) {
      if (this.filter && !name.includes(this.filter)) continue;
      if (!zones.has(node.zone)) zones.set(node.zone, []);
      zones.get(node.zone).push(name);
    }
    const order = new Intl.Collator("en", { numeric: true }).compare;
    const named = [...zones].sort(([a], [b]) => order(a, b));
    for (const [, names] of named) names.sort(order);
    let size = 150;
    const rows = (edge) => named.reduce((sum, [, names]) => sum + Math.ceil(names.length / Math.max(1, Math.floor(width / edge))), 0);
    while (size > 3 && rows(size) * size + named.length * 18 > height) size *= 0.94;
    const across = Math.max(1, Math.floor(width / size));
    this.places = [];
    this.titles = [];
    let y = 0;
    for (const [zone, names] of named) {
      this.titles.push({ text: zone || "no zone", y: y + 13 });
      y += 18;
      names.forEach((name, index) => this.places.push({
        name, zone, size, x: (index % across) * size, y: y + Math.floor(index / across) * size,
      }));
      y += Math.ceil(names.length / across) * size;
    }
    this.across = across;
  }

  draw(state, changed) {
    const [context, width, height] = fitted(this.canvas);
    const key = `${width} ${height} ${this.filter} ${state.nodes.size}`;
    if (changed || key !== this.key) {
      this.layout(state, width, height);
      this.key = key;
    }
    context.fillStyle = colors.soft;
    context.font = "12px system-ui, sans-serif";
    for (const { text, y } of this.titles) context.fillText(text, 0, y);
    for (const place of this.places) this.node(context, place, state.nodes.get(place.name));
    const chosen = this.places[this.chosen];
    if (chosen) {
      context.strokeStyle = colors.ink;
      context.lineWidth = 2;
      context.strokeRect(chosen.x, chosen.y, chosen.size - 2, chosen.size - 2);
    }
  }

  node(context, { name, x, y, size }, node) {
    if (!node) return;
    const color = colorOf(node.state);
    const gap = size > 12 ? 4 : 1;
    const edge = size - gap;
    if (size < 26) { // one colour for the node, and a bar of pods that are not running
      context.fillStyle = color;
      context.fillRect(x, y, edge, edge);
      if (size > 8 && node.pods.size) {
        let bad = 0;
        for (const state of node.pods.values()) bad += state !== "running" && state !== "succeeded";
        context.fillStyle = colors.pending;
        if (bad) context.fillRect(x, y + edge * (1 - bad / node.pods.size), edge / 3, (edge * bad) / node.pods.size);
      }
      return;
    }
    context.fillStyle = color;
    context.globalAlpha = 0.22;
    context.fillRect(x, y, edge, edge);
    context.globalAlpha = 1;
    context.fillRect(x, y, edge, 4);
    const head = size > 56 ? 20 : 6;
    if (size > 56) {
      context.fillStyle = colors.ink;
      context.font = "11px system-ui, sans-serif";
      context.save();
      context.beginPath();
      context.rect(x, y, edge, head);
      context.clip();
      context.fillText(name, x + 4, y + 16);
      context.restore();
    }
    const room = edge - 6;
    const count = node.pods.size;
    if (!count) return;
    let square = 14;
    while (square > 2 && Math.floor(room / square) * Math.floor((edge - head - 4) / square) < count) square -= 1;
    const across = Math.max(1, Math.floor(room / square));
    let index = 0;
    for (const state of node.pods.values()) {
      context.fillStyle = colorOf(state);
      const px = x + 3 + (index % across) * square;
      const py = y + head + Math.floor(index / across) * square;
      if (py + square > y + edge) break;
      context.fillRect(px, py, square - 1, square - 1);
      index += 1;
    }
  }

  find(x, y) {
    return this.places.findIndex((place) => x >= place.x && x < place.x + place.size && y >= place.y && y < place.y + place.size);
  }

  move(key) {
    const step = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: this.across, ArrowUp: -this.across }[key];
    if (!step || !this.places.length) return null;
    this.chosen = Math.min(this.places.length - 1, Math.max(0, this.chosen + step));
    return this.places[this.chosen].name;
  }
}

export class Lanes {
  constructor(canvas) {
    this.canvas = canvas;
  }

  draw(model, state, shownUs) {
    const [context, width, height] = fitted(this.canvas);
    const end = Math.max(model.now(), 1e6);
    this.end = end;
    const x = (us) => (us / end) * (width - 2) + 1;
    context.font = "11px system-ui, sans-serif";
    const steps = [...model.live.steps];
    const lane = Math.max(5, Math.min(16, (height - 36) / Math.max(1, steps.length)));
    steps.forEach(([name, step], index) => {
      const y = (index * lane) % Math.max(lane, height - 36);
      context.fillStyle = colors.lost;
      context.globalAlpha = 0.8;
      context.fillRect(x(step.begin), y + 1, Math.max(3, x(step.end ?? (model.time.faults.some((one) => one.name === name) ? end : step.begin)) - x(step.begin)), lane - 2);
      context.globalAlpha = 1;
      if (lane > 10) {
        context.fillStyle = colors.ink;
        context.fillText(name, Math.min(x(step.begin) + 5, width - 70), y + lane - 4);
      }
    });
    this.rate(context, model, x, height);
    context.fillStyle = colors.soft;
    context.fillText("0", 1, height - 2);
    const text = clock(end);
    context.fillText(text, width - context.measureText(text).width - 1, height - 2);
    context.strokeStyle = colors.accent;
    context.lineWidth = 2;
    context.beginPath();
    context.moveTo(x(shownUs), 0);
    context.lineTo(x(shownUs), height - 14);
    context.stroke();
  }

  // Requests a second of virtual time, below the faults.
  rate(context, model, x, height) {
    const points = model.rates.slice(1).map(([us, count], index) => [us, (count - model.rates[index][1]) / Math.max(1e-6, (us - model.rates[index][0]) / 1e6)]);
    const most = Math.max(1, ...points.map(([, rate]) => rate));
    context.strokeStyle = colors.plain;
    context.lineWidth = 1;
    context.beginPath();
    points.forEach(([us, rate], index) => {
      const y = height - 15 - (rate / most) * 18;
      if (index) context.lineTo(x(us), y);
      else context.moveTo(x(us), y);
    });
    context.stroke();
  }

  instant(offsetX) {
    return Math.min(this.end, Math.max(0, ((offsetX - 1) / (this.canvas.clientWidth - 2)) * this.end));
  }
}
