// Where things are: the canvas, time to pixels, moving and zooming.

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
