// What is known of the cluster: rows of changes become the state at the present or at an earlier instant.

const LOG_MAX = 400_000;
const EVENTS_MAX = 500;
const SERIES_MAX = 20_000; // points of one lane
export const LANE_KINDS = ["workload", "leader", "process", "link", "requests", "step"];

let shapes = 0;

export class State {
  constructor() {
    this.shape = 0; // differs whenever there are other nodes, or in other zones
    this.nodes = new Map(); // name: { zone, state, pods: Map of name to state }
    this.pods = new Map(); // namespace/name: { node, state, workload }
    this.workloads = new Map(); // kind namespace/name: { available, wanted }
    this.leaders = new Map(); // namespace/lease: { holder, at, lapsed }
    this.processes = new Map(); // name: state
    this.links = new Map(); // one – other: state
    this.requests = []; // the last samples: [from, to, [client, code, number] of each]
    this.events = [];
    this.steps = new Map(); // name: { kind, begin, end }
  }

  take(row) {
    const [kind, at] = row;
    if (kind === "node") this.node(row[2], row[3], row[4]);
    else if (kind === "pod") this.pod(row[2], row[3], row[4], row[5]);
    else if (kind === "workload") row[4] === null ? this.workloads.delete(row[2]) : this.workloads.set(row[2], { available: row[3], wanted: row[4] });
    else if (kind === "leader") this.leaders.set(row[2], { holder: row[3], at, lapsed: row[4] });
    else if (kind === "process") this.processes.set(row[2], row[3]);
    else if (kind === "link") this.links.set(row[2], row[3]);
    else if (kind === "requests") kept(this.requests, [row[2], at, row[3]], 24);
    else if (kind === "step") this.step(row[2], row[3], row[4], at);
    else if (kind === "event") kept(this.events, row, EVENTS_MAX);
  }

  node(name, zone, state) {
    const known = this.nodes.get(name);
    if (!known || !state || known.zone !== zone) this.shape = shapes += 1;
    if (!state) this.nodes.delete(name);
    else if (known) Object.assign(known, { zone, state });
    else this.nodes.set(name, { zone, state, pods: this.podsOf(name) });
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

  figures() {
    let [ready, running] = [0, 0];
    for (const { state } of this.nodes.values()) ready += state === "ready" || state === "cordoned";
    for (const { state } of this.pods.values()) running += state === "running" || state === "not ready";
    return { nodes: this.nodes.size, ready, pods: this.pods.size, running };
  }
}

function kept(list, item, most) {
  list.push(item);
  if (list.length > 2 * most) list.splice(0, most);
}

// How values went over time, of each thing that has a lane: [instant, ...values] of each change.
class Lanes {
  constructor() {
    for (const kind of LANE_KINDS) this[kind] = kind === "requests" ? [] : new Map();
  }

  take(row) {
    const [kind, at] = row;
    if (kind === "requests") {
      if (!(at <= this.requests.at(-1)?.[1])) this.put(this.requests, [row[2], at, row[3]]);
    } else if (kind !== "step" && this[kind]) {
      const series = this[kind].get(row[2]) || this[kind].set(row[2], []).get(row[2]);
      if (!(at < series.at(-1)?.[0])) this.put(series, [at, ...row.slice(3)]);
    }
  }

  put(series, point) {
    series.push(point);
    if (series.length > SERIES_MAX) series.splice(0, SERIES_MAX / 2);
  }
}

export class Model {
  constructor() {
    this.live = new State();
    this.lanes = new Lanes();
    this.log = []; // rows in their order of time
    this.whole = false; // true once the log begins with the cluster
    this.time = { virtual_us: 0, pace: 1, paused: true, faults: [], requests: 0, renewed: {} };
    this.judged = [];
    this.rates = []; // [virtual us, requests so far]
    this.received = 0;
    this.counted = "requests"; // by client
  }

  take(message) {
    if (message.reset) {
      this.live = new State();
      this.lanes = new Lanes();
      this.log = [];
      this.whole = false;
    }
    for (const row of message.rows) {
      this.live.take(row);
      this.lanes.take(row);
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

  // Requests a second of virtual time, over the last seconds.
  rate() {
    const last = this.rates.at(-1);
    const before = this.rates.at(-6) || this.rates[0];
    return last && before && last[0] > before[0] ? (last[1] - before[1]) / ((last[0] - before[0]) / 1e6) : 0;
  }

  // The steps with an effect at an instant: an action without an effect that lasts has none.
  active(us) {
    const lasting = new Set(this.time.faults.map((one) => one.name));
    return [...this.live.steps].filter(([name, { begin, end }]) => begin <= us && (end === null ? lasting.has(name) : us < end))
      .map(([name, { kind, begin }]) => ({ name, kind, since_us: begin }));
  }

  // The state at an instant, from the log: on from the last one that was asked for, if it was earlier.
  at(us) {
    let found = this.past;
    if (!found || found.log !== this.log || us < found.us) found = this.past = { log: this.log, us: 0, next: 0, state: new State() };
    while (found.next < this.log.length && this.log[found.next][1] <= us) found.state.take(this.log[found.next++]);
    found.us = us;
    return found.state;
  }

  // Take the history of the cluster, to which the rows belong that came since.
  remember(rows) {
    const end = rows.at(-1)?.[1] ?? -1;
    this.log = [...rows, ...this.log.filter((row) => row[1] > end)];
    this.whole = true;
  }

  // Take the history of the lanes.
  rememberLanes(rows) {
    const now = this.lanes;
    this.lanes = new Lanes();
    for (const row of rows) this.lanes.take(row);
    const end = rows.at(-1)?.[1] ?? -1;
    for (const row of this.log) if (row[1] > end) this.lanes.take(row);
    for (const kind of LANE_KINDS) if (kind !== "requests") for (const [name, series] of now[kind]) if (!this.lanes[kind].has(name)) this.lanes[kind].set(name, series);
  }
}

export function clock(us) {
  const ms = Math.floor(us / 1000);
  const hours = Math.floor(ms / 3_600_000);
  const minutes = Math.floor(ms / 60_000) % 60;
  const seconds = ((ms % 60_000) / 1000).toFixed(3).padStart(6, "0");
  return hours ? `${hours}h${String(minutes).padStart(2, "0")}m${seconds}s` : `${minutes}m${seconds}s`;
}

// A time without the thousandths, for an axis.
export const short = (us) => clock(us).replace(/\.\d+s$/, "s").replace(/^0m/, "").replace(/^0(\d)/, "$1");
