// Charts from report.data.charts, drawn by Apache ECharts. Each stands in place of a static picture, which stays for paper.
"use strict";

const MISSED = "\u25b3"; // a trial that did not reach its target
const OUTLINE = "#e69f00";
const MOST_NUMBERED = 8; // values of an axis up to which a cell of a map has room for its number

const drawnCharts = []; // { instance, element }

/** Return the colours of text, grid, notes and ground, as the page has them now. */
function coloursOf(host) {
  const style = getComputedStyle(host);
  return { ink: style.color, line: style.borderTopColor, grey: style.outlineColor, paper: style.backgroundColor };
}

/** Return colours of lines, the best ones first: those furthest from the ground stand for the best. */
function lineShades(host, shades) {
  const [red, green, blue] = coloursOf(host).paper.match(/\d+/g).map(Number);
  return red + green + blue < 384 ? [...shades].reverse() : shades;
}

/** Return the lines of a tip as elements: text from files is never read as HTML. */
function tip(lines) {
  const box = element("div", undefined, { class: "tip" });
  lines.forEach((line) => box.append(element("div", line)));
  return box;
}

/** Return what the table says of a trial. */
function trialLines(number) {
  const row = table.rows[table.placeOf.get(String(number))];
  if (row === undefined) return [`trial ${number}`];
  const said = row.cells.map((cell, place) => [table.heads[place].head, cell]).filter(([, cell]) => cell !== "");
  return [`trial ${number}`, ...said.slice(1).map(([head, cell]) => `${head}: ${cell}`), "click: its row in the table"];
}

/** Return a number for an axis: 1,024 in full where it is a size, else 1.2M. */
function short(value) {
  if (value >= 1e6) return `${+(value / 1e6).toPrecision(3)}M`;
  if (value >= 1e4) return `${+(value / 1e3).toPrecision(3)}k`;
  return (+value.toPrecision(3)).toLocaleString("en");
}

const sizeText = (value) => Math.round(value).toLocaleString("en");
const percent = (value) => `${+(100 * value).toPrecision(3)}%`;

/** Return options that every chart has. */
function common(colours) {
  return {
    animation: false,
    backgroundColor: colours.paper,
    textStyle: { color: colours.ink, fontFamily: "system-ui, DejaVu Sans, sans-serif" },
    tooltip: {
      trigger: "item", confine: true, backgroundColor: colours.paper, borderColor: colours.grey,
      textStyle: { color: colours.ink },
      formatter: ({ data }) => (data && data.said ? tip(data.said()) : ""),
    },
  };
}

function toolbox(colours, withZoom) {
  const zoom = withZoom ? { dataZoom: { filterMode: "none", title: { zoom: "Zoom: drag a box", back: "Zoom back" } } } : {};
  const features = { ...zoom, restore: { title: "Restore" }, saveAsImage: { title: "Save as PNG", pixelRatio: 2 } };
  return { right: 4, top: 0, itemSize: 16, iconStyle: { borderColor: colours.grey }, feature: features };
}

function axis(colours, name, more) {
  return {
    name, nameLocation: "middle", nameTextStyle: { color: colours.ink },
    axisLine: { show: true, lineStyle: { color: colours.grey } }, axisLabel: { color: colours.ink, hideOverlap: true },
    splitLine: { show: true, lineStyle: { color: colours.line } }, minorTick: { show: false }, ...more,
  };
}

/** Put a chart into a new element, and keep it for later changes of size. */
function draw(host, height, options, label) {
  const panel = element("div", undefined, { class: "panel", role: "img", "aria-label": label });
  panel.style.height = `${height}px`;
  host.append(panel);
  const instance = echarts.init(panel);
  instance.setOption(options);
  instance.on("click", ({ data }) => { if (data && data.trial !== undefined) goToTrial(data.trial); });
  drawnCharts.push({ instance, panel });
  return instance;
}

// Curves over num_envs

function markData(line) {
  return line.marks.map((mark) => ({
    value: [mark.x, mark.y], said: () => mark.said,
    symbol: mark.is_bound ? "triangle" : line.symbol,
    itemStyle: mark.is_bound || mark.fill !== "full"
      ? { color: mark.fill === "half" ? halfFilled(line.colour) : "transparent", borderColor: line.colour, borderWidth: 2 }
      : { color: line.colour },
  }));
}

function halfFilled(colour) {
  const stops = [[0, colour], [0.5, colour], [0.5, "transparent"], [1, "transparent"]];
  return new echarts.graphic.LinearGradient(0, 0, 0, 1, stops.map(([offset, own]) => ({ offset, color: own })));
}

function trialData(line) {
  return line.trials.map(([x, y, number, isBound]) => ({
    value: [x, y], trial: number, said: () => trialLines(number), symbol: isBound ? "triangle" : line.symbol,
    itemStyle: isBound ? { color: "transparent", borderColor: line.colour, borderWidth: 1.5 } : { color: line.colour },
  }));
}

/** Draw the two-sided interval of each mark as a bar. */
function intervals(line) {
  const data = line.marks.filter((mark) => mark.low !== null && mark.high !== null).map((mark) => [mark.x, mark.low, mark.high]);
  return {
    type: "custom", name: line.name, silent: true, clip: true, z: 2, data, encode: { x: 0, y: [1, 2] }, tooltip: { show: false },
    renderItem: (_, api) => {
      const [x, low] = api.coord([api.value(0), api.value(1)]);
      const [, high] = api.coord([api.value(0), api.value(2)]);
      return { type: "line", shape: { x1: x, y1: low, x2: x, y2: high }, style: { stroke: line.colour, lineWidth: 1.6 } };
    },
  };
}

function curveSeries(line) {
  const own = { name: line.name, color: line.colour };
  const parts = [
    { ...own, type: "scatter", symbolSize: line.marks.length ? 6 : 8, itemStyle: { opacity: 0.6 }, z: 3, data: trialData(line) },
    intervals(line),
    { ...own, type: "line", showSymbol: false, silent: true, z: 1, tooltip: { show: false },
      lineStyle: { type: "dashed", width: 1, color: line.colour }, data: line.law },
    { ...own, type: "line", symbolSize: 10, showAllSymbol: true, z: 4, itemStyle: { color: line.colour },
      lineStyle: { color: line.colour, width: line.joins ? 2 : 0 }, data: markData(line) },
  ];
  return parts.filter((part) => part.data.length);
}

const isShown = (own) => !report.hiddenArms.has(own.arm);

function levels(panel, colours) {
  const across = (own, place) => ({
    [place]: own.value, lineStyle: { color: own.colour || colours.ink, type: "dashed" },
    label: {
      formatter: own.label, color: own.colour || colours.ink, position: place === "xAxis" ? "insideEndTop" : "insideStartTop",
    },
  });
  const data = [...panel.at_x.filter(isShown).map((own) => across(own, "xAxis")), ...panel.at_y.map((own) => across(own, "yAxis"))];
  return { type: "line", silent: true, data: [], markLine: { silent: true, symbol: "none", data } };
}

/** Return the ends of an axis: every value, and as much of the intervals as leaves the values readable. */
function endsOf(panel, lines) {
  const values = lines.flatMap((line) => [...line.marks.map((mark) => mark.y), ...line.trials.map((trial) => trial[1])]);
  const bounds = lines.flatMap((line) => line.marks.flatMap((mark) => [mark.low, mark.high])).filter((own) => own !== null);
  if (!values.length) return {};
  const [least, most] = [Math.min(...values), Math.max(...values)];
  const [low, high] = [Math.min(least, ...bounds), Math.max(most, ...bounds)];
  if (panel.y_scale === "log") return { min: Math.max(low, least / 2) / 1.15, max: Math.min(high, most * 2) * 1.15 };
  const marked = panel.at_y.map((own) => own.value);
  const [bottom, top] = [Math.min(0, least, ...marked), Math.max(most, ...marked)];
  const span = top - bottom || 1;
  return {
    min: panel.y_scale === "share" ? Math.max(Math.min(low, bottom), bottom - span / 2) - span / 20 : 0,
    max: Math.min(Math.max(high, top), top + span / 2) + span / 20,
  };
}

function curvesPanel(host, panel, label) {
  const colours = coloursOf(host);
  const lines = panel.lines.filter(isShown);
  const sizes = lines.flatMap((line) => [...line.marks.map((mark) => mark.x), ...line.trials.map((trial) => trial[0])]);
  if (!sizes.length) return;
  sizes.push(...panel.at_x.filter(isShown).map((level) => level.value));
  const isLog = panel.y_scale === "log";
  const legendEntry = (line) => ({ name: line.name, icon: line.symbol, itemStyle: { color: line.colour, opacity: 1 } });
  draw(host, 420, {
    ...common(colours),
    grid: { left: 70, right: 20, top: 64, bottom: 92 },
    legend: {
      type: "scroll", data: lines.map(legendEntry), top: 26, left: 0, itemWidth: 12, itemHeight: 12, textStyle: { color: colours.ink }, pageTextStyle: { color: colours.ink },
      pageIconColor: colours.ink, show: lines.length > 1,
    },
    toolbox: toolbox(colours, true),
    dataZoom: [
      // The wheel alone scrolls the page.
      { type: "inside", xAxisIndex: 0, filterMode: "none", zoomOnMouseWheel: "ctrl", moveOnMouseMove: "shift", preventDefaultMouseMove: false },
      { type: "slider", xAxisIndex: 0, filterMode: "none", bottom: 8, height: 22, labelFormatter: "", brushSelect: false, textStyle: { color: colours.ink } },
    ],
    xAxis: axis(colours, panel.x_label, {
      type: "log", logBase: 2, nameGap: 28, min: Math.min(...sizes) / 1.3, max: Math.max(...sizes) * 1.3,
      axisLabel: { color: colours.ink, hideOverlap: true, formatter: sizeText, showMinLabel: false, showMaxLabel: false },
    }),
    yAxis: axis(colours, panel.y_label, {
      type: isLog ? "log" : "value", logBase: isLog ? 2 : undefined, nameGap: 50, ...endsOf(panel, lines),
      axisLabel: {
        color: colours.ink, hideOverlap: true, formatter: panel.y_scale === "share" ? percent : short, showMinLabel: panel.y_scale === "linear", showMaxLabel: false,
      },
    }),
    series: [...lines.flatMap(curveSeries), levels(panel, colours)],
  }, label);
}

function drawCurves(host, chart, label) {
  chart.panels.forEach((panel) => curvesPanel(host, panel, `${label}: ${panel.y_label}`));
  host.append(element("p",
    "Point at a mark to read it; click a small one to go to its trial. A click on a name hides its series. Zoom: the slider,"
    + " a box by the first icon above, Ctrl and the wheel, or two fingers. Bars are intervals; an open triangle is a lower bound.", { class: "key" }));
}

// Maps of the joint answer

const MAP_AXES = { num_envs: "num_envs", horizon: "horizon", batch_size: "batch size" };
const axisText = (name, value) => (name === "batch_size" && value === 0 ? "lib" : sizeText(value));

const COLOUR_BY = {
  cost: { of: (cell) => cell.cost_times, said: (worst) => ["the least cost", `${+worst.toPrecision(2)} times and more`] },
  interval: { of: (cell) => cell.times_either_way, said: (worst) => ["known exactly", `within ${+worst.toPrecision(2)} times and more`] },
};

/** Return the colour of a number of times, on a logarithmic scale. */
function shadeOf(times, worst, shades) {
  if (times === null) return "#999";
  const share = Math.min(Math.log(times) / Math.log(worst), 1) * (shades.length - 1);
  return shades[Math.round(Math.max(share, 0))];
}

/** Return the text of a cell: its value, how far it may be off, and marks of trials. */
function cellText(cell) {
  const off = cell.times_either_way === null ? "" : `\u00d7/\u00f7${cell.times_either_way.toFixed(2)}`;
  const marks = "\u25cf".repeat(Math.min(cell.tried - cell.missed, 1)) + MISSED.repeat(Math.min(cell.missed, 1));
  return `{value|${short(cell.value)}}\n{off|${off}${marks ? ` ${marks}` : ""}}`;
}

const diamond = (x, y, size) => [[x, y - size], [x + size, y], [x, y + size], [x - size, y]];

function mapPanel(host, surface, third, value, choice) {
  const colours = coloursOf(host);
  const [across, up] = Object.keys(MAP_AXES).filter((name) => name !== third);
  const sorted = (name) => [...new Set(surface.cells.map((cell) => cell[name]))].sort((a, b) => a - b);
  const [columns, rows] = [sorted(across), sorted(up)];
  const fits = columns.length <= MOST_NUMBERED;
  const colourBy = COLOUR_BY[choice.colour];
  const cells = surface.cells.filter((cell) => cell[third] === value);
  const isLight = (cell) => {
    const times = colourBy.of(cell);
    return times !== null && Math.log(times) > 0.6 * Math.log(choice.worst);
  };
  const data = cells.map((cell) => ({
    value: [columns.indexOf(cell[across]), rows.indexOf(cell[up]), cell.value],
    said: () => cell.said,
    itemStyle: {
      color: shadeOf(colourBy.of(cell), choice.worst, choice.shades),
      borderColor: cell.may_be_best ? OUTLINE : colours.paper, borderWidth: cell.may_be_best ? 3 : 1,
    },
    label: { color: isLight(cell) ? "#222" : "#fff" },
    z2: cell.may_be_best ? 2 : 1,
    fresh: cell.not_slower,
    formatted: cellText(cell),
  }));
  draw(host, 70 + Math.max(rows.length * 40, 150), {
    ...common(colours),
    grid: { left: 62, right: 12, top: 8, bottom: 52 },
    xAxis: axis(colours, MAP_AXES[across], {
      type: "category", data: columns.map((own) => axisText(across, own)), nameGap: 30, splitLine: { show: false },
    }),
    yAxis: axis(colours, MAP_AXES[up], {
      type: "category", data: rows.map((own) => axisText(up, own)), nameGap: 44, splitLine: { show: false },
    }),
    series: [
      {
        type: "custom", data, encode: { x: 0, y: 1 }, clip: true,
        renderItem: (params, api) => {
          const own = data[params.dataIndex];
          const [x, y] = api.coord([api.value(0), api.value(1)]);
          const [width, height] = api.size([1, 1]);
          const inset = own.itemStyle.borderWidth / 2;
          return {
            type: "group",
            children: [
              {
                type: "rect", z2: own.z2,
                shape: { x: x - width / 2 + inset, y: y - height / 2 + inset, width: width - 2 * inset, height: height - 2 * inset },
                style: { fill: own.itemStyle.color, stroke: own.itemStyle.borderColor, lineWidth: own.itemStyle.borderWidth },
              },
              {
                type: "text", z2: 3, silent: true, ignore: !fits || width < 34,
                style: {
                  x, y, align: "center", verticalAlign: "middle", text: own.formatted, fill: own.label.color,
                  rich: {
                    value: { fontSize: 12, lineHeight: 16, fill: own.label.color, align: "center" },
                    off: { fontSize: 9, lineHeight: 12, fill: own.label.color, align: "center" },
                  },
                },
              },
              {
                type: "polygon", z2: 4, silent: true, ignore: !own.fresh,
                shape: { points: diamond(x + width / 2 - 9, y - height / 2 + 9, 5) },
                style: { fill: OUTLINE, stroke: "#fff", lineWidth: 1 },
              },
            ],
          };
        },
      },
    ],
  }, `${surface.name}, ${MAP_AXES[third]} ${axisText(third, value)}: ${surface.quantity}`);
}

/** Return a menu with its label. */
function menu(host, label, choices, chosen, onChange) {
  const select = element("select");
  for (const [value, said] of Object.entries(choices)) select.append(element("option", said, { value }));
  select.value = chosen;
  select.addEventListener("change", () => onChange(select.value));
  const box = element("label", `${label} `);
  box.append(select);
  host.append(box);
}

const mapChoice = { third: "horizon", colour: "cost" };

function drawMaps(host, chart) {
  const bar = element("div", undefined, { class: "tools" });
  const again = (name) => (value) => { mapChoice[name] = value; redrawChart(host); };
  menu(bar, "A map for each", MAP_AXES, mapChoice.third, again("third"));
  menu(bar, "Colour", { cost: "expected cost", interval: "how far that may be off" }, mapChoice.colour, again("colour"));
  host.append(bar);
  const surfaces = chart.surfaces.filter(isShown);
  const off = surfaces.flatMap((surface) => surface.cells.map((cell) => cell.times_either_way || 1));
  const worst = mapChoice.colour === "cost" ? chart.worst : Math.max(1.05, ...off);
  for (const surface of surfaces) {
    const values = [...new Set(surface.cells.map((cell) => cell[mapChoice.third]))].sort((a, b) => a - b);
    const name = chart.surfaces.length > 1 ? `${surface.name}: ` : "";
    host.append(element("h4", `${name}${surface.quantity}`));
    if (surface.note) host.append(element("p", surface.note, { class: "key" }));
    const maps = element("div", undefined, { class: "maps" });
    host.append(maps);
    const boxes = values.map((value) => {
      const box = element("div");
      box.append(element("p", `${MAP_AXES[mapChoice.third]} ${axisText(mapChoice.third, value)}`, { class: "key" }));
      maps.append(box);
      return box;
    });
    // A map takes the width of its place in the grid, which is known once all of them are there.
    values.forEach((value, place) => mapPanel(boxes[place], surface, mapChoice.third, value, { ...mapChoice, worst, shades: chart.shades }));
  }
  const [least, most] = COLOUR_BY[mapChoice.colour].said(worst);
  host.append(scaleKey(chart.shades, least, most));
  host.append(element("p",
    `Orange outline: ${chart.outlined}. Orange diamond: not shown slower than the best one by fresh seeds alone. \u25cf was tried;`
    + ` ${MISSED} a trial there did not reach the target. \u00d7/\u00f71.20: the model's interval reaches from the value divided by 1.20`
    + " to 1.20 times it. A cell without a mark is the model's word alone; an empty one is not legal.", { class: "key" }));
}

/** Return the key of a scale of colours. */
function scaleKey(shades, least, most) {
  const key = element("p", `${least} `, { class: "key" });
  const bar = element("span");
  bar.style.cssText = `display:inline-block;vertical-align:middle;width:8rem;height:.8rem;background:linear-gradient(to right,${shades.join(",")})`;
  key.append(bar, ` ${most}`);
  return key;
}

// Parallel coordinates and importance

function searchPanel(host, search, chart) {
  const colours = coloursOf(host);
  const shades = lineShades(host, chart.shades);
  const last = search.axes.length - 1;
  const narrow = host.clientWidth < 500;
  const axes = search.axes.map((name, dim) => {
    const values = [...new Set(search.trials.map(([own]) => own[dim]))].sort((a, b) => a - b);
    const isCost = dim === last;
    // A value of its own keeps the ends of the axis apart where all trials agree.
    const ends = isCost ? { min: values[0] / 1.02, max: values.at(-1) * 1.02 } : { min: values[0] / 1.1, max: values.at(-1) * 1.1 };
    return {
      dim, name, type: "log", logBase: isCost ? 10 : 2, ...ends, nameTextStyle: { color: colours.ink },
      axisLine: { lineStyle: { color: colours.grey } }, splitLine: { show: false }, minorTick: { show: false },
      axisLabel: { color: colours.ink, formatter: isCost ? short : sizeText, showMinLabel: isCost, showMaxLabel: isCost, hideOverlap: true },
      areaSelectStyle: { width: narrow ? 24 : 18, opacity: 0.25 },
    };
  });
  // The best lines come last, on top.
  const trials = [...search.trials].sort((a, b) => b[1] - a[1]);
  const data = trials.map(([value, times, number, isBound]) => ({
    value, trial: number, said: () => trialLines(number),
    lineStyle: { color: shadeOf(times, chart.worst, shades), type: isBound ? "dashed" : "solid", width: 1.5, opacity: 0.8 },
  }));
  draw(host, 380, {
    ...common(colours),
    toolbox: toolbox(colours, false),
    parallel: { left: 36, right: narrow ? 40 : 56, top: 74, bottom: 18 },
    parallelAxis: axes,
    series: [{ type: "parallel", smooth: false, inactiveOpacity: 0.04, activeOpacity: 0.9, emphasis: { lineStyle: { width: 4, opacity: 1 } }, data }],
  }, `${search.name}: every trial of the search over ${search.axes.join(", ")}`);
}

function importancePanel(host, search) {
  const colours = coloursOf(host);
  const bars = [...search.bars].reverse();
  draw(host, 90 + 60 * bars.length, {
    ...common(colours),
    grid: { left: 78, right: 52, top: 20, bottom: 52 },
    xAxis: axis(colours, "cost at the worst value, times the best", { type: "value", min: 1, nameGap: 28 }),
    yAxis: axis(colours, "", { type: "category", data: bars.map((bar) => bar.name), splitLine: { show: false } }),
    series: [{
      type: "bar", barMaxWidth: 22, itemStyle: { color: "#0072b2" },
      label: { show: true, position: "right", color: colours.ink, formatter: ({ data }) => `${data.value.toFixed(2)}\u00d7` },
      data: bars.map((bar) => ({ value: bar.times, said: () => bar.said })),
    }],
  }, `${search.name}: how much each axis matters`);
}

function drawCoordinates(host, chart) {
  const searches = chart.searches.filter(isShown);
  for (const search of searches) {
    if (chart.searches.length > 1) host.append(element("h4", search.name));
    const sides = element("div", undefined, { class: search.bars.length ? "sides" : "" });
    const [left, right] = [element("div"), element("div")];
    sides.append(left);
    host.append(sides);
    if (search.bars.length) {
      sides.append(right);
      right.append(element("p", "How much each axis matters", { class: "key" }));
      importancePanel(right, search);
    }
    searchPanel(left, search, chart);
  }
  host.append(scaleKey(lineShades(host, chart.shades), "the least cost seen", `${+chart.worst.toPrecision(2)} times and more`));
  host.append(element("p",
    "A line is a trial of the search; a dashed one did not reach the target and costs more than shown. Drag along an axis to keep"
    + " the lines through that part; click the axis to keep all again. Click a line to go to its trial. The best trial seen is lucky:"
    + " confirmed settings say what to expect. A bar says how many times the cost is at an axis's worst value, with the other axes at"
    + " their best for it, by the model of all trials.", { class: "key" }));
}

// All of them

const DRAWN_BY = { curves: drawCurves, maps: drawMaps, coordinates: drawCoordinates };

function redrawChart(within) {
  const host = within.closest(".chart");
  for (let place = drawnCharts.length - 1; place >= 0; place -= 1) {
    if (host.contains(drawnCharts[place].panel)) drawnCharts.splice(place, 1)[0].instance.dispose();
  }
  host.replaceChildren();
  const chart = report.data.charts[host.dataset.chart];
  DRAWN_BY[chart.kind](host, chart, host.getAttribute("aria-label"));
}

/** Show the chart of a figure in place of its picture, or the picture again. */
function startChart(host) {
  const figure = host.closest("figure");
  const button = figure.querySelector("button.still");
  if (button === null) { // the report of a sweep that goes on has no pictures
    figure.classList.add("live");
    host.hidden = false;
    redrawChart(host);
    return;
  }
  button.parentElement.hidden = false;
  const show = (isLive) => {
    figure.classList.toggle("live", isLive);
    host.hidden = !isLive;
    button.textContent = isLive ? "Show the picture" : "Show the chart";
    button.setAttribute("aria-pressed", String(!isLive));
    if (isLive) redrawChart(host);
  };
  button.addEventListener("click", () => show(host.hidden));
  show(true);
}

// One after the other, so that the page can be read and scrolled meanwhile.
const waiting = [...document.querySelectorAll(".chart")];

function startNext() {
  const host = waiting.shift();
  if (host === undefined) return;
  startChart(host);
  setTimeout(startNext);
}

setTimeout(startNext);

const redrawAll = () => document.querySelectorAll(".live .chart").forEach(redrawChart);
report.onArms.push(redrawAll);
report.onColours.push(redrawAll);

let resizing;
addEventListener("resize", () => {
  clearTimeout(resizing);
  resizing = setTimeout(() => drawnCharts.forEach(({ instance }) => instance.resize()), 100);
});
