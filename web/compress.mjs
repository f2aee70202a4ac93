// Writes the compressed forms of the built files beside them, so that the server compresses nothing
// while it answers, and checks the size of what a first opening loads.
import { readdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { brotliCompressSync, constants, gzipSync } from "node:zlib";

const BUILT = "../dashboard-api/page/built";
/** Most bytes of a first opening under gzip, from the contract of the page. */
const FIRST_LOAD_BYTES_MAX = 350 * 1024;
/** Smaller files gain nothing. */
const BYTES_MIN = 512;

const sizes = new Map();
for (const name of readdirSync(join(BUILT, "assets"))) {
  const path = join(BUILT, "assets", name);
  if (name.endsWith(".gz") || name.endsWith(".br") || statSync(path).size < BYTES_MIN) continue;
  const plain = readFileSync(path);
  const gzip = gzipSync(plain, { level: 9 });
  writeFileSync(`${path}.gz`, gzip);
  writeFileSync(`${path}.br`, brotliCompressSync(plain, { params: { [constants.BROTLI_PARAM_SIZE_HINT]: plain.length } }));
  sizes.set(name, gzip.length);
}

const index = readFileSync(join(BUILT, "index.html"), "utf8");
const first = [...sizes].filter(([name]) => index.includes(name));
const total = first.reduce((sum, [, size]) => sum + size, 0);
console.log(`a first opening loads ${Math.round(total / 1024)} kB under gzip in ${first.length} files`);
if (first.length === 0 || total > FIRST_LOAD_BYTES_MAX) {
  console.error(`the bound is ${FIRST_LOAD_BYTES_MAX / 1024} kB`);
  process.exit(1);
}
