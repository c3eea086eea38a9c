// The tip of a point: under the pointer, under a finger, and by keys. Left and right go from point to point, up and down
// between series, and Escape hides the tip.

const REACH = 36;

// `points` have a position in the drawing (x, y), the series they belong to, and a text.
const addTips = (plot, svg, title, points) => {
  const tip = element("div", { class: "tip", role: "status" });
  plot.append(tip);
  plot.tabIndex = 0;
  plot.setAttribute("role", "group");
  plot.setAttribute("aria-roledescription", "chart");
  plot.setAttribute("aria-label", `${title}: ${points.length} points, to be gone through with the arrow keys`);
  const ring = document.createElementNS(svg.namespaceURI, "circle");
  for (const [key, value] of Object.entries({
    r: 8,
    fill: "none",
    stroke: "currentColor",
    "stroke-width": 2,
    opacity: 0,
  })) {
    ring.setAttribute(key, value);
  }
  svg.append(ring);
  let at = -1;

  const visible = (point) => !chosen.hidden.has(point.series);
  const hide = () => {
    at = -1;
    tip.textContent = "";
    ring.setAttribute("opacity", 0);
  };
  const show = (position) => {
    at = position;
    const point = points[position];
    const scale = svg.getBoundingClientRect().width / Number(svg.getAttribute("width"));
    tip.textContent = point.text;
    ring.setAttribute("cx", point.x);
    ring.setAttribute("cy", point.y);
    ring.setAttribute("opacity", 1);
    const [x, y] = [point.x * scale, point.y * scale];
    const left = Math.min(Math.max(0, x + 14), plot.clientWidth - tip.offsetWidth);
    const above = y - tip.offsetHeight - 12;
    tip.style.transform = `translate(${left}px, ${above > -40 ? above : y + 16}px)`;
  };
  const nearest = (event) => {
    const box = svg.getBoundingClientRect();
    const scale = Number(svg.getAttribute("width")) / box.width;
    const [x, y] = [(event.clientX - box.left) * scale, (event.clientY - box.top) * scale];
    let [best, distance] = [-1, REACH];
    points.forEach((point, position) => {
      const away = Math.hypot(point.x - x, point.y - y);
      if (away < distance && visible(point)) [best, distance] = [position, away];
    });
    return best;
  };
  const follow = (event) => {
    const position = nearest(event);
    if (position < 0) hide();
    else if (position !== at) show(position);
  };
  plot.onpointermove = follow;
  plot.onpointerdown = follow;
  plot.onpointerleave = hide;
  plot.onblur = hide;

  // The next point in that direction that is shown.
  const step = (direction) => {
    for (let position = at + direction; position >= 0 && position < points.length; position += direction) {
      if (visible(points[position])) return position;
    }
    return at;
  };
  const stepSeries = (direction) => {
    if (at < 0) return step(1);
    for (let position = at + direction; position >= 0 && position < points.length; position += direction) {
      if (points[position].series === points[at].series || !visible(points[position])) continue;
      // The first point of that series.
      const { series } = points[position];
      return points.findIndex((other) => other.series === series);
    }
    return at;
  };
  const moves = {
    ArrowRight: () => step(1),
    ArrowLeft: () => (at < 0 ? step(1) : step(-1)),
    ArrowDown: () => stepSeries(1),
    ArrowUp: () => stepSeries(-1),
    Home: () => points.findIndex(visible),
    End: () => points.findLastIndex(visible),
  };
  plot.onkeydown = (event) => {
    if (event.key === "Escape") return hide();
    const move = moves[event.key];
    if (!move) return undefined;
    event.preventDefault();
    const position = move();
    if (position >= 0) show(position);
    return undefined;
  };
};
