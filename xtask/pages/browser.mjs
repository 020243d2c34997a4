// A Chromium without a window, by its debugging pipe.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { availableParallelism, loadavg, tmpdir } from "node:os";
import { join } from "node:path";

const KEYS = { Tab: 9, Enter: 13, " ": 32, End: 35, Home: 36, ArrowRight: 39, ArrowDown: 40, "+": 187 };

const ENDED = "the browser has ended";

export const WIDTHS = [360, 820, 1440];
export const SCHEMES = ["light", "dark"];

export class Browser {
  static async start({ browser, axe, pictures }) {
    const self = new Browser();
    Object.assign(self, { pictures, axe: axe === null ? null : readFileSync(axe, "utf8") });
    self.profile = mkdtempSync(join(tmpdir(), "page-"));
    const options = ["--headless", "--no-sandbox", "--remote-debugging-pipe", `--user-data-dir=${self.profile}`, "--disable-gpu"];
    self.running = spawn(browser, [...options, "about:blank"], { stdio: ["ignore", "ignore", "ignore", "pipe", "pipe"] });
    Object.assign(self, { last: 0, waiting: new Map(), session: undefined, has_ended: false });
    self.fresh();
    // Whatever waits for a browser that has ended fails: node would end without a word.
    self.exited = new Promise((ended) => self.running.on("exit", ended)).then(() => {
      self.has_ended = true;
      for (const [, reject] of self.waiting.values()) reject(new Error(ENDED));
      self.waiting.clear();
    });
    self.running.stdio[3].on("error", () => {});
    let rest = "";
    self.running.stdio[4].setEncoding("utf8").on("data", (data) => {
      const parts = (rest + data).split("\0");
      rest = parts.pop();
      parts.forEach((part) => self.receive(JSON.parse(part)));
    });
    const { targetId } = await self.send("Target.createTarget", { url: "about:blank" });
    ({ sessionId: self.session } = await self.send("Target.attachToTarget", { targetId, flatten: true }));
    for (const domain of ["Page", "Runtime", "Log", "Network"]) await self.send(`${domain}.enable`);
    return self;
  }

  // Forgets what earlier pages asked for and complained of.
  fresh() {
    [this.complaints, this.requests] = [[], []];
  }

  receive({ id, result, error, method, params }) {
    if (id) {
      const [resolve, reject] = this.waiting.get(id);
      this.waiting.delete(id);
      if (error) reject(new Error(error.message));
      else resolve(result);
    }
    if (method === "Runtime.exceptionThrown") this.complaints.push(params.exceptionDetails);
    if (method === "Log.entryAdded" && params.entry.level === "error") this.complaints.push(params.entry);
    if (method === "Network.requestWillBeSent") this.requests.push(params.request.url);
  }

  send(method, params = {}, sessionId = this.session) {
    if (this.has_ended) return Promise.reject(new Error(ENDED));
    const id = (this.last += 1);
    this.running.stdio[3].write(`${JSON.stringify({ id, method, params, sessionId })}\0`);
    return new Promise((...ends) => this.waiting.set(id, ends));
  }

  async evaluate(expression) {
    const { result, exceptionDetails } = await this.send("Runtime.evaluate", { expression, returnByValue: true, awaitPromise: true });
    assert.equal(exceptionDetails, undefined, `${expression.slice(0, 300)}: ${JSON.stringify(exceptionDetails)}`);
    return result.value;
  }

  text(id) {
    return this.evaluate(`document.getElementById("${id}").textContent`);
  }

  async until(what, expression) {
    for (let turns = 0; turns < 600; turns += 1) {
      if (await this.evaluate(expression)) return;
      await new Promise((wake) => setTimeout(wake, 100));
    }
    assert.fail(`${what}: not within a minute; ${JSON.stringify(this.complaints)}`);
  }

  // A page of its own for each address, as a person opens it.
  async open(address, loaded) {
    await this.send("Page.navigate", { url: "about:blank" });
    await this.send("Page.navigate", { url: address });
    await this.until("the page", `document.readyState === 'complete' && (${loaded})`);
  }

  focus(id) {
    return this.evaluate(`document.getElementById("${id}").focus()`);
  }

  async key(key) {
    const event = { key, code: key, windowsVirtualKeyCode: KEYS[key] };
    const text = { Enter: "\r", " ": " ", "+": "+" }[key];
    await this.send("Input.dispatchKeyEvent", { type: "keyDown", ...event, ...(text && { text }) });
    await this.send("Input.dispatchKeyEvent", { type: "keyUp", ...event });
  }

  async mouse(type, x, y, more = {}) {
    await this.send("Input.dispatchMouseEvent", { type, x, y, ...more });
  }

  async screen(width, scheme) {
    await this.send("Emulation.setDeviceMetricsOverride", { width, height: 900, deviceScaleFactor: 1, mobile: false });
    await this.send("Emulation.setEmulatedMedia", { features: [{ name: "prefers-color-scheme", value: scheme }] });
    await this.evaluate("new Promise((drawn) => setTimeout(drawn, 300))");
  }

  async picture(name) {
    if (this.pictures === null) return;
    mkdirSync(this.pictures, { recursive: true });
    const { data } = await this.send("Page.captureScreenshot", { captureBeyondViewport: true });
    writeFileSync(join(this.pictures, `${name}.png`), Buffer.from(data, "base64"));
  }

  // axe-core's violations; it runs as the inspector's script, which no page's policy governs.
  async violations() {
    if (this.axe === null) return [];
    const complaints = [...this.complaints];
    if (!(await this.evaluate("Boolean(window.axe)"))) await this.send("Runtime.evaluate", { expression: this.axe });
    const violations = await this.evaluate(`axe.run().then(({ violations }) => violations.map(({ id, help, nodes }) =>
      \`\${id}: \${help}: \${nodes.length}, first \${nodes[0].html.slice(0, 120)}\`))`);
    // What the policy forbade axe-core is no fault of the page.
    this.complaints = complaints;
    return violations;
  }

  // Every width in both schemes: nothing is wider than the screen, and axe-core is content.
  async fits(name) {
    for (const width of WIDTHS) {
      for (const scheme of SCHEMES) {
        await this.screen(width, scheme);
        const wide = await this.evaluate("document.documentElement.scrollWidth");
        assert.ok(wide <= width, `${wide} at ${width}`);
        assert.deepEqual(await this.violations(), [], `${width} ${scheme}`);
        await this.picture(`${name}-${width}-${scheme}`);
      }
    }
    await this.screen(1280, "light");
  }

  // Whether a script runs that is not the page's own.
  runs_foreign_scripts() {
    return this.evaluate(`window.ran = 0; document.body.append(Object.assign(
      document.createElement("script"), { textContent: "ran = 1" })); window.ran === 1`);
  }

  // ms to the first paint of the page that is open.
  async first_paint() {
    const paint = `performance.getEntriesByName("first-contentful-paint")[0]`;
    await this.until("a first paint", `Boolean(${paint})`);
    return this.evaluate(`${paint}.startTime`);
  }

  // Fixed work in memory, floating point and strings, s: what a page's own work is judged by, as a
  // machine that is slow in those is slow in both.
  yardstick() {
    return this.evaluate(`(() => {
      const begun = performance.now();
      const table = new Float64Array(1 << 21), words = new Map();
      let state = 1, sum = 0;
      for (let turn = 0; turn < 4e6; turn += 1) {
        state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
        sum += Math.sqrt(table[state >>> 11] += turn);
      }
      for (let turn = 0; turn < 2e5; turn += 1) words.set(\`word \${turn % 5e4}\`, turn + sum);
      window.state = words.size;
      return (performance.now() - begun) / 1000;
    })()`);
  }

  // The median of five durations, s, against a bar that the median of as many yardsticks gives,
  // each taken beside its duration. A busy machine is no failure: then why, for the counts.
  async is_within(most, measure) {
    const [yards, took] = [[], []];
    for (let turn = 0; turn < 5; turn += 1) {
      yards.push(await this.yardstick());
      took.push(await measure());
    }
    const [yard, s] = [yards, took].map((all) => all.sort((one, other) => one - other)[2]);
    const most_s = most(yard);
    const words = `${s.toFixed(3)} s, at most ${most_s.toFixed(3)}; the yardstick took ${(yard * 1e3).toFixed(0)} ms`;
    // The yardstick alone misses a host whose other CPUs are taken: a page has a thread beside its own.
    const [load] = loadavg();
    const is_busy = yards[4] > 2 * yards[0] || load > 1.5 * availableParallelism();
    console.log(`    median of 5: ${words}`);
    if (is_busy && s > most_s) {
      return `this machine is busy, with a load of ${load.toFixed(1)} and yardsticks of ${yards.map((one) => (one * 1e3).toFixed(0))} ms: ${words}`;
    }
    assert.ok(s <= most_s, words);
    return undefined;
  }

  async close() {
    await this.send("Browser.close", {}, undefined).catch(() => {});
    await this.exited;
    rmSync(this.profile, { recursive: true, force: true });
  }
}

// Bars for is_within: a duration that people notice, and one of a page's own work.
export const seconds = (most_s) => () => most_s;
export const yardsticks = (most) => (yard) => most * yard;
