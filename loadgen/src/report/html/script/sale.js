// The sale over time, with a row for each strategy.

// The units of a sale: those that buyers were told of, those that are left, and those beyond the stock.
const units = (told) => {
  const [left, beyond] = [Math.max(0, data.stock - told), Math.max(0, told - data.stock)];
  const parts = [[told, "told"], [left, "left"], [beyond, "beyond the stock"]].filter(([count], part) => count > 0 || part === 0);
  return parts.map(([count, what]) => `${grouped(String(count))} ${what}`).join(", ");
};
const toldAfter = (ms, told) => {
  const beyond = told > data.stock ? `, ${grouped(String(told - data.stock))} beyond the stock` : "";
  return `${grouped(String(told))} in ${figure(ms)} ms${beyond}`;
};

// The sale of each strategy, in the trial of median length: units that buyers were told of below the line of the stock, units left
// between the two, units beyond the stock above the line. All rows have the same axes.
const stock = (width) => {
  const rows = atLevel(data.results)
    .map((row) => ({ ...row, ...data.timelines.find((own) => own.strategy === row.strategy && own.users === row.users) }))
    .filter((row) => row.sold && row.sold.at_ms.length > 0);
  if (rows.length === 0) return null;
  const tall = 76;
  const told = ({ sold }) => toldAfter(sold.at_ms.at(-1), sold.count.at(-1));
  const frame = rowFrame(rows, width, 24 + 6.6 * d3.max(rows, (row) => told(row).length), tall);
  const end = d3.max(rows, (row) => row.sold.at_ms.at(-1));
  const most = d3.max(rows, (row) => row.sold.count.at(-1));
  // A stock that is never nearly sold has no line: the chart would show little but the units left.
  const hasLine = data.stock <= most * 1.5;
  const top = hasLine ? Math.max(most, data.stock) : most;
  const height = (position, units) => frame.y(position) + frame.half(tall - 12) * (1 - (2 * units) / top);
  const steps = (row) => [[0, 0], ...row.sold.at_ms.map((at, step) => [at, row.sold.count[step]])];
  const area = (row, position, from, to, fill) =>
    Plot.areaY([...steps(row), [end, row.sold.count.at(-1)]], {
      x: "0",
      y1: ([, units]) => height(position, from(units)),
      y2: ([, units]) => height(position, to(units)),
      curve: "step-after",
      fill,
      className: `s s${row.strategy}`,
    });
  const svg = Plot.plot({
    ...frame.options,
    x: {
      domain: [0, end],
      label: "time (ms) →",
      labelAnchor: "center",
      labelArrow: "none",
      grid: true,
      ticks: Math.max(2, Math.round((width - frame.options.marginLeft) / 110)),
      tickFormat: axisFigure,
    },
    marks: [
      ...frame.marks,
      ...rows.flatMap((row, position) => [
        ...(hasLine ? [area(row, position, (sold) => Math.min(sold, data.stock), () => data.stock, "var(--rule)")] : []),
        area(row, position, () => 0, (sold) => (hasLine ? Math.min(sold, data.stock) : sold), colour(row.strategy)),
        ...(hasLine ? [area(row, position, () => data.stock, (sold) => Math.max(sold, data.stock), "var(--bad)")] : []),
        Plot.ruleY([height(position, 0), ...(hasLine ? [height(position, data.stock)] : [])], {
          stroke: "currentColor",
          className: `s s${row.strategy}`,
        }),
      ]),
      ...rowFigures(frame, rows, told),
    ],
  });
  const points = rows.flatMap((row, position) =>
    steps(row).map(([at, sold]) => ({
      px: at,
      py: height(position, sold),
      series: row.strategy,
      text: `${nameOf(row.strategy)}\nafter ${figure(at)} ms: ${units(sold)}`,
    })),
  );
  const keys = [
    { name: `told, in the colour of the ${data.subject}`, colour: colour(rows[0].strategy) },
    ...(hasLine ? [{ name: "left", colour: "var(--rule)" }, { name: "beyond the stock", colour: "var(--bad)" }] : []),
  ];
  return { svg, keys, points: placed(svg, points) };
};
