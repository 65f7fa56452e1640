/*
 * Joins the modules of tl_ffblock/page/assets into the script that pages carry, and makes their style sheet small: `npm run build`.
 * The first line of each is a hash of the sources, which a test compares, so that a bundle that is older than they are fails without Node.
 */
import { createHash } from "node:crypto";
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

const ASSETS = join(dirname(fileURLToPath(import.meta.url)), "../../tl_ffblock/page/assets");
const sources = readdirSync(ASSETS).filter((name) => /\.(js|css)$/.test(name) && !name.includes(".bundle.")).sort();
const hash = createHash("sha256");
for (const name of sources) hash.update(`${name}\n`).update(readFileSync(join(ASSETS, name)));
const digest = hash.digest("hex");

for (const kind of ["css", "js"]) {
  const banner = kind === "js" ? { js: '"use strict";' } : {};
  const { outputFiles: [bundle] } = await build({
    entryPoints: [join(ASSETS, `page.${kind}`)], bundle: true, write: false, format: "iife", target: "es2022", charset: "utf8", minify: true, lineLimit: 1000, banner,
  });
  const text = `/* sources ${digest} */\n${bundle.text}`;
  if (process.argv[2] === "--print") console.log(text.trimEnd());
  else writeFileSync(join(ASSETS, `page.bundle.${kind}`), text);
}
