// Runs the simulator beside the page, so that the page answers while it works.
"use strict";

let exports;

function ask(request) {
  const text = new TextEncoder().encode(JSON.stringify(request));
  // Each call may grow the memory: its buffer is asked for after the call.
  const input = exports.input(text.length);
  new Uint8Array(exports.memory.buffer, input, text.length).set(text);
  const length = exports.call();
  const output = exports.output();
  return new Uint8Array(exports.memory.buffer, output, length).slice();
}

const read = (bytes) => new TextDecoder().decode(bytes);

let runs = 0;

// Shares grow while they take less than a twentieth of a second; between two, the page
// may ask for a story, another run, or the end of this one.
async function simulate(started) {
  const run = (runs += 1);
  for (let discipline = 0; discipline < started.disciplines.length; discipline += 1) {
    let guests = 4;
    for (let done = 0; done < started.guests; ) {
      const begun = performance.now();
      const lines = new Float32Array(ask({ ask: "run", discipline, guests }).buffer);
      done = Math.min(done + guests, started.guests);
      postMessage({ tells: "lines", discipline, lines, done }, [lines.buffer]);
      if (performance.now() - begun < 50) guests *= 2;
      await new Promise((resolve) => setTimeout(resolve));
      if (run !== runs) return;
    }
  }
  report(true);
}

function report(is_whole) {
  postMessage({ tells: "report", text: read(ask({ ask: "report" })), is_whole });
}

onmessage = async ({ data }) => {
  if (data.wasm) {
    exports = (await WebAssembly.instantiate(data.wasm, {})).instance.exports;
    postMessage({ tells: "scenarios", all: JSON.parse(read(ask({ ask: "scenarios" }))) });
  } else if (data.ask === "start") {
    const started = JSON.parse(read(ask(data)));
    postMessage({ tells: "started", started });
    if (started.refused === undefined) simulate(started);
  } else if (data.ask === "stop") {
    runs += 1;
    report(false);
  } else {
    postMessage({ tells: "story", story: JSON.parse(read(ask(data))) });
  }
};
