// The frame and the marks of charts with a row for each strategy.

const NARROW = 480;

// Room for a name above its row.
const STRIP = 20;

// The frame of a chart with a row for each of these results: names at the left, or above the rows if room is short.
// `tall` is the height for the marks of a row.
const rowFrame = (rows, width, roomRight, tall = 30) => {
  const narrow = width < NARROW;
  const each = tall + (narrow ? STRIP : 0);
  const nameAt = (STRIP - each) / 2;
  const label = (row) => nameOf(row.strategy) + (row.ranked ? "" : " ✗");
  const longest = Math.max(...rows.map((row) => label(row).length));
  const names = rows.map((row, position) =>
    Plot.text([row], {
      y: () => position,
      text: label,
      frameAnchor: "left",
      textAnchor: narrow ? "start" : "end",
      dx: narrow ? 0 : -10,
      dy: narrow ? nameAt : 0,
      fill: "currentColor",
      fontWeight: 600,
      stroke: "var(--surface)",
      strokeWidth: 4,
      className: `names${row.ranked ? "" : " wrong"} s${row.strategy}`,
    }),
  );
  return {
    narrow,
    nameAt,
    // Whether a text fits beside the name of its row. It always does where the names stand left of the rows.
    fits: (row, text) => !narrow || (label(row).length + text.length) * 7 < width - 20,
    // The middle of the marks of a row, and how far half of this many pixels reach, on the axis of the rows.
    y: (position) => position + (narrow ? STRIP / 2 / each : 0),
    half: (pixels) => pixels / 2 / each,
    options: {
      width,
      height: rows.length * each + 58,
      marginLeft: narrow ? 6 : Math.min(22 + longest * 7.7, width * 0.4),
      marginRight: narrow ? 14 : roomRight,
      marginTop: narrow ? 20 : 8,
      marginBottom: 46,
      y: { axis: null, domain: [rows.length - 0.5, -0.5] },
      style: { fontSize: "12px", background: "none", overflow: "visible" },
    },
    marks: [Plot.ruleY(rows.slice(1), { y: (row) => rows.indexOf(row) - 0.5, stroke: "var(--grid)" }), ...names],
  };
};

// The text at the right of each row, on the line of the name if room is short. Beside a long name it is left out, as the words
// below the chart have it.
const rowFigures = ({ narrow, nameAt, fits }, rows, text) =>
  rows.map((row, position) =>
    Plot.text(fits(row, text(row)) ? [row] : [], {
      y: () => position,
      text,
      frameAnchor: "right",
      textAnchor: narrow ? "end" : "start",
      dx: narrow ? 12 : 10,
      dy: narrow ? nameAt : 0,
      fill: "currentColor",
      stroke: "var(--surface)",
      strokeWidth: 4,
      className: `figures s${row.strategy}`,
    }),
  );

// Dots with the shape and colour of their strategies; open ones where `isOpen` says so.
const dots = (rows, { x, y, isOpen = () => false }) =>
  rows.map((row) =>
    Plot.dot([row], {
      x,
      y,
      r: 6,
      symbol: shape(row.strategy),
      fill: isOpen(row) ? "var(--surface)" : colour(row.strategy),
      stroke: colour(row.strategy),
      strokeWidth: 2,
      className: `s s${row.strategy}`,
    }),
  );

// The end of an interval: a stroke across it, longer than any marker, so that no marker hides a short interval.
const ACROSS = 12;
const strokeAcross = (upright) => ({
  draw: (context) => {
    context.moveTo(...(upright ? [0, -ACROSS] : [-ACROSS, 0]));
    context.lineTo(...(upright ? [0, ACROSS] : [ACROSS, 0]));
  },
});

// An interval, with a stroke across each end.
const interval95 = (strategy, [from, to], upright) => {
  const own = { stroke: colour(strategy), className: `s s${strategy} interval` };
  return [
    Plot.link([[...from, ...to]], { x1: "0", y1: "1", x2: "2", y2: "3", strokeWidth: 2.5, ...own }),
    Plot.dot([from, to], { x: "0", y: "1", symbol: strokeAcross(!upright), strokeWidth: 2, fill: "none", ...own }),
  ];
};

// The intervals of those rows that have one.
const bars = (rows, { low, high, y }) =>
  rows
    .filter((row) => low(row) !== null)
    .flatMap((row) => {
      const ends = [low(row), high(row)].map((end) => [end, y(row)]);
      return interval95(row.strategy, ends, false);
    });

// Selects the values of an axis whose names have room, and always the last one.
const ROOM = 40;
const spaced = (values, position) => {
  const named = [];
  for (const value of [...values].reverse()) {
    if (named.length === 0 || position(named.at(-1)) - position(value) >= ROOM) named.push(value);
  }
  return named;
};

const logAxis = (values, label, { width, marginLeft, marginRight }, room) => {
  const domain = logDomain(values, room);
  const ticks = logTicks(...domain);
  const named = spaced(ticks, d3.scaleLog(domain, [marginLeft, width - marginRight]));
  return {
    type: "log",
    domain,
    label,
    labelAnchor: "center",
    labelArrow: "none",
    grid: true,
    ticks,
    tickFormat: (tick) => (named.includes(tick) ? axisFigure(tick) : ""),
  };
};

// Points of data as points of the drawing.
const placed = (svg, points) => {
  const [x, y] = [svg.scale("x"), svg.scale("y")];
  return points
    .map(({ px, py, dx = 0, dy = 0, ...rest }) => ({ x: x.apply(px) + dx, y: y.apply(py) + dy, ...rest }))
    .filter((point) => Number.isFinite(point.x) && Number.isFinite(point.y));
};
