// What was predicted, and what was measured, against the number of waiters. The recipes have the colours and shapes
// of their strategies, or those that no strategy took, and are named where their lines end.
const LINE = 14;

// How far each name has to be moved up or down, so that none hides another: `heights` are in pixels from the top.
const namesApart = (heights) => {
  const moves = heights.map(() => 0);
  const order = d3.range(heights.length).sort((a, b) => heights[a] - heights[b]);
  let free = -Infinity;
  for (const place of order) {
    const at = Math.max(heights[place], free);
    moves[place] = at - heights[place];
    free = at + LINE;
  }
  return moves;
};

const simulated =
  (of, { label, unit }) =>
  (width) => {
    const { recipes, held_out: heldOut } = data.simulation;
    const has = (point) => of(point) > 0;
    const every = recipes.flatMap(({ points, measured }) => [...points, ...measured]).filter(has);
    if (every.length === 0) return null;
    const waiters = logDomain(
      every.map((point) => point.waiters),
      1.08,
    );
    const values = logDomain(every.map(of), 1.3);
    const isHeldOut = (point) => heldOut.includes(point.waiters);
    const frame = base(width, Math.min(400, 260 + width * 0.14));
    const scaleY = d3.scaleLog(values, [frame.height - frame.marginBottom, frame.marginTop]);
    const ends = recipes.map(({ points }) => points.filter(has).at(-1));
    const moves = namesApart(ends.map((end) => (end ? scaleY(of(end)) : 0)));
    const svg = Plot.plot({
      ...frame,
      marginRight: 74,
      x: {
        type: "log",
        domain: waiters,
        grid: true,
        label: "waiters →",
        labelAnchor: "center",
        labelArrow: "none",
        ticks: logTicks(...waiters),
        tickFormat: axisFigure,
      },
      y: { type: "log", domain: values, grid: true, label, ticks: logTicks(...values), tickFormat: axisFigure },
      marks: recipes
        .map(({ name, points, measured }, recipe) => {
          const predicted = points.filter(has);
          const place = data.strategies.indexOf(`zk-${name}`);
          const strategy = place < 0 ? data.strategies.length + recipe : place;
          return [
            Plot.line(predicted, {
              x: "waiters",
              y: of,
              stroke: colour(strategy),
              strokeWidth: 2,
              className: "simulated",
            }),
            Plot.text(predicted.slice(-1), {
              x: "waiters",
              y: of,
              text: () => name,
              textAnchor: "start",
              dx: 8,
              dy: moves[recipe],
              fill: "currentColor",
              fontWeight: 600,
            }),
            ...measured.filter(has).map((point) =>
              Plot.dot([point], {
                x: "waiters",
                y: of,
                r: 5,
                symbol: shape(strategy),
                stroke: colour(strategy),
                strokeWidth: 2,
                fill: isHeldOut(point) ? "var(--surface)" : colour(strategy),
                className: "simulated",
              }),
            ),
          ];
        })
        .flat(2),
    });
    const text = (name, point, what) =>
      `${name}, ${grouped(String(point.waiters))} waiters\n${what}: ${figure(of(point))} ${unit}`;
    const points = recipes.flatMap(({ name, points: predicted, measured }, recipe) =>
      [
        ...predicted.filter(has).map((point) => ({ point, what: "predicted" })),
        ...measured.filter(has).map((point) => ({ point, what: isHeldOut(point) ? "measured, held out" : "measured" })),
      ].map(({ point, what }) => ({
        px: point.waiters,
        py: of(point),
        series: `recipe ${recipe}`,
        text: text(name, point, what),
      })),
    );
    return { svg, points: placed(svg, points) };
  };
