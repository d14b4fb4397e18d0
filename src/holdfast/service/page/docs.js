// The routes of the OpenAPI document, as a page.

import { ask, useKey } from "./client.js";

const by = (id) => document.getElementById(id);

function make(name, ...children) {
  const node = document.createElement(name);
  node.append(...children);
  return node;
}

// An optional parameter's first choice is its type; the other is to leave it out.
const typeOf = (schema) => (schema.anyOf ? schema.anyOf[0] : schema);

function limits(schema) {
  const { type, enum: words, items, minimum, maximum, default: usual } = { ...schema, ...typeOf(schema) };
  const parts = [words ? words.join(" or ") : type === "array" ? `${(items.enum || [items.type]).join(", ")}; may be repeated` : type];
  if (minimum !== undefined) parts.push(`from ${minimum}`);
  if (maximum !== undefined) parts.push(`up to ${maximum}`);
  const range = parts.join(" ");
  return usual === undefined || usual === null ? range : `${range}, by default ${usual}`;
}

function table(heads, rows) {
  const cells = (name, row) => make("tr", ...row.map((each) => make(name, each)));
  const box = make("div", make("table", make("thead", cells("th", heads)), make("tbody", ...rows.map((row) => cells("td", row)))));
  box.tabIndex = 0;  // it may have to be scrolled
  return box;
}

function route(path, method, operation) {
  const section = make("section", make("h2", make("code", `${method.toUpperCase()} ${path}`)), make("p", (operation.description || "").replaceAll("``", "")));
  section.className = "card";
  const parameters = operation.parameters || [];
  if (parameters.length) {
    const row = ({ name, schema, description }) => [make("code", name), limits(schema), description || schema.description || ""];
    section.append(table(["parameter", "values", "meaning"], parameters.map(row)));
  }
  if (operation.requestBody) section.append(make("p", `Body: ${Object.keys(operation.requestBody.content).join(", ")}`));
  const answers = Object.entries(operation.responses).map(([status, { description }]) => [make("code", status), description]);
  section.append(make("details", make("summary", "Answers"), table(["status", "meaning"], answers)));
  return section;
}

async function show() {
  try {
    const { paths } = await (await ask("/openapi.json")).json();
    by("routes").replaceChildren(...Object.entries(paths).flatMap(([path, operations]) =>
      Object.entries(operations).map(([method, operation]) => route(path, method, operation))));
    by("key-form").hidden = true;
  } catch (error) {
    by("key-form").hidden = error.status !== 401;
    by("routes").replaceChildren(error.status === 401 ? "" : make("p", `The routes cannot be shown: ${error.message}`));
  }
  by("routes").setAttribute("aria-busy", "false");
}

by("key-form").addEventListener("submit", (event) => {
  event.preventDefault();
  useKey(by("key").value);
  show();
});
show();
