// The picture of the nodes with their pods, as a grid by zone, and the colours of states.

const style = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const STATES = {
  ready: "--good", "not ready": "--not-ready", unknown: "--lost", cordoned: "--succeeded", running: "--good",
  pending: "--pending", terminating: "--leaving", failed: "--failed", succeeded: "--succeeded",
  open: "--good", paused: "--not-ready", slow: "--pending", ending: "--leaving", down: "--lost", cut: "--lost",
};
const NAMED = ["paper", "ink", "soft", "line", "accent", "plain", "lost", "good", "raised"];
export const colors = {};

export function readColors() {
  for (const name of NAMED) colors[name] = style(`--${name}`);
  for (const [state, name] of Object.entries(STATES)) colors[state] = style(name);
}
export const colorOf = (state) => colors[state] || colors.plain;
// Of a process or a link: each hindrance without a colour of its own counts as not ready.
export const colorOfPart = (state) => colors[state] || colors["not ready"];

export function fitted(canvas) {
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

  // Where each node is drawn: zones side by side or one below the other, as large as all fit.
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
    const tall = (names, edge, wide) => 18 + Math.ceil(names.length / Math.max(1, Math.floor(wide / edge))) * edge;
    const beside = Math.max(1, Math.floor(width / Math.max(1, named.length)) - 8);
    const below = (edge) => named.reduce((sum, [, names]) => sum + tall(names, edge, width), 0);
    const highest = (edge) => Math.max(0, ...named.map(([, names]) => tall(names, edge, beside)));
    const fit = (edge, total) => (edge > 3 && total(edge) > height ? fit(edge * 0.94, total) : edge);
    const [size, columns] = [fit(150, below), fit(Math.min(150, beside), highest)];
    const side = named.length > 1 && columns > size * 1.1;
    this.places = [];
    this.titles = [];
    this.across = Math.max(1, Math.floor((side ? beside : width) / (side ? columns : size)));
    let y = 0;
    named.forEach(([zone, names], index) => this.zone(zone, names, side ? { x: index * (beside + 8), y: 0, width: beside, size: columns } : { x: 0, y, width, size }, (end) => { y = end; }));
  }

  zone(zone, names, { x, y, width, size }, ended) {
    const { across } = this;
    names.forEach((name, index) => this.places.push({
      name, zone, size, x: x + (index % across) * size, y: y + 18 + Math.floor(index / across) * size,
    }));
    const end = y + 18 + Math.ceil(names.length / across) * size;
    this.titles.push({ zone, text: zone ? `zone ${zone}` : "no zone", x, y, width, end });
    ended(end);
  }

  draw(state) {
    const [context, width, height] = fitted(this.canvas);
    const key = `${width} ${height} ${this.filter} ${state.shape}`;
    if (key !== this.key) {
      this.layout(state, width, height);
      this.key = key;
    }
    context.fillStyle = colors.soft;
    context.font = "12px system-ui, sans-serif";
    for (const { text, x, y, width } of this.titles) context.fillText(text.slice(0, 200), x, y + 13, width);
    this.color = "";
    for (const place of this.places) this.node(context, place, state.nodes.get(place.name));
    const chosen = this.places[this.chosen];
    if (chosen) this.frame(context, colors.ink, chosen.x, chosen.y, chosen.size - 2, chosen.size - 2);
    if (this.over?.place) this.frame(context, colors.accent, this.over.place.x, this.over.place.y, this.over.place.size - 2, this.over.place.size - 2);
    else if (this.over) this.frame(context, colors.accent, this.over.title.x + 1, this.over.title.y + 1, this.over.title.width - 2, this.over.title.end - this.over.title.y - 3);
  }

  frame(context, color, ...rectangle) {
    context.strokeStyle = color;
    context.lineWidth = 2;
    context.strokeRect(...rectangle);
  }

  node(context, { name, x, y, size }, node) {
    if (!node) return;
    const color = colorOf(node.state);
    const gap = size > 12 ? 4 : 1;
    const edge = size - gap;
    if (size < 26) { // one colour for the node, and a bar of pods that are not running
      if (this.color !== color) context.fillStyle = this.color = color;
      context.fillRect(x, y, edge, edge);
      if (size > 8 && node.pods.size) {
        let bad = 0;
        for (const state of node.pods.values()) bad += state !== "running" && state !== "succeeded";
        context.fillStyle = this.color = colors.pending;
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
      context.fillText(name.slice(0, 40), x + 4, y + 16);
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

  // What is at a point: a node, or its zone beside the nodes.
  target(x, y) {
    const place = this.places[this.find(x, y)];
    if (place) return { type: "node", name: place.name, place };
    const title = this.titles?.find((one) => y >= one.y && y < one.end && x >= one.x && x < one.x + one.width);
    return title ? { type: "zone", name: title.zone, title } : null;
  }

  move(key) {
    const step = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: this.across, ArrowUp: -this.across }[key];
    if (!step || !this.places.length) return null;
    this.chosen = Math.min(this.places.length - 1, Math.max(0, this.chosen + step));
    return this.places[this.chosen].name;
  }
}
