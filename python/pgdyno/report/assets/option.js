// From a chart of the page's JSON to an ECharts option. Colours come from the page's own CSS.
const GRID = { left: 52, right: 14, top: 16, bottom: 24 };
const TIME_STEPS = [
  0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400,
];
const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const sans = () => getComputedStyle(document.body).fontFamily;
const timeStep = (span) => TIME_STEPS.find((step) => span / step <= 8) ?? 86400;
const xOf = (chart, line) => line.x ?? chart.x;

function numberText(value, digits = 3) {
  if (value === null || value === undefined) return "–";
  const exponent = value === 0 ? 0 : Math.floor(Math.log10(Math.abs(value)));
  const decimals = Math.min(Math.max(digits - 1 - exponent, 0), 8);
  const exact = { minimumFractionDigits: decimals, maximumFractionDigits: decimals };
  return value.toLocaleString("en-US", exact);
}

// Labels of ticks need no trailing zeros.
const tickText = (value) => value.toLocaleString("en-US", { maximumSignificantDigits: 4 });

function timeText(chart, seconds, span, decimals = 0) {
  const two = (n) => String(n).padStart(2, "0");
  const whole = Math.round(seconds);
  if (chart.isClock) {
    const text = new Date(1000 * whole).toISOString();
    return text.slice(11, span <= 7200 || decimals ? 19 : 16);
  }
  if (span <= 180) return `${seconds.toFixed(span < 2 ? 1 : decimals)} s`;
  if (span <= 7200 || decimals) return `${Math.floor(whole / 60)}:${two(whole % 60)}`;
  return `${Math.floor(whole / 3600)}:${two(Math.floor((whole % 3600) / 60))} h`;
}

// A vertical piece for each point, parted by gaps: whiskers, or the range of a thinned bucket.
function spanPoints(chart, line) {
  const points = [];
  const bounded = (y) => Math.min(Math.max(y, chart.yEnds[0]), chart.yEnds[1]);
  xOf(chart, line).forEach((x, i) => {
    if (line.low[i] === null || line.high[i] === null) return;
    points.push([x, bounded(line.low[i])], [x, bounded(line.high[i])], [x, null]);
  });
  return points;
}

const QUIET = { silent: true, animation: false, emphasis: { disabled: true } };

function spanSeries(chart, line, color) {
  const isPoints = line.shape === "points";
  const data = spanPoints(chart, line);
  const lineStyle = { color, width: isPoints ? 1.4 : 1, opacity: isPoints ? 1 : 0.28, cap: "butt" };
  const stems = { ...QUIET, type: "line", showSymbol: false, data, lineStyle, z: isPoints ? 3 : 1 };
  if (!isPoints) return [stems];
  const ends = data.filter((point) => point[1] !== null);
  const caps = { ...QUIET, type: "scatter", symbol: "rect", symbolSize: [9, 1.4], data: ends };
  return [stems, { ...caps, itemStyle: { color }, z: 3 }];
}

// The page's own hatch of a look as a canvas pattern, so that areas differ without colour too.
function hatched(look) {
  const pattern = document.getElementById(`f-${look}`);
  if (!pattern) return css(`--${look}`);
  const size = 8;
  const sharpness = 2;
  const image = document.createElement("canvas");
  image.width = image.height = size * sharpness;
  const pen = image.getContext("2d");
  pen.scale(sharpness, sharpness);
  pen.fillStyle = css(`--${look}`);
  pen.fillRect(0, 0, size, size);
  pen.fillStyle = pen.strokeStyle = css("--hatch");
  pen.lineWidth = 1.7;
  for (const path of pattern.querySelectorAll("path"))
    pen.stroke(new Path2D(path.getAttribute("d")));
  for (const dot of pattern.querySelectorAll("circle")) {
    pen.beginPath();
    pen.arc(dot.cx.baseVal.value, dot.cy.baseVal.value, dot.r.baseVal.value, 0, 2 * Math.PI);
    pen.fill();
  }
  return { image, repeat: "repeat", scaleX: 1 / sharpness, scaleY: 1 / sharpness };
}

function lineSeries(chart, line) {
  const color = css(`--${line.css}`);
  const isModel = line.shape === "model";
  const isShown = (y) => chart.yScale !== "log" || y > 0;
  return {
    ...QUIET,
    type: "line",
    name: line.name,
    z: isModel ? 2 : 4,
    data: xOf(chart, line).map((x, i) => [x, isShown(line.y[i]) ? line.y[i] : null]),
    showSymbol: line.shape === "points",
    symbol: line.marker,
    symbolSize: 8,
    stack: chart.stacked ? "all" : undefined,
    itemStyle: { color: css("--panel"), borderColor: color, borderWidth: 1.75 },
    lineStyle: {
      color,
      width: chart.stacked ? 1 : isModel ? 1.25 : 1.75,
      opacity: isModel ? 0.75 : 1,
      type: line.dash.length ? line.dash : "solid",
    },
    areaStyle: chart.stacked ? { color: hatched(line.css), opacity: 0.6 } : undefined,
  };
}

function flagLines(chart) {
  const isPlain = (kind) => ["checkpoint", "vacuum", "knee"].includes(kind);
  const label = { color: css("--ink-2"), fontSize: 10.5, fontFamily: sans(), distance: 4 };
  const data = chart.flags.map(([x, kind]) => ({
    xAxis: x,
    lineStyle: { color: css(isPlain(kind) ? "--ink-3" : "--bad"), width: 1, type: [2, 3] },
    label: { ...label, formatter: kind === "knee" ? "knee" : kind[0].toUpperCase() },
  }));
  return { silent: true, symbol: "none", animation: false, data };
}

function xAxis(chart, zoomed, text) {
  const isTime = chart.group === "time";
  const isLog = chart.xScale === "log";
  const [low, high] = zoomed ?? chart.xEnds;
  const xStart = chart.isClock ? low : 0;
  const pad = isLog ? (high / low) ** 0.03 : (high - low) * 0.03;
  const padded = isLog ? [low / pad, high * pad] : [low - pad, high + pad];
  const [min, max] = isTime ? [low, high] : padded;
  const step = timeStep(max - min);
  const first = Math.ceil(min / step);
  const ticks = isTime
    ? Array.from({ length: Math.floor(max / step) - first + 1 }, (_, i) => (first + i) * step)
    : chart.levels;
  const stroke = { lineStyle: { color: css("--rule-strong") } };
  return {
    type: isLog ? "log" : "value",
    min,
    max,
    splitLine: { show: false },
    axisLine: { onZero: false, ...stroke },
    axisTick: { ...stroke, customValues: ticks },
    axisLabel: {
      ...text,
      hideOverlap: true,
      customValues: ticks,
      formatter: (value) => (isTime ? timeText(chart, value, max - xStart) : tickText(value)),
    },
  };
}

function optionOf(chart, zoomed) {
  const text = { color: css("--ink-3"), fontSize: 11.5, fontFamily: sans() };
  const spans = chart.lines.filter((line) => line.low);
  const color = (line) => css(`--${line.css}`);
  const series = chart.lines.map((line) => lineSeries(chart, line));
  if (chart.flags.length) series[0].markLine = flagLines(chart);
  return {
    animation: false,
    backgroundColor: "transparent",
    grid: GRID,
    xAxis: xAxis(chart, zoomed, text),
    yAxis: {
      type: chart.yScale === "log" ? "log" : "value",
      min: chart.yEnds[0],
      max: chart.yEnds[1],
      axisLine: { show: false },
      axisTick: { show: false, customValues: chart.yTicks },
      axisLabel: { ...text, formatter: tickText, customValues: chart.yTicks },
      splitLine: { show: false },
    },
    series: [
      gridLines(chart),
      ...spans.flatMap((line) => spanSeries(chart, line, color(line))),
      ...series,
    ],
  };
}

// Rules at our own ticks: ECharts' split lines would follow ticks of its own choice.
function gridLines(chart) {
  const lineStyle = { color: css("--rule"), opacity: 0.75, type: "solid", width: 1 };
  const data = chart.yTicks.slice(1).map((y) => ({ yAxis: y, lineStyle, label: { show: false } }));
  const markLine = { z: -1, silent: true, symbol: "none", animation: false, data };
  return { ...QUIET, type: "line", data: [], markLine };
}
