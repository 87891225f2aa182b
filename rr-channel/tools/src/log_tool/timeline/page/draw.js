// A frame: axis, lanes, their ends, and arrows.

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
    if (lane.leaving) drawLeaving(lane, y);
    if (end < view.gutter - 200 || end > view.width + 20) continue;
    drawEnd(lane, end, y);
  }
}

// Where a replay left the thread's log: what is to the right of it did not come about.
function drawLeaving(lane, y) {
  const index = lane.marks.length ? markOf(lane, lane.leaving.event) : -1;
  const isBeyond = lane.leaving.event >= lane.events;
  const at = index < 0 ? 0 : lane.times[index] + (isBeyond ? 0.45 : -0.45);
  const x = Math.round(xOf(at)) + 0.5;
  if (x > view.width + 20) return;
  const half = Math.min(view.row * 0.42, 26);
  pen.save();
  pen.fillStyle = colors.bad;
  pen.globalAlpha = 0.1;
  pen.fillRect(Math.max(view.gutter, x), y - half, Math.max(0, endOf(lane) - Math.max(view.gutter, x)), 2 * half);
  pen.globalAlpha = 1;
  pen.strokeStyle = colors.bad;
  pen.lineWidth = 2.5;
  pen.setLineDash(lane.leaving.stalled ? [5, 3] : []);
  pen.beginPath();
  pen.moveTo(x, y - half);
  pen.lineTo(x, y + half);
  pen.stroke();
  if (view.scale >= MARKS_FROM && view.row >= 20) {
    pen.setLineDash([]);
    pen.font = font(10, "bold");
    pen.textBaseline = "middle";
    const text = lane.leaving.stalled ? "stalled" : "left its log";
    const hasRoom = x - 8 - pen.measureText(text).width > view.gutter;
    pen.textAlign = hasRoom ? "right" : "left";
    const beside = hasRoom ? x - 4 : x + 4;
    pen.strokeStyle = colors.back;
    pen.lineWidth = 4;
    pen.strokeText(text, beside, y - half + 5);
    pen.fillText(text, beside, y - half + 5);
  }
  pen.restore();
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
  const after = x + (isCut || lane.end === "incomplete" ? 22 : 9);
  const hasRoom = after + pen.measureText(text).width < view.width;
  if (!hasRoom) pen.textAlign = "right";
  const beside = hasRoom ? after : x - 9;
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
