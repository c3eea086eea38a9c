// Shared by all charts: the data, the marks of a strategy, the format of figures, and the colour scheme.

const root = document.documentElement;
root.classList.add("scripted");
const data = JSON.parse(document.getElementById("data").textContent);

// Eight colours and seven shapes: their pairs repeat only after 56 strategies.
const COLOURS = 8;
const SHAPES = ["circle", "square", "triangle", "diamond", "star", "wye", "cross"];
const colour = (strategy) => `var(--s${strategy % COLOURS})`;
const shape = (strategy) => SHAPES[strategy % SHAPES.length];
const nameOf = (strategy) => data.strategies[strategy];

// The choices in the toolbar.
const chosen = { users: Math.max(...data.levels), hidden: new Set() };
const atLevel = (rows) => rows.filter((row) => row.users === chosen.users);

// Three significant digits with thousands apart, as in the tables.
const figure = (value) => {
  if (value === null || value === undefined || !Number.isFinite(value)) return "–";
  if (value === 0) return "0";
  const [mantissa, exponent] = value.toExponential(2).split("e");
  const decimals = Math.max(0, 2 - Number(exponent));
  return grouped(Number(`${mantissa}e${exponent}`).toFixed(decimals));
};
const grouped = (digits) => {
  const [whole, fraction] = digits.replace("-", "−").split(".");
  const apart = whole.replace("−", "").length > 4 ? whole.replace(/\B(?=(\d{3})+$)/g, "\u202f") : whole;
  return fraction === undefined ? apart : `${apart}.${fraction}`;
};
const interval = (estimate) => (estimate.low === null ? "" : ` [${figure(estimate.low)}, ${figure(estimate.high)}]`);

// A number on an axis: short, without trailing zeros.
const axisFigure = (value) => {
  const [unit, suffix] = [
    [1e9, "G"],
    [1e6, "M"],
    [1e5, "k"],
  ].find(([from]) => Math.abs(value) >= from) || [1, ""];
  const shown = grouped(String(Number((value / (unit === 1e5 ? 1e3 : unit)).toPrecision(3))));
  return suffix === "" ? shown : `${shown}\u202f${suffix}`;
};

// Round values within an interval of a logarithmic axis: with more powers of ten, fewer values of each.
const STEPS = [
  [4, [1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 7, 8, 9]],
  [12, [1, 1.5, 2, 3, 4, 5, 7]],
  [60, [1, 2, 5]],
  [2e3, [1, 3]],
  [Infinity, [1]],
];
const logTicks = (low, high) => {
  const ticks = [];
  const [, steps] = STEPS.find(([reach]) => high / low <= reach);
  for (let power = Math.floor(Math.log10(low)); power <= Math.ceil(Math.log10(high)); power += 1) {
    for (const step of steps) {
      const tick = step * 10 ** power;
      if (tick >= low * 0.999 && tick <= high * 1.001) ticks.push(Number(tick.toPrecision(3)));
    }
  }
  return ticks;
};

// A domain that leaves some room on either side, for a logarithmic axis.
const logDomain = (values, room = 1.15) => {
  const known = values.filter((value) => value > 0);
  return [Math.min(...known) / room, Math.max(...known) * room];
};

const element = (name, attributes = {}, ...children) => {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
};

// The shape of a strategy, in its colour.
const iconOf = (strategy) => {
  const symbol = d3.symbol(d3[`symbol${shape(strategy)[0].toUpperCase()}${shape(strategy).slice(1)}`], 90)();
  const icon = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  icon.setAttribute("viewBox", "-8 -8 16 16");
  icon.setAttribute("aria-hidden", "true");
  const path = icon.appendChild(document.createElementNS(icon.namespaceURI, "path"));
  path.setAttribute("d", symbol);
  path.setAttribute("fill", colour(strategy));
  return icon;
};

// The colour scheme is that of the system until the button changes it. Charts need no redraw: their colours are variables.
const remembered = "seckill-report-scheme";
const systemDark = matchMedia("(prefers-color-scheme: dark)");
const schemeButton = document.getElementById("scheme");
const isDark = () => (root.dataset.scheme ? root.dataset.scheme === "dark" : systemDark.matches);
const showScheme = () => schemeButton.setAttribute("aria-pressed", String(isDark()));
try {
  const scheme = localStorage.getItem(remembered);
  if (scheme === "dark" || scheme === "light") root.dataset.scheme = scheme;
} catch {
  // A browser may store nothing for a file. Then the choice lasts only as long as the page.
}
schemeButton.addEventListener("click", () => {
  root.dataset.scheme = isDark() ? "light" : "dark";
  showScheme();
  try {
    localStorage.setItem(remembered, root.dataset.scheme);
  } catch {
    // As above.
  }
});
systemDark.addEventListener("change", showScheme);
showScheme();
