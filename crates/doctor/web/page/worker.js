// Judges a log beside the page, piece by piece, so that the page answers meanwhile.
"use strict";

const PIECE = 1 << 20;

let exports;
let latest = 0;

async function judge(run, blob) {
  // What an abandoned log left behind is dropped.
  exports.finish();
  for (let at = 0; at < blob.size; at += PIECE) {
    const bytes = new Uint8Array(await blob.slice(at, at + PIECE).arrayBuffer());
    if (run !== latest) return;
    const input = exports.input(bytes.length);
    new Uint8Array(exports.memory.buffer, input, bytes.length).set(bytes);
    exports.push();
    postMessage({ run, done: at + bytes.length });
  }
  const length = exports.finish();
  const reply = new Uint8Array(exports.memory.buffer, exports.output(), length);
  postMessage({ run, reply: JSON.parse(new TextDecoder().decode(reply)) });
}

onmessage = async ({ data }) => {
  if (data.wasm) {
    exports = WebAssembly.instantiate(data.wasm, {}).then(({ instance }) => instance.exports);
    return;
  }
  latest = data.run;
  try {
    exports = await exports;
    await judge(data.run, data.blob);
  } catch (error) {
    postMessage({ run: data.run, failed: String(error) });
  }
};
