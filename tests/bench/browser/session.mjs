// A session of a user with the page of a served cluster, and the run of the scenario that is saved from it.
//
//   cd tests/bench/browser && npm ci && node session.mjs
//
// Opens the page by the one-time link, pauses, cuts a zone by dropping a fault on it, runs until its nodes are
// Unknown, opens one and reads its chain of causes, heals, runs until all are ready, and saves the scenario. Fails
// unless `orrery run` of that file has the hash of the session, and axe-core finds nothing serious.

import assert from "node:assert/strict";
import { mkdtempSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { faultsOfAccess, here, opened, orrery, serving } from "./served.mjs";

const said = (page, begin) => page.waitForFunction((text) => document.querySelector("#notice").textContent.startsWith(text), begin, { timeout: 60_000 });

async function until(page, condition) {
  await page.fill("#until", condition);
  await page.click("#until-form button");
  await said(page, "reached");
}

async function session(page, context) {
  await page.waitForFunction(() => document.querySelector("#figures").textContent.includes("6/6"), null, { timeout: 60_000 });
  await page.click("#toggle");
  await page.waitForFunction(() => document.querySelector("#toggle").textContent === "Resume");

  await page.click("#tabs-Faults");
  await page.waitForSelector(".kinds button");
  await page.dragAndDrop(".kinds button:text-is('partition')", "#grid", { targetPosition: { x: 20, y: 8 } });
  await page.waitForSelector("form.fault");
  assert.equal(await page.inputValue("#field-between"), "zone a,apiserver");
  await page.click("form.fault button[type=submit]");
  await said(page, "done: partition-1");
  await page.fill("#mark", "the zone is cut");
  await page.click("#mark-form button");
  await said(page, "marked");

  await until(page, "all nodes in zone a have Ready=Unknown");
  await page.waitForSelector(".chip.wrong:has-text('zone a')");
  await page.focus("#grid");
  await page.keyboard.press("ArrowRight");
  await page.keyboard.press("ArrowLeft");
  await page.keyboard.press("Enter");
  await page.waitForSelector("#details-body tbody tr");
  const chain = await page.locator("#details-body tbody tr").allTextContents();
  assert.match(chain[0], /partition/);
  assert.match(chain.at(-1), /Unknown/);
  assert.deepEqual(await faultsOfAccess(page, context), []);
  await page.click("#details-close");

  await page.focus("#timeline");
  await page.keyboard.press("Home"); // the cluster as it was at its beginning
  await page.waitForFunction(() => document.querySelector("#figures").textContent.includes("0/0"));
  await page.waitForSelector("#panel :text('nothing is broken')");
  assert.equal(await page.locator(".chip.wrong:has-text('zone a')").count(), 0);
  await page.click("#tabs-Leaders");
  await page.waitForSelector("#panel :text('no leader yet')");
  await page.focus("#timeline");
  for (let second = 0; second < 12; second += 1) await page.keyboard.press("ArrowRight");
  await page.click("#tabs-Leaders");
  await page.waitForSelector("#panel td:has-text('scheduler-')");
  await page.click("#tabs-Faults");
  await page.click("#live");
  await page.click("#panel button:text-is('End')");
  await until(page, "all nodes are ready");
  await page.waitForFunction(() => document.querySelector("#figures").textContent.includes("6/6"));
  assert.equal(await page.locator(".chip.wrong").count(), 0);
  assert.deepEqual(await faultsOfAccess(page, context), []);

  const [download] = await Promise.all([page.waitForEvent("download"), page.click("#save")]);
  const file = join(mkdtempSync(join(tmpdir(), "orrery-saved-")), "saved.yaml");
  await download.saveAs(file);
  const token = await page.evaluate(() => sessionStorage.getItem("orrery-token"));
  const state = await page.evaluate(async (given) => (await fetch("/orrery/v1/state", { headers: { Authorization: `Bearer ${given}` } })).json(), token);
  return { file, sha: state.trace_sha256 };
}

await serving([join(here, "zones.yaml"), "--pace", "5"], async (link) => {
  await opened(link, async (page, context) => {
    const { file, sha } = await session(page, context);
    const run = JSON.parse(orrery("run", file, "--json"));
    assert.equal(run.trace_sha256, sha);
    console.log(JSON.stringify({ saved: file, trace_sha256: sha, same: true }));
  });
});
