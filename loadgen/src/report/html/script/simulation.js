// Predictions and measurements against the number of waiters. The recipes have the colours and shapes
// of their strategies, or those that no strategy took, and are named beside the ends of their lines.

const simulated =
  (of, { label, unit }) =>
  (width) => {
    const { recipes, left_out: leftOut } = data.simulation;
    const has = (point) => of(point) > 0;
    const every = recipes.flatMap(({ points, measured }) => [...points, ...measured]).filter(has);
    if (every.length === 0) return null;
    const waiters = logDomain(
      every.map((point) => point.waiters),
      1.08,
    );
    const values = logDomain(every.map(of), 1.3);
    const isLeftOut = (point) => leftOut.includes(point.waiters);
    // The colour and the shape of the strategy of that recipe, or of none.
    const kindOf = (recipe) => {
      const position = data.strategies.indexOf(`zk-${recipes[recipe].name}`);
      return position < 0 ? data.strategies.length + recipe : position;
    };
    const ends = recipes.flatMap(({ name, points }, recipe) => {
      const end = points.filter(has).at(-1);
      return end ? [{ name, colour: colour(kindOf(recipe)), end: [end.waiters, of(end)] }] : [];
    });
    const frame = base(width, Math.min(400, 260 + width * 0.14));
    const room = roomForNames(namesOf(ends), frame);
    const framed = withRoom(frame, room);
    const ticks = logTicks(...waiters);
    const named = spaced(ticks, d3.scaleLog(waiters, [framed.marginLeft, width - framed.marginRight]));
    const plot = Plot.plot({
      ...framed,
      x: {
        type: "log",
        domain: waiters,
        grid: true,
        label: "waiters →",
        labelAnchor: "center",
        labelArrow: "none",
        ticks,
        tickFormat: (tick) => (named.includes(tick) ? axisFigure(tick) : ""),
      },
      y: { type: "log", domain: values, grid: true, label, ticks: logTicks(...values), tickFormat: axisFigure },
      marks: recipes
        .map(({ points, measured }, recipe) => {
          const [predicted, strategy] = [points.filter(has), kindOf(recipe)];
          return [
            Plot.line(predicted, {
              x: "waiters",
              y: of,
              stroke: colour(strategy),
              strokeWidth: 2,
              className: "simulated",
            }),
            ...measured.filter(has).map((point) =>
              Plot.dot([point], {
                x: "waiters",
                y: of,
                r: 5,
                symbol: shape(strategy),
                stroke: colour(strategy),
                strokeWidth: 2,
                fill: isLeftOut(point) ? "var(--surface)" : colour(strategy),
                className: "simulated",
              }),
            ),
          ];
        })
        .flat(2),
    });
    const { svg, keys } = withNames(plot, room, ends);
    const text = (name, point, what) =>
      `${name}, ${grouped(String(point.waiters))} waiters\n${what}: ${figure(of(point))} ${unit}`;
    const points = recipes.flatMap(({ name, points: predicted, measured }, recipe) =>
      [
        ...predicted.filter(has).map((point) => ({ point, what: "predicted" })),
        ...measured.filter(has).map((point) => ({ point, what: isLeftOut(point) ? "measured, left out" : "measured" })),
      ].map(({ point, what }) => ({
        px: point.waiters,
        py: of(point),
        series: `recipe ${recipe}`,
        text: text(name, point, what),
      })),
    );
    return { svg, keys, points: placed(svg, points) };
  };
