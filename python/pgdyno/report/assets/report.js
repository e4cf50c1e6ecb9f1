// Draws every chart, keeps one cursor and one zoom over all charts on the time axis.
const page = JSON.parse(document.getElementById("charts").textContent);
const root = document.documentElement;
const views = [...document.querySelectorAll("figure[data-chart]")].map((figure) => ({
  figure,
  chart: page.charts[figure.dataset.chart],
  box: figure.querySelector(".box"),
  live: figure.querySelector(".live"),
  cursor: figure.querySelector(".cursor"),
  selection: figure.querySelector(".selection"),
  outputs: new Map([...figure.querySelectorAll("output[data-line]")].map((one) => [one.dataset.line, one])),
}));
const isTime = (view) => view.chart.group === "time";
const timeViews = views.filter(isTime);
const cursorAt = document.getElementById("cursor-at");
const GRID = { left: 52, right: 14, top: 16, bottom: 24 };

function draw(view) {
  if (!view.drawn) {
    const ratio = Number(view.box.querySelector("svg").getAttribute("height"));
    view.live.style.height = `${ratio}px`;
    view.box.classList.add("drawn");
    view.drawn = echarts.init(view.live, null, { renderer: "canvas" });
    for (const output of view.outputs.values()) output.dataset.rest = output.textContent;
    listen(view);
  }
  view.drawn.setOption(optionOf(view.chart), true);
}

// The cursor: one vertical line in every chart of the group, the values beside the names.
function nearest(xs, x) {
  let low = 0, high = xs.length - 1;
  while (high - low > 1) {
    const middle = (low + high) >> 1;
    if (xs[middle] <= x) low = middle; else high = middle;
  }
  return Math.abs(xs[low] - x) <= Math.abs(xs[high] - x) ? low : high;
}

function snapped(view, x) {
  if (isTime(view)) return x;
  const levels = view.chart.levels.length ? view.chart.levels : view.chart.x;
  return levels.reduce((a, b) => (Math.abs(Math.log(a / x)) <= Math.abs(Math.log(b / x)) ? a : b));
}

function showAt(view, x) {
  const left = view.drawn.convertToPixel({ xAxisIndex: 0 }, x);
  const inside = left >= GRID.left - 1 && left <= view.drawn.getWidth() - GRID.right + 1;
  view.cursor.style.cssText = inside
    ? `display:block;left:${left}px;top:${GRID.top}px;height:${view.drawn.getHeight() - GRID.top - GRID.bottom}px` : "";
  for (const line of view.chart.lines) {
    const output = view.outputs.get(line.name), xs = line.x ?? view.chart.x, i = nearest(xs, x);
    if (!output || line.shape === "model") continue;
    let text = numberText(line.y[i]);
    if (line.shape === "points") {
      if (xs[i] !== x) text = "–";
      else if (line.low?.[i] != null) text += ` (${numberText(line.low[i])} to ${numberText(line.high[i])})`;
      else text += " (no interval)";
    }
    output.textContent = text;
  }
  const head = view.figure.querySelector(".unit");
  if (!isTime(view)) {
    head.dataset.rest ??= head.textContent;
    head.textContent = `${view.chart.unit} at ${tickText(x)} ${view.chart.xLabel}`;
  }
}

function hide(view) {
  view.cursor.style.cssText = "";
  for (const output of view.outputs.values()) output.textContent = output.dataset.rest;
  const head = view.figure.querySelector(".unit");
  if (head.dataset.rest) head.textContent = head.dataset.rest;
}

const together = (view) => (isTime(view) ? timeViews : [view]);

function moveCursor(view, x) {
  for (const one of together(view)) showAt(one, snapped(view, x));
  if (isTime(view) && cursorAt) cursorAt.textContent = clockText(x, view.chart.xEnds[1]);
}

function leave(view) {
  together(view).forEach(hide);
  if (cursorAt) cursorAt.textContent = "–";
}

// Zoom: drag over a time chart; all of them follow.
function zoom(from, to) {
  for (const view of timeViews)
    view.drawn.dispatchAction({ type: "dataZoom", startValue: from, endValue: to });
  root.classList.add("zoomed");
}

function zoomOut() {
  for (const view of timeViews) view.drawn.dispatchAction({ type: "dataZoom", start: 0, end: 100 });
  root.classList.remove("zoomed");
}

function listen(view) {
  const bounded = (event) => {
    const box = view.live.getBoundingClientRect();
    return Math.min(Math.max(event.clientX - box.left, GRID.left), box.width - GRID.right);
  };
  const valueAt = (px) => view.drawn.convertFromPixel({ xAxisIndex: 0 }, px);
  let start = null;
  view.live.addEventListener("pointermove", (event) => {
    const px = bounded(event);
    moveCursor(view, valueAt(px));
    if (start !== null && Math.abs(px - start) > 3)
      view.selection.style.cssText = `display:block;left:${Math.min(px, start)}px;width:${Math.abs(px - start)}px;`
        + `top:${GRID.top}px;height:${view.drawn.getHeight() - GRID.top - GRID.bottom}px`;
  });
  view.live.addEventListener("pointerleave", () => { if (start === null) leave(view); });
  if (!isTime(view)) return;
  view.live.addEventListener("pointerdown", (event) => {
    if (event.button !== 0 || event.pointerType === "touch") return;
    start = bounded(event);
    view.live.setPointerCapture(event.pointerId);
  });
  view.live.addEventListener("pointerup", (event) => {
    const end = bounded(event), from = start;
    start = null;
    view.selection.style.cssText = "";
    if (from !== null && Math.abs(end - from) > 6)
      zoom(...[valueAt(from), valueAt(end)].sort((a, b) => a - b));
  });
  view.live.addEventListener("pointercancel", () => { start = null; view.selection.style.cssText = ""; });
  view.live.addEventListener("dblclick", zoomOut);
}

// Tools and theme.
document.addEventListener("click", (event) => {
  const button = event.target.closest("button[data-do]");
  if (!button) return;
  const view = views.find((one) => one.figure.contains(button));
  const name = `${page.name}-${view.figure.dataset.chart}`;
  if (button.dataset.do === "csv") download(`${name}.csv`, new Blob([csvOf(view.chart)], { type: "text/csv" }));
  else pngOf(view.chart, view.drawn, page.caption, (blob) => download(`${name}.png`, blob));
});

const systemDark = matchMedia("(prefers-color-scheme: dark)");
const isDark = () => (root.dataset.theme ? root.dataset.theme === "dark" : systemDark.matches);
document.querySelector(".toggle").addEventListener("click", () => {
  root.dataset.theme = isDark() ? "light" : "dark";
  try { localStorage.setItem("pgdyno-theme", root.dataset.theme); } catch { /* not kept, then */ }
  views.forEach(draw);
});
systemDark.addEventListener("change", () => views.forEach(draw));
document.getElementById("zoom-out")?.addEventListener("click", zoomOut);

new ResizeObserver(() => views.forEach((view) => view.drawn?.resize())).observe(document.body);
views.forEach(draw);
