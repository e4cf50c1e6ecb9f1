// Draws every chart, and keeps one cursor and one zoom over all charts on the time axis.
const page = JSON.parse(document.getElementById("charts").textContent);
for (const chart of Object.values(page.charts)) {
  if (chart.axis !== undefined) chart.x = page.axes[chart.axis];
  chart.flags = page.flags[chart.marks];
}
const root = document.documentElement;
const views = [...document.querySelectorAll("figure[data-chart]")].map((figure) => ({
  figure,
  chart: page.charts[figure.dataset.chart],
  box: figure.querySelector(".box"),
  live: figure.querySelector(".live"),
  cursor: figure.querySelector(".cursor"),
  selection: figure.querySelector(".selection"),
  unit: figure.querySelector(".unit"),
  outputs: new Map(
    [...figure.querySelectorAll("output[data-line]")].map((one) => [one.dataset.line, one]),
  ),
}));
const isTime = (view) => view.chart.group === "time";
// A chart that is folded away has no width: it is drawn when it is unfolded.
const isShown = (view) => !view.figure.closest("details:not([open])");
const together = (view) => (isTime(view) ? views.filter((one) => isTime(one) && one.drawn) : [view]);
const cursorAt = document.getElementById("cursor-at");
let zoomed = null;

function draw(view) {
  if (!view.drawn) {
    view.live.style.height = `${view.box.querySelector("svg").getAttribute("height")}px`;
    view.box.classList.add("drawn");
    view.drawn = echarts.init(view.live, null, { renderer: "canvas" });
    for (const text of [view.unit, ...view.outputs.values()]) text.dataset.rest = text.textContent;
    listen(view);
  }
  view.drawn.setOption(optionOf(view.chart, isTime(view) ? zoomed : null), true);
}

// The cursor: a vertical line in every chart of the group, the values beside the names.
function nearest(xs, x) {
  let low = 0;
  let high = xs.length - 1;
  while (high - low > 1) {
    const middle = (low + high) >> 1;
    if (xs[middle] <= x) low = middle;
    else high = middle;
  }
  return Math.abs(xs[low] - x) <= Math.abs(xs[high] - x) ? low : high;
}

function snapped(view, x) {
  if (isTime(view)) return x;
  const px = (value) => view.drawn.convertToPixel({ xAxisIndex: 0 }, value);
  const distance = (level) => Math.abs(px(level) - px(x));
  return view.chart.levels.reduce((a, b) => (distance(a) <= distance(b) ? a : b));
}

function valueText(view, line, x) {
  const xs = xOf(view.chart, line);
  const i = nearest(xs, x);
  if (line.shape !== "points") return numberText(line.y[i]);
  if (xs[i] !== x) return "–";
  const has = line.low && line.low[i] !== null && line.high[i] !== null;
  const range = has ? `${numberText(line.low[i])} to ${numberText(line.high[i])}` : "no interval";
  return `${numberText(line.y[i])} (${range})`;
}

function frame(view, left, width) {
  const height = view.drawn.getHeight() - GRID.top - GRID.bottom;
  return `display:block;left:${left}px;width:${width}px;top:${GRID.top}px;height:${height}px`;
}

function showAt(view, x) {
  const left = view.drawn.convertToPixel({ xAxisIndex: 0 }, x);
  const isInside = left >= GRID.left - 1 && left <= view.drawn.getWidth() - GRID.right + 1;
  view.cursor.style.cssText = isInside ? frame(view, left, 0) : "";
  view.at = x;
  for (const line of view.chart.lines) {
    const output = view.outputs.get(line.name);
    if (output && line.shape !== "model") output.textContent = valueText(view, line, x);
  }
  if (!isTime(view))
    view.unit.textContent = `${view.chart.unit} at ${tickText(x)} ${view.chart.xLabel}`;
}

function moveCursor(view, x) {
  for (const one of together(view)) showAt(one, snapped(one, x));
  if (isTime(view)) cursorAt.textContent = timeText(view.chart, x, view.chart.xEnds[1], 1);
}

function leave(view) {
  for (const one of together(view)) {
    one.cursor.style.cssText = "";
    for (const text of [one.unit, ...one.outputs.values()]) text.textContent = text.dataset.rest;
  }
  if (isTime(view)) cursorAt.textContent = "–";
}

// Zoom: all charts on the time axis follow.
function zoom(range) {
  zoomed = range;
  root.classList.toggle("zoomed", range !== null);
  views.filter((view) => isTime(view) && isShown(view)).forEach(draw);
}

function listen(view) {
  const valueAt = (px) => view.drawn.convertFromPixel({ xAxisIndex: 0 }, px);
  const inside = (event) => {
    const box = view.live.getBoundingClientRect();
    return Math.min(Math.max(event.clientX - box.left, GRID.left), box.width - GRID.right);
  };
  let start = null;
  const stop = () => {
    start = null;
    view.selection.style.cssText = "";
  };
  view.live.addEventListener("pointermove", (event) => {
    const px = inside(event);
    moveCursor(view, valueAt(px));
    if (start !== null)
      view.selection.style.cssText = frame(view, Math.min(px, start), Math.abs(px - start));
  });
  view.live.addEventListener("pointerleave", () => start === null && leave(view));
  view.live.addEventListener("blur", () => leave(view));
  view.live.addEventListener("keydown", (event) => {
    const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (!step) return;
    event.preventDefault();
    const xs = isTime(view) ? xOf(view.chart, view.chart.lines[0]) : view.chart.levels;
    const i = view.at === undefined ? 0 : nearest(xs, view.at) + step;
    moveCursor(view, xs[Math.min(Math.max(i, 0), xs.length - 1)]);
  });
  if (!isTime(view)) return;
  view.live.addEventListener("pointerdown", (event) => {
    if (event.button !== 0 || event.pointerType === "touch") return;
    start = inside(event);
    view.live.setPointerCapture(event.pointerId);
  });
  view.live.addEventListener("pointerup", (event) => {
    const ends = [start, inside(event)].sort((a, b) => a - b);
    const isDrag = start !== null && ends[1] - ends[0] > 6;
    stop();
    if (isDrag) zoom(ends.map(valueAt));
  });
  view.live.addEventListener("pointercancel", stop);
  view.live.addEventListener("dblclick", () => zoom(null));
}

// Tools and theme.
document.addEventListener("click", (event) => {
  const button = event.target.closest("button[data-do]");
  if (!button) return;
  const view = views.find((one) => one.figure.contains(button));
  const name = `${page.name}-${view.figure.dataset.chart}`;
  if (button.dataset.do === "csv")
    download(`${name}.csv`, new Blob([csvOf(view.chart)], { type: "text/csv" }));
  else pngOf(view.chart, view.drawn, page.caption, (blob) => download(`${name}.png`, blob));
});

const systemDark = matchMedia("(prefers-color-scheme: dark)");
const isDark = () => (root.dataset.theme ? root.dataset.theme === "dark" : systemDark.matches);
document.querySelector(".toggle").addEventListener("click", () => {
  root.dataset.theme = isDark() ? "light" : "dark";
  try {
    localStorage.setItem("pgdyno-theme", root.dataset.theme);
  } catch {
    /* a file opened from disk may have no storage: the choice lasts as long as the page */
  }
  views.filter(isShown).forEach(draw);
});
systemDark.addEventListener("change", () => views.filter(isShown).forEach(draw));
for (const details of document.querySelectorAll("details.more"))
  details.addEventListener("toggle", () => views.filter(isShown).forEach(draw));
document.getElementById("zoom-out")?.addEventListener("click", () => zoom(null));

views.filter(isShown).forEach(draw);
new ResizeObserver(() => views.forEach((view) => view.drawn?.resize())).observe(document.body);
