// Charts with a line for each strategy: distributions, timelines, and growth with the number of users.

const base = (width, height) => ({
  width,
  height,
  marginLeft: 58,
  marginRight: 18,
  marginTop: 30,
  marginBottom: 46,
  style: { fontSize: "12px", background: "none", overflow: "visible" },
});

// Of many points some that carry the shape of the strategy; each strategy begins elsewhere, so that shapes do not meet.
const landmarks = (points, strategy, count = 5) => {
  const step = Math.max(1, Math.floor(points.length / count));
  return points.filter((_, place) => place % step === (strategy * 2) % step || place === points.length - 1);
};

// A line with the colour and the shape of its strategy. `points` are pairs.
const line = (points, strategy, { marked = points, curve = "linear", dashed = false } = {}) => [
  Plot.line(points, {
    x: "0",
    y: "1",
    curve,
    stroke: colour(strategy),
    strokeWidth: 2,
    strokeDasharray: dashed ? "5 4" : null,
    className: `s s${strategy}`,
  }),
  Plot.dot(marked, {
    x: "0",
    y: "1",
    r: 4.5,
    symbol: shape(strategy),
    fill: colour(strategy),
    stroke: "var(--surface)",
    strokeWidth: 1,
    className: `s s${strategy}`,
  }),
];

// Room right of a plot for the names of its lines, where there is any.
const nameRoom = (width) => (width < NARROW ? 18 : 150);

// Writes the name of each strategy at the end of its line; names that would meet are pushed apart.
const NAME_HEIGHT = 14;
const withNames = (svg, width, ends) => {
  if (width < NARROW) return svg;
  const [x, y] = [svg.scale("x"), svg.scale("y")];
  const names = ends
    .map(({ strategy, end: [px, py] }) => ({ strategy, left: x.apply(px) + 10, top: y.apply(py) }))
    .sort((a, b) => a.top - b.top);
  for (let place = 1; place < names.length; place += 1) {
    names[place].top = Math.max(names[place].top, names[place - 1].top + NAME_HEIGHT);
  }
  const bottom = Math.max(...y.range);
  for (let place = names.length - 1, limit = bottom; place >= 0; place -= 1, limit -= NAME_HEIGHT) {
    names[place].top = Math.min(names[place].top, limit);
  }
  for (const { strategy, left, top } of names) {
    d3.select(svg)
      .append("text")
      .attr("class", `s s${strategy} name`)
      .attr("x", left)
      .attr("y", top)
      .attr("dy", "0.32em")
      .attr("text-anchor", "start")
      .attr("fill", colour(strategy))
      .text(nameOf(strategy));
  }
  return svg;
};

const QUANTILE_TICKS = [
  [1, "0 %"],
  [2, "50 %"],
  [10, "90 %"],
  [100, "99 %"],
  [1000, "99.9 %"],
  [10000, "99.99 %"],
];

const quantiles = (width) => {
  const rows = atLevel(data.results).filter((row) => row.quantiles.length > 0);
  if (rows.length === 0) return null;
  const all = rows.flatMap((row) => row.quantiles);
  const most = d3.max(all, ([tail]) => tail);
  const times = logDomain(
    all.map(([, ms]) => ms),
    1.2,
  );
  const narrow = width < NARROW;
  const ticks = QUANTILE_TICKS.filter(([tail]) => tail <= most && !(narrow && tail === 1));
  const plot = Plot.plot({
    ...base(width, Math.min(440, 220 + width * 0.22)),
    marginRight: nameRoom(width),
    x: {
      type: "log",
      domain: [1, most * 1.05],
      grid: true,
      label: narrow ? "share of the buyers" : "share of the buyers who waited at most so long",
      labelAnchor: "center",
      labelArrow: "none",
      ticks: ticks.map(([tail]) => tail),
      tickFormat: (tail) => ticks.find(([own]) => own === tail)[1],
    },
    y: {
      type: "log",
      domain: times,
      grid: true,
      label: "response time (ms)",
      ticks: logTicks(...times),
      tickFormat: axisFigure,
    },
    marks: rows
      .map((row) =>
        line(row.quantiles, row.strategy, {
          marked: landmarks(row.quantiles, row.strategy),
          dashed: !row.ranked,
        }),
      )
      .flat(),
  });
  const svg = withNames(
    plot,
    width,
    rows.map(({ strategy, quantiles: own }) => ({ strategy, end: own.at(-1) })),
  );
  const share = (tail, row) => (tail >= row.n ? "all" : `${Number((100 * (1 - 1 / tail)).toPrecision(4))} %`);
  const points = rows.flatMap((row) =>
    row.quantiles.map(([tail, ms]) => ({
      px: tail,
      py: ms,
      series: row.strategy,
      text: `${nameOf(row.strategy)}${row.ranked ? "" : " (not ranked)"}\n${share(tail, row)} waited at most ${figure(ms)} ms`,
    })),
  );
  return { svg, points: placed(svg, points) };
};

const timeline = (width, { curves, label, baseline = [], text }) => {
  if (curves.length === 0) return null;
  const last = d3.max(curves, ({ points }) => points[points.length - 1][0]);
  const plot = Plot.plot({
    ...base(width, Math.min(360, 200 + width * 0.2)),
    marginRight: nameRoom(width),
    x: {
      domain: [0, last * 1.03],
      grid: true,
      label: "time (ms) →",
      labelAnchor: "center",
      labelArrow: "none",
      ticks: Math.max(3, Math.round(width / 110)),
      tickFormat: axisFigure,
    },
    y: { grid: true, label, tickFormat: axisFigure, nice: true },
    marks: [
      Plot.ruleY(baseline, { stroke: "currentColor", strokeWidth: 1.5 }),
      ...curves
        .map(({ points, strategy, ranked }) =>
          line(points, strategy, {
            marked: landmarks(points, strategy, 4),
            curve: "step-after",
            dashed: !ranked,
          }),
        )
        .flat(),
    ],
  });
  const svg = withNames(
    plot,
    width,
    curves.map(({ strategy, points: own }) => ({ strategy, end: own.at(-1) })),
  );
  const points = curves.flatMap(({ points: own, strategy }) =>
    own.map((point) => ({ px: point[0], py: point[1], series: strategy, text: `${nameOf(strategy)}\n${text(point)}` })),
  );
  return { svg, points: placed(svg, points) };
};

const curvesOf = (field, first, value) =>
  atLevel(data.timelines)
    .filter((trial) => trial[field].at_ms.length > 0)
    .map((trial) => ({
      strategy: trial.strategy,
      ranked: data.results.some((row) => row.strategy === trial.strategy && row.users === trial.users && row.ranked),
      points: [first, ...trial[field].at_ms.map((at, place) => [at, value(trial[field].count[place])])],
    }));

const stock = (width) =>
  timeline(width, {
    curves: curvesOf("sold", [0, data.stock], (sold) => data.stock - sold),
    label: "units left",
    baseline: [0],
    text: ([at, left]) =>
      `after ${figure(at)} ms ${left >= 0 ? `${grouped(String(left))} units left` : `${grouped(String(-left))} units oversold`}`,
  });

const entered = (width) =>
  timeline(width, {
    curves: curvesOf("entered", [0, 0], (count) => count),
    label: "entered",
    text: ([at, count]) => `after ${figure(at)} ms ${grouped(String(count))} had entered`,
  });

// The numbers of users whose names do not run into each other on an axis; the largest is always named.
const ROOM = 36;
const namedLevels = (place) => {
  const named = [];
  for (const users of [...data.levels].reverse()) {
    if (named.length === 0 || place(named.at(-1)) - place(users) >= ROOM) named.push(users);
  }
  return named;
};

// One figure of every strategy against the number of users, both axes logarithmic.
const scaling =
  (of, { label, unit, expected = [] }) =>
  (width) => {
    const rows = data.results.filter((row) => of(row) && of(row).value > 0);
    if (rows.length === 0) return null;
    const users = logDomain(data.levels, 1.12);
    const ends = rows.flatMap((row) => [of(row).value, of(row).low, of(row).high]);
    const values = logDomain([...ends, ...expected.flatMap(({ points }) => points.map(([, each]) => each))], 1.25);
    const strategies = [...new Set(rows.map((row) => row.strategy))];
    const series = strategies.map((strategy) => ({ strategy, rows: rows.filter((row) => row.strategy === strategy) }));
    const names = { one: "a queue", all: "a herd" };
    const frame = { ...base(width, Math.min(380, 240 + width * 0.16)), marginRight: nameRoom(width) };
    const named = namedLevels(d3.scaleLog(users, [frame.marginLeft, width - frame.marginRight]));
    const plot = Plot.plot({
      ...frame,
      x: {
        type: "log",
        domain: users,
        grid: true,
        label: "users →",
        labelAnchor: "center",
        labelArrow: "none",
        ticks: data.levels,
        tickFormat: (level) => (named.includes(level) ? axisFigure(level) : ""),
      },
      y: { type: "log", domain: values, grid: true, label, ticks: logTicks(...values), tickFormat: axisFigure },
      marks: [
        ...expected.map(({ points }) =>
          Plot.line(points, { x: "0", y: "1", stroke: "currentColor", strokeWidth: 1.5, strokeDasharray: "3 4" }),
        ),
        Plot.text(
          expected.map(({ wakes, points }) => [...points[points.length - 1], wakes]),
          {
            x: "0",
            y: "1",
            text: ([, , wakes]) => names[wakes],
            textAnchor: "end",
            dy: -9,
            fill: "currentColor",
            fontStyle: "italic",
          },
        ),
        ...series
          .map(({ strategy, rows: own }) => [
            Plot.link(
              own.filter((row) => of(row).low > 0),
              {
                x1: "users",
                x2: "users",
                y1: (row) => of(row).low,
                y2: (row) => of(row).high,
                stroke: colour(strategy),
                strokeWidth: 2.5,
                strokeOpacity: 0.6,
                className: `s s${strategy}`,
              },
            ),
            ...line(
              own.map((row) => [row.users, of(row).value]),
              strategy,
              { dashed: own.some((row) => !row.ranked) },
            ),
          ])
          .flat(2),
      ],
    });
    const end = (row) => [row.users, of(row).value];
    const svg = withNames(
      plot,
      width,
      series.map(({ strategy, rows: own }) => ({ strategy, end: end(d3.greatest(own, (row) => row.users)) })),
    );
    const points = series.flatMap(({ strategy, rows: own }) =>
      own.map((row) => ({
        px: row.users,
        py: of(row).value,
        series: strategy,
        text: `${nameOf(strategy)}, ${row.users} users${row.ranked ? "" : " (not ranked)"}\n${figure(of(row).value)}${interval(of(row))} ${unit}`,
      })),
    );
    return { svg, points: placed(svg, points) };
  };
