// Plays one story: `node main.mjs NAME`. Exit 0 when it holds and the page did nothing forbidden.

import { close, faults, SHOTS } from "./browser.mjs";
import { readdirSync } from "node:fs";

const [, , name] = process.argv;
const known = readdirSync(new URL("stories/", import.meta.url)).map((file) => file.replace(".mjs", ""));
if (!known.includes(name)) throw new Error(`no story '${name}'; there are ${known.join(", ")}`);
let failed = null;
try {
  const { story } = await import(`./stories/${name}.mjs`);
  await story();
  if (faults.length > 0) failed = new Error(`the page misbehaved:\n${[...new Set(faults)].join("\n")}`);
} catch (error) {
  failed = error;
}
if (failed) {
  console.error(failed.stack ?? failed, [...new Set(faults)].join("\n"), SHOTS ? `pictures are in ${SHOTS}` : "");
}
await close().catch(() => undefined);
process.exit(failed ? 1 : 0);
