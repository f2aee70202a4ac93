// Configuration: a wrong edit, a right one, its diff, its way to the agents, a canary that refuses, a
// rollback; then access and audit.

import { api, axeCheck, check, fits, open, shot, signIn, until, URL_ } from "../browser.mjs";

export async function story() {
  const page = await open();
  await signIn(page);
  await edit(page);
  await rollBack(page);
  await stages(page);
  await access(page);
  await page.close();
}

async function edit(page) {
  await page.goto(`${URL_}/pools`);
  await page.getByRole("link", { name: "chat", exact: true }).click();
  await page.getByRole("region", { name: "Members" }).getByText("3 of 3 agents").first().waitFor();
  await shot(page, "pool");
  await axeCheck(page, "a pool");
  await fits(page, "a pool");
  await page.getByRole("link", { name: "Edit" }).click();
  const editor = page.getByRole("textbox", { name: "Pool chat" });
  await page.getByTestId("check").getByText("No changes.").waitFor();
  const review = page.getByRole("button", { name: "Review the change" });
  check(await review.isDisabled(), "nothing is to be reviewed yet");

  // A wrong value is marked at its field, with the server's own words.
  await editor.getByText("weight").first().waitFor();
  await put(page, editor, "members:\n  - target: gpt-east\n    weight: 3\n  - target: nobody\nstrategy: weighted\n");
  await page.getByTestId("check").getByText("/members/1/target").waitFor();
  await page.locator(".cm-lintRange-error").getByText("nobody").waitFor();
  check(await review.isDisabled(), "what is wrong is not to be saved");
  await shot(page, "edit-wrong");
  await axeCheck(page, "the editor");
  // The schema is known: names and their meaning are offered.
  await page.keyboard.press("ControlOrMeta+End");
  await page.keyboard.type("on_exh");
  await page.locator(".cm-tooltip-autocomplete").getByText("on_exhausted").waitFor();
  await page.keyboard.press("Escape");
  // And what is no YAML at all.
  await put(page, editor, "members: [\n");
  await page.getByTestId("check").getByText("1 error").waitFor();

  await put(page, editor, "members:\n  - target: gpt-east\n    weight: 3\n  - target: gpt-west\n    weight: 1\nstrategy: weighted\n");
  await page.getByTestId("check").getByText("No errors.").waitFor();
  await review.click();
  await page.getByRole("textbox", { name: "After the save" }).getByText("weight").first().waitFor();
  await shot(page, "edit-diff");
  await axeCheck(page, "the diff");
  await page.getByLabel(/^Message/).fill("<i>more</i> for east");
  await page.getByRole("button", { name: "Save as a new revision" }).click();
  await page.getByTestId("applied").getByText("Applied on all of 3 agents.").waitFor();
  await page.getByText("<i>more</i> for east").waitFor();
  await shot(page, "revisions");
  await axeCheck(page, "revisions");
}

/** Pastes a text over an editor's. (Chromium styles what is typed over a selection, which the policy refuses it.) */
async function put(page, editor, text) {
  await editor.focus();
  await page.keyboard.press("ControlOrMeta+a");
  await editor.evaluate((box, pasted) => {
    const clipboardData = new DataTransfer();
    clipboardData.setData("text/plain", pasted);
    box.dispatchEvent(new ClipboardEvent("paste", { clipboardData, bubbles: true, cancelable: true }));
  }, text);
}

async function rollBack(page) {
  await page.getByRole("button", { name: "What changed in revision 2" }).click();
  await page.getByRole("region", { name: "From revision 1 to 2" }).getByRole("textbox", { name: "Revision 2" }).getByText("strategy").first().waitFor();
  await shot(page, "revision-diff");
  await page.getByRole("button", { name: "Roll back to 1" }).click();
  await page.getByRole("dialog").getByText("Writes the content of revision 1 as a new revision of edge").waitFor();
  await page.getByRole("dialog").getByRole("button", { name: "Roll back", exact: true }).click();
  await page.getByRole("heading", { name: "Revision 3" }).waitFor();
  await page.getByTestId("applied").getByText("Applied on all of 3 agents.").waitFor();
}

/** A canary that refuses its revision: a key that is not in its environment is a problem there. */
async function stages(page) {
  await api("PUT", "/admin/v1/gateways/edge/rollout-plan", { strategy: "staged", canary: { labels: { node: "0" } }, percents: [50], hold_secs: 1 });
  const document = await api("GET", "/admin/v1/gateways/edge/config");
  document.providers.east.api_key = { env: "NO_SUCH_KEY" };
  await api("PUT", "/admin/v1/gateways/edge/config?message=a%20key%20that%20is%20missing", document, { "if-match": '"3"' });
  await page.goto(`${URL_}/rollouts?gateway=edge&tab=rollouts`);
  await page.getByRole("link", { name: "Revision 4" }).click();
  await page.getByText("Stopped: problems").waitFor();
  await page.getByTestId("rollout-counts").getByText("1 of 3 agents serve revision 4").waitFor();
  await page.getByText("NO_SUCH_KEY").first().waitFor();
  // Its callers are not failed yet: the other member serves. The canary says why the first cannot.
  await page.goto(`${URL_}/pools/edge/chat`);
  await page.getByText("its key is missing there (1 agent)").waitFor();
  await page.goto(URL_);
  await until("the reduced pool", () => page.getByTestId("verdict").getByRole("heading").innerText(), (text) => text === "Callers are served; chat of edge lacks members");
  await shot(page, "fleet-missing-key");
  await page.goto(`${URL_}/rollouts/edge/4`);
  await page.getByText("Stopped: problems").waitFor();
  await shot(page, "rollout-stopped");
  await axeCheck(page, "a stopped rollout");
  await fits(page, "a stopped rollout");
  await page.getByRole("button", { name: "Abort and roll back" }).click();
  await page.getByRole("dialog").getByLabel(/^Message/).fill("no key there");
  await page.getByRole("dialog").getByRole("button", { name: "Abort and roll back" }).click();
  await page.getByText("Revision 5 brought the old content back.").waitFor();
  await page.goto(`${URL_}/rollouts?gateway=edge`);
  await page.getByTestId("applied").getByText("Applied on all of 3 agents.").waitFor();
}

async function access(page) {
  await page.goto(`${URL_}/access`);
  await page.getByLabel(/^Name/).fill("<script>alert(1)</script>");
  await page.getByRole("button", { name: "Make a token" }).click();
  const secret = await page.getByTestId("secret").innerText();
  check(/^[0-9a-f]+\.[0-9a-f]+$/.test(secret), "a token is shown");
  await page.getByRole("button", { name: "I have it" }).click();
  await until("the secret is gone from the page", () => page.content(), (html) => !html.includes(secret));
  await shot(page, "tokens");
  await axeCheck(page, "tokens");
  await page.getByRole("button", { name: "Revoke <script>alert(1)</script>" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Revoke", exact: true }).click();
  await until("revoked", () => page.getByText("<script>alert(1)</script>").count(), (count) => count === 0);

  await page.getByRole("tab", { name: "Join tokens" }).click();
  await page.getByRole("button", { name: "Make a join token" }).click();
  await page.getByTestId("secret").waitFor();
  await axeCheck(page, "join tokens");
  await page.getByRole("tab", { name: "Identities" }).click();
  await page.getByText("No agent has joined with a certificate").waitFor();
  await axeCheck(page, "identities");
  await page.getByRole("tab", { name: "Audit log" }).click();
  await page.getByText("token.revoke").first().waitFor();
  await page.getByRole("button", { name: /^More about entry/ }).first().click();
  await page.getByRole("button", { name: "Verify the chain" }).click();
  await page.getByText("Intact: each of").waitFor();
  await shot(page, "audit");
  await axeCheck(page, "audit");
  await fits(page, "audit");
}
