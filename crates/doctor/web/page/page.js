// The page: a log in, the doctor's verdict out.

const by = (id) => document.getElementById(id);
const page = { run: 0, size: 0, begun: 0, took: null, busy: false };

// A KVM guest whose host slept: testdata/verdicts/kvm-host-slept.log.
const EXAMPLE = `[  287.515864] clocksource: timekeeping watchdog on CPU0: Marking clocksource 'tsc' as unstable because the skew is too large:
[  287.515864] clocksource:                       'kvm-clock' wd_now: 4437767926 wd_last: 429c3c42f5 mask: ffffffffffffffff
[  287.515864] clocksource:                       'tsc' cs_now: c33f6ce157 cs_last: c1be2ad19f mask: ffffffffffffffff
`;

const code = new Blob([by("worker").textContent], { type: "text/javascript" });
const worker = new Worker(URL.createObjectURL(code));
worker.postMessage({ wasm: Uint8Array.from(atob(by("wasm").textContent), (letter) => letter.charCodeAt(0)) });
worker.onmessage = ({ data }) => {
  if (data.run !== page.run) return;
  if (data.failed !== undefined) return failed(`The log could not be read (${data.failed}). Reload the page.`);
  if (data.reply !== undefined) return show(data.reply);
  if (data.done < page.size) by("progress").textContent = `Read ${size(data.done)} of ${size(page.size)}.`;
};

const size = (bytes) => (bytes < 1e6 ? `${Math.ceil(bytes / 1e3)} kB` : `${(bytes / 1e6).toFixed(1)} MB`);

function element(name, text, kind = "") {
  const made = document.createElement(name);
  made.textContent = text;
  if (kind) made.className = kind;
  return made;
}

function failed(words) {
  page.busy = false;
  by("progress").textContent = "";
  by("result").hidden = true;
  by("failed").textContent = words;
}

// ---- What the doctor found.

function finding({ severity, what, evidence, why, remedies, rule, source }) {
  const article = element("article", "", severity);
  const heading = element("h3", "");
  heading.append(element("span", severity[0].toUpperCase() + severity.slice(1), "severity"), what);
  const list = element("ul", "", "remedies");
  list.append(...remedies.map(({ what: remedy, command, changes }) => {
    const item = element("li", remedy);
    if (command) item.append(element("pre", command));
    if (changes) item.append(element("p", `Changes: ${changes}`, "source"));
    return item;
  }));
  article.append(heading, element("pre", evidence.join("\n"), "evidence"), element("p", why));
  if (remedies.length > 0) article.append(list);
  article.append(element("p", `${rule}: ${source}`, "source"));
  return article;
}

function show({ lines, about_clocks: about, diagnosis, text }) {
  page.took = performance.now() - page.begun;
  page.busy = false;
  const plural = (count, noun) => `${count} ${noun}${count === 1 ? "" : "s"}`;
  by("progress").textContent = `Read ${plural(lines, "line")}, ${about} about clocks: ${plural(diagnosis.findings.length, "finding")}.`;
  const none = lines === 0 ? "The log has no line of text." : "Of this log's lines, doctor knows none.";
  const [, verdict, limits] = /^(.*?\.) (.*)$/s.exec(diagnosis.verdict) ?? [null, diagnosis.verdict, ""];
  by("verdict").textContent = about === 0 ? `${none} Paste the output of dmesg or journalctl -k.` : verdict;
  // The worst finding follows with its heading.
  by("limits").textContent = about === 0 ? "" : limits.replace(`${diagnosis.findings[0]?.what}. `, "");
  by("findings").replaceChildren(...diagnosis.findings.map(finding));
  by("text").textContent = text;
  by("result").hidden = false;
  if (page.moves) by("verdict").focus();
}

// ---- What people do.

function judge(blob, moves) {
  [page.run, page.size, page.begun, page.busy, page.moves] = [page.run + 1, blob.size, performance.now(), true, moves];
  by("failed").textContent = "";
  by("result").hidden = true;
  by("progress").textContent = "Reading.";
  worker.postMessage({ run: page.run, blob });
}

function judge_text(moves) {
  const text = by("log").value;
  if (text.trim() === "") return failed("Paste a log first, or open a file.");
  judge(new Blob([text]), moves);
}

// A file is not shown: it may have gigabytes.
function judge_file(file) {
  if (!file) return;
  by("log").value = "";
  judge(file, true);
}

by("form").onsubmit = (event) => {
  event.preventDefault();
  judge_text(true);
};
// A paste is judged at once; the field keeps the focus.
by("log").onpaste = () => setTimeout(() => judge_text(false));
by("file").onchange = () => {
  judge_file(by("file").files[0]);
  by("file").value = "";
};
by("example").onclick = () => {
  by("log").value = EXAMPLE;
  judge_text(true);
};
by("clear").onclick = () => {
  page.run += 1;
  by("log").value = by("progress").textContent = by("failed").textContent = "";
  by("result").hidden = true;
  by("log").focus();
};
by("copy").onclick = async () => {
  try {
    await navigator.clipboard.writeText(by("text").textContent);
    by("copy").textContent = "Copied";
  } catch {
    getSelection().selectAllChildren(by("text"));
    by("copy").textContent = "Selected: press Ctrl+C";
  }
  setTimeout(() => (by("copy").textContent = "Copy the text"), 2000);
};
const drag = (on) => (event) => {
  event.preventDefault();
  document.body.classList.toggle("dragging", on);
};
window.ondragover = drag(true);
window.ondragleave = drag(false);
window.ondrop = (event) => {
  drag(false)(event);
  const { files } = event.dataTransfer;
  if (files.length > 0) return judge_file(files[0]);
  by("log").value = event.dataTransfer.getData("text/plain");
  judge_text(true);
};
