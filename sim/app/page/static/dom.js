// Elements from values. Text is always text: names of objects are shown and never parsed.

export const $ = (id) => document.getElementById(id);

export function el(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key.startsWith("on")) made.addEventListener(key.slice(2), value);
    else if (value === true) made.setAttribute(key, "");
    else if (value !== false && value !== null && value !== undefined) made.setAttribute(key, value);
  }
  made.append(...children.map((child) => (child instanceof Node ? child : String(child))));
  return made;
}

export function table(heads, rows) {
  const head = el("tr", {}, ...heads.map((text) => el("th", { scope: "col" }, text)));
  return el("table", {}, el("thead", {}, head), el("tbody", {}, ...rows.map((cells) => el("tr", {}, ...cells.map((cell) => (cell instanceof HTMLTableCellElement ? cell : el("td", {}, cell)))))));
}

export const dot = (color) => {
  const made = el("span", { class: "dot", "aria-hidden": "true" });
  made.style.background = color; // by the object model: the policy of the page allows no style attributes
  return made;
};

export const link = (text, act) => el("button", { class: "link", type: "button", onclick: act }, text);

// Tabs with the keys of their pattern: arrows move, one tab is in the order of focus.
export function tabs(list, panel, names, show) {
  let current = "";
  const buttons = names.map((name) => el("button", { role: "tab", type: "button", id: `${list.id}-${name}`, "aria-controls": panel.id, onclick: () => choose(name) }, name));
  list.replaceChildren(...buttons);
  list.onkeydown = (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!step) return;
    const index = (names.indexOf(current) + step + names.length) % names.length;
    choose(names[index]);
    buttons[index].focus();
    event.stopPropagation();
  };
  function choose(name) {
    current = name;
    buttons.forEach((button, index) => {
      button.setAttribute("aria-selected", String(names[index] === name));
      button.tabIndex = names[index] === name ? 0 : -1;
    });
    panel.setAttribute("aria-labelledby", `${list.id}-${name}`);
    return show(name);
  }
  return choose;
}
