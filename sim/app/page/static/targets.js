// What a fault can be aimed at: zones, nodes, processes and links, and which parameters aim it there.

import { resolved } from "./form.js";

const NODES_LISTED = 500;
const LINK = " – ";

// The targets of a cluster, by the text by which one chooses them.
export function targetsOf(state) {
  const found = new Map();
  const zones = new Set([...state.nodes.values()].map((node) => node.zone).filter(Boolean));
  for (const name of [...zones].sort()) found.set(`zone ${name}`, { type: "zone", name });
  for (const name of state.processes.keys()) found.set(`process ${name}`, { type: "process", name });
  for (const name of state.links.keys()) found.set(`link ${name}`, { type: "link", name });
  for (const name of [...state.nodes.keys()].slice(0, NODES_LISTED)) found.set(`node ${name}`, { type: "node", name });
  return found;
}

// The target that a text names; a node need not be among those that are listed.
export function targetNamed(text, state) {
  const found = targetsOf(state).get(text);
  const name = text.replace(/^node /, "");
  return found || (state.nodes.has(name) ? { type: "node", name } : null);
}

export const textOf = ({ type, name }) => `${type} ${name}`;

// The parameters that aim a kind of step at a target, empty if it cannot be aimed there.
export function aimed(kind, { type, name }) {
  const { properties = {} } = resolved(kind.parameters, kind.parameters);
  const has = (...names) => names.find((one) => one in properties);
  if (type === "link") return has("between") ? { between: name.split(LINK) } : {};
  if (type === "zone") return has("nodes") ? { nodes: name ? { zone: name } : {} } : has("between") ? { between: [`zone ${name}`, "apiserver"] } : {};
  if (type === "node") return has("nodes") ? { nodes: { name } } : has("actor") ? { actor: name } : has("between") ? { between: [name, "apiserver"] } : {};
  const role = name.replace(/-\d+$/, "");
  if (has("actor")) return { actor: name };
  if (has("apiServer")) return role === "apiserver" ? { apiServer: name } : {};
  if (has("component")) return role === "scheduler" || role === "controller-manager" ? { component: role } : {};
  if (has("between") && name !== "storage") return { between: [name, role === "apiserver" ? "storage" : "apiserver"] };
  return {};
}

// True if a kind of step makes sense for a target.
export function fits(label, kind, target) {
  return Object.keys(aimed(kind, target)).length > 0 || (target.name === "storage" && (label === "storage" || label === "compact"));
}
