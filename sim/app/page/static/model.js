// What is known of the cluster: rows of changes become the state at the present or at an earlier instant.

const LOG_MAX = 400_000;
const EVENTS_MAX = 500;

export class State {
  constructor() {
    this.nodes = new Map(); // name: { zone, state, pods: Map of name to state }
    this.pods = new Map(); // namespace/name: { node, state, workload }
    this.leaders = new Map();
    this.events = [];
    this.steps = new Map(); // name: { kind, begin, end }
  }

  take(row) {
    const [kind, at] = row;
    if (kind === "node") this.node(row[2], row[3], row[4]);
    else if (kind === "pod") this.pod(row[2], row[3], row[4], row[5]);
    else if (kind === "leader") row[3] ? this.leaders.set(row[2], { holder: row[3], at }) : this.leaders.delete(row[2]);
    else if (kind === "step") this.step(row[2], row[3], row[4], at);
    else if (kind === "event") {
      this.events.push(row);
      if (this.events.length > 2 * EVENTS_MAX) this.events.splice(0, EVENTS_MAX);
    }
  }

  node(name, zone, state) {
    const known = this.nodes.get(name);
    if (!state) this.nodes.delete(name);
    else if (known) Object.assign(known, { zone, state });
    else this.nodes.set(name, { zone, state, pods: this.podsOf(name) });
    return !known || !state || known.zone !== zone;
  }

  podsOf(node) {
    const found = new Map();
    for (const [name, pod] of this.pods) if (pod.node === node) found.set(name, pod.state);
    return found;
  }

  pod(name, node, state, workload) {
    const before = this.pods.get(name);
    if (before) this.nodes.get(before.node)?.pods.delete(name);
    if (!state) {
      this.pods.delete(name);
      return;
    }
    this.pods.set(name, { node, state, workload });
    this.nodes.get(node)?.pods.set(name, state);
  }

  step(name, kind, what, at) {
    if (what === "begin") this.steps.set(name, { kind, begin: at, end: null });
    else if (this.steps.has(name)) this.steps.get(name).end = at;
  }
}

export class Model {
  constructor() {
    this.live = new State();
    this.log = []; // rows in their order of time
    this.whole = false; // true once the log begins with the cluster
    this.time = { virtual_us: 0, pace: 1, paused: true, faults: [], requests: 0 };
    this.judged = [];
    this.rates = []; // [virtual us, requests so far]
    this.received = 0;
  }

  take(message) {
    if (message.reset) {
      this.live = new State();
      this.log = [];
      this.whole = false;
    }
    for (const row of message.rows) {
      this.live.take(row);
      this.log.push(row);
    }
    if (this.log.length > LOG_MAX) {
      this.log.splice(0, LOG_MAX / 2);
      this.whole = false;
    }
    this.time = message.time;
    this.received = performance.now();
    if (message.judged) this.judged = message.judged;
    const last = this.rates.at(-1);
    if (!last || this.time.virtual_us - last[0] >= 1e6) this.rates.push([this.time.virtual_us, this.time.requests]);
    if (this.rates.length > 2000) this.rates.splice(0, 1000);
  }

  // Virtual time now, which passes between two messages at a pace.
  now() {
    const { virtual_us, pace, paused, goal_us } = this.time;
    if (paused || pace === "max") return virtual_us;
    const passed = virtual_us + (performance.now() - this.received) * 1000 * pace;
    return goal_us === null ? passed : Math.min(passed, goal_us);
  }

  // The state at an instant, from the log.
  at(us) {
    const state = new State();
    for (const row of this.log) {
      if (row[1] > us) break;
      state.take(row);
    }
    return state;
  }

  remember(rows) {
    this.log = rows;
    this.whole = true;
  }
}

export function clock(us) {
  const ms = Math.floor(us / 1000);
  const hours = Math.floor(ms / 3_600_000);
  const minutes = Math.floor(ms / 60_000) % 60;
  const seconds = ((ms % 60_000) / 1000).toFixed(3).padStart(6, "0");
  return hours ? `${hours}h${String(minutes).padStart(2, "0")}m${seconds}s` : `${minutes}m${seconds}s`;
}
