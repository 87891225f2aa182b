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
  bytes: { shape: "dot" },
  job: { shape: "wedge", says: "work taken by a thread of a pool" },
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

// What a later version may have.
const UNKNOWN = { shape: "dot" };
const styleOf = (mark) => OUTCOMES[mark.outcome] ?? UNKNOWN;

const MAX_SCALE = 140;
// Below this many pixels for a unit of time, columns are drawn instead of marks.
const MARKS_FROM = 7;
const AXIS = 22;

const lanes = recording.threads.map((thread, index) => ({
  ...thread,
  index,
  leaving: thread.left,
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
  const { tone } = styleOf(mark);
  if (tone) return colors[tone];
  return mark.object === undefined ? colors.quiet : objectColors[mark.object];
}
