// What the page says and does when its server is away, is started again, and has objects with hostile names.
//
//   cd tests/bench/browser && npm ci && node lost.mjs

import assert from "node:assert/strict";
import { opened, serving } from "./served.mjs";

const HOSTILE = `<img src=x onerror=document.title=1>${"x".repeat(60)}`;
const port = (link) => new URL(link).port;
const token = (page) => page.evaluate(() => sessionStorage.getItem("orrery-token"));

async function ask(page, method, path, body) {
  const given = { method, body: JSON.stringify(body), key: await token(page), path };
  return page.evaluate(async ({ method, path, body, key }) => (await fetch(path, { method, body, headers: { Authorization: `Bearer ${key}`, "Content-Type": "application/json" } })).status, given);
}

async function hostile(page) {
  assert.equal(await ask(page, "POST", "/orrery/v1/marks", { name: HOSTILE }), 200);
  const event = { apiVersion: "v1", kind: "Event", metadata: { name: "odd" }, involvedObject: { kind: "Pod", namespace: "default", name: HOSTILE }, reason: HOSTILE, message: HOSTILE.repeat(5), type: "Warning" };
  assert.equal(await ask(page, "POST", "/api/v1/namespaces/default/events", event), 201);
  await page.click("#tabs-Events");
  await page.waitForSelector("#panel td:has-text('onerror')");
  assert.equal(await page.locator("#panel img").count(), 0);
  assert.equal(await page.title(), "Orrery");
  const [shown, there] = await page.evaluate(() => [document.documentElement.scrollWidth, innerWidth]);
  assert.ok(shown <= there, `a long name makes the page ${shown} pixels wide`);
}

// Serve, open the page, let the server end, and serve again at the same place.
let again;
await serving(["--nodes", "3", "--pace", "5"], async (link, server) => {
  await opened(link, async (page, context, wrong) => {
    await hostile(page);
    server.removeAllListeners("exit");
    const ended = new Promise((resolve) => server.on("exit", resolve));
    server.kill("SIGINT");
    await ended;
    await page.waitForSelector("#lost:not([hidden])");
    assert.match(await page.textContent("#lost-why"), /tries again in \d+ s/);
    assert.match(await page.textContent("#figures"), /3\/3/); // it shows what it knew
    await serving(["--nodes", "4", "--pace", "5", "--port", port(link)], async (other) => {
      await page.click("#again");
      await page.waitForSelector("#login:not([hidden])");
      assert.match(await page.textContent("#login-error"), /started again/);
      await page.goto(other); // the link that the server prints now, in the same tab
      await page.waitForFunction(() => document.querySelector("#figures").textContent.includes("4/4"));
      assert.equal(await page.locator("#lost:not([hidden])").count(), 0);
      again = true;
    });
    wrong.length = 0; // what the browser says of a server that is away
  });
});
assert.ok(again);
console.log(JSON.stringify({ recovered: true }));
