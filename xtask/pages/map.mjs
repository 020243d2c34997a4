// The page of `fleet-map map --html`, of three nodes on loopback.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { createSocket } from "node:dgram";
import { writeFileSync } from "node:fs";
import { join, resolve } from "node:path";

import { seconds } from "./browser.mjs";
import { output } from "./module.mjs";

const NODES = ["amsterdam", "berlin", "cracow"];

// Ports that were free just now.
async function ports() {
  const sockets = await Promise.all(NODES.map(() => new Promise((bound) => {
    const socket = createSocket("udp4");
    socket.bind(0, "127.0.0.1", () => bound(socket));
  })));
  const all = sockets.map((socket) => socket.address().port);
  await Promise.all(sockets.map((socket) => new Promise((closed) => socket.close(closed))));
  return all;
}

// The last is 5 ms ahead of the others.
async function map(program, scratch) {
  const addresses = (await ports()).map((port) => `127.0.0.1:${port}`);
  const peers = join(scratch, "peers");
  writeFileSync(peers, NODES.map((name, at) => `${name} ${addresses[at]}\n`).join(""));
  const files = NODES.map((name) => join(scratch, `${name}.jsonl`));
  await Promise.all(NODES.map((name, at) => new Promise((ended, failed) => {
    const args = ["pair", "--name", name, "--duration", "3s", "--every", "1s", "--answer", "127.0.0.0/8",
      "--listen", addresses[at], "--shift-ns", at === 2 ? "5000000" : "0", "--peers", peers, "--out", files[at]];
    const node = spawn(program, args, { stdio: "ignore" });
    node.on("error", failed);
    node.on("exit", (code) => (code === 0 ? ended() : failed(new Error(`${name} ended with ${code}`))));
  })));
  const page = join(scratch, "map.html");
  output(program, ["map", "--peers", ...files, "--html", page]);
  return resolve(page);
}

export const modules = () => ({});

export async function pages(browser, { fleet_map: program, scratch }) {
  const page = await map(program, scratch);
  const open = () => browser.open(`file://${page}`, "document.querySelector('#map') !== null");
  const cases = {
    async "map: three widths, light and dark: it fits, and axe-core finds nothing"() {
      await open();
      await browser.fits("map");
    },
    async "map: it is painted within a second"() {
      return browser.is_within(seconds(1), async () => {
        await open();
        return (await browser.first_paint()) / 1000;
      });
    },
    async "map: it asks for itself alone"() {
      browser.fresh();
      await open();
      assert.deepEqual(browser.requests.filter((url) => !url.startsWith("about:")), [`file://${page}`]);
    },
    async "map: it moves with the mouse, and a frame costs less than a sixtieth of a second"() {
      const { x, y } = await browser.evaluate(`(() => {
        const { left, top, width, height } = document.getElementById("map").getBoundingClientRect();
        return { x: left + width / 2, y: top + height / 2 };
      })()`);
      await browser.mouse("mouseWheel", x, y, { deltaX: 0, deltaY: -1800 });
      await browser.mouse("mousePressed", x, y, { button: "left", clickCount: 1 });
      for (let step = 0; step < 30; step += 1) {
        await browser.mouse("mouseMoved", x + 50 * Math.sin(step / 9), y + 50 * Math.cos(step / 9), { button: "left", buttons: 1 });
      }
      await browser.mouse("mouseReleased", x, y, { button: "left", clickCount: 1 });
      await browser.picture("map-moved");
      return browser.is_within(seconds(1 / 60), async () => (await browser.evaluate(`(() => {
        const begun = performance.now();
        for (let turn = 0; turn < 60; turn += 1) { go(turn, turn + 1); draw(); }
        return performance.now() - begun;
      })()`)) / 60e3);
    },
    async "map: keys may come before the picture is painted"() {
      await open();
      const drawn = await browser.evaluate(`new Promise((seen) => {
        const painted = picture;
        picture = undefined;
        go(0, 1);
        setTimeout(() => { picture = painted; seen(wanted); }, 100);
      })`);
      assert.equal(drawn, 0);
      assert.deepEqual(browser.complaints, []);
    },
    async "map: by keys alone"() {
      await open();
      await browser.focus("map");
      for (const key of ["Home", "ArrowRight", "ArrowDown", "ArrowRight", "+", "Enter"]) await browser.key(key);
      const [cell, story, focus] = await browser.evaluate(`[document.querySelector("#cell").textContent,
        document.querySelector("#story h3").textContent, document.activeElement.id]`);
      assert.ok(cell.includes(story) && focus === "story", `${cell} | ${story} | ${focus}`);
    },
    async "map: nothing complained, and no other script runs"() {
      assert.deepEqual(browser.complaints, []);
      assert.equal(await browser.runs_foreign_scripts(), false);
    },
  };
  return { cases };
}
