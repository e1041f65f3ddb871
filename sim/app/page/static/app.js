// The live page of a served cluster: logs in, follows the changes, and steers by the control API.

import * as api from "./api.js";
import { $, dot, el, link, table, tabs } from "./dom.js";
import { Grid, Lanes, colorOf, readColors } from "./draw.js";
import { Model, clock } from "./model.js";
import { Panels } from "./panels.js";

const model = new Model();
const grid = new Grid($("grid"));
const lanes = new Lanes($("timeline"));
let past = null; // the state of an earlier instant, and that instant
let dirty = true;
let chosenNode = "";

const view = {
  model,
  state: () => (past ? past.state : model.live),
  say: (text) => { $("notice").textContent = text; },
  async act(call) {
    view.say("");
    try {
      return await call();
    } catch (problem) {
      if (problem.code === 401) logOut("The session has ended: log in again.");
      view.say(problem.message);
      return null;
    }
  },
};
const panels = new Panels(view, $("panel"), openDetails);

// --- login ------------------------------------------------------------------------------------------

async function begin() {
  const code = new URLSearchParams(location.hash.slice(1)).get("code");
  if (code) {
    history.replaceState(null, "", location.pathname);
    try {
      await api.login(code);
    } catch (problem) {
      logOut(problem.message);
      return;
    }
  }
  if (api.hasToken()) start();
  else logOut("");
}

function logOut(why) {
  api.setToken("");
  $("main").hidden = true;
  $("login").hidden = false;
  $("login-error").textContent = why;
  $("token").focus();
}

$("login-form").addEventListener("submit", (event) => {
  event.preventDefault();
  api.setToken($("token").value.trim());
  start();
});

async function start() {
  let state;
  try {
    state = await api.get("/state");
  } catch (problem) {
    logOut(problem.message);
    return;
  }
  $("scenario").textContent = `${state.scenario}, seed ${state.seed}`;
  $("login").hidden = true;
  $("main").hidden = false;
  readColors();
  drawLegend();
  for (;;) {
    try {
      await api.follow((message) => {
        model.take(message);
        dirty = true;
      });
      view.say("The server has ended the connection; trying again.");
    } catch (problem) {
      if (problem.code === 401 || problem.code === 403) {
        logOut(problem.message);
        return;
      }
      view.say("The server does not answer; trying again.");
    }
    await new Promise((resolve) => setTimeout(resolve, 2000));
  }
}

// --- drawing ----------------------------------------------------------------------------------------

let drawnPanel = 0;
function frame(now) {
  if (!$("main").hidden) {
    const moving = !model.time.paused;
    $("virtual").textContent = clock(past ? past.us : model.now());
    if (dirty || moving) {
      if (dirty && !$("grid").hidden) grid.draw(view.state(), false);
      lanes.draw(model, view.state(), past ? past.us : model.now());
      const slider = $("timeline");
      slider.setAttribute("aria-valuemax", String(Math.round(model.now() / 1e6)));
      slider.setAttribute("aria-valuenow", String(Math.round((past ? past.us : model.now()) / 1e6)));
      slider.setAttribute("aria-valuetext", clock(past ? past.us : model.now()));
    }
    if (dirty && now - drawnPanel > 250) {
      drawnPanel = now;
      panels.refresh();
      drawFigures();
      if (!$("list").hidden) drawList();
      dirty = false;
    }
  }
  requestAnimationFrame(frame);
}

function drawFigures() {
  const { time } = model;
  const last = model.rates.at(-1);
  const before = model.rates.at(-6) || model.rates[0];
  const rate = last && before && last[0] > before[0] ? ((last[1] - before[1]) / ((last[0] - before[0]) / 1e6)).toFixed(1) : "0";
  const figures = [["nodes ready", `${time.ready}/${time.nodes}`], ["pods running", `${time.running}/${time.pods}`], ["requests/s", rate], ["faults", time.faults.length], ["events", time.events]];
  $("figures").replaceChildren(...figures.map(([name, value]) => el("div", {}, el("dt", {}, name), el("dd", {}, value ?? 0))));
  $("toggle").textContent = time.paused ? "Resume" : "Pause";
  const held = time.held_by?.length ? `held by ${time.held_by.join(", ")}` : "";
  $("pace-shown").textContent = held || (time.paused ? "paused" : time.pace === "max" ? "as fast as possible" : `pace ${time.pace}`);
  const pace = $("pace");
  if (document.activeElement !== pace) {
    const value = String(time.pace);
    if (![...pace.options].some((option) => option.value === value)) pace.append(el("option", { value }, value));
    pace.value = value;
  }
}

function drawLegend() {
  const states = ["ready", "not ready", "unknown", "cordoned", "pending", "terminating", "failed"];
  $("legend").replaceChildren(...states.flatMap((state) => [dot(colorOf(state)), `${state} `]));
}

function drawList() {
  const filter = $("filter").value;
  const rows = [...view.state().nodes].filter(([name]) => name.includes(filter)).sort(([a], [b]) => a.localeCompare(b, "en", { numeric: true }));
  const cells = rows.slice(0, 300).map(([name, node]) => [link(name, () => openDetails("node", "", name)), node.zone, el("span", {}, dot(colorOf(node.state)), node.state), [...node.pods.values()].length]);
  const more = rows.length > 300 ? [el("p", { class: "soft" }, `${rows.length - 300} more: filter them`)] : [];
  $("list").replaceChildren(table(["node", "zone", "state", "pods"], cells), ...more);
}

matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
  readColors();
  drawLegend();
  dirty = true;
});
new ResizeObserver(() => { dirty = true; }).observe($("grid"));

// --- time -------------------------------------------------------------------------------------------

const toggle = () => view.act(() => api.post(model.time.paused ? "/time/resume" : "/time/pause"));
const step = () => view.act(() => api.post("/time/step", { events: 1 }));
const setPace = (value) => view.act(() => api.put("/time/pace", { pace: value === "max" ? value : Number(value) }));
$("toggle").addEventListener("click", toggle);
$("step").addEventListener("click", step);
$("pace").addEventListener("change", (event) => setPace(event.target.value));
$("until-form").addEventListener("submit", async (event) => {
  event.preventDefault();
  const text = $("until").value.trim();
  if (!text) return;
  const isTime = /^[\d.]+(h|m|s|ms)([\d.]+(m|s|ms))*$/.test(text);
  const found = await view.act(() => api.post("/time/run", { ...(isTime ? { until: text } : { condition: text }), fast: true }));
  if (found) view.say(found.reached ? `reached at ${clock(found.virtual_us)}` : "not reached");
});
$("save").addEventListener("click", async () => {
  const text = await view.act(() => api.text("/scenario?name=saved"));
  if (text === null) return;
  const url = URL.createObjectURL(new Blob([text], { type: "application/yaml" }));
  el("a", { href: url, download: "scenario.yaml" }).click();
  URL.revokeObjectURL(url);
});

function faster(by) {
  const options = [...$("pace").options];
  const index = options.findIndex((option) => option.value === String(model.time.pace)) + by;
  if (options[index]) setPace(options[index].value);
}

document.addEventListener("keydown", (event) => {
  if ($("main").hidden || event.target.closest("input, select, textarea, dialog") || event.ctrlKey || event.metaKey || event.altKey) return;
  const act = { " ": event.target.closest("button") ? null : toggle, ".": step, "+": () => faster(1), "-": () => faster(-1), "/": () => $("filter").focus() }[event.key];
  if (act) {
    event.preventDefault();
    act();
  }
});

// --- nodes ------------------------------------------------------------------------------------------

$("filter").addEventListener("input", (event) => {
  grid.filter = event.target.value;
  dirty = true;
});
$("as-list").addEventListener("click", (event) => {
  const shown = $("list").hidden;
  $("list").hidden = !shown;
  $("grid").hidden = shown;
  event.target.setAttribute("aria-pressed", String(shown));
  if (shown) drawList();
  dirty = true;
});
$("grid").addEventListener("click", (event) => {
  const index = grid.find(event.offsetX, event.offsetY);
  if (index < 0) return;
  grid.chosen = index;
  choose(grid.places[index].name);
  openDetails("node", "", grid.places[index].name);
});
$("grid").addEventListener("keydown", (event) => {
  if (event.key === "Enter" && chosenNode) openDetails("node", "", chosenNode);
  const name = grid.move(event.key);
  if (name) {
    event.preventDefault();
    choose(name);
  }
});
$("grid").addEventListener("dragover", (event) => event.preventDefault());
$("grid").addEventListener("drop", (event) => {
  event.preventDefault();
  const place = grid.places[grid.find(event.offsetX, event.offsetY)];
  const kind = event.dataTransfer.getData("text/plain");
  if (place && panels.kinds?.[kind]) panels.ask(kind, { nodes: event.shiftKey && place.zone ? { zone: place.zone } : { name: place.name }, node: place.name, actor: place.name });
});

function choose(name) {
  chosenNode = name;
  const node = view.state().nodes.get(name);
  $("chosen").textContent = node ? `${name}, zone ${node.zone || "none"}, ${node.state}, ${node.pods.size} pods` : "";
  dirty = true;
}

// --- the past ---------------------------------------------------------------------------------------

let looking = 0;
async function look(us) {
  const number = (looking += 1);
  if (!model.whole) {
    const found = await view.act(() => api.get("/history"));
    if (!found) return;
    model.remember(found.rows);
  }
  if (number !== looking) return;
  past = { us, state: model.at(us) };
  $("live").setAttribute("aria-pressed", "false");
  $("shown-at").textContent = `the cluster at ${clock(us)}`;
  dirty = true;
}
function live() {
  looking += 1;
  past = null;
  $("live").setAttribute("aria-pressed", "true");
  $("shown-at").textContent = "";
  dirty = true;
}
$("live").addEventListener("click", live);
$("timeline").addEventListener("pointerdown", (event) => {
  $("timeline").setPointerCapture(event.pointerId);
  look(lanes.instant(event.offsetX));
});
$("timeline").addEventListener("pointermove", (event) => {
  if (event.buttons) look(lanes.instant(event.offsetX));
});
$("timeline").addEventListener("keydown", (event) => {
  const steps = { ArrowLeft: -1e6, ArrowRight: 1e6, PageDown: -6e7, PageUp: 6e7 };
  if (event.key === "End" || event.key === "Escape") live();
  else if (event.key === "Home") look(0);
  else if (steps[event.key]) look(Math.min(model.now(), Math.max(0, (past ? past.us : model.now()) + steps[event.key])));
  else return;
  event.preventDefault();
});

// --- details ----------------------------------------------------------------------------------------

const PATHS = {
  node: "/api/v1/nodes/", pod: "/api/v1/namespaces/NS/pods/", deployment: "/apis/apps/v1/namespaces/NS/deployments/",
  replicaset: "/apis/apps/v1/namespaces/NS/replicasets/", statefulset: "/apis/apps/v1/namespaces/NS/statefulsets/",
  daemonset: "/apis/apps/v1/namespaces/NS/daemonsets/", job: "/apis/batch/v1/namespaces/NS/jobs/",
  lease: "/apis/coordination.k8s.io/v1/namespaces/NS/leases/",
};

function openDetails(kind, namespace, name) {
  const body = $("details-body");
  $("details-title").textContent = `${kind}/${name}${namespace ? ` in ${namespace}` : ""}`;
  const show = {
    Why: async () => {
      const query = new URLSearchParams({ target: `${kind}/${name}`, ...(namespace ? { namespace } : {}) });
      const found = await api.get(`/why?${query}`);
      const cells = found.chain.map((line) => [el("td", { class: "at" }, clock(line.at_us)), line.actor, line.text]);
      return [el("p", {}, found.title), table(["time", "process", "what happened"], cells)];
    },
    Pods: async () => {
      const state = view.state();
      const cells = [...(state.nodes.get(name)?.pods || [])].map(([key, pod]) => {
        const [own, podName] = key.split("/");
        return [link(key, () => openDetails("pod", own, podName)), el("span", {}, dot(colorOf(pod)), pod)];
      });
      return [cells.length ? table(["pod", "state"], cells) : el("p", { class: "soft" }, "no pods")];
    },
    Object: async () => [el("pre", {}, JSON.stringify(await api.object(PATHS[kind].replace("NS", encodeURIComponent(namespace)) + encodeURIComponent(name)), null, 2))],
    Events: async () => {
      const rows = view.state().events.filter((row) => row[4].toLowerCase() === `${kind}/${namespace}/${name}`.toLowerCase());
      return [rows.length ? table(["time", "reason", "message"], rows.map((row) => [el("td", { class: "at" }, clock(row[1])), row[3], row[5]])) : el("p", { class: "soft" }, "no events are known here")];
    },
    History: async () => {
      const key = kind === "node" ? name : `${namespace}/${name}`;
      if (!model.whole) model.remember((await api.get("/history")).rows);
      const rows = model.log.filter((row) => row[0] === kind && row[2] === key);
      return [table(["time", kind === "node" ? "zone" : "node", "state"], rows.map((row) => [el("td", { class: "at" }, clock(row[1])), row[3], row[4] || "removed"]))];
    },
  };
  const names = kind === "node" ? ["Why", "Pods", "Events", "History", "Object"] : kind === "pod" ? ["Why", "Events", "History", "Object"] : PATHS[kind] ? ["Why", "Events", "Object"] : ["Why", "Events"];
  const shown = tabs($("details-tabs"), body, names, async (tab) => {
    body.replaceChildren(el("p", { class: "soft" }, "…"));
    try {
      body.replaceChildren(...(await show[tab]()));
    } catch (problem) {
      body.replaceChildren(el("p", { class: "error" }, problem.message));
    }
  });
  shown("Why");
  if (!$("details").open) $("details").showModal();
}
$("details-close").addEventListener("click", () => $("details").close());

tabs($("tabs"), $("panel"), ["Faults", "Events", "Expectations", "Workloads", "Leaders"], (name) => panels.show(name))("Events");
requestAnimationFrame(frame);
begin();
