// Marks, or columns in their place; what is chosen; labels; the overview.

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
  const { shape } = styleOf(mark);
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
    case "wedge":
      polygon([-s, -s], [s, 0], [-s, s], [-s * 0.4, 0]);
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
      const now = styleOf(mark).tone;
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
