// The pictures: errors of all guests over the run, and of one.

const CELLS = 200;
const LEAST_S = 1e-6;
const SHARES = [[1, 0.12], [0.99, 0.25], [0.9, 0.4], [0.5, 0.9]];
const PAD = { left: 62, right: 12, top: 10, bottom: 26 };

const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name);

// A canvas as large as it is shown, with axes: days across, and sizes of errors, log.
class Plot {
  constructor(canvas, span_days, most_s) {
    const dots = window.devicePixelRatio || 1;
    this.canvas = canvas;
    [this.width, this.height] = [canvas.clientWidth, canvas.clientHeight];
    [canvas.width, canvas.height] = [Math.round(this.width * dots), Math.round(this.height * dots)];
    this.pen = canvas.getContext("2d");
    this.pen.scale(dots, dots);
    this.days = span_days;
    this.decades = Math.max(3, Math.ceil(Math.log10(Math.max(most_s, LEAST_S) / LEAST_S)));
  }

  x(share) {
    return PAD.left + share * (this.width - PAD.left - PAD.right);
  }

  y(error_s) {
    const up = Math.log10(Math.max(Math.abs(error_s), LEAST_S) / LEAST_S) / this.decades;
    return this.height - PAD.bottom - up * (this.height - PAD.top - PAD.bottom);
  }

  // From x of a canvas to the share of the run.
  share(x) {
    return Math.min(1, Math.max(0, (x - PAD.left) / (this.width - PAD.left - PAD.right)));
  }

  axes(right_s) {
    const { pen } = this;
    pen.fillStyle = colour("--muted");
    pen.strokeStyle = colour("--edge");
    pen.lineWidth = 1;
    pen.font = "12px system-ui, sans-serif";
    pen.textBaseline = "middle";
    pen.textAlign = "right";
    const each = this.height / this.decades < 16 ? 2 : 1;
    for (let decade = 0; decade <= this.decades; decade += each) {
      const s = LEAST_S * 10 ** decade;
      this.rule(this.x(0), this.y(s), this.x(1), this.y(s));
      pen.fillText((decade === 0 ? "≤ " : "") + time(s), PAD.left - 6, this.y(s));
    }
    pen.textAlign = "center";
    const [unit, name] = this.days > 3 ? [1, "d"] : [1 / 24, "h"];
    const count = this.days / unit;
    const least = count / Math.max(2, Math.floor(this.width / 90));
    const power = 10 ** Math.floor(Math.log10(least));
    const step = [1, 2, 3, 6, 10].find((many) => many * power >= least) * power;
    for (let at = 0; at <= count * 1.0001; at += step) {
      const x = this.x(at / count);
      this.rule(x, this.height - PAD.bottom, x, this.height - PAD.bottom + 4);
      pen.fillText(`${Number(at.toFixed(3))} ${name}`, Math.min(x, this.width - 18), this.height - 10);
    }
    pen.setLineDash([5, 4]);
    pen.strokeStyle = colour("--muted");
    this.rule(this.x(0), this.y(right_s), this.x(1), this.y(right_s));
    pen.setLineDash([]);
  }

  rule(x, y, to_x, to_y) {
    this.pen.beginPath();
    this.pen.moveTo(x, y);
    this.pen.lineTo(to_x, to_y);
    this.pen.stroke();
  }

  // Errors at evenly spaced times; it breaks where there is none.
  line(errors) {
    const { pen } = this;
    pen.beginPath();
    let draws = false;
    for (let cell = 0; cell < errors.length; cell += 1) {
      const s = errors[cell];
      const has = s !== null && !Number.isNaN(s);
      if (has) pen[draws ? "lineTo" : "moveTo"](this.x((cell + 0.5) / errors.length), this.y(s));
      draws = has;
    }
    pen.stroke();
  }

  area(tops) {
    const { pen } = this;
    pen.beginPath();
    pen.moveTo(this.x(0.5 / tops.length), this.y(0));
    tops.forEach((s, cell) => pen.lineTo(this.x((cell + 0.5) / tops.length), this.y(s)));
    pen.lineTo(this.x(1 - 0.5 / tops.length), this.y(0));
    pen.fill();
  }
}

// The errors of one discipline's guests, as far as they are simulated.
class Fleet {
  constructor(guests) {
    this.errors = new Float32Array(guests * CELLS);
    this.done = 0;
    this.most_s = LEAST_S;
  }

  add(lines, done) {
    this.errors.set(lines, this.done * CELLS);
    for (const s of lines) if (Math.abs(s) > this.most_s) this.most_s = Math.abs(s);
    this.done = done;
    this.sorted = null;
  }

  guest(index) {
    return this.errors.subarray(index * CELLS, (index + 1) * CELLS);
  }

  // The sizes at each time, in order: those that are away have none.
  sizes() {
    this.sorted ??= Array.from({ length: CELLS }, (_, cell) => {
      const sizes = new Float32Array(this.done);
      let count = 0;
      for (let index = 0; index < this.done; index += 1) {
        const s = Math.abs(this.errors[index * CELLS + cell]);
        if (!Number.isNaN(s)) sizes[count++] = s;
      }
      return sizes.subarray(0, count).sort();
    });
    return this.sorted;
  }

  quantile(share) {
    return this.sizes().map((sizes) => sizes[Math.max(0, Math.ceil(sizes.length * share) - 1)] ?? 0);
  }

  worst() {
    let [index, most] = [0, -1];
    for (let at = 0; at < this.done * CELLS; at += 1) {
      const s = Math.abs(this.errors[at]);
      if (s > most) [index, most] = [Math.floor(at / CELLS), s];
    }
    return index;
  }

  // The guest whose line is next to a point.
  nearest(plot, x, y) {
    const middle = Math.floor(plot.share(x) * CELLS);
    let [index, least] = [0, Infinity];
    for (let guest = 0; guest < this.done; guest += 1) {
      for (let cell = Math.max(0, middle - 1); cell <= Math.min(CELLS - 1, middle + 1); cell += 1) {
        const s = this.errors[guest * CELLS + cell];
        const [dx, dy] = [plot.x((cell + 0.5) / CELLS) - x, plot.y(s) - y];
        if (dx * dx + dy * dy < least) [index, least] = [guest, dx * dx + dy * dy];
      }
    }
    return index;
  }

  draw(plot, right_s) {
    const { pen } = plot;
    plot.axes(right_s);
    pen.fillStyle = colour("--band");
    for (const [share, opacity] of SHARES) {
      pen.globalAlpha = opacity;
      plot.area(this.quantile(share));
    }
    pen.strokeStyle = colour("--line");
    pen.lineWidth = 0.7;
    pen.globalAlpha = Math.min(0.5, 40 / this.done + 0.06);
    // Beyond two thousand lines nobody sees one.
    for (let index = 0; index < Math.min(this.done, 2000); index += 1) plot.line(this.guest(index));
    pen.globalAlpha = 1;
  }
}
