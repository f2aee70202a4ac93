// A provider breaks: what the first page says, what an operator overrides, and how it ends.

import { api, axeCheck, check, clearFaults, fits, open, setFault, shot, TOKEN, traffic, until, URL_ } from "../browser.mjs";

const verdictOf = (page) => page.getByTestId("verdict").getByRole("heading").innerText();

export async function story() {
  const stop = traffic();
  const page = await open();
  const loads = [];
  page.on("response", async (response) => loads.push((await response.request().sizes().catch(() => ({ responseBodySize: 0 }))).responseBodySize));
  await page.goto(`${URL_}/#token=${TOKEN}`);
  await page.getByRole("heading", { level: 1, name: "Fleet" }).waitFor();
  check(!page.url().includes(TOKEN), `the secret stays in the address: ${page.url()}`);
  const stored = await page.evaluate(() => JSON.stringify([{ ...localStorage }, { ...sessionStorage }, document.cookie, history.state]));
  check(!stored.includes(TOKEN), `the secret is kept: ${stored}`);
  await until("calm", () => verdictOf(page), (text) => text === "Nothing is wrong");
  await shot(page, "fleet-calm");
  const ready = await page.evaluate(() => performance.getEntriesByType("navigation")[0].domContentLoadedEventEnd);
  console.log(`first load: ${loads.reduce((sum, size) => sum + size, 0)} bytes in ${loads.length} answers, document ready after ${Math.round(ready)} ms`);

  await setFault({ path: "/east", status: 503 });
  await until("the API knows", () => api("GET", "/api/v1/breaker-state?pool=chat&lane=gpt-east"), (view) => view.cells[0]?.state === "open");
  const known = Date.now();
  await until("the page knows", () => verdictOf(page), (text) => text.includes("east fails for the fleet") || text.includes("refused on some agents"));
  console.log(`on the screen ${Date.now() - known} ms after the API knew`);
  await until("the fleet", () => verdictOf(page), (text) => text === "Callers are served; east fails for the fleet");
  await page.getByText("The provider: east is refused on 3 of 3 agents").waitFor();
  const incident = page.getByTestId("incident");
  await incident.getByText("open on 3 of 3").waitFor();
  await incident.getByText("status 503").waitFor();
  await shot(page, "fleet-outage");
  await axeCheck(page, "fleet in an outage");

  await incident.getByRole("link").first().click();
  const drawer = page.getByRole("dialog");
  await drawer.getByText("Because of status 503").waitFor();
  check((await drawer.getByRole("link", { name: /^node-/ }).count()) === 3, "three agents are listed");
  await shot(page, "lane");
  await axeCheck(page, "a lane");
  // The address shows the same to a colleague.
  const colleague = await open();
  await colleague.goto(page.url());
  await colleague.getByRole("dialog").getByText("Because of status 503").waitFor();
  await colleague.close();

  await clearFaults();
  await drawer.getByRole("button", { name: "Reset" }).click();
  await order(drawer, "the provider is back", "Reset");
  await drawer.getByText("Carried out on 3 of 3 agents").waitFor();
  await page.keyboard.press("Escape");
  await page.getByRole("link", { name: "Fleet" }).click();
  await until("calm again", () => verdictOf(page), (text) => text === "Nothing is wrong");

  await overrides(page);
  await stop();
  await page.close();
}

async function order(drawer, reason, button) {
  await drawer.getByLabel(/^Reason/).fill(reason);
  await drawer.locator("form").getByRole("button", { name: button, exact: true }).click();
}

async function overrides(page) {
  await page.getByRole("link", { name: "Lanes and providers" }).click();
  await page.getByRole("button", { name: "claude › claude-north" }).click();
  const drawer = page.getByRole("dialog");
  await drawer.getByRole("button", { name: "Force open" }).click();
  check(await drawer.locator("form").getByRole("button", { name: "Force open", exact: true }).isDisabled(), "an override needs a reason");
  await drawer.getByTestId("effect").getByText("Refuses every call to claude-north in pool claude on 3 agents for 15 min; claude keeps 1 of 2 members.").waitFor();
  await shot(page, "override-form");
  await axeCheck(page, "the override form");
  const reason = "<img src=x onerror=alert(1)> maintenance";
  await order(drawer, reason, "Force open");
  await drawer.getByTestId("acks").getByText("In force on 3 of 3 agents.").waitFor();
  await drawer.getByText(reason).waitFor();
  await shot(page, "override-in-force");

  // The other half of the pool: refused until the operator says that it is meant.
  await page.keyboard.press("Escape");
  await page.getByRole("button", { name: "claude › claude-south" }).click();
  await drawer.getByRole("button", { name: "Drain" }).click();
  await drawer.getByTestId("effect").getByText("claude keeps 0 of 2 members").waitFor();
  await order(drawer, "both", "Drain");
  await drawer.getByText("this would leave no usable member in 1 pool(s)").waitFor();
  await drawer.getByLabel("Do it even though a pool is left without a usable member: its callers will be failed").waitFor();
  check(await drawer.locator("form").getByRole("button", { name: "Drain", exact: true }).isDisabled(), "the refusal must be answered first");
  await page.keyboard.press("Escape");

  // An override is no incident.
  await page.getByRole("link", { name: "Fleet" }).click();
  await until("an override shows as one", () => verdictOf(page), (text) => text.includes("under an operator's override"));
  await page.getByRole("region", { name: "Overrides in force" }).getByText(reason).waitFor();
  check((await page.getByTestId("incident").count()) === 0, "an override is no incident");
  await shot(page, "fleet-override");
  await axeCheck(page, "the fleet under an override");

  await page.getByRole("region", { name: "Overrides in force" }).getByRole("link", { name: "claude › claude-north" }).click();
  await drawer.getByRole("button", { name: "Release" }).click();
  await until("released", () => drawer.getByRole("button", { name: "Release" }).count(), (count) => count === 0);
  await page.keyboard.press("Escape");
  await page.getByRole("link", { name: "Fleet" }).click();
  await until("calm after the release", () => verdictOf(page), (text) => text === "Nothing is wrong");
  await fits(page, "fleet");
}
