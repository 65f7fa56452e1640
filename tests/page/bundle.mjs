/*
 * Joins the modules of tl_ffblock/page/assets into the script that pages carry: `npm run build`.
 * Its first line is a hash of the sources, which a test compares, so that a bundle that is older than they are fails without Node.
 */
import { createHash } from "node:crypto";
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

const ASSETS = join(dirname(fileURLToPath(import.meta.url)), "../../tl_ffblock/page/assets");
const sources = readdirSync(ASSETS).filter((name) => name.endsWith(".js") && !name.endsWith(".bundle.js")).sort();
const hash = createHash("sha256");
for (const name of sources) hash.update(`${name}\n`).update(readFileSync(join(ASSETS, name)));
const digest = hash.digest("hex");

for (const entry of ["page"]) {
  const { outputFiles: [bundle] } = await build({
    entryPoints: [join(ASSETS, `${entry}.js`)], bundle: true, write: false, format: "iife", target: "es2022", charset: "utf8", minify: true, lineLimit: 120, banner: { js: '"use strict";' },
  });
  const text = `/* sources ${digest} */\n${bundle.text}`;
  if (process.argv[2] === "--print") console.log(text.trimEnd());
  else writeFileSync(join(ASSETS, `${entry}.bundle.js`), text);
}
