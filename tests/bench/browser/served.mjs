// A server of the page, and a browser that is logged in to it.

import { execFileSync, spawn } from "node:child_process";
import { mkdtempSync, readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { chromium } from "playwright-core";

export const here = dirname(fileURLToPath(import.meta.url));
export const root = join(here, "../../..");
const python = process.env.ORRERY_PYTHON || "python";
const executablePath = process.env.CHROMIUM || "/usr/bin/chromium";
const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

// Run `orrery` to its end; its output.
export const orrery = (...given) => execFileSync(python, ["-m", "orrery", ...given], { cwd: root, encoding: "utf8" });

// Serve a cluster, call `act` with the link of its page, and end it. Gives the largest memory of the server in MiB.
export async function serving(given, act) {
  const folder = mkdtempSync(join(tmpdir(), "orrery-page-"));
  const server = spawn(python, ["-m", "orrery", "serve", "--port", "0", "--client-config", join(folder, "config"), ...given], { cwd: root, stdio: ["ignore", "pipe", "pipe"] });
  let said = "";
  try {
    const link = await new Promise((resolve, reject) => {
      const hear = (data) => {
        said += data;
        const found = said.match(/https:\/\/\S*#code=\S+/);
        if (found) resolve(found[0]);
      };
      server.stdout.on("data", hear);
      server.stderr.on("data", hear);
      server.on("exit", () => reject(new Error(`the server ended: ${said}`)));
    });
    await act(link, server);
    if (server.exitCode !== null) return 0;
    return Number(readFileSync(`/proc/${server.pid}/status`, "utf8").match(/VmHWM:\s+(\d+)/)[1]) / 1024;
  } finally {
    server.removeAllListeners("exit");
    const ended = new Promise((resolve) => server.on("exit", resolve));
    if (server.exitCode === null && server.signalCode === null && server.kill("SIGINT")) await ended;
  }
}

// Open a page; errors of its scripts and of its policy are collected in `wrong`.
export async function opened(link, act, more = {}) {
  const browser = await chromium.launch({ executablePath, args: ["--no-sandbox"] });
  try {
    const context = await browser.newContext({ ignoreHTTPSErrors: true, viewport: { width: 1300, height: 850 }, acceptDownloads: true, ...more });
    const page = await context.newPage();
    page.setDefaultTimeout(Number(process.env.TIMEOUT_MS || 120_000)); // 5,000 nodes on a busy machine
    const wrong = [];
    page.on("pageerror", (error) => wrong.push(error.message));
    page.on("console", (message) => { if (message.type() === "error") wrong.push(message.text()); });
    await page.goto(link);
    await page.waitForFunction(() => document.querySelector("#figures")?.textContent.includes("nodes"), null, { timeout: 120_000 });
    try {
      await act(page, context, wrong);
    } catch (error) {
      await page.screenshot({ path: join(tmpdir(), "orrery-page-failed.png") });
      throw error;
    }
    if (wrong.length) throw new Error(`the page says: ${wrong.join("; ")}`);
  } finally {
    await browser.close();
  }
}

// What axe-core finds that is serious or worse.
export async function faultsOfAccess(page, context) {
  const tools = await context.newCDPSession(page); // the page's policy allows no script from elsewhere
  await tools.send("Runtime.evaluate", { expression: axe });
  const expression = "axe.run().then((found) => JSON.stringify(found.violations.map((one) => [one.impact, one.id, one.nodes.map((node) => node.html.slice(0, 160))])))";
  const { result } = await tools.send("Runtime.evaluate", { expression, awaitPromise: true });
  return JSON.parse(result.value).filter(([impact]) => impact === "serious" || impact === "critical");
}
