// What every story needs: a real Chromium, a watch over what the page must never do, and a line to the
// test that runs the processes.

import { mkdirSync, readFileSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join } from "node:path";
import readline from "node:readline";
import { chromium } from "playwright-core";

export const URL_ = process.env.LANEKEEPER_URL;
export const TOKEN = process.env.LANEKEEPER_TOKEN;
export const PROVIDER = process.env.PROVIDER_URL;
export const AGENTS = JSON.parse(process.env.AGENT_URLS ?? "[]");
/** Where pictures go. */
export const SHOTS = process.env.SHOTS;
/** Longest wait for what must happen, ms: long, since machines are busy. */
export const PATIENCE_MS = 30_000;

const FLAGS = [
  "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
  "--disable-component-update", "--disable-sync", "--force-color-profile=srgb",
];
const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

/** Whatever the page did that it must not do: each is a failure of the story. */
export const faults = [];

let browser;
let profile;
const asked = [];
const answers = readline.createInterface({ input: process.stdin });
answers.on("line", (line) => asked.shift()?.(line));

/** Asks the test that runs the processes to do something, and waits until it is done. */
export async function ask(action, ...words) {
  const answer = new Promise((resolve) => asked.push(resolve));
  process.stdout.write(`@${[action, ...words].join(" ")}\n`);
  const said = await answer;
  if (said !== "ok") throw new Error(`${action}: ${said}`);
}

export async function open({ width = 1280, height = 900, scheme = "light", reducedMotion = "reduce" } = {}) {
  profile ??= await mkdtemp(join(tmpdir(), "lanekeeper-chromium-"));
  browser ??= await chromium.launchPersistentContext(profile, {
    executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium", headless: true, args: FLAGS,
    viewport: { width, height }, colorScheme: scheme, reducedMotion,
  });
  const page = await browser.newPage();
  await page.setViewportSize({ width, height });
  await page.emulateMedia({ colorScheme: scheme, reducedMotion });
  page.setDefaultTimeout(PATIENCE_MS);
  await page.addInitScript(() =>
    document.addEventListener("securitypolicyviolation", (event) =>
      console.error(`forbidden by the policy: ${event.violatedDirective} ${event.blockedURI} at ${event.sourceFile}:${event.lineNumber}:${event.columnNumber} ${event.sample}`)));
  page.on("pageerror", (error) => faults.push(`error: ${error.stack ?? error}`));
  page.on("console", (message) => {
    const text = message.text();
    if (text.includes("Content Security Policy") || text.includes("Content-Security-Policy")) faults.push(`policy: ${text}`);
    else if (message.type() === "error" && !text.startsWith("Failed to load resource") && !text.includes("ERR_")) faults.push(`console at ${page.url()}: ${text}`);
  });
  page.on("dialog", (dialog) => { faults.push(`a dialog: ${dialog.message()}`); void dialog.dismiss(); });
  page.on("request", (request) => {
    const target = request.url();
    if (!target.startsWith(URL_) && !target.startsWith("data:") && !target.startsWith("blob:")) faults.push(`a request to ${target}`);
    if (target.includes("token=")) faults.push(`a secret in an address: ${target}`);
  });
  return page;
}

export async function close() {
  await browser?.close();
  browser = undefined;
  if (profile) await rm(profile, { recursive: true, force: true });
  answers.close();
}

/** Signs in as a person does who types a token. */
export async function signIn(page, token = TOKEN) {
  await page.goto(URL_);
  await page.getByLabel(/^Token/).fill(token);
  await page.getByRole("button", { name: "Sign in" }).click();
  await page.getByRole("heading", { level: 1, name: "Fleet" }).waitFor();
}

export async function shot(page, name) {
  if (!SHOTS) return;
  mkdirSync(SHOTS, { recursive: true });
  await page.screenshot({ path: join(SHOTS, `${name}.png`), fullPage: false });
}

/** What axe-core finds that is serious or worse. */
export async function axeCheck(page, where) {
  const inject = axe;
  await page.evaluate(inject);
  const found = await page.evaluate(async () => {
    const { violations } = await globalThis.axe.run(document, { resultTypes: ["violations"] });
    return violations
      .filter(({ impact }) => impact === "serious" || impact === "critical")
      .map(({ id, nodes }) => `${id}: ${nodes.slice(0, 3).map(({ html, failureSummary }) => `${html.slice(0, 200)} (${failureSummary?.split("\n")[1]?.trim()})`).join(" | ")}`);
  });
  check(found.length === 0, `axe on ${where}: ${found.join("\n")}`);
}

/** No page is wider than its window. */
export async function fits(page, where) {
  const [content, window_] = await page.evaluate(() => [document.documentElement.scrollWidth, window.innerWidth]);
  check(content <= window_, `${where} is ${content} px wide in a window of ${window_}`);
}

export function check(holds, message) {
  if (!holds) throw new Error(message);
}

/** Waits until `holds` is true of what `read` gives. */
export async function until(what, read, holds, patience = PATIENCE_MS) {
  const end = Date.now() + patience;
  let last;
  for (;;) {
    last = await read().catch((error) => error);
    if (!(last instanceof Error) && holds(last)) return last;
    if (Date.now() > end) throw new Error(`${what}: still ${last instanceof Error ? last : JSON.stringify(last)}`);
    await new Promise((wake) => setTimeout(wake, 50));
  }
}

/** A call of the API as the admin. */
export async function api(method, path, body, headers = {}) {
  const response = await fetch(`${URL_}${path}`, {
    method, headers: { authorization: `Bearer ${TOKEN}`, ...(body === undefined ? {} : { "content-type": "application/json" }), ...headers },
    body: body === undefined ? undefined : JSON.stringify(body),
  });
  const text = await response.text();
  if (!response.ok) throw new Error(`${method} ${path}: ${response.status} ${text}`);
  return text === "" ? null : JSON.parse(text);
}

/** Sets or lifts faults of the simulated provider. */
export const setFault = (fault) => fetch(`${PROVIDER}/faults`, { method: "POST", body: JSON.stringify(fault), headers: { "content-type": "application/json" } });
export const clearFaults = () => fetch(`${PROVIDER}/faults`, { method: "DELETE" });

/** Calls every agent again and again, until the function that it returns is called. */
export function traffic(models = [["chat", "/v1/chat/completions"], ["claude", "/v1/messages"]], agents = AGENTS) {
  let on = true;
  const loop = async (agent) => {
    while (on) {
      for (const [model, path] of models) {
        const body = { model, max_tokens: 16, messages: [{ role: "user", content: "hi" }] };
        await fetch(`${agent}${path}`, { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body) })
          .then((answer) => answer.arrayBuffer()).catch(() => undefined);
      }
      await new Promise((wake) => setTimeout(wake, 60));
    }
  };
  const loops = agents.map(loop);
  return async () => { on = false; await Promise.all(loops); };
}
