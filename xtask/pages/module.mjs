// A module as node runs it, and the program beside it.
import { spawnSync } from "node:child_process";
import { readFileSync } from "node:fs";

export async function load(file) {
  globalThis.performance ??= { now: Date.now };
  const { instance } = await WebAssembly.instantiate(readFileSync(file), {});
  return instance.exports;
}

export function write(exports, bytes) {
  const at = exports.input(bytes.length);
  new Uint8Array(exports.memory.buffer, at, bytes.length).set(bytes);
}

export function read(exports, length) {
  return Buffer.from(exports.memory.buffer, exports.output(), length).toString();
}

// The program's output; 1 is that it found something. A program that has seen enough of its input
// closes it.
export function output(program, args, input = "") {
  const options = { input, stdio: "pipe", maxBuffer: 1 << 28 };
  const { error, status, stdout, stderr } = spawnSync(program, args, options);
  if (error && error.code !== "EPIPE") throw error;
  if (status !== 0 && status !== 1) throw new Error(`${program}: status ${status}: ${stderr}`);
  return stdout.toString();
}
