// A chart taken out of the page: its numbers as CSV, itself as PNG with title and legend.
function download(name, blob) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}

const quoted = (text) => (/[",\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text);

function csvOf(chart) {
  const cell = (value) => (value === null || value === undefined ? "" : String(value));
  const x = chart.group === "time" && !chart.isClock ? "time_s" : chart.xLabel;
  if (chart.x) {
    const head = [x], columns = [chart.x];
    for (const line of chart.lines) {
      const ends = line.low ? [[" low", line.low], [" high", line.high]] : [];
      for (const [suffix, values] of [["", line.y], ...ends]) {
        head.push(quoted(`${line.name}${suffix} (${chart.unit})`));
        columns.push(values);
      }
    }
    const rows = chart.x.map((_, i) => columns.map((values) => cell(values[i])).join(","));
    return [head.join(","), ...rows].join("\n") + "\n";
  }
  const rows = chart.lines.flatMap((line) => line.x.map((at, i) =>
    [quoted(line.name), at, cell(line.y[i]), cell(line.low?.[i]), cell(line.high?.[i])].join(",")));
  return [["series", x, quoted(chart.unit), "low", "high"].join(","), ...rows].join("\n") + "\n";
}

function drawKey(pen, line, x, y) {
  pen.strokeStyle = css(`--${line.css}`);
  pen.lineWidth = 2;
  pen.setLineDash(line.dash);
  pen.beginPath();
  pen.moveTo(x, y);
  pen.lineTo(x + 26, y);
  pen.stroke();
  pen.setLineDash([]);
  pen.fillStyle = css("--ink-2");
  pen.fillText(line.name, x + 33, y + 4);
  return x + 33 + pen.measureText(line.name).width + 20;
}

function pngOf(chart, drawn, caption, done) {
  const scale = 2, width = drawn.getWidth(), height = drawn.getHeight();
  const canvas = document.createElement("canvas"), pen = canvas.getContext("2d");
  canvas.width = (width + 32) * scale;
  canvas.height = (height + 92) * scale;
  pen.scale(scale, scale);
  pen.fillStyle = css("--panel");
  pen.fillRect(0, 0, width + 32, height + 92);
  pen.fillStyle = css("--ink");
  pen.font = `600 15px ${sans()}`;
  pen.fillText(`${chart.title}, ${chart.unit}`, 16, 26);
  pen.drawImage(drawn.renderToCanvas({ pixelRatio: scale }), 16, 36, width, height);
  pen.font = `12px ${sans()}`;
  let x = 16;
  for (const line of chart.lines) x = drawKey(pen, line, x, height + 52);
  pen.fillStyle = css("--ink-3");
  pen.font = `11px ${sans()}`;
  pen.fillText(caption, 16, height + 78);
  canvas.toBlob(done, "image/png");
}
