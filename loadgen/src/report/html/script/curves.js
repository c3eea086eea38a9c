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

// Selects the points that carry the shape of the strategy. Each strategy begins at another one, so that shapes do not meet.
const landmarks = (points, strategy, count = 5) => {
  const step = Math.max(1, Math.floor(points.length / count));
  return points.filter((_, position) => position % step === (strategy * 2) % step || position === points.length - 1);
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

// Room right of a plot for names at the ends of its lines; zero if they would take too much of it.
const NAME_HEIGHT = 17;
const roomForNames = (names, { width, height }) => {
  const room = 30 + Math.max(...names.map((name) => name.length)) * 7.4;
  return room <= width * 0.3 && names.length * NAME_HEIGHT <= height - 76 ? room : 0;
};
const withRoom = (frame, room) => ({ ...frame, marginRight: room || frame.marginRight });

// Writes each name in the margin, as near to the end of its line as the other names let it, with a stroke from there. Where
// there is no room, the names become keys below the chart.
const withNames = (svg, room, ends) => {
  if (room === 0) return { svg, keys: ends };
  const [x, y] = [svg.scale("x"), svg.scale("y")];
  const names = ends
    .map((own) => ({ ...own, from: x.apply(own.end[0]), top: y.apply(own.end[1]), at: y.apply(own.end[1]) }))
    .sort((a, b) => a.top - b.top);
  const bottom = Math.max(...y.range);
  for (let position = names.length - 1, limit = bottom; position >= 0; position -= 1) {
    names[position].top = Math.min(names[position].top, limit);
    limit = names[position].top - NAME_HEIGHT;
  }
  for (let position = 0, limit = Math.min(...y.range); position < names.length; position += 1) {
    names[position].top = Math.max(names[position].top, limit);
    limit = names[position].top + NAME_HEIGHT;
  }
  const left = Math.max(...x.range) + 16;
  for (const { name, strategy, colour: own = "currentColor", from, at, top } of names) {
    const group = d3.select(svg).append("g").attr("class", strategy === undefined ? null : `s s${strategy}`);
    group
      .append("path")
      .attr("class", "leader")
      .attr("d", `M${from + 6},${at}L${left - 10},${top}h6`)
      .attr("fill", "none")
      .attr("stroke", own)
      .attr("stroke-opacity", 0.55);
    group
      .append("text")
      .attr("class", "name")
      .attr("x", left)
      .attr("y", top)
      .attr("dy", "0.32em")
      .attr("text-anchor", "start")
      .attr("fill", own)
      .text(name);
  }
  return { svg, keys: [] };
};
const namesOf = (ends) => ends.map(({ name }) => name);
const endOf = (strategy, end) => ({ name: nameOf(strategy), strategy, colour: colour(strategy), end });

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
  const frame = base(width, Math.min(440, 220 + width * 0.22));
  const ends = rows.map(({ strategy, quantiles: own }) => endOf(strategy, own.at(-1)));
  const room = roomForNames(namesOf(ends), frame);
  const plot = Plot.plot({
    ...withRoom(frame, room),
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
  const { svg, keys } = withNames(plot, room, ends);
  const share = (tail, row) => (tail >= row.n ? "all" : `${Number((100 * (1 - 1 / tail)).toPrecision(4))} %`);
  const points = rows.flatMap((row) =>
    row.quantiles.map(([tail, ms]) => ({
      px: tail,
      py: ms,
      series: row.strategy,
      text: `${nameOf(row.strategy)}${row.ranked ? "" : " (not ranked)"}\n${share(tail, row)} waited at most ${figure(ms)} ms`,
    })),
  );
  return { svg, keys, points: placed(svg, points) };
};

const entered = (width) => {
  const curves = atLevel(data.timelines)
    .filter((trial) => trial.entered.at_ms.length > 0)
    .map(({ strategy, users, entered: { at_ms: at, count } }) => ({
      strategy,
      ranked: data.results.some((row) => row.strategy === strategy && row.users === users && row.ranked),
      points: [[0, 0], ...at.map((ms, position) => [ms, count[position]])],
    }));
  if (curves.length === 0) return null;
  const last = d3.max(curves, ({ points }) => points.at(-1)[0]);
  const frame = base(width, Math.min(360, 200 + width * 0.2));
  const ends = curves.map(({ strategy, points }) => endOf(strategy, points.at(-1)));
  const room = roomForNames(namesOf(ends), frame);
  const plot = Plot.plot({
    ...withRoom(frame, room),
    x: {
      domain: [0, last * 1.03],
      grid: true,
      label: "time (ms) →",
      labelAnchor: "center",
      labelArrow: "none",
      ticks: Math.max(3, Math.round(width / 110)),
      tickFormat: axisFigure,
    },
    y: { grid: true, label: "entered", tickFormat: axisFigure, nice: true },
    marks: curves.flatMap(({ points, strategy, ranked }) =>
      line(points, strategy, { marked: landmarks(points, strategy, 4), curve: "step-after", dashed: !ranked }),
    ),
  });
  const { svg, keys } = withNames(plot, room, ends);
  const points = curves.flatMap(({ points: own, strategy }) =>
    own.map(([at, count]) => ({
      px: at,
      py: count,
      series: strategy,
      text: `${nameOf(strategy)}\nafter ${figure(at)} ms ${grouped(String(count))} had entered`,
    })),
  );
  return { svg, keys, points: placed(svg, points) };
};

// One figure of every strategy against the number of users, both axes logarithmic.
const scaling =
  (of, { label, unit, expected = [] }) =>
  (width) => {
    const rows = data.results.filter((row) => of(row) && of(row).value > 0);
    if (rows.length === 0) return null;
    const users = logDomain(data.levels, 1.12);
    const reached = rows.flatMap((row) => [of(row).value, of(row).low, of(row).high]);
    const values = logDomain([...reached, ...expected.flatMap(({ points }) => points.map(([, each]) => each))], 1.25);
    const strategies = [...new Set(rows.map((row) => row.strategy))];
    const series = strategies.map((strategy) => ({ strategy, rows: rows.filter((row) => row.strategy === strategy) }));
    const names = { one: "a queue", all: "a herd" };
    const lines = series.map(({ strategy, rows: own }) => {
      const last = d3.greatest(own, (row) => row.users);
      return endOf(strategy, [last.users, of(last).value]);
    });
    const ends = [...lines, ...expected.map(({ wakes, points }) => ({ name: names[wakes], end: points.at(-1) }))];
    const upright = base(width, Math.min(380, 240 + width * 0.16));
    const room = roomForNames(namesOf(ends), upright);
    const frame = withRoom(upright, room);
    const named = spaced(data.levels, d3.scaleLog(users, [frame.marginLeft, width - frame.marginRight]));
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
        ...series.flatMap(({ strategy, rows: own }) => [
          ...line(
            own.map((row) => [row.users, of(row).value]),
            strategy,
            { dashed: own.some((row) => !row.ranked) },
          ),
          ...own
            .filter((row) => of(row).low > 0)
            .flatMap((row) => {
              const across = [of(row).low, of(row).high].map((end) => [row.users, end]);
              return interval95(strategy, across, true);
            }),
        ]),
      ],
    });
    const { svg, keys } = withNames(plot, room, ends);
    const points = series.flatMap(({ strategy, rows: own }) =>
      own.map((row) => ({
        px: row.users,
        py: of(row).value,
        series: strategy,
        text: `${nameOf(strategy)}, ${row.users} users${row.ranked ? "" : " (not ranked)"}\n${figure(of(row).value)}${interval(of(row))} ${unit}`,
      })),
    );
    return { svg, keys, points: placed(svg, points) };
  };
