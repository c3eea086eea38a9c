// All charts by the name of their figure. A chart is drawn for a width, as an SVG with the points that have a tip. It is
// absent if the chosen number of users has nothing to show.
const charts = {
  oversell,
  quantiles,
  medians,
  ratios,
  stock,
  entered,
  "herd-notifications": herdNotifications,
  "scale-median": scaling((row) => row.p50_ms, { label: "median (ms)", unit: "ms" }),
  "scale-goodput": scaling((row) => row.goodput_per_s, { label: "units sold a second", unit: "units a second" }),
  "scale-notifications": scaling((row) => row.notifications, {
    label: "notifications per release",
    unit: "notifications per release",
    expected: data.expected,
  }),
  cpu,
  "simulated-time": simulated((point) => point.drain_ms, { label: "time of a drain (ms)", unit: "ms" }),
  "simulated-notifications": simulated((point) => point.notifications, {
    label: "notifications of a drain",
    unit: "notifications",
  }),
  "simulated-bytes": simulated((point) => point.bytes, { label: "bytes of a drain", unit: "bytes" }),
};

const draw = (figureElement, width) => {
  const plot = figureElement.querySelector(".plot");
  const title = figureElement.querySelector("h3").textContent;
  for (const attribute of ["tabindex", "role", "aria-roledescription", "aria-label"]) plot.removeAttribute(attribute);
  const drawn = charts[figureElement.dataset.chart](width);
  if (drawn === null) {
    plot.replaceChildren(
      element("p", { class: "absent" }, `Nothing was measured for this chart with ${chosen.users} users.`),
    );
    return;
  }
  const { svg, points, keys = [] } = drawn;
  // Screen readers should not read the library's names of its marks.
  for (const mark of svg.querySelectorAll("[aria-label]")) {
    mark.dataset.mark = mark.getAttribute("aria-label");
    mark.removeAttribute("aria-label");
  }
  svg.setAttribute("role", "img");
  const inWords = figureElement.querySelector("figcaption details") === null ? "" : ". The same in words is below.";
  svg.setAttribute("aria-label", title + inWords);
  const swatch = ({ name, strategy, colour: own }) => {
    if (strategy !== undefined) return element("li", { class: `s${strategy}` }, iconOf(strategy), name);
    const square = element("i");
    square.style.background = own;
    return element("li", {}, square, name);
  };
  const list = keys.length > 0 ? [element("ul", { class: "keys" }, ...keys.map(swatch))] : [];
  plot.replaceChildren(svg, ...list);
  addTips(plot, svg, title, points);
};

const figures = [...document.querySelectorAll("figure[data-chart]")];
const widthOf = (figureElement) => Math.floor(figureElement.querySelector(".plot").clientWidth);
const drawAll = () => figures.forEach((figureElement) => draw(figureElement, widthOf(figureElement)));

// Drawn again only if the width has changed, because the height follows from it.
const widths = new Map();
const resized = new ResizeObserver((entries) => {
  for (const { target } of entries) {
    const width = widthOf(target);
    if (width > 0 && widths.get(target) !== width) {
      widths.set(target, width);
      draw(target, width);
    }
  }
});
figures.forEach((figureElement) => resized.observe(figureElement));

// The legend also hides and shows strategies. It sets a style, so that nothing is drawn again.
const shownStyle = document.head.appendChild(element("style"));
const rules = (strategies, rule) =>
  strategies.length > 0 ? `${strategies.map((s) => `.plot .s${s}`).join(",")}{${rule}}` : "";
const showStrategies = (pointed = -1) => {
  const hidden = [...chosen.hidden];
  const others =
    pointed < 0 ? [] : data.strategies.map((_, s) => s).filter((s) => s !== pointed && !chosen.hidden.has(s));
  shownStyle.textContent = rules(hidden, "display:none") + rules(others, "opacity:.15");
};
const legend = document.getElementById("legend");
// A single one has nothing to be told apart from.
(data.strategies.length > 1 ? data.strategies : []).forEach((name, strategy) => {
  const button = element("button", { type: "button", "aria-pressed": "true" }, iconOf(strategy), name);
  button.addEventListener("click", () => {
    if (chosen.hidden.has(strategy)) chosen.hidden.delete(strategy);
    else chosen.hidden.add(strategy);
    button.setAttribute("aria-pressed", String(!chosen.hidden.has(strategy)));
    showStrategies();
  });
  const point = () => showStrategies(chosen.hidden.has(strategy) ? -1 : strategy);
  button.addEventListener("pointerenter", point);
  button.addEventListener("pointerleave", () => showStrategies());
  button.addEventListener("focus", point);
  button.addEventListener("blur", () => showStrategies());
  legend.append(button);
});

document.getElementById("levels")?.addEventListener("change", (event) => {
  chosen.users = Number(event.target.value);
  drawAll();
});

// On paper nothing can be opened.
const closed = [];
addEventListener("beforeprint", () => {
  for (const details of document.querySelectorAll("figure details:not([open])")) {
    details.open = true;
    closed.push(details);
  }
});
addEventListener("afterprint", () => {
  closed.splice(0).forEach((details) => {
    details.open = false;
  });
});
