// Times and events as text.

// 0.0123 is "12.3 ms": three figures.
function time(s) {
  const size = Math.abs(s);
  const units = [[86400 * 2, 86400, "d"], [7200, 3600, "h"], [120, 60, "min"], [0.9995, 1, "s"],
    [0.9995e-3, 1e-3, "ms"], [0.9995e-6, 1e-6, "µs"], [0, 1e-9, "ns"]];
  const [, unit, name] = units.find(([least]) => size >= least);
  const value = size / unit;
  const digits = value >= 99.95 ? 0 : value >= 9.995 ? 1 : 2;
  return `${Number(value.toFixed(digits))} ${name}`;
}

const off = (s) => (s === 0 ? "right" : `${time(s)} ${s < 0 ? "behind" : "ahead"}`);

const HAPPENED = {
  "pause": "paused", "restore": "restored from a snapshot",
  "restore-twice": "restored a second time from one snapshot", "migrate": "migrated",
  "host-sleep": "its host was suspended", "steal": "its host ran other guests on its CPU",
  "steal-burst": "its host gave it half of its CPU", "clock-set": "another program set its clock",
  "keeper-gone": "its time daemon was stopped",
  "wrong-rtc": "booted with a wrong RTC", "wrong-frequency": "its host advertised a wrong TSC frequency",
  "counter-reset": "its TSC restarted", "server-lies": "a server began to serve wrong time",
  "network-down": "its network went down", "leap-second": "a leap second was inserted",
};

function description(event, right_s) {
  const away = event.away_s > 0 ? `, away for ${time(event.away_s)}` : "";
  const parts = [`${event.kind === null ? "the guest starts" : HAPPENED[event.kind] ?? event.kind}${away}.`];
  if (event.kind !== null) {
    parts.push(`Its clock was ${off(event.before_s)} before and ${off(event.after_s)} after.`);
  }
  if (event.all_steps > 0) {
    const steps = event.steps.map(([after, by]) => `by ${by < 0 ? "−" : "+"}${time(by)} after ${time(after)}`);
    const more = event.all_steps - steps.length;
    parts.push(`Set ${steps.join(", ")}${more > 0 ? `, and ${more} more times` : ""}.`);
  }
  if (!event.was_wrong) {
    parts.push(`Its error never exceeded ${time(right_s)}.`);
  } else if (event.right_after_s === null) {
    parts.push(`Not back within ${time(right_s)} before the next event; ${off(event.worst_s)} at worst.`);
  } else {
    parts.push(`Back within ${time(right_s)} after ${time(event.right_after_s)}; ${off(event.worst_s)} at worst.`);
  }
  return parts.join(" ");
}
