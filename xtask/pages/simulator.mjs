// The simulator: its module beside the program, and its page.
import assert from "node:assert/strict";
import { resolve } from "node:path";

import { yardsticks } from "./browser.mjs";
import { load, output, read, write } from "./module.mjs";

const simulated = (program, ...args) => output(program, ["simulate", ...args, "--format", "json"]);

export function modules({ program, pages }) {
  return {
    async "simulator: nine scenarios, 2 seeds each: the module's bytes are the program's"() {
      const exports = await load(pages.simulator.module);
      const ask = (request) => {
        write(exports, new TextEncoder().encode(JSON.stringify(request)));
        return read(exports, exports.call());
      };
      const scenarios = JSON.parse(ask({ ask: "scenarios" }));
      assert.ok(scenarios.length >= 9);
      for (const { name, text } of scenarios) {
        for (const seed of ["7", "18446744073709551615"]) {
          const { disciplines } = JSON.parse(ask({ ask: "start", text, guests: 5, days: 1.5, seed }));
          disciplines.forEach((_, discipline) => ask({ ask: "run", discipline, guests: 5 }));
          const expected = simulated(program, name, "--guests", "5", "--days", "1.5", "--seed", seed);
          assert.equal(ask({ ask: "report" }), expected, `${name} ${seed}`);
        }
      }
    },
  };
}

// A thousand guest-days, in yardsticks. The aim is 1 s, which this page does not reach: 2.1 s were
// measured on 2026-11-25, and 4.0 s on 2026-11-27 on a machine where the program's own CPU time was
// 1.6 times as long and a yardstick took 0.13 s. Twice that is a regression.
const MOST = 60;

const done = `document.getElementById("progress").textContent.includes("guest-days in")
  && document.querySelectorAll("#story li").length > 0`;

export async function pages(browser, { program, pages: { simulator } }) {
  const { evaluate, key, picture, screen, send, text, until } = bound(browser);
  let opened = 0;
  const open = (address) =>
    browser.open(`file://${resolve(simulator.page)}?${(opened += 1)}${address}`, "document.getElementById('form') !== null");
  const cases = {
    async "simulator: the first visit simulates a thousand guests, and its report is the program's"() {
      await screen(1280, "light");
      await open("");
      await until("the first run", done);
      console.log(`    ${await text("progress")}`);
      assert.equal(await text("json"), simulated(program, "migration-night", "--guests", "1000"));
      await picture("simulator-first");
    },
    async "simulator: a thousand guest-days of the benchmark's fleet"() {
      const toml = "name = 'bench'\n[[fault]]\nkind = 'migrate'\nper_day = 1.0\nlength_s = [0.05, 0.9]\n[[server]]\n";
      return browser.is_within(yardsticks(MOST), async () => {
        await open(`#${new URLSearchParams({ text: toml, guests: 1000, days: 1, seed: 7 })}`);
        await until("the run", done);
        return evaluate("page.took");
      });
    },
    async "simulator: an address has scenario, seed, discipline and guest"() {
      await open("#scenario=compare-keepers&guests=60&days=2&seed=9&discipline=regression&guest=17");
      await until("the run", done);
      assert.match(await text("whose"), /Guest 17 under regression/);
      assert.match(await text("heading"), /60 guests, 2 days, seed 9v/);
      assert.equal(await text("json"), simulated(program, "compare-keepers", "--guests", "60", "--days", "2", "--seed", "9"));
      const hash = await evaluate("location.hash");
      for (const part of ["seed=9", "guest=17", "discipline=regression"]) assert.ok(hash.includes(part), hash);
    },
    async "simulator: three widths, light and dark: it fits, and axe-core finds nothing"() {
      await browser.fits("simulator");
    },
    async "simulator: a click selects a guest"() {
      const before = await text("whose");
      const { x, y } = await evaluate(`(() => {
        const box = document.getElementById("fleet").getBoundingClientRect();
        window.scrollTo(0, box.top + scrollY - 100);
        const { left, top } = document.getElementById("fleet").getBoundingClientRect();
        const errors = page.fleets[page.shown].guest(33);
        const cell = errors.findIndex((s) => !Number.isNaN(s) && Math.abs(s) > 1);
        return { x: left + page.plot.x((cell + 0.5) / CELLS), y: top + page.plot.y(errors[cell]) };
      })()`);
      for (const type of ["mousePressed", "mouseReleased"]) {
        await send("Input.dispatchMouseEvent", { type, x, y, button: "left", clickCount: 1 });
      }
      await until("a guest", `document.getElementById("whose").textContent !== ${JSON.stringify(before)}`);
      assert.match(await text("whose"), /Guest 33 /);
    },
    async "simulator: the keyboard moves time, chooses guests and runs"() {
      await evaluate("document.getElementById('time').focus()");
      await key("Home");
      const first = await text("now");
      for (let times = 0; times < 60; times += 1) await key("ArrowRight");
      assert.notEqual(await text("now"), first);
      await picture("simulator-part");
      await evaluate("document.getElementById('guest').focus(); document.getElementById('guest').select()");
      await send("Input.insertText", { text: "5" });
      await key("Enter");
      await until("guest 5", "document.getElementById('whose').textContent.startsWith('Guest 5 ')");
      await evaluate("document.getElementById('seed').focus(); document.getElementById('seed').select()");
      await send("Input.insertText", { text: "11" });
      await key("Enter");
      await until("seed 11", `document.getElementById("heading").textContent.includes("seed 11")`);
      await until("its end", done);
    },
    async "simulator: what cannot be is refused with its line"() {
      for (const [toml, why] of [["name = 'x'\nspeed = 3\n", /^Line 2: /], ["name = 'x'\n\n[[fault]]\nkind = 'pause'\n", /^Line 3: /]]) {
        await open(`#${new URLSearchParams({ text: toml })}`);
        await until("the refusal", "document.getElementById('refused').textContent !== ''");
        assert.match(await text("refused"), why);
      }
      await picture("simulator-refused");
    },
    async "simulator: a stopped run tells what there is"() {
      await open("#scenario=compare-keepers&guests=10000&days=30&seed=1");
      await until("a share", "document.getElementById('progress').textContent.includes(' of 10000')");
      await evaluate("document.getElementById('stop').click()");
      await until("the end", done);
      assert.match(await text("progress"), /Stopped/);
    },
    async "simulator: nothing was loaded, and nothing complained"() {
      assert.deepEqual(browser.complaints, []);
      assert.deepEqual(browser.requests.filter((url) => !/^(file|blob|about):/.test(url)), []);
      assert.equal(await browser.runs_foreign_scripts(), false);
    },
  };
  return { cases };
}

// The browser's methods, to be called by their names.
function bound(browser) {
  const names = ["evaluate", "key", "picture", "screen", "send", "text", "until"];
  return Object.fromEntries(names.map((name) => [name, browser[name].bind(browser)]));
}
