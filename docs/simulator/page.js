// The page: its controls, and what the worker tells.

const by = (id) => document.getElementById(id);
const OWN = "own";
const page = { scenarios: [], run: null, fleets: [], shown: 0, chosen: null, picture: null };

const code = new Blob([by("worker").textContent], { type: "text/javascript" });
const worker = new Worker(URL.createObjectURL(code));
worker.onmessage = ({ data }) => TOLD[data.tells](data);
worker.postMessage({ wasm: Uint8Array.from(atob(by("wasm").textContent), (letter) => letter.charCodeAt(0)) });

// ---- What the worker tells.

const TOLD = {
  scenarios({ all }) {
    page.scenarios = all;
    const choices = [...all.map(({ name }) => [name, name]), [OWN, "one of your own"]];
    by("scenario").append(...choices.map(([name, words]) => new Option(words, name)));
    from_address();
  },
  started({ started }) {
    const { refused, line } = started;
    by("refused").textContent = refused === undefined ? "" : line ? `Line ${line}: ${refused}` : refused;
    if (refused !== undefined) {
      by("own").open = by("own").open || Boolean(line);
      by("progress").textContent = "";
      ended();
      return;
    }
    page.run = started;
    // With the version of the random streams, which the address has to name.
    by("seed").value = started.seed;
    page.begun = performance.now();
    page.fleets = started.disciplines.map(() => new Fleet(started.guests));
    [page.shown, page.chosen] = [Math.max(0, started.disciplines.indexOf(page.wanted.discipline)), null];
    to_address();
    by("about").textContent = started.about;
    by("heading").textContent = `${started.name}: ${started.guests} guests, ${started.days === 1 ? "a day" : `${started.days} days`}, seed ${started.seed}`;
    [by("guest").min, by("guest").max] = [started.first, started.first + started.guests - 1];
    by("time").value = CELLS - 1;
    disciplines();
    by("table").replaceChildren();
    by("json").textContent = "";
    by("story").replaceChildren();
    by("result").hidden = false;
  },
  lines({ discipline, lines, done }) {
    page.fleets[discipline].add(lines, done);
    by("progress").textContent = `${page.run.disciplines[discipline]}: ${done} of ${page.run.guests} guests`;
    if (discipline === page.shown) draw_soon();
  },
  report({ text, is_whole }) {
    const s = page.took = (performance.now() - page.begun) / 1000;
    const days = page.fleets.reduce((sum, fleet) => sum + fleet.done, 0) * page.run.days;
    by("progress").textContent = `${Number(days.toPrecision(6))} guest-days in ${time(s)}.`
      + (is_whole ? "" : " Stopped: the figures cover these only.");
    by("json").textContent = text;
    table(JSON.parse(text));
    ended();
    choose(page.wanted.guest ?? page.run.first + page.fleets[page.shown].worst());
  },
  story({ story }) {
    page.story = story;
    by("story").replaceChildren(...story.events.map((event) => {
      const item = document.createElement("li");
      const when = document.createElement("b");
      when.textContent = event.kind === null ? "Start" : time(event.at_s);
      item.append(when, ": ", description(event, page.run.right_s));
      return item;
    }));
    draw_one();
  },
};

function ended() {
  by("stop").disabled = true;
  by("run").disabled = false;
}

function disciplines() {
  const choices = page.run.disciplines.map((name, index) => {
    const [label, choice] = [document.createElement("label"), document.createElement("input")];
    Object.assign(choice, { type: "radio", name: "discipline", checked: index === page.shown });
    choice.onchange = () => {
      page.shown = index;
      draw_soon();
      if (page.chosen !== null) choose(page.chosen);
    };
    label.append(choice, name);
    return label;
  });
  by("disciplines").replaceChildren(by("disciplines").firstElementChild, ...choices);
}

function table(report) {
  const heads = ["discipline", "ever > 1 ms", "ever > 1 s", "of the time > 1 ms", "half right within", "95 % within",
    "longest", "error at end, median", "broken promises"];
  const percent = (share) => `${(share * 100).toFixed(1)} %`;
  const optional = (s) => (s === undefined || s === null ? "–" : time(s));
  const rows = report.disciplines.map((one) => [one.discipline, percent(one.ever_off[0]), percent(one.ever_off[2]),
    percent(one.time_off[0]), optional(one.right_after_s?.[0]), optional(one.right_after_s?.[1]),
    time(one.longest_wrong_s), optional(one.last_error_s?.[0]), one.broken]);
  by("table").replaceChildren(...[heads, ...rows].map((cells, index) => {
    const row = document.createElement("tr");
    row.append(...cells.map((words) => {
      const cell = document.createElement(index === 0 ? "th" : "td");
      cell.textContent = words;
      return cell;
    }));
    return row;
  }));
}

// ---- Pictures.

let is_due = false;

function draw_soon() {
  if (is_due) return;
  is_due = true;
  requestAnimationFrame(() => {
    is_due = false;
    draw_fleet();
  });
}

// All of it once, from which the part up to the time is shown.
function draw_fleet() {
  const fleet = page.fleets[page.shown];
  // A page that is left has no size.
  if (!fleet || fleet.done === 0 || by("fleet").clientWidth === 0) return;
  const most_s = Math.max(...page.fleets.map((one) => one.most_s));
  page.plot = new Plot(by("fleet"), page.run.days, most_s);
  fleet.draw(page.plot, page.run.right_s);
  const { canvas } = page.plot;
  page.picture = new OffscreenCanvas(canvas.width, canvas.height);
  page.picture.getContext("2d").drawImage(canvas, 0, 0);
  show_time();
}

function show_time() {
  const { plot, picture, run } = page;
  const fleet = page.fleets[page.shown];
  if (!plot || !fleet || fleet.done === 0) return;
  const { pen } = plot;
  const cell = Number(by("time").value);
  const until = plot.x((cell + 1) / CELLS);
  pen.clearRect(0, 0, plot.width, plot.height);
  plot.axes(run.right_s);
  pen.save();
  pen.beginPath();
  pen.rect(0, 0, until, plot.height - PAD.bottom);
  pen.clip();
  pen.clearRect(0, 0, plot.width, plot.height);
  pen.drawImage(picture, 0, 0, plot.width, plot.height);
  if (page.chosen !== null) {
    pen.strokeStyle = colour("--chosen");
    pen.lineWidth = 2.5;
    plot.line(fleet.guest(page.chosen - run.first));
  }
  pen.restore();
  if (cell < CELLS - 1) {
    pen.strokeStyle = colour("--ink");
    plot.rule(until, PAD.top, until, plot.height - PAD.bottom);
  }
  const sizes = fleet.sizes()[cell];
  const beyond = [1e-3, 0.1, 1].map((s) => sizes.reduce((sum, size) => sum + (size > s ? 1 : 0), 0));
  const at = time(((cell + 1) / CELLS) * run.days * 86400);
  by("now").textContent = `Up to ${at}, of ${sizes.length} running guests ${beyond[0]} were off by more than 1 ms, `
    + `${beyond[1]} by 100 ms, ${beyond[2]} by 1 s.`;
}

function draw_one() {
  const { story, run } = page;
  if (!story) return;
  const most_s = story.line.reduce((most, s) => Math.max(most, Math.abs(s ?? 0)), 0);
  const plot = new Plot(by("one"), run.days, most_s);
  plot.axes(run.right_s);
  const { pen } = plot;
  pen.strokeStyle = colour("--muted");
  for (const { at_s, kind } of story.events) {
    const x = plot.x(at_s / (run.days * 86400));
    if (kind !== null) plot.rule(x, PAD.top, x, plot.height - PAD.bottom);
  }
  pen.strokeStyle = colour("--chosen");
  pen.lineWidth = 1.8;
  plot.line(story.line);
}

// ---- What people do.

function choose(guest) {
  const { run } = page;
  if (!run || !(guest >= run.first && guest < run.first + page.fleets[page.shown].done)) return;
  page.chosen = guest;
  by("guest").value = guest;
  by("whose").textContent = `Guest ${guest} under ${run.disciplines[page.shown]}`;
  worker.postMessage({ ask: "story", discipline: page.shown, guest });
  show_time();
  to_address();
}

function simulate() {
  [by("run").disabled, by("stop").disabled] = [true, false];
  [page.chosen, page.story] = [null, null];
  by("refused").textContent = "";
  by("progress").textContent = "Starting.";
  to_address();
  worker.postMessage({
    ask: "start", text: by("text").value, guests: Number(by("guests").value),
    days: Number(by("days").value), seed: by("seed").value,
  });
}

// A scenario's own figures, where its file has them.
function fill(text) {
  const own = (key, other) => new RegExp(`^${key} = ([0-9.]+)`, "m").exec(text)?.[1] ?? other;
  by("text").value = text;
  [by("guests").value, by("days").value] = [own("guests", 1000), own("days", 1)];
}

const text_of = (name) => page.scenarios.find((one) => one.name === name)?.text;

function to_address() {
  const name = by("scenario").value;
  const said = new URLSearchParams(name === OWN ? { text: by("text").value } : { scenario: name });
  for (const id of ["guests", "days", "seed"]) said.set(id, by(id).value);
  if (page.run) said.set("discipline", page.run.disciplines[page.shown]);
  if (page.chosen !== null) said.set("guest", page.chosen);
  page.address = `#${said}`;
  history.replaceState(null, "", page.address);
}

function from_address() {
  const said = new URLSearchParams(location.hash.slice(1));
  const text = said.get("text");
  const name = text !== null ? OWN : text_of(said.get("scenario")) ? said.get("scenario") : "migration-night";
  by("scenario").value = name;
  fill(text ?? text_of(name));
  for (const id of ["guests", "days"]) if (said.has(id)) by(id).value = said.get(id);
  by("seed").value = said.get("seed") ?? "1";
  const guest = said.get("guest");
  page.wanted = { discipline: said.get("discipline"), guest: guest === null ? null : Number(guest) };
  if (by("form").reportValidity()) simulate();
}

function play() {
  const slider = by("time");
  if (matchMedia("(prefers-reduced-motion: reduce)").matches) {
    slider.value = CELLS - 1;
    return show_time();
  }
  const begun = performance.now();
  by("play").textContent = "Stop";
  const turn = (page.playing = (now) => {
    if (page.playing !== turn) return;
    slider.value = Math.min(CELLS - 1, ((now - begun) / 10000) * CELLS);
    show_time();
    if (Number(slider.value) < CELLS - 1) requestAnimationFrame(turn);
    else rest();
  });
  requestAnimationFrame(turn);
}

function rest() {
  page.playing = null;
  by("play").textContent = "Play";
}

by("legend").append(...[["half", "half of the guests"], ["ninety", "90 %"], ["most", "99 %"], ["all", "all"],
  ["chosen", "the chosen one"]].map(([name, words]) => {
  const [item, mark] = [document.createElement("li"), document.createElement("span")];
  mark.className = name;
  item.append(mark, words);
  return item;
}));
by("form").onsubmit = (event) => {
  event.preventDefault();
  page.wanted = { discipline: page.run?.disciplines[page.shown] ?? null, guest: null };
  simulate();
};
by("scenario").onchange = () => {
  const text = text_of(by("scenario").value);
  if (text) fill(text);
  else by("own").open = true;
};
by("text").oninput = () => {
  if (by("text").value !== text_of(by("scenario").value)) by("scenario").value = OWN;
};
by("stop").onclick = () => worker.postMessage({ ask: "stop" });
by("share").onclick = async () => {
  to_address();
  try {
    await navigator.clipboard.writeText(location.href);
    by("share").textContent = "Copied";
  } catch {
    by("share").textContent = "Copy it from the address bar";
  }
  setTimeout(() => (by("share").textContent = "Copy address"), 2000);
};
by("play").onclick = () => (page.playing ? rest() : play());
by("time").oninput = () => {
  rest();
  show_time();
};
by("guest").onchange = () => choose(Number(by("guest").value));
by("worst").onclick = () => choose(page.run.first + page.fleets[page.shown].worst());
by("fleet").onclick = ({ offsetX, offsetY }) =>
  choose(page.run.first + page.fleets[page.shown].nearest(page.plot, offsetX, offsetY));
window.onhashchange = () => {
  if (location.hash !== page.address) from_address();
};
window.onresize = () => {
  draw_soon();
  draw_one();
};
matchMedia("(prefers-color-scheme: dark)").onchange = window.onresize;
