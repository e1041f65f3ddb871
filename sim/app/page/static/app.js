// The page: draws what is known of a cluster, live or of a finished run, and steers a live one.

import * as api from "./api.js";
import { Connection } from "./connection.js";
import { Details } from "./details.js";
import { $, dot, el, link, table, tabs } from "./dom.js";
import { Grid, colorOf, readColors } from "./draw.js";
import { LANE_KINDS, Model, clock } from "./model.js";
import { Panels } from "./panels.js";
import { Strip } from "./strip.js";
import { textOf } from "./targets.js";
import { Lanes, Scale, Timeline } from "./timeline.js";

const PANEL_MS = 250; // between two drawings of tables and lanes

const data = $("run-data"); // of a finished run, in its one file
const model = new Model();
const grid = new Grid($("grid"));
const scale = new Scale();
const timeline = new Timeline($("timeline"), scale);
const lanes = new Lanes($("lanes"), scale);
let past = null; // the state of an earlier instant, and that instant
let dirty = true; // tables and rows of the timeline
let stale = true; // the picture of the nodes
let chosenNode = "";

function touch() {
  dirty = stale = true;
}

const view = {
  model,
  file: data !== null,
  get past() { return past; },
  state: () => (past ? past.state : model.live),
  faults: () => (past ? model.active(past.us) : model.time.faults),
  say: (text) => { $("notice").textContent = text; },
  async act(call) {
    view.say("");
    try {
      return await call();
    } catch (problem) {
      if (problem.code === 401) connection.ended(problem);
      view.say(problem.code ? problem.message : "The server does not answer: nothing was done.");
      return null;
    }
  },
  // Make sure that the log begins with the cluster.
  async whole() {
    if (model.whole) return true;
    const found = await view.act(() => api.get("/history"));
    if (found) model.remember(found.rows);
    return found !== null;
  },
};
const details = new Details(view);
const panels = new Panels(view, $("panel"), (...object) => details.open(...object));
const showPanel = tabs($("tabs"), $("panel"), ["Faults", "Events", "Expectations", "Workloads", "Leaders", "Requests"], (name) => panels.show(name));
const strip = new Strip($("strip"), aim, drop);
const connection = new Connection(begun, take, view.say);

function begun(state) {
  $("scenario").textContent = `${state.scenario}, seed ${state.seed}`;
  $("login").hidden = true;
  $("main").hidden = false;
  readColors();
  drawLegend();
}

function take(message) {
  model.take(message);
  touch();
  if (message.reset && !view.file) rememberLanes();
}

async function rememberLanes() {
  try {
    model.rememberLanes((await api.get(`/history?kinds=${LANE_KINDS.join(",")}`)).rows);
    touch();
  } catch { /* the lanes begin now */ }
}

// --- drawing ----------------------------------------------------------------------------------------

let drawnPanel = -PANEL_MS;
function frame(now) {
  if (!$("main").hidden) {
    if (view.file) play(now);
    if (wanted !== null && model.whole) showPast();
    const us = shownUs();
    $("virtual").textContent = clock(us);
    if (stale && !$("grid").hidden) {
      grid.draw(view.state());
      stale = false;
    }
    const due = now - drawnPanel > PANEL_MS;
    if ((dirty && due) || (due && !model.time.paused)) drawLanes(us);
    if (dirty && due) {
      drawnPanel = now;
      panels.refresh();
      strip.draw(view.state());
      drawFigures();
      if (!$("list").hidden) drawList();
      dirty = false;
    }
  }
  requestAnimationFrame(frame);
}

const shownUs = () => (past ? past.us : model.now());

function drawLanes(us) {
  timeline.draw(model, us);
  lanes.draw(model, us);
  const slider = $("timeline");
  slider.setAttribute("aria-valuemax", String(Math.round(model.now() / 1e6)));
  slider.setAttribute("aria-valuenow", String(Math.round(us / 1e6)));
  slider.setAttribute("aria-valuetext", clock(us));
}

function drawFigures() {
  const { time } = model;
  const { nodes, ready, pods, running } = past || view.file ? view.state().figures() : time;
  const figures = [["nodes ready", `${ready ?? 0}/${nodes ?? 0}`], ["pods running", `${running ?? 0}/${pods ?? 0}`], ["faults", view.faults().length]];
  if (!past && !view.file) figures.push(["requests/s", model.rate().toFixed(1)], ["events", time.events ?? 0]);
  $("figures").replaceChildren(...figures.map(([name, value]) => el("div", {}, el("dt", {}, name), el("dd", {}, value))));
  if (view.file) return;
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
  $("legend").replaceChildren(...states.map((state) => el("span", {}, dot(colorOf(state)), state)));
}

function drawList() {
  const filter = $("filter").value;
  const rows = [...view.state().nodes].filter(([name]) => name.includes(filter)).sort(([a], [b]) => a.localeCompare(b, "en", { numeric: true }));
  const cells = rows.slice(0, 300).map(([name, node]) => [link(name, () => details.open("node", "", name)), node.zone, el("span", {}, dot(colorOf(node.state)), node.state), node.pods.size]);
  const more = rows.length > 300 ? [el("p", { class: "soft" }, `${rows.length - 300} more: filter them`)] : [];
  $("list").replaceChildren(table(["node", "zone", "state", "pods"], cells), ...more);
}

matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
  readColors();
  drawLegend();
  strip.key = "";
  panels.shown = "";
  touch();
});
for (const id of ["grid", "lanes-box"]) new ResizeObserver(() => { touch(); }).observe($(id));

// --- time -------------------------------------------------------------------------------------------

const toggle = () => (view.file ? playOrStop() : view.act(() => api.post(model.time.paused ? "/time/resume" : "/time/pause")));
const step = () => view.act(() => api.post("/time/step", { events: 1 }));
const setPace = (value) => (view.file ? ($("pace").value = value) : view.act(() => api.put("/time/pace", { pace: value === "max" ? value : Number(value) })));
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
$("mark-form").addEventListener("submit", async (event) => {
  event.preventDefault();
  const name = $("mark").value.trim();
  if (!name || !(await view.act(() => api.post("/marks", { name })))) return;
  $("mark").value = "";
  view.say(`marked: ${name}`);
});
$("save").addEventListener("click", async () => {
  const text = await view.act(() => api.text("/scenario?name=saved"));
  if (text === null) return;
  const url = URL.createObjectURL(new Blob([text], { type: "application/yaml" }));
  el("a", { href: url, download: "scenario.yaml" }).click();
  setTimeout(() => URL.revokeObjectURL(url), 1000);
});

function faster(by) {
  const options = [...$("pace").options];
  const index = options.findIndex((option) => option.value === (view.file ? $("pace").value : String(model.time.pace))) + by;
  if (options[index]) setPace(options[index].value);
}

document.addEventListener("keydown", (event) => {
  if ($("main").hidden || event.target.closest("input, select, textarea, dialog") || event.ctrlKey || event.metaKey || event.altKey) return;
  const field = (id) => () => $(id).focus();
  const act = { " ": event.target.closest("button") ? null : toggle, ".": view.file ? null : step, "+": () => faster(1), "-": () => faster(-1), "/": field("filter"), m: view.file ? null : field("mark") }[event.key];
  if (act) {
    event.preventDefault();
    act();
  }
});

// --- nodes, and what a fault is aimed at --------------------------------------------------------------

function aim(target) {
  if (view.file) return;
  panels.target = target;
  showPanel("Faults");
  view.say(`target: ${textOf(target)}`);
}

async function drop(kind, target) {
  if (view.file || !target) return;
  panels.target = target;
  if (panels.name === "Faults") panels.aim(target);
  else await showPanel("Faults");
  panels.ask(kind, target);
}

$("filter").addEventListener("input", (event) => {
  grid.filter = event.target.value;
  touch();
});
$("as-list").addEventListener("click", (event) => {
  const shown = $("list").hidden;
  $("list").hidden = !shown;
  $("grid").hidden = shown;
  event.target.setAttribute("aria-pressed", String(shown));
  if (shown) drawList();
  touch();
});
$("grid").addEventListener("click", (event) => {
  const target = grid.target(event.offsetX, event.offsetY);
  if (target?.type === "zone" && target.name) aim({ type: "zone", name: target.name });
  if (target?.type !== "node") return;
  grid.chosen = grid.places.indexOf(target.place);
  choose(target.name);
  details.open("node", "", target.name);
});
$("grid").addEventListener("keydown", (event) => {
  if (event.key === "Enter" && chosenNode) {
    event.preventDefault(); // or it would press the button that the dialog focuses
    details.open("node", "", chosenNode);
  }
  if (event.key === "f" && chosenNode) aim({ type: "node", name: chosenNode });
  const name = grid.move(event.key);
  if (name) {
    event.preventDefault();
    choose(name);
  }
});
function over(target) {
  if (textOf(target || { type: "", name: "" }) === textOf(grid.over || { type: "", name: "" })) return;
  grid.over = target;
  touch();
}
$("grid").addEventListener("dragover", (event) => {
  event.preventDefault();
  over(grid.target(event.offsetX, event.offsetY));
});
$("grid").addEventListener("dragleave", () => over(null));
$("grid").addEventListener("drop", (event) => {
  event.preventDefault();
  const target = grid.target(event.offsetX, event.offsetY);
  over(null);
  if (target) drop(event.dataTransfer.getData("text/plain"), { type: target.type, name: target.name });
});

function choose(name) {
  chosenNode = name;
  const node = view.state().nodes.get(name);
  $("chosen").textContent = node ? `${name}, zone ${node.zone || "none"}, ${node.state}, ${node.pods.size} pods` : "";
  touch();
}

// --- the past ---------------------------------------------------------------------------------------

let wanted = null; // the instant to look at, in the next frame
async function look(us) {
  wanted = us;
  if (!(await view.whole())) wanted = null;
}

function showPast() {
  past = { us: wanted, state: model.at(wanted) };
  wanted = null;
  $("live").setAttribute("aria-pressed", "false");
  $("shown-at").textContent = `the cluster at ${clock(past.us)}`;
  document.body.classList.add("past");
  drawnPanel = Math.min(drawnPanel, performance.now() - PANEL_MS + 60);
  touch();
}

function live() {
  wanted = past = null;
  $("live").setAttribute("aria-pressed", "true");
  $("shown-at").textContent = "";
  document.body.classList.remove("past");
  touch();
}
$("live").addEventListener("click", live);
for (const id of ["timeline", "lanes"]) {
  const canvas = $(id);
  canvas.addEventListener("pointerdown", (event) => {
    if (event.pointerType === "touch" && id === "lanes") return; // scrolls
    canvas.setPointerCapture(event.pointerId);
    look(scale.instant(event.offsetX));
  });
  canvas.addEventListener("pointermove", (event) => {
    if (event.buttons && canvas.hasPointerCapture(event.pointerId)) look(scale.instant(event.offsetX));
    if (id === "lanes") $("lane-about").textContent = lanes.about(event.offsetX, event.offsetY);
  });
}
$("lanes").addEventListener("click", (event) => look(scale.instant(event.offsetX)));
$("lanes").addEventListener("pointerleave", () => { $("lane-about").textContent = ""; });
$("span").addEventListener("change", (event) => {
  scale.span = Number(event.target.value) * 1e6;
  touch();
});
$("timeline").addEventListener("keydown", (event) => {
  const steps = { ArrowLeft: -1e6, ArrowRight: 1e6, PageDown: -6e7, PageUp: 6e7 };
  if (event.key === "End" || event.key === "Escape") live();
  else if (event.key === "Home") look(0);
  else if (steps[event.key]) look(Math.min(model.now(), Math.max(0, (wanted ?? shownUs()) + steps[event.key])));
  else return;
  event.preventDefault();
});

// --- a finished run in one file -----------------------------------------------------------------------

let playing = 0; // when the last frame was drawn while it plays
function playOrStop() {
  playing = playing ? 0 : performance.now();
  if (playing && (!past || past.us >= model.now())) look(0);
  $("toggle").textContent = playing ? "Stop" : "Play";
}

function play(now) {
  if (!playing || !past) return;
  const pace = $("pace").value === "max" ? 3600 : Number($("pace").value);
  const us = past.us + Math.max(0, now - playing) * 1000 * pace;
  playing = now;
  if (us < model.now()) wanted = us;
  else {
    playing = 0;
    $("toggle").textContent = "Play";
    live();
  }
}

function openFile() {
  const run = JSON.parse(data.textContent);
  document.body.classList.add("file");
  $("live").textContent = "End";
  $("toggle").textContent = "Play";
  $("pace").value = "60";
  model.counted = "writes";
  begun(run);
  take({ rows: run.rows, time: run.time, judged: run.judged, reset: true });
  model.whole = true;
  view.say(run.note);
}

showPanel(view.file ? "Workloads" : "Events");
requestAnimationFrame(frame);
if (view.file) openFile();
else connection.begin();
