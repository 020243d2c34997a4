// A node's page, as parachrond or `parachron export --listen` serves it, in a headless
// Chromium: axe-core's violations in both schemes and at three widths, its own policy in
// force, the first paint, what it asks for, and what it says once nobody replies.
//
//   npm install --prefix DIR playwright-core axe-core
//   node check.mjs DIR http://127.0.0.1:9975/ PICTURES
//
// Ends with 1 where a bar is missed: no violation, 1 s to the first paint, no error.
import { createRequire } from 'node:module';
import { readFileSync, mkdirSync } from 'node:fs';
import { resolve } from 'node:path';

const [modules, page, pictures] = process.argv.slice(2).map((it, at) => (at === 1 ? it : resolve(it)));
const require = createRequire(`${modules}/`);
const { chromium } = require('playwright-core');
const axe = readFileSync(require.resolve('axe-core/axe.min.js'), 'utf8');
mkdirSync(pictures, { recursive: true });
const browser = await chromium.launch({ executablePath: process.env.CHROMIUM || '/usr/bin/chromium', args: ['--no-sandbox'] });
let missed = 0;
const bar = (what, figure, met) => { console.log(`${what}: ${figure} ${met ? 'met' : 'NOT MET'}`); missed += !met; };
const shown = (tab) => tab.waitForFunction(() => document.querySelector('#told').textContent.includes('As of'));

for (const colorScheme of ['light', 'dark']) for (const width of [375, 800, 1280]) {
  // axe is a script of ours: it is let in for the check alone, not by the page.
  const context = await browser.newContext({ colorScheme, viewport: { width, height: 900 }, bypassCSP: true });
  const tab = await context.newPage();
  await tab.goto(page);
  await shown(tab);
  await tab.evaluate(axe);
  const { violations } = await tab.evaluate(() => axe.run());
  violations.forEach((it) => console.log(`  ${it.id}: ${it.help}: ${it.nodes.length}, first ${it.nodes[0].html.slice(0, 120)}`));
  bar(`${colorScheme} ${width}: violations`, violations.length, violations.length === 0);
  const beyond = await tab.evaluate(() => document.documentElement.scrollWidth - innerWidth);
  bar(`${colorScheme} ${width}: wider than the window by`, Math.max(0, beyond), beyond <= 0);
  await tab.screenshot({ path: `${pictures}/${colorScheme}-${width}.png`, fullPage: true });
  await context.close();
}

// With its own policy in force.
const context = await browser.newContext({ viewport: { width: 1280, height: 900 } });
const tab = await context.newPage(), errors = [], asked = new Set();
tab.on('console', (it) => it.type() === 'error' && errors.push(it.text()));
tab.on('pageerror', (error) => errors.push(error.message));
tab.on('request', (it) => asked.add(it.url().replace(page, '/')));
await tab.goto(page);
await shown(tab);
const paint = await tab.evaluate(() => performance.getEntriesByName('first-contentful-paint')[0].startTime);
bar('first paint, ms', paint.toFixed(0), paint <= 1000);
bar('asks for', [...asked].sort().join(' '), [...asked].sort().join(' ') === '/ /metrics /status');
const [state, sources, offset] = await tab.evaluate(() => [document.querySelector('#state').textContent, document.querySelectorAll('#sources tr').length, document.querySelector('#offset').textContent]);
bar('says', `${state}; ${offset} ${sources} sources`, state !== '' && sources > 0);
const is = await tab.evaluate(() => { const it = document.createElement('script'); it.textContent = 'window.ran = 1'; document.body.append(it); return window.ran; });
bar('a script that is not its own runs', is === 1, is !== 1);
bar('errors but of that', errors.length - 1, errors.length === 1 && errors[0].includes('Content Security Policy'));
await context.setOffline(true);
await tab.evaluate(() => ask());
const told = await tab.evaluate(() => document.querySelector('#told').textContent);
bar('once nobody replies', told, told.startsWith('Not told since'));
await browser.close();
process.exit(missed ? 1 : 0);
