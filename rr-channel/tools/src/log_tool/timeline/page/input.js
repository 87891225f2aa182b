// Pointer, wheel and keys; and the start.

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
fillReplay();
fillTopology();
fillTables();
showDetails();
dress();
applyFilter();
// All of it, if single events can still be told apart; else its beginning.
if (wholeScale() >= 16) showAll();
if (departed.length > 0) choose(placeOfLeaving(departed[0]));
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", dress);
new ResizeObserver(() => {
  overviewImage = null;
  layOut();
  // At once: a canvas of another size is empty.
  draw();
}).observe(byId("picture"));
