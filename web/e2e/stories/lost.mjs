// What the page says when it knows less than it should: server gone, server back, server frozen, an
// agent killed, an API that errs on every call.

import { ask, axeCheck, check, open, shot, signIn, until, URL_ } from "../browser.mjs";

const verdictOf = (page) => page.getByTestId("verdict").getByRole("heading").innerText();

export async function story() {
  const page = await open();
  await signIn(page);
  await until("calm", () => verdictOf(page), (text) => text === "Nothing is wrong");
  // Every verdict that was ever on the screen.
  await page.evaluate(() => {
    globalThis.seen = [];
    const look = () => globalThis.seen.push(document.querySelector("[data-testid=verdict]")?.getAttribute("data-kind") ?? "none");
    new MutationObserver(look).observe(document.body, { subtree: true, childList: true, characterData: true, attributes: true });
  });

  await ask("kill-server");
  await page.getByRole("alert").getByText("The server does not answer.").waitFor();
  await until("no claim", () => verdictOf(page), (text) => text === "Disconnected: what happens now is not known");
  await shot(page, "fleet-disconnected");
  await axeCheck(page, "the fleet while disconnected");
  await ask("start-server");
  await until("back", () => page.getByText("Live", { exact: true }).count(), (count) => count === 1);
  await until("calm by itself", () => verdictOf(page), (text) => text === "Nothing is wrong");
  const kinds = await page.evaluate(() => [...new Set(globalThis.seen)]);
  check(!kinds.includes("failing") && !kinds.includes("degraded"), `a false alarm: ${kinds.join(", ")}`);

  // The session has outlived the server, and a page opened anew works.
  await page.reload();
  await until("calm after a reload", () => verdictOf(page), (text) => text === "Nothing is wrong");

  await ask("kill-agent", 2);
  await until("a silent agent", () => verdictOf(page), (text) => text === "No incident is reported, but not everything is known", 90_000);
  await page.getByText("1 agent is silent").waitFor();
  await shot(page, "fleet-silent-agent");
  await page.goto(`${URL_}/agents?state=stale`);
  await page.getByRole("link", { name: "node-2" }).click();
  await page.getByText("what its cells are now is not known").waitFor();

  await refusals(page);
  await page.close();
}

/** Every answer of the API is an error: each page says so, and none is white. */
async function refusals(page) {
  for (const [status, code] of [[500, "internal"], [503, "unavailable"]]) {
    await page.route(/\/(api|admin)\//, (route) =>
      route.fulfill({ status, contentType: "application/problem+json", body: JSON.stringify({ title: "x", status, code, detail: `made up ${code}`, errors: [], request_id: "r1", type: "about:blank" }) }));
    for (const path of ["/", "/agents", "/agents/none", "/pools", "/pools/edge/chat", "/rollouts", "/access"]) {
      await page.goto(URL_ + path);
      await page.getByText(`made up ${code}`).first().waitFor();
      check((await page.getByText("Nothing is wrong").count()) === 0, `${path} calls what it cannot read healthy`);
    }
    await page.goto(`${URL_}/lanes`);
    await page.getByText("Nothing has been read yet", { exact: true }).waitFor();
    await page.unroute(/\/(api|admin)\//);
  }
  // A session that ended, or was revoked, leads to the sign-in page.
  await page.context().clearCookies();
  await page.goto(`${URL_}/agents`);
  await page.getByRole("button", { name: "Sign in" }).waitFor();
  await page.getByLabel(/^Token/).fill("wrong.token");
  await page.getByRole("button", { name: "Sign in" }).click();
  await page.getByRole("alert").getByText("invalid or expired token").waitFor();
  await shot(page, "sign-in-refused");
}
