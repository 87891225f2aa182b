// Words for events, and what is beside the picture.

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
    case "bytes": return "bytes " + (mark.bytes || "none");
    case "job": return `job ${number} of t${mark.sender}`;
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

// Where a replay left the recording: first what happened first.
const departed = lanes.filter((lane) => lane.leaving).sort((a, b) => a.leaving.rank - b.leaving.rank);

function placeOfLeaving(lane) {
  return lane.marks.length ? { lane, index: Math.max(0, markOf(lane, lane.leaving.event)) } : null;
}

function fillReplay() {
  byId("replay").hidden = departed.length === 0;
  for (const lane of departed) {
    const { leaving } = lane;
    const row = element("tr");
    const place = placeOfLeaving(lane);
    const link = element(place ? "a" : "span", lane.label);
    if (place) link.onclick = () => choose(place);
    const cell = element("td");
    cell.append(link);
    const what = leaving.stalled ? "stalled" : "left its log";
    row.append(cell, element("td", `${what} at event ${leaving.event}: ${leaving.text}`, "name"));
    byId("departed").append(row);
  }
}

function fillTopology() {
  const topology = recording.topology;
  const table = byId("topology");
  byId("who").hidden = !topology || (topology.channels.length === 0 && topology.locks.length === 0);
  if (!topology) return;
  const number = (id) => Number(id.slice(1));
  const link = (id) => {
    const lane = laneOf.get(number(id));
    const made = element("a", id);
    if (lane) {
      made.title = lane.name;
      made.onclick = () => choose(lane.marks.length ? { lane, index: 0 } : null);
    }
    return made;
  };
  const most = Math.max(1, ...topology.channels.flatMap((c) => c.edges.map((e) => e.messages)));
  for (const channel of topology.channels) {
    channel.edges.forEach((edge, at) => {
      const row = element("tr");
      const who = element("td");
      who.append(link(edge.from), " \u2192 ", link(edge.to));
      const bar = element("span", undefined, "bar");
      bar.style.width = `${Math.max(2, Math.round((60 * edge.messages) / most))}px`;
      const count = element("td", undefined, "number");
      count.append(bar, " " + edge.messages.toLocaleString("en"));
      row.append(element("td", at ? "" : channel.channel), who, count);
      table.append(row);
    });
  }
  for (const lock of topology.locks) {
    const row = element("tr");
    const who = element("td");
    Object.keys(lock.handovers).sort((a, b) => number(a) - number(b)).forEach((id, at) => {
      if (at) who.append(" \u21c4 ");
      who.append(link(id));
    });
    const total = Object.values(lock.handovers).reduce((sum, count) => sum + count, 0);
    row.append(element("td", lock.lock), who, element("td", total.toLocaleString("en"), "number"));
    table.append(row);
  }
  if (topology.cycles.length > 0) {
    const text = topology.cycles.map((cycle) => cycle.join(", ")).join("; ");
    byId("cycles").textContent = "Send to each other, directly or through others: " + text;
  }
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
  const [first] = departed;
  if (first) {
    notices.push(`In the replay ${counted(departed.length, "thread")} left the recording, first ${first.label} (${first.name}) at event ${first.leaving.event}: ${first.leaving.text}`);
  }
  byId("notice").textContent = notices.join(" ");
  byId("notice").hidden = notices.length === 0;
}
