// From a chart of the page's JSON to an ECharts option. Colours come from the page's own CSS.
const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const sans = () => getComputedStyle(document.body).fontFamily;

function decimalsOf(value, digits) {
  return value === 0 ? 0 : Math.min(Math.max(digits - 1 - Math.floor(Math.log10(Math.abs(value))), 0), 4);
}

function numberText(value, digits = 3) {
  if (value === null || value === undefined) return "–";
  const decimals = decimalsOf(value, digits);
  return value.toLocaleString("en-US", { minimumFractionDigits: decimals, maximumFractionDigits: decimals });
}

// Tick labels need no trailing zeros.
function tickText(value) {
  return value.toLocaleString("en-US", { maximumSignificantDigits: 4 });
}

function clockText(seconds, span) {
  const whole = Math.round(seconds), two = (n) => String(n).padStart(2, "0");
  if (span <= 180) return `${span < 8 ? Math.round(seconds * 10) / 10 : whole} s`;
  if (span <= 7200) return `${Math.floor(whole / 60)}:${two(whole % 60)}`;
  return `${Math.floor(whole / 3600)}:${two(Math.floor((whole % 3600) / 60))} h`;
}

const xOf = (chart, line) => line.x ?? chart.x;

const TIME_STEPS = [0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400];
const timeStep = (span) => TIME_STEPS.find((step) => span / step <= 8) ?? 86400;

// A vertical piece for each point, the pieces parted by gaps: whiskers, or the range of a bucket.
function spanPoints(chart, line) {
  const points = [];
  xOf(chart, line).forEach((x, i) => {
    if (line.low[i] === null || line.high[i] === null) return;
    points.push([x, line.low[i]], [x, line.high[i]], [x, null]);
  });
  return points;
}

function lineSeries(chart, line) {
  const color = css(`--${line.css}`), isPoints = line.shape === "points";
  const quiet = { silent: true, animation: false, emphasis: { disabled: true }, tooltip: { show: false } };
  const series = [];
  if (line.low) {
    series.push({ ...quiet, type: "line", showSymbol: false, data: spanPoints(chart, line), z: isPoints ? 3 : 1,
      lineStyle: { color, width: isPoints ? 1.4 : 1, opacity: isPoints ? 1 : 0.28, cap: "butt" } });
    if (isPoints) series.push({ ...quiet, type: "scatter", symbol: "rect", symbolSize: [9, 1.4], z: 3,
      itemStyle: { color }, data: spanPoints(chart, line).filter((point) => point[1] !== null) });
  }
  series.push({ ...quiet, type: "line", name: line.name, z: line.shape === "model" ? 2 : 4,
    data: xOf(chart, line).map((x, i) => [x, chart.yScale === "log" && line.y[i] <= 0 ? null : line.y[i]]),
    showSymbol: isPoints, symbol: line.marker, symbolSize: 8, connectNulls: false,
    stack: chart.stacked ? "all" : undefined,
    itemStyle: { color: css("--panel"), borderColor: color, borderWidth: 1.75 },
    lineStyle: { color, width: chart.stacked ? 1 : line.shape === "model" ? 1.25 : 1.75,
      opacity: line.shape === "model" ? 0.75 : 1, type: line.dash.length ? line.dash : "solid" },
    areaStyle: chart.stacked ? { color, opacity: 0.55 } : undefined });
  return series;
}

function flagLines(chart) {
  const ink = css("--ink-2"), bad = css("--bad");
  return { silent: true, symbol: "none", animation: false,
    data: chart.flags.map(([x, kind]) => ({ xAxis: x,
      lineStyle: { color: kind === "checkpoint" || kind === "knee" ? css("--ink-3") : bad, width: 1, type: [2, 3] },
      label: { formatter: kind === "knee" ? "knee" : kind[0].toUpperCase(), color: ink, fontSize: 10.5,
        fontFamily: sans(), distance: 4 } })) };
}

function optionOf(chart) {
  const [low, high] = chart.xEnds, span = high - low, isTime = chart.group === "time";
  const text = { color: css("--ink-3"), fontSize: 11.5, fontFamily: sans() };
  const isLog = chart.xScale === "log", pad = isLog ? (high / low) ** 0.03 : span * 0.03;
  const ends = isTime ? [low, high] : isLog ? [low / pad, high * pad] : [low - pad, high + pad];
  const series = chart.lines.flatMap((line) => lineSeries(chart, line));
  if (chart.flags.length) series.find((one) => one.name).markLine = flagLines(chart);
  return {
    animation: false, textStyle: { fontFamily: sans() }, backgroundColor: "transparent",
    grid: { left: 52, right: 14, top: 16, bottom: 24 },
    xAxis: { interval: isTime ? timeStep(span) : undefined, type: isLog ? "log" : "value", logBase: 2, min: ends[0], max: ends[1],
      splitLine: { show: false }, minorTick: { show: false },
      axisLine: { onZero: false, lineStyle: { color: css("--rule-strong") } },
      axisTick: { lineStyle: { color: css("--rule-strong") }, customValues: isTime ? undefined : chart.levels },
      axisLabel: { ...text, hideOverlap: true, showMinLabel: true, showMaxLabel: true,
        customValues: isTime ? undefined : chart.levels,
        formatter: (value) => (isTime ? clockText(value, span) : tickText(value)) } },
    yAxis: { type: chart.yScale === "log" ? "log" : "value", min: chart.yEnds[0], max: chart.yEnds[1],
      axisLine: { show: false }, axisTick: { show: false },
      axisLabel: { ...text, formatter: tickText, customValues: chart.yTicks },
      axisTick: { show: false, customValues: chart.yTicks },
      splitLine: { lineStyle: { color: css("--rule"), opacity: 0.75 } } },
    dataZoom: isTime ? [{ type: "inside", zoomOnMouseWheel: false, moveOnMouseMove: false,
      moveOnMouseWheel: false, preventDefaultMouseMove: false, filterMode: "none" }] : [],
    series,
  };
}
