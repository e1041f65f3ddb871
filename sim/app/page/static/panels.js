// The panels beside the grid: faults, expectations, workloads, leaders, requests, events.

import * as api from "./api.js";
import { dot, el, link, table } from "./dom.js";
import { colorOf } from "./draw.js";
import { stepForm } from "./form.js";
import { clock } from "./model.js";
import { aimed, fits, targetNamed, targetsOf, textOf } from "./targets.js";

const at = (us) => el("td", { class: "at" }, clock(us));
const soft = (text) => el("p", { class: "soft" }, text);
const SHOWN = 200;
const RATE_US = 60e6; // over which requests a second are counted

export class Panels {
  constructor(view, panel, open) {
    this.view = view; // gives the model, and the state and the instant that are shown
    this.panel = panel;
    this.open = open; // opens the details of an object: (kind, namespace, name)
    this.kinds = null;
    this.shown = "";
    this.target = null; // at what a fault is aimed
  }

  async show(name) {
    this.name = name;
    this.shown = "";
    this.active = null;
    if (name === "Faults") await this.palette();
    else this.refresh();
  }

  refresh() {
    const make = { Events: this.events, Expectations: this.expectations, Workloads: this.workloads, Leaders: this.leaders, Requests: this.requests }[this.name];
    if (make) {
      const found = make.call(this);
      if (found.key !== this.shown) {
        this.shown = found.key;
        if (!this.panel.contains(document.activeElement?.closest("form"))) this.panel.replaceChildren(...found.parts);
        else this.shown = ""; // someone is writing in it
      }
    } else if (this.active) this.drawActive();
  }

  events() {
    const rows = this.view.state().events.slice(-SHOWN).reverse();
    const cells = rows.map(([, us, type, reason, object, message, count]) => {
      const [kind, namespace, name] = object.split("/");
      const about = name ? link(`${kind.toLowerCase()}/${name}`, () => this.open(kind.toLowerCase(), namespace, name)) : object;
      const said = el("span", { class: type === "Warning" ? "failed" : "" }, reason);
      return [at(us), el("td", {}, said, " ", about, el("div", {}, `${message}${count > 1 ? ` (${count} times)` : ""}`))];
    });
    return { key: `${rows.length} ${rows[0]?.[1]} ${rows[0]?.[4]}`, parts: [rows.length ? table(["time", "event"], cells) : soft("no events yet")] };
  }

  expectations() {
    const { judged } = this.view.model;
    const chain = (one) => (one.chain?.length ? [el("details", {}, el("summary", {}, "why"), table(["time", "process", "what happened"], one.chain.map((line) => [at(line.at_us), line.actor, line.text])))] : []);
    const cells = judged.map((one) => [el("td", { class: `${one.state} state` }, one.state, el("div", { class: "soft at" }, one.at_us === null || one.at_us === undefined ? "" : clock(one.at_us))), el("td", {}, one.name, ...chain(one)), one.measured, one.wanted]);
    return { key: JSON.stringify(judged), parts: [judged.length ? table(["", "expectation", "measured", "wanted"], cells) : soft("no expectations"), ...(this.view.file ? [] : [this.judgeForm()])] };
  }

  judgeForm() {
    const input = el("input", { id: "judge", placeholder: "all nodes are ready", required: true });
    const within = el("input", { id: "judge-within", placeholder: "30s, 50s; empty: at any time" });
    const kind = el("select", { id: "judge-kind" }, ...["when", "eventually", "never", "always"].map((one) => el("option", {}, one)));
    const error = el("p", { class: "error", role: "alert" });
    const form = el("form", { class: "fault" }, el("h3", {}, "Judge from now on"), el("label", { for: "judge-kind" }, "kind", kind), el("label", { for: "judge" }, "condition", input), el("label", { for: "judge-within" }, "within", within), el("p", {}, el("button", { type: "submit" }, "Add")), error);
    form.addEventListener("submit", async (event) => {
      event.preventDefault();
      try {
        const times = within.value.split(",").map((part) => part.trim()).filter(Boolean);
        await api.post("/expectations", { [kind.value]: input.value, ...(times.length ? { within: times.length > 1 ? times : times[0] } : {}) });
        document.activeElement?.blur();
      } catch (problem) {
        error.textContent = problem.message;
      }
    });
    return form;
  }

  workloads() {
    const state = this.view.state();
    const found = new Map([...state.workloads.keys()].map((name) => [name, {}]));
    for (const { state: pod, workload } of state.pods.values()) {
      const counts = found.get(workload) || found.set(workload, {}).get(workload);
      counts[pod] = (counts[pod] || 0) + 1;
    }
    const cells = [...found].sort().map(([name, counts]) => {
      const parts = Object.entries(counts).flatMap(([pod, count]) => [dot(colorOf(pod)), `${count} ${pod} `]);
      const [kind, key] = name.split(" ");
      const [namespace, own] = (key || "").split("/");
      const known = state.workloads.get(name);
      const lacks = known && known.available < known.wanted;
      return [own ? link(name, () => this.open(kind, namespace, own)) : name, el("td", { class: lacks ? "failed" : "" }, known ? `${known.available}/${known.wanted}` : ""), el("span", {}, ...parts)];
    });
    return { key: JSON.stringify([...found, ...state.workloads]), parts: [cells.length ? table(["workload", "available", "pods"], cells) : soft("no pods yet")] };
  }

  leaders() {
    const { model } = this.view;
    const renewed = this.view.past ? {} : model.time.renewed || {};
    const now = model.now();
    const cells = [...this.view.state().leaders].map(([lease, { holder, at: us }]) => {
      const [last, lasts] = renewed[lease] || [];
      const lost = holder && last !== undefined && now > last + lasts;
      const word = !holder ? "nobody leads" : lost ? `the lease ran out at ${clock(last + lasts)}` : "";
      return [link(lease, () => this.open("lease", ...lease.split("/"))), el("td", {}, holder, el("div", { class: "failed" }, word)), at(us), last === undefined ? "" : at(last)];
    });
    return { key: JSON.stringify(cells.map((row) => row.map((cell) => cell.textContent ?? cell))), parts: [cells.length ? table(["lease", "leader", "since", "renewed"], cells) : soft("no leader yet")] };
  }

  requests() {
    const samples = this.view.state().requests.filter(([, to], _, all) => to > all.at(-1)[1] - RATE_US);
    if (!samples.length) return { key: "none", parts: [soft("no requests yet")] };
    const counts = new Map();
    for (const [, , parts] of samples) for (const [client, code, number] of parts) counts.set(`${client}\n${code}`, (counts.get(`${client}\n${code}`) || 0) + number);
    const [from, to] = [samples[0][0], samples.at(-1)[1]];
    const seconds = Math.max(1e-6, (to - from) / 1e6);
    const most = Math.max(...counts.values());
    const cells = [...counts].sort((one, other) => other[1] - one[1]).map(([key, number]) => {
      const [client, code] = key.split("\n");
      const bar = el("span", { class: "bars", "aria-hidden": "true" });
      bar.style.width = `${(number / most) * 6}rem`;
      return [client, el("td", { class: Number(code) >= 400 ? "failed" : "" }, code), el("td", { class: "at" }, (number / seconds).toFixed(2)), bar];
    });
    return { key: `${to} ${most}`, parts: [soft(`from ${clock(from)} to ${clock(to)} of virtual time`), table(["client", "code", "per second", ""], cells)] };
  }

  // --- faults: what is active, and the palette ------------------------------------------------------

  async palette() {
    this.active = el("div");
    this.choice = el("div");
    this.drawn = null;
    if (this.view.file) {
      this.panel.replaceChildren(el("h3", {}, "Active at the shown instant"), this.active);
      this.drawActive();
      return;
    }
    const listed = el("datalist", { id: "targets" });
    const aim = el("input", { id: "target", list: "targets", placeholder: "a zone, node, process or link", autocomplete: "off", value: this.target ? textOf(this.target) : "" });
    aim.addEventListener("focus", () => listed.replaceChildren(...[...targetsOf(this.view.state()).keys()].map((value) => el("option", { value }))));
    aim.addEventListener("input", () => this.aim(targetNamed(aim.value.trim(), this.view.state())));
    this.kindsList = el("div", { class: "kinds" });
    this.panel.replaceChildren(el("h3", {}, "Active"), this.active, el("h3", {}, "Do something"), el("label", { for: "target" }, "Target ", aim), listed, soft("Choose a target and click, or drag onto a zone, a node, a process or a link."), this.kindsList, this.choice);
    this.drawActive();
    try {
      this.kinds ??= (await api.get("/kinds")).steps;
    } catch (problem) {
      this.choice.replaceChildren(el("p", { class: "error" }, problem.message));
      return;
    }
    this.kindsList.replaceChildren(...Object.keys(this.kinds).map((name) => el("button", {
      type: "button", draggable: "true", title: this.kinds[name].summary.slice(0, 300), onclick: () => this.ask(name, this.target),
      ondragstart: (event) => event.dataTransfer.setData("text/plain", name),
    }, name)));
    this.aim(this.target);
  }

  // Aim at a target: the kinds that fit it come to the fore.
  aim(target) {
    this.target = target;
    for (const button of this.kindsList?.children || []) button.classList.toggle("apart", target !== null && !fits(button.textContent, this.kinds[button.textContent], target));
  }

  drawActive() {
    const faults = this.view.faults();
    const ends = !this.view.past && !this.view.file;
    const key = JSON.stringify([faults, ends]);
    if (key === this.drawn) return;
    this.drawn = key;
    const end = (one) => (ends ? el("button", { type: "button", onclick: () => this.view.act(() => api.del(`/faults/${encodeURIComponent(one.name)}`)) }, "End") : "");
    const cells = faults.map((one) => [one.name, one.kind, at(one.since_us), end(one)]);
    this.active.replaceChildren(faults.length ? table(["step", "kind", "since", ""], cells) : soft("nothing is broken"));
  }

  // Ask for the parameters of a step that is aimed at a target.
  ask(name, target) {
    if (!this.kinds?.[name]) return;
    this.view.say("");
    const form = stepForm(name, this.kinds[name], target ? aimed(this.kinds[name], target) : {}, async (step) => {
      const { name: done } = await api.post("/steps", step);
      this.view.say(`done: ${done}`);
      this.choice.replaceChildren();
    });
    this.choice.replaceChildren(form);
    form.scrollIntoView({ block: "nearest" });
    const open = [...form.querySelectorAll("input, select")];
    (open.find((input) => input.required && !input.value) || open[0])?.focus();
  }
}
