// The page of `parachron fleet map --html` in a headless Chromium: axe-core's violations in
// both schemes and at three widths, the first paint, and frames while the map is moved.
//
//   npm install --prefix DIR playwright-core axe-core
//   node check.mjs DIR PAGE.html PICTURES
//
// Ends with 1 where a bar is missed: no violation, 1 s to the first paint, no error.
import { createRequire } from 'node:module';
import { readFileSync, mkdirSync } from 'node:fs';
import { resolve } from 'node:path';

const [modules, page, pictures] = process.argv.slice(2).map((it) => resolve(it));
const require = createRequire(`${modules}/`);
const { chromium } = require('playwright-core');
const axe = readFileSync(require.resolve('axe-core/axe.min.js'), 'utf8');
mkdirSync(pictures, { recursive: true });
const browser = await chromium.launch({ executablePath: process.env.CHROMIUM || '/usr/bin/chromium', args: ['--no-sandbox'] });
let missed = 0;
const bar = (what, figure, met) => { console.log(`${what}: ${figure} ${met ? 'met' : 'NOT MET'}`); missed += !met; };

for (const colorScheme of ['light', 'dark']) for (const width of [375, 800, 1280]) {
  // axe is a script of ours: it is let in for the check alone, not by the page.
  const context = await browser.newContext({ colorScheme, viewport: { width, height: 900 }, bypassCSP: true });
  const tab = await context.newPage(), errors = [];
  tab.on('pageerror', (error) => errors.push(error.message));
  tab.on('console', (it) => it.type() === 'error' && errors.push(it.text()));
  await tab.goto(`file://${page}`);
  await tab.evaluate(axe);
  const { violations } = await tab.evaluate(() => axe.run());
  violations.forEach((it) => console.log(`  ${it.id}: ${it.help}: ${it.nodes.length}, first ${it.nodes[0].html.slice(0, 120)}`));
  bar(`${colorScheme} ${width}: violations`, violations.length, violations.length === 0);
  const beyond = await tab.evaluate(() => document.documentElement.scrollWidth - innerWidth);
  bar(`${colorScheme} ${width}: wider than the window by`, Math.max(0, beyond), beyond <= 0);
  bar(`${colorScheme} ${width}: errors`, errors.length ? errors.join('; ') : 0, errors.length === 0);
  await tab.screenshot({ path: `${pictures}/${colorScheme}-${width}.png`, fullPage: width !== 1280 });
  await context.close();
}

// With its own policy in force.
const context = await browser.newContext({ viewport: { width: 1280, height: 900 } });
const tab = await context.newPage(), errors = [], asked = [];
tab.on('console', (it) => it.type() === 'error' && errors.push(it.text()));
tab.on('request', (it) => asked.push(it.url()));
await tab.goto(`file://${page}`);
await tab.waitForFunction(() => performance.getEntriesByName('first-contentful-paint').length > 0);
const paint = await tab.evaluate(() => performance.getEntriesByName('first-contentful-paint')[0].startTime);
bar('first paint, ms', paint.toFixed(0), paint <= 1000);
bar('requests', asked.length, asked.length === 1);
const map = await tab.locator('#map').boundingBox();
const [x, y] = [map.x + map.width / 2, map.y + map.height / 2];
await tab.mouse.move(x, y);
for (let k = 0; k < 6; k++) await tab.mouse.wheel(0, -300);
await tab.evaluate(() => { window.stamps = []; const each = (at) => { window.stamps.push(at); requestAnimationFrame(each); }; requestAnimationFrame(each); });
await tab.mouse.down();
const steps = 120, begun = Date.now();
for (let k = 0; k < steps; k++) await tab.mouse.move(x + 150 * Math.sin(k / 9), y + 150 * Math.cos(k / 9));
await tab.mouse.up();
const took = Date.now() - begun;
const frames = await tab.evaluate(() => { const gaps = window.stamps.slice(1).map((at, k) => at - window.stamps[k]).sort((a, b) => a - b); return { median: gaps[gaps.length >> 1], p95: gaps[Math.floor(gaps.length * 0.95)], count: gaps.length }; });
console.log(`moved ${steps} times in ${took} ms: ${frames.count} frames, median ${frames.median.toFixed(1)} ms, 95 % ${frames.p95.toFixed(1)} ms`);
const cost = await tab.evaluate(() => { const begun = performance.now(); for (let k = 0; k < 60; k++) { go(k, k + 1); draw(); } return (performance.now() - begun) / 60; });
bar('a frame costs, ms (16.7 is 60 a second)', cost.toFixed(2), cost < 16.7);
await tab.screenshot({ path: `${pictures}/moved.png` });
// By keys alone.
await tab.locator('#map').focus();
for (const key of ['Home', 'ArrowRight', 'ArrowDown', 'ArrowRight', '+', 'Enter']) await tab.keyboard.press(key);
const [cell, story, focus] = await tab.evaluate(() => [document.querySelector('#cell').textContent, document.querySelector('#story h3').textContent, document.activeElement.id]);
bar('by keys', `${cell} | ${story}`, cell.includes(story) && focus === 'story');
bar('errors', errors.length ? errors.join('; ') : 0, errors.length === 0);
await browser.close();
process.exit(missed ? 1 : 0);
