// The form of a fault or an action, from the JSON Schema of its parameters.

import { el } from "./dom.js";

// A schema with its references followed, and the alternative that a form can ask for.
export function resolved(schema, root) {
  let found = schema;
  for (let depth = 0; depth < 8; depth += 1) {
    if (found.$ref) found = { ...root.$defs[found.$ref.split("/").pop()], description: schema.description };
    else if (found.anyOf) found = { ...(found.anyOf.find((one) => one.$ref || one.type === "object" || one.type === "string") || found.anyOf[0]), description: schema.description };
    else break;
  }
  return found;
}

function field(name, schema, root, required, path, given) {
  const found = resolved(schema, root);
  const label = `${name}${required ? " *" : ""}`;
  const more = schema.description || found.description;
  const text = more ? [el("small", {}, more)] : [];
  const id = `field-${path.join("-")}`;
  if (found.type === "object" && found.properties) {
    const wanted = new Set(found.required || []);
    const parts = Object.entries(found.properties).map(([key, part]) => field(key, part, root, wanted.has(key), [...path, key], given?.[key]));
    return el("fieldset", {}, el("legend", {}, label), ...parts);
  }
  const attributes = { id, name: path.join("."), required };
  let input;
  if (found.enum) {
    const options = [...(required ? [] : [""]), ...found.enum].map((one) => el("option", { value: one, selected: given === one }, one || "(default)"));
    input = el("select", attributes, ...options);
  } else {
    const hint = found.type === "array" ? "a, b" : found.type === "object" ? "{key: value} as JSON" : found.default ?? "";
    input = el("input", { ...attributes, placeholder: hint === null ? "" : String(hint), value: given === undefined ? "" : String(given), "data-type": found.type || "string" });
  }
  return el("label", { for: id }, label, input, ...text);
}

function valueOf(input) {
  const text = input.value.trim();
  const type = input.dataset.type;
  if (type === "array") return text.split(",").map((part) => part.trim()).filter(Boolean);
  if (type === "integer" || type === "number") return Number(text);
  if (type === "boolean") return text === "true";
  if (type === "object" || /^[{["]/.test(text)) return JSON.parse(text);
  return text;
}

// The form; `act` gets the step, and may throw what is wrong.
export function stepForm(name, kind, given, act) {
  const root = kind.parameters;
  const schema = resolved(root, root);
  const wanted = new Set(schema.required || []);
  const parts = Object.entries(schema.properties || {}).map(([key, part]) => field(key, part, root, wanted.has(key), [key], given?.[key]));
  const error = el("p", { class: "error", role: "alert" });
  const lasts = el("label", { for: "field-for" }, "for", el("input", { id: "field-for", placeholder: "5m; empty: until it is ended" }));
  const form = el("form", { class: "fault" }, el("h3", {}, name), el("p", { class: "soft" }, kind.summary), ...parts, lasts, el("p", {}, el("button", { type: "submit" }, `Do ${name}`)), error);
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    error.textContent = "";
    try {
      const parameters = {};
      for (const input of form.querySelectorAll("[name]")) {
        if (!input.value.trim()) continue;
        const path = input.name.split(".");
        let at = parameters;
        for (const part of path.slice(0, -1)) at = at[part] ??= {};
        at[path.at(-1)] = valueOf(input);
      }
      const step = { [name]: parameters };
      const duration = form.querySelector("#field-for").value.trim();
      if (duration) step.for = duration;
      await act(step);
    } catch (problem) {
      error.textContent = problem.message;
    }
  });
  return form;
}
