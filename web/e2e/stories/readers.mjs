// Those who only read, who use a keyboard, a phone, dark colours, or a screen reader.

import { api, axeCheck, check, fits, open, shot, signIn, until, URL_ } from "../browser.mjs";

/** Pages with what shows that they are drawn. */
const PAGES = [
  ["fleet", "/", (page) => page.getByText("Rows are lanes, columns are agents")],
  ["lanes", "/lanes", (page) => page.getByRole("button", { name: "chat › gpt-east" })],
  ["agents", "/agents", (page) => page.getByRole("link", { name: "node-0" })],
  ["pools", "/pools", (page) => page.getByRole("link", { name: "claude", exact: true })],
  ["pool", "/pools/edge/chat", (page) => page.getByRole("heading", { name: "Members" })],
  ["rollouts", "/rollouts", (page) => page.getByTestId("applied")],
  ["edit", "/gateways/edge/edit?pool=chat", (page) => page.getByTestId("check").getByText("No changes.")],
];

export async function story() {
  const { token } = await api("POST", "/admin/v1/tokens", { name: "<b>viewer</b>", role: "viewer" });
  const page = await open();
  await signIn(page, token);
  await page.getByRole("button", { name: "<b>viewer</b>, viewer" }).waitFor();
  await viewer(page);
  await everyPage(page);
  await keyboard(page);
  await page.getByRole("button", { name: "<b>viewer</b>, viewer" }).click();
  await page.getByRole("menuitem", { name: "Sign out" }).click();
  await page.getByRole("button", { name: "Sign in" }).waitFor();
  await axeCheck(page, "sign in");
  await page.close();
}

/** A viewer is offered nothing, and the server would refuse it. */
async function viewer(page) {
  await page.goto(`${URL_}/lanes`);
  await page.getByRole("button", { name: "chat › gpt-east" }).click();
  const drawer = page.getByRole("dialog");
  await drawer.getByText("This needs the role operator; you are signed in as viewer.").waitFor();
  for (const name of ["Force open", "Force close", "Drain", "Reset"]) {
    const button = drawer.getByRole("button", { name });
    check((await button.getAttribute("aria-disabled")) === "true", `${name} is offered to a viewer`);
    await button.click({ force: true });
    check((await drawer.locator("form").count()) === 0, `${name} opens for a viewer`);
  }
  const status = await page.evaluate(async () => {
    const body = JSON.stringify({ action: "force_open", lane: "gpt-east", reason: "x", ttl_secs: 60 });
    return (await fetch("/admin/v1/gateways/edge/overrides", { method: "POST", headers: { "content-type": "application/json" }, body })).status;
  });
  check(status === 403, `the server answered a viewer's write with ${status}`);
}

async function everyPage(page) {
  for (const scheme of ["light", "dark"]) {
    for (const width of [1280, 390]) {
      await page.emulateMedia({ colorScheme: scheme });
      await page.setViewportSize({ width, height: width === 390 ? 844 : 900 });
      for (const [name, path, drawn] of PAGES) {
        await page.goto(URL_ + path);
        await drawn(page).waitFor();
        const where = `${name} ${scheme} ${width}`;
        check((await page.getByRole("heading", { level: 1 }).count()) === 1, `${where} has one main heading`);
        await fits(page, where);
        await axeCheck(page, where);
        await shot(page, `${name}-${scheme}-${width}`);
      }
    }
  }
  await page.emulateMedia({ colorScheme: "light" });
  await page.setViewportSize({ width: 1280, height: 900 });
}

/** From the fleet to a lane's agents without a pointer. */
async function keyboard(page) {
  await page.goto(URL_);
  await page.getByText("Rows are lanes, columns are agents").waitFor();
  const focusTo = async (what, is) => {
    for (let step = 0; step < 60; step += 1) {
      await page.keyboard.press("Tab");
      if (await page.evaluate(is)) return;
    }
    throw new Error(`no Tab leads to ${what}`);
  };
  await focusTo("the heat map", () => document.activeElement?.getAttribute("role") === "application");
  await page.keyboard.press("ArrowRight");
  await page.keyboard.press("ArrowDown");
  await page.keyboard.press("ArrowRight");
  await page.getByText("node-1 ·").waitFor();
  await page.keyboard.press("Enter");
  await page.getByRole("dialog").waitFor();
  await page.keyboard.press("Escape");
  await until("closed", () => page.getByRole("dialog").count(), (count) => count === 0);
  await page.goto(URL_);
  await page.getByText("Rows are lanes, columns are agents").waitFor();
  await focusTo("the lanes", () => document.activeElement?.textContent === "Lanes and providers");
  await page.keyboard.press("Enter");
  await page.getByRole("heading", { level: 1, name: "Lanes and providers" }).waitFor();
}
