// The strip of processes and links with their states; a fault can be dropped on each.

import { el, dot } from "./dom.js";
import { colorOfPart } from "./draw.js";

export class Strip {
  constructor(list, choose, drop) {
    this.list = list;
    this.choose = choose;
    this.drop = drop;
    this.key = "";
  }

  draw(state) {
    const parts = [...[...state.processes].map((one) => ["process", ...one]), ...[...state.links].map((one) => ["link", ...one])];
    const key = JSON.stringify(parts);
    if (key === this.key) return;
    this.key = key;
    this.list.hidden = !parts.length;
    const focused = document.activeElement?.dataset?.part;
    this.list.replaceChildren(...parts.map((part) => el("li", {}, this.chip(...part))));
    if (focused) [...this.list.querySelectorAll("button")].find((one) => one.dataset.part === focused)?.focus();
  }

  chip(type, name, state) {
    const fine = state === "running" || state === "open";
    const target = { type, name };
    const chip = el("button", {
      type: "button", class: `chip ${type === "link" ? "wire" : ""}${fine ? "" : " wrong"}`, title: `${type} ${name}: ${state}`, "data-part": `${type} ${name}`,
      onclick: () => this.choose(target),
      ondragover: (event) => { event.preventDefault(); chip.classList.add("over"); },
      ondragleave: () => chip.classList.remove("over"),
      ondrop: (event) => { event.preventDefault(); chip.classList.remove("over"); this.drop(event.dataTransfer.getData("text/plain"), target); },
    }, dot(colorOfPart(state)), el("span", {}, name), el("span", { class: fine ? "hidden" : "state" }, ` ${state}`));
    return chip;
  }
}
