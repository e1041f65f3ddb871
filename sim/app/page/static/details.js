// What is known of one object: its causes, its pods, its events, its history and its YAML.

import * as api from "./api.js";
import { $, dot, el, link, table, tabs } from "./dom.js";
import { colorOf } from "./draw.js";
import { clock } from "./model.js";

const PATHS = {
  node: "/api/v1/nodes/", pod: "/api/v1/namespaces/NS/pods/", deployment: "/apis/apps/v1/namespaces/NS/deployments/",
  replicaset: "/apis/apps/v1/namespaces/NS/replicasets/", statefulset: "/apis/apps/v1/namespaces/NS/statefulsets/",
  daemonset: "/apis/apps/v1/namespaces/NS/daemonsets/", job: "/apis/batch/v1/namespaces/NS/jobs/",
  lease: "/apis/coordination.k8s.io/v1/namespaces/NS/leases/",
};
const SHOWN = 500; // rows of a table
const instant = (us) => el("td", { class: "at" }, clock(us));
const soft = (text) => el("p", { class: "soft" }, text);

// A value of JSON as YAML; a text that could be read as anything else is quoted.
export function yaml(value, depth = 0) {
  const pad = "  ".repeat(depth);
  if (value === null || typeof value !== "object") return scalar(value);
  const entries = Array.isArray(value) ? value.map((one) => ["-", one]) : Object.entries(value).map(([key, one]) => [`${scalar(key)}:`, one]);
  if (!entries.length) return Array.isArray(value) ? "[]" : "{}";
  return entries.map(([key, one]) => {
    const nested = one !== null && typeof one === "object" && Object.keys(one).length > 0;
    if (!nested) return `${pad}${key} ${yaml(one)}`;
    return key === "-" ? `${pad}- ${yaml(one, depth + 1).trimStart()}` : `${pad}${key}\n${yaml(one, depth + 1)}`;
  }).join("\n");
}

function scalar(value) {
  if (typeof value !== "string") return String(value);
  const plain = /^[A-Za-z_/.][\w\-./ ]*(:[\w\-./]+)*$/.test(value) && !/^(true|false|null|yes|no|on|off|y|n|~|\.inf|\.nan)$/i.test(value) && !value.endsWith(" ");
  return plain ? value : JSON.stringify(value);
}

export class Details {
  constructor(view) {
    this.view = view;
    $("details-close").addEventListener("click", () => $("details").close());
  }

  async history(kind, namespace, name) {
    const { model } = this.view;
    const key = kind === "node" ? name : `${namespace}/${name}`;
    await this.view.whole();
    const rows = model.log.filter((row) => row[0] === kind && row[2] === key).slice(-SHOWN);
    return [rows.length ? table(["time", kind === "node" ? "zone" : "node", "state"], rows.map((row) => [instant(row[1]), row[3], el("span", {}, dot(colorOf(row[4])), row[4] || "removed")])) : soft("no changes are known")];
  }

  open(kind, namespace, name) {
    const { view } = this;
    const body = $("details-body");
    $("details-title").textContent = `${kind}/${name}${namespace ? ` in ${namespace}` : ""}`;
    const show = {
      Why: async () => {
        const query = new URLSearchParams({ target: `${kind}/${name}`, ...(namespace ? { namespace } : {}) });
        const found = await api.get(`/why?${query}`);
        return [el("p", {}, found.title), table(["time", "process", "what happened"], found.chain.map((line) => [instant(line.at_us), line.actor, line.text]))];
      },
      Pods: async () => {
        const cells = [...(view.state().nodes.get(name)?.pods || [])].map(([key, pod]) => {
          const [own, podName] = key.split("/");
          return [link(key, () => this.open("pod", own, podName)), el("span", {}, dot(colorOf(pod)), pod)];
        });
        return [cells.length ? table(["pod", "state"], cells.slice(0, SHOWN)) : soft("no pods")];
      },
      YAML: async () => [el("pre", {}, yaml(await api.object(PATHS[kind].replace("NS", encodeURIComponent(namespace)) + encodeURIComponent(name))))],
      Events: async () => {
        const rows = view.state().events.filter((row) => row[4].toLowerCase() === `${kind}/${namespace}/${name}`.toLowerCase());
        return [rows.length ? table(["time", "reason", "message"], rows.map((row) => [instant(row[1]), row[3], row[5]])) : soft("no events are known here")];
      },
      History: () => this.history(kind, namespace, name),
    };
    const names = ["Why", ...(kind === "node" ? ["Pods"] : []), "Events", ...(kind === "node" || kind === "pod" ? ["History"] : []), ...(PATHS[kind] ? ["YAML"] : [])];
    const offered = view.file ? names.filter((one) => one !== "Why" && one !== "YAML") : names;
    const shown = tabs($("details-tabs"), body, offered, async (tab) => {
      body.replaceChildren(soft("…"));
      try {
        body.replaceChildren(...(await show[tab]()));
      } catch (problem) {
        body.replaceChildren(el("p", { class: "error" }, problem.message));
      }
    });
    shown(view.file ? offered.at(-1) : "Why");
    if (!$("details").open) $("details").showModal();
  }
}
