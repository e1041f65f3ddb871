// The cluster widget: draws the nodes and pods at the instant of the slider. It mirrors `grid` of recording.py,
// and its colours are those of palette.py.
const NODE = { ready: "#009E73", "not ready": "#E69F00", unknown: "#D55E00" };
const POD = {
  running: "#009E73", "not ready": "#E69F00", pending: "#D9C520", terminating: "#CC79A7", succeeded: "#56B4E9",
  failed: "#882255",
};

function grid(changes, at) {
  const nodes = new Map(), pods = new Map();
  for (const [time, kind, name, place, state] of changes) {
    if (time > at) break;
    const of = kind === "node" ? nodes : pods;
    of.delete(name);
    if (state) of.set(name, [place, state]);
  }
  const on = new Map();
  for (const name of [...pods.keys()].sort()) {
    const [node, state] = pods.get(name);
    const where = nodes.has(node) ? node : "";
    on.set(where, [...(on.get(where) || []), [name, state]]);
  }
  const rows = [...nodes].map(([node, [zone, state]]) => ({ zone, node, state, pods: on.get(node) || [] }));
  const key = (row) => row.zone + "\u0000" + row.node;
  rows.sort((a, b) => (key(a) < key(b) ? -1 : 1));
  if (on.has("")) rows.push({ zone: "", node: "no node", state: "", pods: on.get("") });
  return rows;
}

function box(color, title, size) {
  const made = document.createElement("span");
  made.title = title;
  made.style.cssText =
    `display:inline-block;width:${size}px;height:${size}px;margin:1px;border-radius:2px;background:${color}`;
  return made;
}

function legend(colors, what) {
  const made = document.createElement("div");
  made.append(`${what}: `);
  for (const [state, color] of Object.entries(colors)) made.append(box(color, state, 10), ` ${state}  `);
  return made;
}

function clock(seconds) {
  return `${Math.floor(seconds / 60)}m${(seconds % 60).toFixed(0).padStart(2, "0")}s`;
}

function render({ model, el }) {
  const head = document.createElement("div"), slider = document.createElement("input");
  const time = document.createElement("span"), body = document.createElement("table");
  el.style.font = "13px system-ui, sans-serif";
  slider.type = "range";
  slider.setAttribute("aria-label", "virtual time in seconds");
  slider.min = 0;
  slider.step = 1;
  slider.style.cssText = "width:60%;vertical-align:middle;margin-right:1em";
  head.append(slider, time);
  el.append(head, body, legend(NODE, "nodes"), legend(POD, "pods"));

  function draw() {
    const at = model.get("at_s");
    slider.max = Math.ceil(model.get("end_s"));
    slider.value = at;
    time.textContent = clock(at);
    body.replaceChildren();
    for (const row of grid(model.get("changes"), at)) {
      const line = body.insertRow();
      const name = line.insertCell(), pods = line.insertCell();
      name.append(box(NODE[row.state] || "transparent", row.state, 12), ` ${row.node}`, row.zone ? ` (${row.zone})` : "");
      name.style.cssText = "text-align:left;white-space:nowrap;padding-right:1em";
      pods.style.textAlign = "left";
      for (const [pod, state] of row.pods) pods.append(box(POD[state] || "#000", `${pod}: ${state}`, 14));
    }
  }

  slider.addEventListener("input", () => {
    model.set("at_s", Number(slider.value));
    model.save_changes();
    draw();
  });
  for (const name of ["changes", "at_s", "end_s"]) model.on(`change:${name}`, draw);
  draw();
}

export default { render };
