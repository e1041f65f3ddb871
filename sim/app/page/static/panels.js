// The panels beside the grid: faults, expectations, workloads, leaders, events.

import * as api from "./api.js";
import { dot, el, link, table } from "./dom.js";
import { colorOf } from "./draw.js";
import { stepForm } from "./form.js";
import { clock } from "./model.js";

const at = (us) => el("td", { class: "at" }, clock(us));
const SHOWN = 200;

export class Panels {
  constructor(view, panel, open) {
    this.view = view; // gives the model, and the state that is shown
    this.panel = panel;
    this.open = open; // opens the details of an object: (kind, namespace, name)
    this.kinds = null;
    this.form = null;
    this.shown = "";
  }

  async show(name) {
    this.name = name;
    this.shown = "";
    if (name === "Faults") await this.palette();
    else this.refresh();
  }

  refresh() {
    const make = { Events: () => this.events(), Expectations: () => this.expectations(), Workloads: () => this.workloads(), Leaders: () => this.leaders() }[this.name];
    if (make) {
      const found = make();
      if (found.key !== this.shown) {
        this.shown = found.key;
        this.panel.replaceChildren(...found.parts);
      }
    } else if (this.active) this.drawActive();
  }

  events() {
    const rows = this.view.state().events.slice(-SHOWN).reverse();
    const cells = rows.map(([, us, type, reason, object, message, count]) => {
      const [kind, namespace, name] = object.split("/");
      const about = link(`${kind.toLowerCase()}/${name}`, () => this.open(kind.toLowerCase(), namespace, name));
      const said = el("span", { class: type === "Warning" ? "failed" : "" }, reason);
      return [at(us), el("td", {}, said, " ", about, el("div", {}, `${message}${count > 1 ? ` (${count} times)` : ""}`))];
    });
    return { key: `${rows.length} ${rows[0]?.[1]} ${rows[0]?.[4]}`, parts: [rows.length ? table(["time", "event"], cells) : el("p", { class: "soft" }, "no events")] };
  }

  expectations() {
    const { judged } = this.view.model;
    const cells = judged.map((one) => [el("td", { class: one.state }, one.state), one.name, one.measured, one.wanted]);
    return { key: JSON.stringify(judged) + this.error, parts: [judged.length ? table(["", "expectation", "measured", "wanted"], cells) : el("p", { class: "soft" }, "no expectations"), this.judgeForm()] };
  }

  judgeForm() {
    const input = el("input", { id: "judge", placeholder: "all nodes are ready" });
    const kind = el("select", { id: "judge-kind" }, ...["eventually", "never", "always"].map((one) => el("option", {}, one)));
    const error = el("p", { class: "error", role: "alert" }, this.error || "");
    const form = el("form", { class: "fault" }, el("h3", {}, "Judge from now on"), el("label", { for: "judge-kind" }, "kind", kind), el("label", { for: "judge" }, "condition", input), el("p", {}, el("button", { type: "submit" }, "Add")), error);
    form.addEventListener("submit", async (event) => {
      event.preventDefault();
      try {
        await api.post("/expectations", { [kind.value]: input.value });
      } catch (problem) {
        error.textContent = problem.message;
      }
    });
    return form;
  }

  workloads() {
    const found = new Map();
    for (const { state, workload } of this.view.state().pods.values()) {
      const counts = found.get(workload) || found.set(workload, {}).get(workload);
      counts[state] = (counts[state] || 0) + 1;
    }
    const cells = [...found].sort().map(([name, counts]) => {
      const parts = Object.entries(counts).flatMap(([state, count]) => [dot(colorOf(state)), `${count} ${state} `]);
      const [kind, key] = name.split(" ");
      const [namespace, own] = (key || "").split("/");
      return [own ? link(name, () => this.open(kind, namespace, own)) : name, el("span", {}, ...parts)];
    });
    return { key: JSON.stringify([...found]), parts: [cells.length ? table(["workload", "pods"], cells) : el("p", { class: "soft" }, "no pods")] };
  }

  leaders() {
    const cells = [...this.view.state().leaders].map(([lease, { holder, at: us }]) => [link(lease, () => this.open("lease", ...lease.split("/"))), holder, at(us)]);
    return { key: JSON.stringify(cells.map(([, holder]) => holder)), parts: [table(["lease", "holder", "since"], cells)] };
  }

  // --- faults: what is active, and the palette ------------------------------------------------------

  async palette() {
    this.active = el("div");
    this.choice = el("div");
    const list = el("div", { class: "kinds" });
    this.panel.replaceChildren(el("h3", {}, "Active"), this.active, el("h3", {}, "Do something"), el("p", { class: "soft" }, "Click, or drag onto a node or its zone."), list, this.choice);
    this.drawn = null;
    this.drawActive();
    try {
      this.kinds ??= (await api.get("/kinds")).steps;
    } catch (problem) {
      this.choice.replaceChildren(el("p", { class: "error" }, problem.message));
      return;
    }
    list.replaceChildren(...Object.keys(this.kinds).map((name) => el("button", {
      type: "button", draggable: "true", onclick: () => this.ask(name),
      ondragstart: (event) => event.dataTransfer.setData("text/plain", name),
    }, name)));
  }

  drawActive() {
    const { faults } = this.view.model.time;
    const key = JSON.stringify(faults);
    if (key === this.drawn) return;
    this.drawn = key;
    const cells = faults.map((one) => [one.name, one.kind, at(one.since_us), el("button", { type: "button", onclick: () => this.view.act(() => api.del(`/faults/${encodeURIComponent(one.name)}`)) }, "End")]);
    this.active.replaceChildren(faults.length ? table(["step", "kind", "since", ""], cells) : el("p", { class: "soft" }, "nothing is broken"));
  }

  ask(name, given) {
    const form = stepForm(name, this.kinds[name], given, async (step) => {
      const { name: done } = await api.post("/steps", step);
      this.view.say(`done: ${done}`);
      this.choice.replaceChildren();
    });
    this.choice.replaceChildren(form);
    form.querySelector("input, select")?.focus();
  }
}
