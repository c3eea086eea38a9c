// Charts with a row for each strategy: what was sold, medians, ratios, the herd, processor time.

const NARROW = 480;

// The frame of a chart with a row for each of these results: names at the left, or above the rows where room is short.
const rowFrame = (rows, width, roomRight, each = width < NARROW ? 44 : 30) => {
  const narrow = width < NARROW;
  const label = (row) => nameOf(row.strategy) + (row.ranked ? "" : " ✗");
  const longest = Math.max(...rows.map((row) => label(row).length));
  const names = rows.map((row, place) =>
    Plot.text([row], {
      y: () => place,
      text: label,
      frameAnchor: "left",
      textAnchor: narrow ? "start" : "end",
      dx: narrow ? 0 : -10,
      dy: narrow ? 8 - each / 2 : 0,
      fill: "currentColor",
      fontWeight: 600,
      stroke: "var(--surface)",
      strokeWidth: 4,
      className: `names${row.ranked ? "" : " wrong"} s${row.strategy}`,
    }),
  );
  return {
    narrow,
    each,
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

// What stands at the right of each row, on the line of the name where room is short.
const rowFigures = ({ narrow, each }, rows, text) =>
  rows.map((row, place) =>
    Plot.text([row], {
      y: () => place,
      text,
      frameAnchor: "right",
      textAnchor: narrow ? "end" : "start",
      dx: narrow ? 12 : 10,
      dy: narrow ? 8 - each / 2 : 0,
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

// The intervals of those that have one.
const bars = (rows, { low, high, y }) =>
  rows
    .filter((row) => low(row) !== null)
    .map((row) =>
      Plot.link([row], {
        x1: low,
        x2: high,
        y1: y,
        y2: y,
        stroke: colour(row.strategy),
        strokeWidth: 3,
        strokeLinecap: "round",
        className: `s s${row.strategy}`,
      }),
    );

const logAxis = (values, label, room) => {
  const domain = logDomain(values, room);
  return {
    type: "log",
    domain,
    label,
    labelAnchor: "center",
    labelArrow: "none",
    grid: true,
    ticks: logTicks(...domain),
    tickFormat: axisFigure,
  };
};

// Points of data as points of the drawing.
const placed = (svg, points) => {
  const [x, y] = [svg.scale("x"), svg.scale("y")];
  return points
    .map(({ px, py, dx = 0, dy = 0, ...rest }) => ({ x: x.apply(px) + dx, y: y.apply(py) + dy, ...rest }))
    .filter((point) => Number.isFinite(point.x) && Number.isFinite(point.y));
};

// Trials with the same outcome lie side by side, in columns of four, around the place where they belong.
const COLUMN = 4;
const APART = 8.5;
const heaped = (trials) => {
  const heaps = d3.group(trials, (trial) => `${trial.strategy} ${trial.beyond}`);
  return [...heaps.values()].flatMap((heap) =>
    heap.map((trial, place) => {
      const columns = Math.ceil(heap.length / COLUMN);
      const inColumn = Math.min(COLUMN, heap.length);
      const [across, down] = [Math.floor(place / COLUMN), place % COLUMN];
      return { ...trial, dx: (across - (columns - 1) / 2) * APART, dy: (down - (inColumn - 1) / 2) * APART };
    }),
  );
};

const oversell = (width) => {
  const all = atLevel(data.trials);
  const rows = atLevel(data.results).filter((row) => all.some((trial) => trial.strategy === row.strategy));
  if (rows.length === 0) return null;
  const place = (trial) => rows.findIndex((row) => row.strategy === trial.strategy);
  const trials = heaped([...all].sort((a, b) => place(a) - place(b) || a.block - b.block));
  const [low, high] = d3.extent(trials, (trial) => trial.beyond);
  const reach = Math.max(1, high, -low) * 1.08;
  const frame = rowFrame(rows, width, 24, width < NARROW ? 62 : 46);
  // Below the name, where that stands above the row.
  const lower = width < NARROW ? 8 : 0;
  const svg = Plot.plot({
    ...frame.options,
    x: {
      domain: [low < 0 ? -reach : -reach * 0.1, high > 0 ? reach : reach * 0.1],
      label: "units short of the stock ← → beyond it",
      labelAnchor: "center",
      labelArrow: "none",
      grid: true,
      ticks: Math.max(3, Math.round(width / 140)),
      tickFormat: (value) => (Number.isInteger(value) ? grouped(String(value)) : ""),
    },
    marks: [
      ...frame.marks,
      Plot.ruleX([0], { stroke: "currentColor", strokeWidth: 1.5 }),
      ...trials.map((trial) =>
        Plot.dot([trial], {
          x: "beyond",
          y: place,
          r: 3.1,
          dx: trial.dx,
          dy: trial.dy + lower,
          fill: trial.warm_up ? "var(--surface)" : colour(trial.strategy),
          stroke: colour(trial.strategy),
          strokeWidth: 1.4,
          className: `s s${trial.strategy}`,
        }),
      ),
    ],
  });
  const text = (trial) => {
    const what =
      trial.beyond === 0
        ? "exactly the stock"
        : trial.beyond > 0
          ? `${grouped(String(trial.beyond))} units beyond the stock`
          : `${grouped(String(-trial.beyond))} units short`;
    return `${nameOf(trial.strategy)}, block ${trial.block}${trial.warm_up ? " (warm-up)" : ""}\n${what}`;
  };
  const points = trials.map((trial) => ({
    px: trial.beyond,
    py: place(trial),
    dx: trial.dx,
    dy: trial.dy + lower,
    series: trial.strategy,
    text: text(trial),
  }));
  return { svg, points: placed(svg, points) };
};

// A dot, a bar and a figure for each row, of which there has to be one.
const estimateRows = (width, { rows, of, unit, axis, open = (row) => !row.ranked, roomRight = 132, extra = [] }) => {
  const frame = rowFrame(rows, width, roomRight);
  const y = (row) => rows.indexOf(row);
  const svg = Plot.plot({
    ...frame.options,
    x: axis,
    marks: [
      ...extra,
      ...frame.marks,
      ...bars(rows, { low: (row) => of(row).low, high: (row) => of(row).high, y }),
      ...dots(rows, { x: (row) => of(row).value, y, isOpen: open }),
      ...rowFigures(
        frame,
        rows,
        (row) => `${figure(of(row).value)}${row.sign ? ` ${row.sign}` : ""}${interval(of(row))}`,
      ),
    ],
  });
  const text = (row) =>
    `${nameOf(row.strategy)}${row.ranked ? "" : " (not ranked)"}\n${figure(of(row).value)}${row.sign ? ` ${row.sign}` : ""}${interval(of(row))} ${unit}`;
  return {
    svg,
    points: placed(
      svg,
      rows.map((row) => ({ px: of(row).value, py: y(row), series: row.strategy, text: text(row) })),
    ),
  };
};

// All values that have to find room on an axis.
const extent = (rows, of) =>
  rows.flatMap((row) => [of(row).value, of(row).low ?? of(row).value, of(row).high ?? of(row).value]);

const medians = (width) => {
  const rows = atLevel(data.results)
    .filter((row) => row.p50_ms)
    .sort((a, b) => a.p50_ms.value - b.p50_ms.value);
  if (rows.length === 0) return null;
  const of = (row) => row.p50_ms;
  return estimateRows(width, { rows, of, unit: "ms", axis: logAxis(extent(rows, of), "median response time (ms) →") });
};

const SIGNS = { indistinguishable: "~", "too-few-blocks": "?" };

const ratios = (width) => {
  const rows = atLevel(data.results)
    .filter((row) => row.ratio)
    .map((row) => ({ ...row, sign: SIGNS[row.ratio.difference] || "" }))
    .sort((a, b) => a.ratio.value - b.ratio.value);
  if (rows.length === 0) return null;
  const of = (row) => row.ratio;
  const band = Plot.rect([0], { x1: () => 0.95, x2: () => 1.05, fill: "currentColor", fillOpacity: 0.12 });
  return estimateRows(width, {
    rows,
    of,
    unit: `× the median of ${rows[0].reference}`,
    open: (row) => row.sign !== "",
    axis: logAxis([...extent(rows, of), 0.9, 1.1], "faster ← ratio of the medians → slower"),
    extra: [band, Plot.ruleX([1], { stroke: "currentColor", strokeWidth: 1.5 })],
    roomRight: 154,
  });
};

const herdNotifications = (width) => {
  const rows = atLevel(data.results).filter((row) => row.zookeeper && row.notifications);
  if (rows.length === 0) return null;
  const all = rows.flatMap((row) => [
    ...extent([row], (r) => r.notifications),
    row.client_notifications,
    row.expected_notifications,
  ]);
  // Nothing has no place on a logarithmic axis: it stands at the left end, and its text says so.
  const least = Math.min(0.5, ...all.filter((value) => value > 0));
  const clamp = (value) => (value > 0 ? value : least * 0.8);
  const end = (value) => (value === null ? null : clamp(value));
  const frame = rowFrame(rows, width, 190);
  const y = (row) => rows.indexOf(row);
  const has = (field) => rows.filter((row) => row[field] !== null && row[field] !== undefined);
  const svg = Plot.plot({
    ...frame.options,
    x: logAxis([...all.map(clamp), 2], "notifications per release (servers ●, clients ◇, expected |)", 1.25),
    marks: [
      ...frame.marks,
      ...has("expected_notifications").map((row) =>
        Plot.link([row], {
          x1: () => clamp(row.expected_notifications),
          x2: () => clamp(row.expected_notifications),
          y1: () => y(row) - 0.36,
          y2: () => y(row) + 0.36,
          stroke: "currentColor",
          strokeWidth: 2.5,
          className: `s s${row.strategy}`,
        }),
      ),
      ...bars(rows, { low: (row) => end(row.notifications.low), high: (row) => end(row.notifications.high), y }),
      ...dots(rows, { x: (row) => clamp(row.notifications.value), y }),
      ...has("client_notifications").map((row) =>
        Plot.dot([row], {
          x: () => clamp(row.client_notifications),
          y,
          r: 9,
          symbol: "diamond",
          stroke: "currentColor",
          strokeWidth: 1.2,
          fill: "none",
          className: `s s${row.strategy}`,
        }),
      ),
      ...rowFigures(
        frame,
        rows,
        (row) =>
          `${figure(row.notifications.value)}${row.expected_notifications === null ? "" : ` of ${figure(row.expected_notifications)} expected`}`,
      ),
    ],
  });
  const text = (row) =>
    `${nameOf(row.strategy)}\nservers: ${figure(row.notifications.value)}${interval(row.notifications)}\nclients: ${figure(row.client_notifications)}\nexpected: ${figure(row.expected_notifications)}`;
  return {
    svg,
    points: placed(
      svg,
      rows.map((row) => ({ px: clamp(row.notifications.value), py: y(row), series: row.strategy, text: text(row) })),
    ),
  };
};

const cpu = (width) => {
  const rows = atLevel(data.results).filter((row) => row.cpu_ms.some((ms) => ms !== null));
  const parts = rows.flatMap((row, place) => {
    let from = 0;
    return row.cpu_ms
      .map((ms, process) => {
        const part = { row, place, process, ms: ms || 0, from, to: from + (ms || 0) };
        from = part.to;
        return part;
      })
      .filter((part) => part.ms > 0);
  });
  if (parts.length === 0) return null;
  const frame = rowFrame(rows, width, 80);
  const most = Math.max(...parts.map((part) => part.to));
  const room = (part) => (part.ms / most) * (width - frame.options.marginLeft - frame.options.marginRight);
  const svg = Plot.plot({
    ...frame.options,
    x: {
      domain: [0, most * 1.02],
      label: "processor time of a request (ms) →",
      labelAnchor: "center",
      labelArrow: "none",
      grid: true,
      ticks: Math.round(width / 120),
      tickFormat: axisFigure,
    },
    marks: [
      ...frame.marks,
      ...parts.map((part) =>
        Plot.rect([part], {
          x1: "from",
          x2: "to",
          y1: part.place - 0.3,
          y2: part.place + 0.3,
          fill: `var(--p${part.process})`,
          stroke: "var(--surface)",
          strokeWidth: 1,
          className: `s s${part.row.strategy}`,
        }),
      ),
      ...rowFigures(frame, rows, (row) => figure(d3.sum(row.cpu_ms))),
      // Which part is which, where its width carries a letter.
      ...parts
        .filter((part) => room(part) > 16)
        .map((part) =>
          Plot.text([part], {
            x: (part.from + part.to) / 2,
            y: "place",
            text: () => data.processes[part.process][0],
            fill: "var(--surface)",
            fontWeight: 700,
            className: `letters s${part.row.strategy}`,
          }),
        ),
    ],
  });
  const keys = data.processes.map((name, process) => ({ name: `${name} (${name[0]})`, colour: `var(--p${process})` }));
  const text = (part) =>
    `${nameOf(part.row.strategy)}\n${data.processes[part.process]}: ${figure(part.ms)} ms a request\nall: ${figure(d3.sum(part.row.cpu_ms))} ms`;
  const points = parts.map((part) => ({
    px: (part.from + part.to) / 2,
    py: part.place,
    series: part.row.strategy,
    text: text(part),
  }));
  return { svg, keys, points: placed(svg, points) };
};
