// `cargo xtask page --check`: the modules in node beside the program, and all of Parachron's
// pages in one Chromium without a window. node check.mjs SETTINGS, which are JSON:
//
//   program    the program parachron
//   fleet_map  the program fleet-map
//   pages      by name: module, page, and the most bytes that the page may have
//   browser    a Chromium; null: the modules alone
//   axe        axe-core's script; null: no accessibility check
//   pictures   a folder for pictures; null: none
import assert from "node:assert/strict";
import { statSync } from "node:fs";

import { Browser } from "./browser.mjs";
import * as log from "./log.mjs";
import * as map from "./map.mjs";
import * as node from "./node.mjs";

const settings = JSON.parse(process.argv[2]);
const counts = { passed: 0, failed: 0, "not measured": 0, skipped: 0 };

// A test returns why it measured nothing, if so.
async function run(name, test) {
  try {
    const busy = await test();
    counts[busy ? "not measured" : "passed"] += 1;
    console.log(busy ? `NOT MEASURED: ${name}: ${busy}` : `ok      ${name}`);
  } catch (error) {
    counts.failed += 1;
    console.log(`FAILED  ${name}: ${error.stack}`);
  }
}

function skip(why) {
  counts.skipped += 1;
  console.log(`SKIPPED: ${why}`);
}

for (const [name, { page, most_bytes: most }] of Object.entries(settings.pages)) {
  const { size } = statSync(page);
  await run(`${name}: ${size} bytes, at most ${most}`, () => assert.ok(size <= most));
}
for (const suite of [log]) {
  for (const [name, test] of Object.entries(suite.modules(settings))) await run(name, test);
}
if (settings.browser === null) {
  skip("no Chromium is installed; try: apt-get install chromium");
} else {
  if (settings.axe === null) skip("axe-core could not be fetched by npm: accessibility is unchecked");
  const browser = await Browser.start(settings);
  for (const suite of [log, map, node]) {
    browser.fresh();
    const { cases, end } = await suite.pages(browser, settings);
    for (const [name, test] of Object.entries(cases)) await run(name, test);
    await end?.();
  }
  await browser.close();
}
const parts = Object.entries(counts).map(([how, number]) => `${number} ${how}`);
console.log(`page: ${parts.join(", ")}`);
process.exit(counts.failed === 0 ? 0 : 1);
