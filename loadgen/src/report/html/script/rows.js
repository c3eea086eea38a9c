// Charts with a row for each strategy: units sold, medians, ratios, the herd, processor time.

// Trials with the same outcome lie side by side, in columns of four, around the position where they belong.
const COLUMN = 4;
const APART = 8.5;
const heaped = (trials) => {
  const heaps = d3.group(trials, (trial) => `${trial.strategy} ${trial.beyond}`);
  return [...heaps.values()].flatMap((heap) =>
    heap.map((trial, position) => {
      const columns = Math.ceil(heap.length / COLUMN);
      const inColumn = Math.min(COLUMN, heap.length);
      const [across, down] = [Math.floor(position / COLUMN), position % COLUMN];
      return { ...trial, dx: (across - (columns - 1) / 2) * APART, dy: (down - (inColumn - 1) / 2) * APART };
    }),
  );
};

const oversell = (width) => {
  const all = atLevel(data.trials);
  const rows = atLevel(data.results).filter((row) => all.some((trial) => trial.strategy === row.strategy));
  if (rows.length === 0) return null;
  const position = (trial) => rows.findIndex((row) => row.strategy === trial.strategy);
  const trials = heaped([...all].sort((a, b) => position(a) - position(b) || a.block - b.block));
  const [low, high] = d3.extent(trials, (trial) => trial.beyond);
  const reach = Math.max(1, high, -low) * 1.08;
  const frame = rowFrame(rows, width, 24, 46);
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
      Plot.ruleX([0], { stroke: "currentColor", strokeWidth: 1.5 }),
      ...frame.marks,
      ...trials.map((trial) =>
        Plot.dot([trial], {
          x: "beyond",
          y: (own) => frame.y(position(own)),
          r: 3.1,
          dx: trial.dx,
          dy: trial.dy,
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
    py: frame.y(position(trial)),
    dx: trial.dx,
    dy: trial.dy,
    series: trial.strategy,
    text: text(trial),
  }));
  return { svg, points: placed(svg, points) };
};

// A dot, a bar and a figure for each row. There must be at least one row.
const estimateRows = (width, { rows, of, unit, axis, open = (row) => !row.ranked, roomRight = 132, extra = [] }) => {
  const frame = rowFrame(rows, width, roomRight);
  const y = (row) => frame.y(rows.indexOf(row));
  // Next to a name there is only room for the figure.
  const aside = (row) => (frame.narrow ? "" : interval(of(row)));
  const svg = Plot.plot({
    ...frame.options,
    x: axis(frame.options),
    marks: [
      ...extra,
      ...frame.marks,
      ...dots(rows, { x: (row) => of(row).value, y, isOpen: open }),
      ...bars(rows, { low: (row) => of(row).low, high: (row) => of(row).high, y }),
      ...rowFigures(
        frame,
        rows,
        (row) => `${figure(of(row).value)}${row.sign ? ` ${row.sign}` : ""}${aside(row)}`,
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

// All values that an axis must include.
const extent = (rows, of) =>
  rows.flatMap((row) => [of(row).value, of(row).low ?? of(row).value, of(row).high ?? of(row).value]);

const medians = (width) => {
  const rows = atLevel(data.results)
    .filter((row) => row.p50_ms)
    .sort((a, b) => a.p50_ms.value - b.p50_ms.value);
  if (rows.length === 0) return null;
  const of = (row) => row.p50_ms;
  const axis = (options) => logAxis(extent(rows, of), "median response time (ms) →", options);
  return estimateRows(width, { rows, of, unit: "ms", axis });
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
    axis: (options) => logAxis([...extent(rows, of), 0.9, 1.1], "faster ← ratio of the medians → slower", options),
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
  // Zero has no position on a logarithmic axis: it stands at the left end, and its text says so.
  const least = Math.min(0.5, ...all.filter((value) => value > 0));
  const clamp = (value) => (value > 0 ? value : least * 0.8);
  const end = (value) => (value === null ? null : clamp(value));
  const frame = rowFrame(rows, width, 190);
  const y = (row) => frame.y(rows.indexOf(row));
  // A narrow figure stands in one line with its name, and the axis has the word.
  const word = frame.narrow ? "" : " expected";
  const key = frame.narrow ? " (of expected)" : " (servers ●, clients ◇, expected |)";
  const has = (field) => rows.filter((row) => row[field] !== null && row[field] !== undefined);
  const svg = Plot.plot({
    ...frame.options,
    x: logAxis([...all.map(clamp), 2], `notifications per release${key}`, frame.options, 1.25),
    marks: [
      ...frame.marks,
      ...has("expected_notifications").map((row) =>
        Plot.link([row], {
          x1: () => clamp(row.expected_notifications),
          x2: () => clamp(row.expected_notifications),
          y1: () => y(row) - frame.half(29),
          y2: () => y(row) + frame.half(29),
          stroke: "currentColor",
          strokeWidth: 2.5,
          className: `s s${row.strategy}`,
        }),
      ),
      ...dots(rows, { x: (row) => clamp(row.notifications.value), y }),
      ...bars(rows, { low: (row) => end(row.notifications.low), high: (row) => end(row.notifications.high), y }),
      ...has("client_notifications").map((row) =>
        Plot.dot([row], {
          x: () => clamp(row.client_notifications),
          y,
          r: 6,
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
          `${figure(row.notifications.value)}${row.expected_notifications === null ? "" : ` of ${figure(row.expected_notifications)}${word}`}`,
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
  if (rows.length === 0) return null;
  const frame = rowFrame(rows, width, 80);
  const parts = rows.flatMap((row, position) => {
    let from = 0;
    return row.cpu_ms
      .map((ms, process) => {
        const part = { row, position: frame.y(position), process, ms: ms || 0, from, to: from + (ms || 0) };
        from = part.to;
        return part;
      })
      .filter((part) => part.ms > 0);
  });
  if (parts.length === 0) return null;
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
          y1: part.position - frame.half(18),
          y2: part.position + frame.half(18),
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
            y: "position",
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
    py: part.position,
    series: part.row.strategy,
    text: text(part),
  }));
  return { svg, keys, points: placed(svg, points) };
};
