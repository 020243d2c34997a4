// A node's page, as `parachron export --listen` serves it: without the status that parachrond has.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { createServer } from "node:net";

import { seconds } from "./browser.mjs";

// A port that was free just now.
const free_port = () => new Promise((found) => {
  const server = createServer().listen(0, "127.0.0.1", () => {
    const { port } = server.address();
    server.close(() => found(port));
  });
});

async function replies(address) {
  for (let turns = 0; turns < 300; turns += 1) {
    if (await fetch(`${address}metrics`).then(({ ok }) => ok, () => false)) return;
    await new Promise((wake) => setTimeout(wake, 100));
  }
  assert.fail(`${address}: no reply within 30 s`);
}

export const modules = () => ({});

export async function pages(browser, { program }) {
  const port = await free_port();
  const address = `http://127.0.0.1:${port}/`;
  const served = spawn(program, ["export", `--listen=127.0.0.1:${port}`], { stdio: "ignore" });
  const ended = new Promise((over) => served.on("exit", over));
  const shown = "document.querySelector('#told')?.textContent.includes('As of')";
  const open = () => browser.open(address, shown);
  const cases = {
    async "node: three widths, light and dark: it fits, and axe-core finds nothing"() {
      await replies(address);
      await open();
      await browser.fits("node");
    },
    async "node: it is painted within a second"() {
      return browser.is_within(seconds(1), async () => {
        await open();
        return (await browser.first_paint()) / 1000;
      });
    },
    async "node: it asks for its figures alone"() {
      browser.fresh();
      await open();
      const asked = browser.requests.filter((url) => !url.startsWith("about:")).map((url) => url.replace(address, "/"));
      assert.deepEqual([...new Set(asked)].sort(), ["/", "/metrics", "/status"]);
      assert.notEqual(await browser.text("state"), "");
      assert.deepEqual(browser.complaints.filter(({ url }) => url !== `${address}status`), []);
      assert.equal(await browser.runs_foreign_scripts(), false);
    },
    async "node: once nobody replies, its figures are no longer shown as current"() {
      served.kill();
      await ended;
      await browser.evaluate("ask()");
      await browser.until("another state", `!(${shown})`);
    },
  };
  return { cases, async end() {
    served.kill();
    await ended;
  } };
}
