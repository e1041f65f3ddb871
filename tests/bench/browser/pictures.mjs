// Pictures of the page at two widths, light and dark, with few and many nodes, and its frames a second.
//
//   cd tests/bench/browser && npm ci && node pictures.mjs FOLDER [NODES …]
//
// A person looks at the pictures; the script fails if axe-core finds something serious, or a script of the page fails.

import assert from "node:assert/strict";
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { faultsOfAccess, opened, serving } from "./served.mjs";

const FRAMES_MS = 4000;
const [folder = "out", ...sizes] = process.argv.slice(2);
mkdirSync(folder, { recursive: true });

const frames = (page) => page.evaluate((length) => new Promise((done) => {
  const begun = performance.now();
  let count = 0;
  const next = (now) => {
    count += 1;
    if (now - begun < length) requestAnimationFrame(next);
    else done(count / ((now - begun) / 1000));
  };
  requestAnimationFrame(next);
}), FRAMES_MS);

async function pictures(page, context, nodes) {
  await page.waitForFunction((count) => document.querySelector("#figures").textContent.includes(`${count}/${count}`), nodes, { timeout: 300_000 });
  const rate = await frames(page);
  await page.click("#tabs-Faults");
  await page.waitForSelector(".kinds button");
  await page.fill("#target", "node node-0");
  await page.click(".kinds button:text-is('fail')");
  await page.selectOption("#field-how", "power-loss");
  await page.click("form.fault button[type=submit]");
  await page.waitForFunction(() => document.querySelector("#notice").textContent.startsWith("done"));
  await page.fill("#until", "any nodes have Ready=Unknown");
  await page.click("#until-form button");
  await page.waitForFunction(() => document.querySelector("#notice").textContent.startsWith("reached"), null, { timeout: 300_000 });
  for (const [width, height] of [[1300, 850], [400, 800]]) {
    await page.setViewportSize({ width, height });
    for (const colorScheme of ["light", "dark"]) {
      await page.emulateMedia({ colorScheme });
      for (const panel of ["Faults", "Workloads", "Requests"]) {
        await page.click(`#tabs-${panel}`);
        await page.waitForTimeout(500);
        await page.screenshot({ path: join(folder, `${nodes}-${width}-${colorScheme}-${panel}.png`), fullPage: width < 800 });
      }
      assert.deepEqual(await faultsOfAccess(page, context), []);
    }
  }
  return rate;
}

for (const nodes of sizes.length ? sizes.map(Number) : [3, 100, 5000]) {
  let rate = 0;
  const memory = await serving(["--nodes", String(nodes), "--pace", nodes > 1000 ? "1" : "5"], (link) => opened(link, async (page, context) => {
    rate = await pictures(page, context, nodes);
  }));
  console.log(JSON.stringify({ nodes, frames_a_second: Number(rate.toFixed(1)), server_mib: Math.round(memory) }));
}
