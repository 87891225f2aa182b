// Draws a recording. What is in it is shown as text, never as markup.
"use strict";

const recording = JSON.parse(document.getElementById("recording").textContent);
const byId = (id) => document.getElementById(id);
const canvas = byId("lanes");
const overview = byId("overview");

// How each outcome is drawn, what it is called, and whether it is a bad one.
const OUTCOMES = {
  message: { shape: "disc", says: "message received" },
  tick: { shape: "clock", says: "timer fired" },
  sent: { shape: "arrow", says: "message sent (logged: the channel has a bound)" },
  arm: { shape: "diamond", says: "select: the arm taken" },
  first: { shape: "block", says: "lock acquired, again or for the first time" },
  again: { shape: "block" },
  turn: { shape: "square", says: "lock acquired after another thread" },
  woken: { shape: "bell", says: "woken by a notification" },
  value: { shape: "dot", says: "something was observed" },
  done: { shape: "dot" },
  empty: { shape: "ring", tone: "quiet", says: "empty: nothing to receive" },
  no_arm: { shape: "hollow diamond", tone: "quiet", says: "select: no arm was ready" },
  busy: { shape: "hollow square", tone: "quiet", says: "the lock was not free" },
  full: { shape: "full", tone: "warn", says: "full: no room to send" },
  timeout: { shape: "hourglass", tone: "warn", says: "timeout" },
  disconnected: { shape: "cross", tone: "bad", says: "disconnected" },
  refused: { shape: "hollow arrow", tone: "bad", says: "send refused: no receiver left" },
  poisoned: { shape: "alarm", tone: "bad", says: "poisoned, or failed" },
  failed: { shape: "alarm", tone: "bad" },
};

const ENDS = {
  ended: "ended",
  cut_off: "cut off with the process",
  incomplete: "recording stopped here",
  damaged: "the log is damaged here",
};

const MAX_SCALE = 140;
// Below this many pixels for a unit of time, columns are drawn instead of marks.
const MARKS_FROM = 7;
const AXIS = 22;

// ---------------------------------------------------------------- the recording

const lanes = recording.threads.map((thread, index) => ({
  ...thread,
  index,
  label: "t" + thread.thread,
  times: Float64Array.from(thread.marks, (mark) => mark.time),
  shown: new Uint8Array(thread.marks.length),
}));
const laneOf = new Map(lanes.map((lane) => [lane.thread, lane]));

// Arrows in columns, for a look at all of them in each frame: lanes and times of both
// ends, and which mark they lead to. A lane of -1 is one that is not in the recording.
const arrows = makeArrows();

function makeArrows() {
  const found = [];
  for (const lane of lanes) {
    lane.marks.forEach((mark, index) => {
      if (mark.from) {
        const from = laneOf.get(mark.from.thread);
        found.push([from ? from.index : -1, mark.from.time, lane.index, mark.time, index]);
      } else if (mark.outcome === "message") {
        found.push([-1, mark.time, lane.index, mark.time, index]);
      }
    });
  }
  const column = (Type, at) => Type.from(found, (arrow) => arrow[at]);
  return {
    count: found.length,
    from: column(Int32Array, 0),
    left: column(Float64Array, 1),
    to: column(Int32Array, 2),
    right: column(Float64Array, 3),
    mark: column(Int32Array, 4),
  };
}

// Whether a selection's arm and the operation that completes it are `index` and the next.
function isCompleted(lane, index) {
  const next = lane.marks[index + 1];
  return lane.marks[index].outcome === "arm" && next !== undefined && next.op.startsWith("selected ");
}

// The position of the first mark at or after a time.
function firstFrom(lane, time) {
  let [low, high] = [0, lane.times.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (lane.times[middle] < time) low = middle + 1;
    else high = middle;
  }
  return low;
}

// The position of the mark that holds an event of a thread.
function markOf(lane, event) {
  let [low, high] = [0, lane.marks.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (lane.marks[middle].event <= event) low = middle + 1;
    else high = middle;
  }
  return low - 1;
}

// ---------------------------------------------------------------- what is shown

const hidden = new Set();
let onlyObject = -1;
let rows = [];
const rowOf = new Int32Array(lanes.length);

const view = { left: -1, scale: 30, top: 0, width: 0, height: 0, gutter: 120, row: 50 };
let chosen = null;
let hovered = null;
let colors = {};
let objectColors = [];
let overviewImage = null;
let overviewContext = null;

function applyFilter() {
  rows = lanes.filter((lane) => !hidden.has(lane.index));
  rowOf.fill(-1);
  rows.forEach((lane, row) => (rowOf[lane.index] = row));
  for (const lane of lanes) {
    const marks = lane.marks;
    for (let index = 0; index < marks.length; index++) {
      const object = isCompleted(lane, index) ? marks[index + 1].object : marks[index].object;
      lane.shown[index] = onlyObject < 0 || object === onlyObject ? 1 : 0;
    }
  }
  overviewImage = null;
  layOut();
}

function readColors() {
  const style = getComputedStyle(document.documentElement);
  for (const name of ["back", "panel", "line", "text", "quiet", "accent", "bad", "warn"]) {
    colors[name] = style.getPropertyValue("--" + name).trim();
  }
  const isDark = matchMedia("(prefers-color-scheme: dark)").matches;
  // Hues far from each other, and not the red of what is bad.
  objectColors = recording.objects.map((_, index) => {
    const hue = Math.round(30 + ((185 + index * 137.5) % 300));
    return `hsl(${hue} ${isDark ? 62 : 68}% ${isDark ? 64 : 40}%)`;
  });
  overviewImage = null;
}

function colorOf(mark) {
  const { tone } = OUTCOMES[mark.outcome];
  if (tone) return colors[tone];
  return mark.object === undefined ? colors.quiet : objectColors[mark.object];
}

// ---------------------------------------------------------------- layout

function sized(element) {
  const ratio = devicePixelRatio || 1;
  const { width, height } = element.getBoundingClientRect();
  element.width = Math.round(width * ratio);
  element.height = Math.round(height * ratio);
  const context = element.getContext("2d");
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  return { context, width, height };
}

let pen = null;

function layOut() {
  const { context, width, height } = sized(canvas);
  pen = context;
  view.width = width;
  view.height = height;
  view.row = Math.min(96, Math.max(20, (height - AXIS - 8) / Math.max(1, rows.length)));
  pen.font = font(11);
  const longest = rows.reduce((most, lane) => Math.max(most, pen.measureText(lane.name).width), 80);
  view.gutter = Math.min(longest + 26, 200, width / 3);
  move(0, 0);
}

const font = (size, weight = "") => `${weight} ${size}px system-ui, "DejaVu Sans", sans-serif`;
const xOf = (time) => view.gutter + (time - view.left) * view.scale;
const timeAt = (x) => view.left + (x - view.gutter) / view.scale;
const yOf = (row) => AXIS + (row + 0.5) * view.row - view.top;
// Where a view of the beginning starts: the line of time 0 is seen.
const origin = () => -14 / view.scale;
const visible = () => (view.width - view.gutter) / view.scale;
// With room for what is said of the lanes' ends.
const wholeScale = () => {
  const room = recording.left_out > 0 ? 280 : 150;
  return Math.min(60, Math.max(1, view.width - view.gutter - room) / (recording.length + 1));
};

function move(times, pixels) {
  const room = 60 / view.scale;
  view.left = Math.max(origin(), Math.min(view.left + times, recording.length + 1.5 - visible() + 2 * room));
  if (visible() > recording.length + 2) view.left = origin();
  const height = rows.length * view.row + AXIS + 8;
  view.top = Math.max(0, Math.min(view.top + pixels, height - view.height));
  redraw();
}

function zoom(factor, x = (view.gutter + view.width) / 2) {
  const time = timeAt(x);
  view.scale = Math.min(MAX_SCALE, Math.max(Math.min(wholeScale(), MAX_SCALE), view.scale * factor));
  view.left = time - (x - view.gutter) / view.scale;
  move(0, 0);
}

function showAll() {
  view.scale = wholeScale();
  view.left = origin();
  move(0, 0);
}

function show(place) {
  const x = xOf(place.lane.times[place.index]);
  if (view.scale < MARKS_FROM) view.scale = 30;
  else if (x >= view.gutter + 40 && x <= view.width - 60) return move(0, scrollTo(place));
  view.left = place.lane.times[place.index] - visible() / 2;
  move(0, scrollTo(place));
}

// How far to scroll for a lane to be seen.
function scrollTo(place) {
  const y = yOf(rowOf[place.lane.index]);
  return Math.min(0, y - AXIS - view.row) + Math.max(0, y + view.row - view.height);
}

// ---------------------------------------------------------------- drawing

let isScheduled = false;

function redraw() {
  if (isScheduled) return;
  isScheduled = true;
  requestAnimationFrame(() => {
    isScheduled = false;
    draw();
  });
}

function draw() {
  pen.clearRect(0, 0, view.width, view.height);
  pen.save();
  pen.beginPath();
  pen.rect(view.gutter, 0, view.width - view.gutter, view.height);
  pen.clip();
  drawAxis();
  pen.beginPath();
  pen.rect(view.gutter, AXIS, view.width - view.gutter, view.height - AXIS);
  pen.clip();
  drawTracks();
  if (view.scale < MARKS_FROM) {
    drawArrows(true);
    drawColumns();
  } else {
    drawArrows(false);
    drawMarks();
  }
  drawFocus();
  pen.restore();
  drawLabels();
  drawOverview();
}

// The rows that are in sight.
function* rowsInSight() {
  const first = Math.max(0, Math.floor(view.top / view.row));
  const last = Math.min(rows.length, Math.ceil((view.top + view.height - AXIS) / view.row));
  for (let row = first; row < last; row++) yield [row, rows[row]];
}

function drawAxis() {
  const steps = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000, 20000, 50000, 100000, 1e6, 1e7];
  const step = steps.find((step) => step * view.scale >= 80) ?? 1e8;
  pen.strokeStyle = colors.line;
  pen.fillStyle = colors.quiet;
  pen.lineWidth = 1;
  pen.font = font(10);
  pen.textAlign = "center";
  pen.textBaseline = "middle";
  pen.beginPath();
  const first = Math.max(0, Math.ceil(view.left / step)) * step;
  for (let time = first; time <= timeAt(view.width) && time <= recording.length + step; time += step) {
    const x = Math.round(xOf(time)) + 0.5;
    pen.moveTo(x, AXIS);
    pen.lineTo(x, view.height);
    pen.fillText(time.toLocaleString("en"), x, AXIS / 2);
  }
  pen.globalAlpha = 0.5;
  pen.stroke();
  pen.globalAlpha = 1;
}

// A thread ends after its last event, and after the last departure that was placed in it.
function endOf(lane) {
  return xOf(lane.last) + Math.max(16, Math.min(30, 0.7 * view.scale));
}

function drawTracks() {
  for (const [row, lane] of rowsInSight()) {
    const y = Math.round(yOf(row)) + 0.5;
    const end = endOf(lane);
    pen.strokeStyle = colors.line;
    pen.lineWidth = 2;
    pen.beginPath();
    pen.moveTo(Math.max(view.gutter, xOf(0)), y);
    pen.lineTo(Math.min(view.width, end), y);
    pen.stroke();
    if (end < view.gutter - 200 || end > view.width + 20) continue;
    drawEnd(lane, end, y);
  }
}

function drawEnd(lane, x, y) {
  const isCut = lane.left > 0;
  const tone = isCut ? "warn" : { ended: "quiet", cut_off: "warn", incomplete: "warn", damaged: "bad" }[lane.end];
  pen.strokeStyle = pen.fillStyle = colors[tone];
  pen.lineWidth = 2;
  pen.beginPath();
  if (isCut || lane.end === "incomplete") {
    for (const dot of [3, 9, 15]) pen.rect(x + dot - 1, y - 1.5, 3, 3);
    pen.fill();
  } else if (lane.end === "cut_off") {
    pen.moveTo(x + 3, y - 9);
    pen.lineTo(x - 3, y - 3);
    pen.lineTo(x + 3, y + 3);
    pen.lineTo(x - 3, y + 9);
    pen.stroke();
  } else if (lane.end === "damaged") {
    pen.moveTo(x - 5, y - 7);
    pen.lineTo(x + 5, y + 7);
    pen.moveTo(x - 5, y + 7);
    pen.lineTo(x + 5, y - 7);
    pen.stroke();
  } else {
    pen.moveTo(x, y - 8);
    pen.lineTo(x, y + 8);
    pen.stroke();
  }
  pen.font = font(10);
  pen.textAlign = "left";
  pen.textBaseline = "middle";
  const more = isCut ? `${counted(lane.left, "more event")} not shown, ` : "";
  const none = lane.events === 0 && lane.end !== "damaged" ? "nothing was logged, " : "";
  const text = more + none + ENDS[lane.end];
  const beside = x + (isCut || lane.end === "incomplete" ? 22 : 9);
  pen.strokeStyle = colors.back;
  pen.lineWidth = 4;
  pen.strokeText(text, beside, y);
  pen.fillText(text, beside, y);
}

// Where an arrow begins and ends, if it is in sight: into `line`. What is outside of the
// picture is cut off: a line of dashes takes time for its length.
const line = { x1: 0, y1: 0, x2: 0, y2: 0, isStub: false, hasStart: true, hasEnd: true };

function lineOf(arrow, radius) {
  const toRow = rowOf[arrows.to[arrow]];
  if (toRow < 0 || lanes[arrows.to[arrow]].shown[arrows.mark[arrow]] === 0) return false;
  const fromRow = arrows.from[arrow] < 0 ? -1 : rowOf[arrows.from[arrow]];
  let x2 = xOf(arrows.right[arrow]);
  let y2 = yOf(toRow);
  line.isStub = fromRow < 0;
  let x1 = line.isStub ? x2 - 12 : xOf(arrows.left[arrow]);
  let y1 = line.isStub ? y2 - Math.min(20, view.row * 0.4) : yOf(fromRow);
  if (x2 < view.gutter - 10 || x1 > view.width + 10) return false;
  if (Math.max(y1, y2) < AXIS || Math.min(y1, y2) > view.height) return false;
  // Up to the edge of the mark.
  const length = Math.hypot(x2 - x1, y2 - y1) || 1;
  x2 -= ((x2 - x1) / length) * radius;
  y2 -= ((y2 - y1) / length) * radius;
  const slope = (y2 - y1) / (x2 - x1 || 1);
  const [left, right] = [view.gutter - 20, view.width + 20];
  line.hasStart = x1 >= left;
  line.hasEnd = x2 <= right;
  line.x1 = line.hasStart ? x1 : left;
  line.y1 = line.hasStart ? y1 : y1 + slope * (left - x1);
  line.x2 = line.hasEnd ? x2 : right;
  line.y2 = line.hasEnd ? y2 : y1 + slope * (right - x1);
  return true;
}

// Of arrows between the same lanes that would hide each other only one is drawn: those that
// come into sight and go out of it at the same places, and far out all that arrive there.
function drawArrows(isFar) {
  const radius = isFar ? 0 : markSize() + 1.5;
  const circle = guessSize();
  const seen = new Set();
  const lines = new Map();
  for (let arrow = 0; arrow < arrows.count; arrow++) {
    if (!lineOf(arrow, radius) || (isFar && line.isStub)) continue;
    const { x1, y1, x2, y2, isStub, hasStart, hasEnd } = line;
    const end = hasEnd ? x2 >> 2 : 4096 + (y2 >> 2);
    const start = isFar && hasEnd ? 0 : hasStart ? x1 >> 2 : 4096 + (y1 >> 2);
    const place = ((arrows.from[arrow] + 1) * lanes.length + arrows.to[arrow]) * 8192 + start;
    const inSight = place * 8192 + end;
    if (seen.has(inSight)) continue;
    seen.add(inSight);
    const mark = lanes[arrows.to[arrow]].marks[arrows.mark[arrow]];
    const isDashed = isStub || mark.outcome === "turn";
    // One that leads out of the picture may be one of thousands.
    const isFaint = isFar || !(hasStart && hasEnd);
    const key = (mark.object ?? -1) * 4 + (isDashed ? 1 : 0) + (isFaint ? 2 : 0);
    let paths = lines.get(key);
    if (!paths) {
      paths = { strokes: new Path2D(), heads: new Path2D(), guesses: new Path2D(), isDashed, isFaint, mark };
      lines.set(key, paths);
    }
    if (isFar) {
      paths.strokes.moveTo(x1, y1);
      paths.strokes.lineTo(x2, y2);
      continue;
    }
    addArrow(paths, x1, y1, x2, y2);
    if (!isStub && hasStart && mark.from.event === undefined) {
      paths.guesses.moveTo(x1 + circle, y1);
      paths.guesses.arc(x1, y1, circle, 0, 7);
    }
  }
  for (const { strokes, heads, guesses, isDashed, isFaint, mark } of lines.values()) {
    const color = mark.object === undefined ? colors.quiet : objectColors[mark.object];
    pen.strokeStyle = pen.fillStyle = color;
    pen.globalAlpha = isFaint ? 0.35 : 0.75;
    pen.lineWidth = isFaint ? 1 : 1.4;
    pen.setLineDash(isDashed && !isFar ? [4, 3] : []);
    pen.stroke(strokes);
    pen.setLineDash([]);
    pen.globalAlpha = 1;
    if (isFar) continue;
    pen.fill(heads);
    pen.lineWidth = 1.4;
    pen.fillStyle = colors.back;
    pen.fill(guesses);
    pen.stroke(guesses);
  }
}

function addArrow({ strokes, heads }, x1, y1, x2, y2) {
  let angle = Math.atan2(y2 - y1, x2 - x1);
  strokes.moveTo(x1, y1);
  if (Math.abs(y2 - y1) < 1) {
    // Within a lane: over it.
    const height = Math.min(22, view.row * 0.45);
    strokes.quadraticCurveTo((x1 + x2) / 2, y1 - height * 1.6, x2, y2 - 4);
    angle = 0.9;
    y2 -= 4;
  } else {
    strokes.lineTo(x2, y2);
  }
  heads.moveTo(x2, y2);
  heads.lineTo(x2 - 7 * Math.cos(angle - 0.4), y2 - 7 * Math.sin(angle - 0.4));
  heads.lineTo(x2 - 7 * Math.cos(angle + 0.4), y2 - 7 * Math.sin(angle + 0.4));
  heads.closePath();
}

const guessSize = () => Math.min(3.4, markSize() * 0.7);
const markSize = () => Math.min(6, Math.max(2.5, view.scale * 0.22), view.row * 0.28);

function drawMarks() {
  const size = markSize();
  for (const [row, lane] of rowsInSight()) {
    const y = yOf(row);
    const last = timeAt(view.width + 20);
    for (let index = firstFrom(lane, timeAt(view.gutter - 20)); index < lane.times.length && lane.times[index] <= last; index++) {
      if (!lane.shown[index]) continue;
      const mark = lane.marks[index];
      const x = xOf(mark.time);
      if (isCompleted(lane, index)) {
        pen.strokeStyle = colorOf(lane.marks[index + 1]);
        pen.lineWidth = 4;
        pen.beginPath();
        pen.moveTo(x, y);
        pen.lineTo(xOf(lane.times[index + 1]), y);
        pen.stroke();
      }
      drawMark(pen, mark, colorOf(isCompleted(lane, index) ? lane.marks[index + 1] : mark), x, y, size);
      drawText(lane, index, x, y, size);
    }
  }
}

function drawText(lane, index, x, y, size) {
  const mark = lane.marks[index];
  pen.textAlign = "center";
  pen.textBaseline = "middle";
  if (mark.count > 1 && view.scale >= 20) {
    pen.font = font(9);
    pen.fillStyle = colors.quiet;
    pen.fillText("\u00d7" + mark.count.toLocaleString("en"), x, y - size - 6);
  }
  if (mark.outcome === "arm" && view.scale >= 18) {
    pen.font = font(9, "bold");
    pen.fillStyle = colors.text;
    pen.fillText(mark.number, x, y - size - 7);
  }
  if (view.scale >= 64 && view.row >= 36) {
    pen.font = font(10);
    pen.fillStyle = colors.quiet;
    pen.fillText(fitted(mark.op, view.scale - 8), x, y + size + 9);
    if (mark.object !== undefined && view.row >= 50) {
      pen.fillText(recording.objects[mark.object].object, x, y + size + 20);
    }
  }
}

// Text that is not wider than there is room, without its beginning if it is longer.
function fitted(text, room) {
  if (pen.measureText(text).width <= room) return text;
  let [low, high] = [0, text.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (pen.measureText("\u2026" + text.slice(middle)).width <= room) high = middle;
    else low = middle + 1;
  }
  return "\u2026" + text.slice(low);
}

function drawMark(pen, mark, color, x, y, size) {
  const { shape } = OUTCOMES[mark.outcome];
  pen.fillStyle = pen.strokeStyle = color;
  pen.lineWidth = 1.8;
  pen.beginPath();
  const polygon = (...points) => {
    points.forEach(([dx, dy], index) => (index ? pen.lineTo(x + dx, y + dy) : pen.moveTo(x + dx, y + dy)));
    pen.closePath();
  };
  const hollow = () => {
    pen.fillStyle = colors.back;
    pen.fill();
    pen.stroke();
  };
  const s = size;
  switch (shape) {
    case "disc":
      pen.arc(x, y, s, 0, 7);
      return pen.fill();
    case "dot":
      pen.arc(x, y, s * 0.55, 0, 7);
      return pen.fill();
    case "ring":
      pen.arc(x, y, s * 0.75, 0, 7);
      hollow();
      pen.beginPath();
      pen.moveTo(x - s, y + s);
      pen.lineTo(x + s, y - s);
      return pen.stroke();
    case "full":
      pen.arc(x, y, s * 0.9, 0, 7);
      hollow();
      pen.fillStyle = color;
      pen.beginPath();
      pen.arc(x, y, s * 0.9, 0, Math.PI);
      return pen.fill();
    case "clock":
      pen.arc(x, y, s, 0, 7);
      hollow();
      pen.beginPath();
      pen.moveTo(x, y - s * 0.7);
      pen.lineTo(x, y);
      pen.lineTo(x + s * 0.5, y);
      return pen.stroke();
    case "arrow":
      polygon([-s * 0.8, -s], [s * 1.1, 0], [-s * 0.8, s]);
      return pen.fill();
    case "hollow arrow":
      polygon([-s * 0.8, -s], [s * 1.1, 0], [-s * 0.8, s]);
      return hollow();
    case "diamond":
      polygon([0, -s * 1.2], [s * 1.2, 0], [0, s * 1.2], [-s * 1.2, 0]);
      return pen.fill();
    case "hollow diamond":
      polygon([0, -s * 1.1], [s * 1.1, 0], [0, s * 1.1], [-s * 1.1, 0]);
      return hollow();
    case "square":
      pen.rect(x - s * 0.95, y - s * 0.95, s * 1.9, s * 1.9);
      return pen.fill();
    case "hollow square":
      pen.rect(x - s * 0.8, y - s * 0.8, s * 1.6, s * 1.6);
      return hollow();
    case "block":
      pen.rect(x - s * 0.6, y - s * 0.6, s * 1.2, s * 1.2);
      return pen.fill();
    case "bell":
      polygon([-s, -s * 0.8], [s, -s * 0.8], [0, s * 1.1]);
      return pen.fill();
    case "hourglass":
      polygon([-s * 0.9, -s], [s * 0.9, -s], [-s * 0.9, s], [s * 0.9, s]);
      return pen.fill();
    case "cross":
      pen.lineWidth = 2.4;
      pen.moveTo(x - s * 0.8, y - s * 0.8);
      pen.lineTo(x + s * 0.8, y + s * 0.8);
      pen.moveTo(x - s * 0.8, y + s * 0.8);
      pen.lineTo(x + s * 0.8, y - s * 0.8);
      return pen.stroke();
    default:
      polygon([0, -s * 1.2], [s * 1.1, s * 0.9], [-s * 1.1, s * 0.9]);
      pen.fill();
      pen.fillStyle = colors.back;
      return pen.fillRect(x - 0.8, y - s * 0.4, 1.6, s * 0.7);
  }
}

// Far out: how many events there are, and below the line whether any is a bad one.
function drawColumns() {
  for (const [row, lane] of rowsInSight()) {
    columns(pen, lane, yOf(row), view.row, view.gutter, view.width, view.left, view.scale, 2);
  }
}

function columns(pen, lane, y, height, x0, x1, left, scale, width) {
  let index = firstFrom(lane, left);
  while (index < lane.times.length) {
    const column = Math.floor(((lane.times[index] - left) * scale) / width);
    const x = x0 + column * width;
    if (x > x1) return;
    let count = 0;
    let color = null;
    let tone = null;
    for (; index < lane.times.length && ((lane.times[index] - left) * scale) / width < column + 1; index++) {
      if (!lane.shown[index]) continue;
      const mark = lane.marks[index];
      count += mark.count ?? 1;
      if (mark.object !== undefined) color = objectColors[mark.object];
      const now = OUTCOMES[mark.outcome].tone;
      if (now === "bad" || (now === "warn" && tone !== "bad")) tone = now;
    }
    if (count === 0) continue;
    const tall = Math.min(0.42, 0.12 + 0.06 * Math.log2(1 + count)) * height;
    pen.fillStyle = color ?? colors.quiet;
    pen.fillRect(x, y - tall, width, tall);
    if (tone) {
      pen.fillStyle = colors[tone];
      pen.fillRect(x, y + 1, width, Math.max(2, height * 0.14));
    }
  }
}

// The event under the pointer and the one that was clicked, with their arrows.
function drawFocus() {
  for (const place of [hovered, chosen]) {
    if (!place || rowOf[place.lane.index] < 0) continue;
    const mark = place.lane.marks[place.index];
    const radius = markSize();
    const arrow = arrowTo(place);
    if (arrow >= 0 && lineOf(arrow, radius + 1.5)) {
      const paths = { strokes: new Path2D(), heads: new Path2D() };
      addArrow(paths, line.x1, line.y1, line.x2, line.y2);
      pen.strokeStyle = pen.fillStyle = colors.accent;
      pen.lineWidth = 2.5;
      pen.stroke(paths.strokes);
      pen.fill(paths.heads);
    }
    pen.strokeStyle = colors.accent;
    pen.lineWidth = 2;
    pen.beginPath();
    pen.arc(xOf(mark.time), yOf(rowOf[place.lane.index]), radius + 4, 0, 7);
    pen.stroke();
  }
}

function arrowTo({ lane, index }) {
  for (let arrow = 0; arrow < arrows.count; arrow++) {
    if (arrows.to[arrow] === lane.index && arrows.mark[arrow] === index) return arrow;
  }
  return -1;
}

function drawLabels() {
  pen.fillStyle = colors.panel;
  pen.fillRect(0, 0, view.gutter, view.height);
  pen.fillStyle = colors.line;
  pen.fillRect(view.gutter - 1, 0, 1, view.height);
  pen.save();
  pen.beginPath();
  pen.rect(0, AXIS, view.gutter - 1, view.height - AXIS);
  pen.clip();
  pen.textAlign = "left";
  pen.textBaseline = "middle";
  for (const [row, lane] of rowsInSight()) {
    const y = yOf(row);
    const isTall = view.row >= 34;
    pen.fillStyle = colors.text;
    pen.font = font(12, "bold");
    pen.fillText(lane.label, 10, isTall ? y - 8 : y);
    const x = isTall ? 10 : 18 + pen.measureText(lane.label).width;
    pen.fillStyle = colors.quiet;
    pen.font = font(11);
    pen.fillText(fitted(lane.name, view.gutter - x - 8), x, isTall ? y + 8 : y);
  }
  pen.restore();
  pen.fillStyle = colors.quiet;
  pen.font = font(10);
  pen.fillText("order, no clock", 10, AXIS / 2);
}

// Its columns are drawn once into a picture of their own; a frame adds where the view is.
function drawOverview() {
  const scale = overview.clientWidth / (recording.length + 2);
  if (!overviewImage) {
    const { context, width, height } = sized(overview);
    // Rows thinner than a pixel hide each other, which is good enough here.
    const row = (height - 6) / Math.max(1, rows.length);
    rows.forEach((lane, index) => {
      columns(context, lane, 3 + (index + 0.8) * row, Math.max(row * 1.7, 3), 0, width, 0, scale, 1);
    });
    overviewImage = element("canvas");
    overviewImage.width = Math.max(1, overview.width);
    overviewImage.height = Math.max(1, overview.height);
    overviewImage.getContext("2d").drawImage(overview, 0, 0);
    overviewContext = context;
  }
  const [pen, width, height] = [overviewContext, overview.clientWidth, overview.clientHeight];
  pen.clearRect(0, 0, width, height);
  pen.drawImage(overviewImage, 0, 0, width, height);
  const left = Math.max(0, view.left * scale);
  const right = Math.min(width, (view.left + visible()) * scale);
  pen.fillStyle = pen.strokeStyle = colors.accent;
  pen.globalAlpha = 0.15;
  pen.fillRect(left, 0, Math.max(3, right - left), height);
  pen.globalAlpha = 1;
  pen.strokeRect(left + 0.5, 0.5, Math.max(3, right - left) - 1, height - 1);
}

// ---------------------------------------------------------------- words

const counted = (count, thing) => `${count.toLocaleString("en")} ${thing}${count === 1 ? "" : "s"}`;
// Beyond that a number is not exact here.
const exact = (number) => (Number.isSafeInteger(number) ? String(number) : "about " + number);

function outcomeText(mark) {
  const number = mark.number === undefined ? "" : exact(mark.number);
  switch (mark.outcome) {
    case "message": return `message ${number} of t${mark.sender}`;
    case "sent": return `sent as ${number}`;
    case "refused": return `message ${number} refused`;
    case "arm": return `arm ${number}`;
    case "no_arm": return "none";
    case "value": return number;
    case "turn": return `after ${number} others`;
    case "busy": return "not free";
    case "woken": return mark.number === 0 ? "woken by nobody" : `woken by notification ${number} of t${mark.sender}`;
    case "failed": return `failed with error ${number}`;
    default: return mark.outcome;
  }
}

function eventText(mark) {
  const object = mark.object === undefined ? "" : " on " + recording.objects[mark.object].object;
  const times = mark.count > 1 ? ` (${mark.count.toLocaleString("en")} times)` : "";
  return `${mark.op}${object}: ${outcomeText(mark)}${times}`;
}

function originText(mark) {
  const from = mark.from;
  if (!from) return mark.outcome === "message" ? "a thread that is not in the recording, or not known" : null;
  if (from.event === undefined) return `t${from.thread}, at a place that is not logged`;
  return `t${from.thread}, event ${from.event}${from.or_later ? " or later" : ""}`;
}

// ---------------------------------------------------------------- beside the picture

function element(name, text, className) {
  const made = document.createElement(name);
  if (text !== undefined) made.textContent = text;
  if (className) made.className = className;
  return made;
}

function showDetails() {
  const details = byId("details");
  details.replaceChildren();
  if (!chosen) {
    details.append("Click an event.");
    return;
  }
  const { lane, index } = chosen;
  const mark = lane.marks[index];
  const table = element("table");
  const add = (what, text, place) => {
    const row = element("tr");
    const cell = element("td");
    if (place) {
      const link = element("a", text);
      link.onclick = () => choose(place);
      cell.append(link);
    } else {
      cell.textContent = text;
    }
    row.append(element("th", what), cell);
    table.append(row);
  };
  const last = mark.event + (mark.count ?? 1) - 1;
  add("thread", `${lane.label} ${lane.name}`);
  add("event", mark.count > 1 ? `${mark.event} to ${last}, ${mark.count.toLocaleString("en")} times` : String(mark.event));
  add("operation", mark.op);
  if (mark.object !== undefined) {
    const object = recording.objects[mark.object];
    add(object.is_lock ? "lock" : "channel", object.object);
  }
  add("outcome", outcomeText(mark));
  if (mark.sender !== undefined && mark.number !== 0) {
    const sender = laneOf.get(mark.sender);
    add(mark.outcome === "woken" ? "notified by" : "sender", `t${mark.sender} ${sender ? sender.name : "(not in the recording)"}`);
    add("its number", exact(mark.number));
  }
  const origin = originText(mark);
  if (origin) add("from", origin, causeOf(chosen));
  for (const place of leadsTo(chosen)) {
    add("leads to", `${place.lane.label}, event ${place.lane.marks[place.index].event}`, place);
  }
  add("time", `${mark.time} (logical)`);
  details.append(table);
}

// The event that an arrow starts at, if it is known.
function causeOf({ lane, index }) {
  const from = lane.marks[index].from;
  const cause = from && laneOf.get(from.thread);
  if (!cause || from.event === undefined) return null;
  return { lane: cause, index: markOf(cause, from.event) };
}

function leadsTo({ lane, index }) {
  const found = [];
  for (let arrow = 0; arrow < arrows.count && found.length < 20; arrow++) {
    if (arrows.from[arrow] !== lane.index || arrows.left[arrow] !== lane.times[index]) continue;
    found.push({ lane: lanes[arrows.to[arrow]], index: arrows.mark[arrow] });
  }
  return found;
}

function choose(place) {
  chosen = place;
  if (place && hidden.delete(place.lane.index)) {
    markThreads();
    applyFilter();
  }
  if (place) show(place);
  showDetails();
  redraw();
}

const threadRows = [];
const objectRows = [];

function fillTables() {
  for (const lane of lanes) {
    const row = element("tr");
    row.append(element("td", lane.label), element("td", lane.name, "name"));
    row.append(element("td", lane.events.toLocaleString("en"), "number"));
    row.append(element("td", lane.end.replace("_", " "), "what"));
    row.title = "Show or hide this thread";
    row.onclick = () => {
      if (!hidden.delete(lane.index)) hidden.add(lane.index);
      markThreads();
      applyFilter();
    };
    threadRows.push(row);
    byId("threads").append(row);
  }
  recording.objects.forEach((object, index) => {
    const row = element("tr");
    const swatch = element("span", undefined, "swatch");
    const cell = element("td");
    cell.append(swatch);
    row.append(cell, element("td", object.object, "name"));
    const count = object.is_lock ? counted(object.events, "event") : counted(object.messages, "message");
    row.append(element("td", count, "number"));
    row.title = "Show only this one";
    row.onclick = () => onlyShow(onlyObject === index ? -1 : index);
    objectRows.push({ row, swatch });
    byId("objects").append(row);
  });
  const find = (input, found) => {
    const text = byId(input).value.toLowerCase();
    for (const row of found) row.hidden = !row.textContent.toLowerCase().includes(text);
  };
  byId("find-thread").oninput = () => find("find-thread", threadRows);
  byId("find-object").oninput = () => find("find-object", objectRows.map(({ row }) => row));
  byId("find-thread").hidden = lanes.length < 8;
  byId("find-object").hidden = recording.objects.length < 8;
}

function markThreads() {
  threadRows.forEach((row, index) => row.classList.toggle("hidden", hidden.has(index)));
}

function onlyShow(object) {
  onlyObject = object;
  objectRows.forEach(({ row }, index) => row.classList.toggle("chosen", index === object));
  applyFilter();
}

function fillLegend() {
  const legend = byId("legend");
  legend.replaceChildren();
  const add = (text, paint) => {
    const picture = element("canvas");
    picture.style.width = "36px";
    picture.style.height = "18px";
    const row = element("tr");
    const cell = element("td");
    cell.append(picture);
    row.append(cell, element("td", text));
    legend.append(row);
    paint(sized(picture).context);
  };
  for (const [outcome, { says }] of Object.entries(OUTCOMES)) {
    if (!says) continue;
    const color = colors[OUTCOMES[outcome].tone ?? "accent"];
    add(says, (pen) => drawMark(pen, { outcome }, color, 18, 9, 6));
  }
  const arrow = (isDashed, isGuess) => (pen) => {
    const paths = { strokes: new Path2D(), heads: new Path2D() };
    addArrow(paths, 4, 15, 32, 4);
    pen.strokeStyle = pen.fillStyle = colors.accent;
    pen.lineWidth = 1.4;
    pen.setLineDash(isDashed ? [4, 3] : []);
    pen.stroke(paths.strokes);
    pen.setLineDash([]);
    pen.fill(paths.heads);
    if (!isGuess) return;
    pen.beginPath();
    pen.arc(4, 14, 3.2, 0, 7);
    pen.fillStyle = colors.panel;
    pen.fill();
    pen.stroke();
  };
  add("message from a known event", arrow(false, false));
  add("message or notification; where it left is a guess", arrow(false, true));
  add("lock handed over, from the last acquisition before that is known", arrow(true, false));
  add("message of a thread that is not shown", (pen) => {
    const paths = { strokes: new Path2D(), heads: new Path2D() };
    addArrow(paths, 12, 2, 24, 15);
    pen.strokeStyle = pen.fillStyle = colors.accent;
    pen.lineWidth = 1.4;
    pen.setLineDash([4, 3]);
    pen.stroke(paths.strokes);
    pen.setLineDash([]);
    pen.fill(paths.heads);
  });
  add("a select and what completed it", (pen) => {
    pen.fillStyle = colors.accent;
    pen.fillRect(8, 7, 20, 4);
    drawMark(pen, { outcome: "arm" }, colors.accent, 8, 9, 5);
    drawMark(pen, { outcome: "message" }, colors.accent, 28, 9, 5);
  });
}

function fillHeader() {
  const total = lanes.reduce((sum, lane) => sum + lane.events, 0);
  const locks = recording.objects.filter((object) => object.is_lock).length;
  const title = recording.program ?? (lanes[0] ? lanes[0].name : "Timeline");
  byId("title").textContent = title;
  document.title = title + " \u2013 timeline";
  byId("facts").textContent = [
    counted(lanes.length, "thread"),
    counted(recording.objects.length - locks, "channel"),
    counted(locks, "lock") + " with handovers",
    counted(recording.messages, "message") + " received",
    counted(total, "event"),
  ].join(" \u00b7 ");
  const notices = [];
  if (recording.left_out > 0) {
    notices.push(`${counted(recording.left_out, "event")} left out: this page has the first ${recording.limit.toLocaleString("en")} of each thread.`);
  }
  const damaged = lanes.filter((lane) => lane.end === "damaged").length;
  if (damaged > 0) notices.push(`${counted(damaged, "log")} damaged: what follows the damage is missing.`);
  if (recording.contradictions > 0) {
    notices.push(`The logs contradict each other: ${counted(recording.contradictions, "arrow")} left out.`);
  }
  byId("notice").textContent = notices.join(" ");
  byId("notice").hidden = notices.length === 0;
}

// ---------------------------------------------------------------- input

// The event at a point; in a lane of departures, the one that a departure leads to.
function placeAt(x, y) {
  if (x < view.gutter || y < AXIS) return null;
  const lane = rows[Math.floor((y - AXIS + view.top) / view.row)];
  if (!lane) return null;
  const next = firstFrom(lane, timeAt(x));
  let best = null;
  let distance = 10;
  for (const step of [-1, 1]) {
    let index = step < 0 ? next - 1 : next;
    while (lane.shown[index] === 0) index += step;
    const apart = Math.abs(xOf(lane.times[index]) - x);
    if (apart < distance) [best, distance] = [{ lane, index }, apart];
  }
  if (view.scale < MARKS_FROM) return best;
  for (let arrow = 0; arrow < arrows.count; arrow++) {
    if (arrows.from[arrow] !== lane.index) continue;
    const apart = Math.abs(xOf(arrows.left[arrow]) - x);
    const to = { lane: lanes[arrows.to[arrow]], index: arrows.mark[arrow] };
    const from = to.lane.marks[to.index].from;
    if (apart < Math.min(distance, 5) && from.event === undefined && to.lane.shown[to.index]) {
      [best, distance] = [to, apart];
    }
  }
  return best;
}

let drag = null;

canvas.onpointerdown = (event) => {
  drag = { x: event.offsetX, y: event.offsetY, moved: false };
  canvas.setPointerCapture(event.pointerId);
};

canvas.onpointermove = (event) => {
  const [x, y] = [event.offsetX, event.offsetY];
  if (drag) {
    if (!drag.moved && Math.hypot(x - drag.x, y - drag.y) < 4) return;
    drag.moved = true;
    canvas.classList.add("dragged");
    byId("tip").hidden = true;
    move((drag.x - x) / view.scale, drag.y - y);
    [drag.x, drag.y] = [x, y];
    return;
  }
  hover(placeAt(x, y), x, y);
};

canvas.onpointerup = (event) => {
  if (drag && !drag.moved) {
    chosen = placeAt(event.offsetX, event.offsetY);
    showDetails();
    redraw();
  }
  drag = null;
  canvas.classList.remove("dragged");
};

canvas.onpointercancel = () => (drag = null);
canvas.onpointerleave = () => hover(null);

function hover(place, x, y) {
  const tip = byId("tip");
  tip.hidden = !place;
  if (place) {
    const mark = place.lane.marks[place.index];
    const origin = originText(mark);
    tip.textContent = `${place.lane.label}, event ${mark.event}\n${eventText(mark)}${origin ? "\nfrom " + origin : ""}`;
    tip.style.left = Math.max(4, Math.min(x + 14, view.width - tip.offsetWidth - 8)) + "px";
    tip.style.top = (y + 20 + tip.offsetHeight > view.height ? y - tip.offsetHeight - 12 : y + 16) + "px";
  }
  if (place?.lane !== hovered?.lane || place?.index !== hovered?.index) {
    hovered = place;
    redraw();
  }
}

canvas.addEventListener("wheel", (event) => {
  event.preventDefault();
  const amount = event.deltaY * (event.deltaMode === 1 ? 16 : 1);
  if (event.shiftKey) move((amount + event.deltaX) / view.scale, 0);
  else if (Math.abs(event.deltaX) > Math.abs(event.deltaY)) move(event.deltaX / view.scale, 0);
  else zoom(Math.exp(-amount * 0.0015), Math.max(view.gutter, event.offsetX));
}, { passive: false });

const KEYS = {
  "+": () => zoom(1.4),
  "=": () => zoom(1.4),
  "-": () => zoom(1 / 1.4),
  0: showAll,
  Home: () => move(-recording.length - 9, 0),
  End: () => move(recording.length + 9, 0),
  ArrowLeft: () => move(-visible() / 8, 0),
  ArrowRight: () => move(visible() / 8, 0),
  PageUp: () => move(-visible() * 0.9, 0),
  PageDown: () => move(visible() * 0.9, 0),
  ArrowUp: () => move(0, -view.row),
  ArrowDown: () => move(0, view.row),
  Escape: () => choose(null),
  n: () => step(1),
  p: () => step(-1),
  Enter: () => chosen && causeOf(chosen) && choose(causeOf(chosen)),
};

function step(by) {
  if (!chosen) return;
  let index = chosen.index + by;
  while (chosen.lane.shown[index] === 0) index += by;
  if (chosen.lane.marks[index]) choose({ lane: chosen.lane, index });
}

document.addEventListener("keydown", (event) => {
  const isElsewhere = event.target instanceof HTMLInputElement || event.target instanceof HTMLButtonElement;
  if (isElsewhere || event.ctrlKey || event.metaKey || event.altKey || !Object.hasOwn(KEYS, event.key)) return;
  event.preventDefault();
  KEYS[event.key]();
});

function goTo(event) {
  const time = (event.offsetX / overview.clientWidth) * (recording.length + 2);
  move(time - visible() / 2 - view.left, 0);
}

overview.onpointerdown = (event) => {
  overview.setPointerCapture(event.pointerId);
  goTo(event);
};
overview.onpointermove = (event) => event.buttons && goTo(event);

byId("closer").onclick = () => zoom(1.6);
byId("farther").onclick = () => zoom(1 / 1.6);
byId("fit").onclick = showAll;
byId("start").onclick = KEYS.Home;
byId("all-objects").onclick = () => onlyShow(-1);
byId("all-threads").onclick = () => {
  hidden.clear();
  markThreads();
  applyFilter();
};
byId("no-threads").onclick = () => {
  lanes.forEach((lane) => hidden.add(lane.index));
  markThreads();
  applyFilter();
};

// ---------------------------------------------------------------- start

function dress() {
  readColors();
  objectRows.forEach(({ swatch }, index) => (swatch.style.background = objectColors[index]));
  fillLegend();
  redraw();
}

for (const lane of lanes) {
  const last = lane.marks[lane.marks.length - 1];
  lane.left = lane.events - (last ? last.event + (last.count ?? 1) : 0);
  lane.last = last ? last.time : 0;
}
for (let arrow = 0; arrow < arrows.count; arrow++) {
  const from = lanes[arrows.from[arrow]];
  if (from) from.last = Math.max(from.last, arrows.left[arrow]);
}
fillHeader();
fillTables();
showDetails();
dress();
applyFilter();
// All of it, if single events can still be told apart; else its beginning.
if (wholeScale() >= 16) showAll();
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", dress);
new ResizeObserver(() => {
  overviewImage = null;
  layOut();
  // At once: a canvas of another size is empty.
  draw();
}).observe(byId("picture"));
