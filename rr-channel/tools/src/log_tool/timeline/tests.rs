use rr_channel_log::identity::{ChannelId, Dti, ThreadId};
use rr_channel_log::{Event, Op, Outcome};

use super::*;

const C: Option<ChannelId> = object(1);
const D: Option<ChannelId> = object(2);

const fn object(number: u32) -> Option<ChannelId> {
    Some(ChannelId {
        creator: ThreadId(0),
        number,
    })
}

const fn event(op: Op, channel: Option<ChannelId>, outcome: Outcome) -> Event {
    Event {
        op,
        channel,
        outcome,
    }
}

const fn received(channel: Option<ChannelId>, sender: u32, number: u64) -> Event {
    let sender = ThreadId(sender);
    event(Op::Recv, channel, Outcome::Message { sender, number })
}

const fn sent(channel: Option<ChannelId>, slot: u64) -> Event {
    event(Op::Send, channel, Outcome::Sent { slot })
}

const fn turn(ticket: u64) -> Event {
    event(Op::Lock, C, Outcome::Turn { ticket })
}

const FIRST: Event = event(Op::Lock, None, Outcome::First);
const AGAIN: Event = event(Op::Lock, None, Outcome::Again);
const EMPTY: Event = event(Op::TryRecv, D, Outcome::Empty);

/// A recording of threads with these events; `limit` of each are shown.
fn limited(threads: &[&[Event]], limit: u64, end: End) -> Timeline {
    let mut rest = Rest::default();
    let mut tracks = Vec::new();
    for (id, events) in threads.iter().enumerate() {
        let mut track = track(id as u32, end, None);
        for event in *events {
            track.push(*event, limit, &mut rest);
        }
        tracks.push(track);
    }
    Timeline::new(None, &BTreeMap::new(), &tracks, limit, &rest)
}

fn whole(threads: &[&[Event]]) -> Timeline {
    limited(threads, u64::MAX, End::Ended)
}

/// The origin of a mark: thread, event, whether it may be a later one.
type From = Option<(u32, Option<u64>, bool)>;

fn track(id: u32, end: End, left: Option<Left>) -> Track {
    Track {
        id: ThreadId(id),
        runs: Vec::new(),
        events: 0,
        counted: 0,
        end,
        left,
        left_at: None,
    }
}

#[track_caller]
fn check_from(timeline: &Timeline, lane: usize, mark: usize, expected: From) {
    let from = timeline.threads[lane].marks[mark].from;
    let found = from.map(|from| (from.thread, from.event, from.or_later));
    assert_eq!(found, expected, "mark {mark} of lane {lane}");
}

/// Times grow along lanes and arrows, whatever the logs say.
#[track_caller]
fn check_order(timeline: &Timeline) {
    for lane in &timeline.threads {
        for pair in lane.marks.windows(2) {
            assert!(pair[0].time < pair[1].time && pair[0].event < pair[1].event);
        }
        for mark in &lane.marks {
            assert!(mark.from.is_none_or(|from| from.time < mark.time.into()));
        }
    }
}

#[test]
fn a_receive_is_after_a_send_that_was_logged() {
    let timeline = whole(&[
        &[EMPTY, sent(C, 0), AGAIN, sent(C, 1)],
        &[received(C, 0, 4), received(C, 0, 9)],
    ]);
    check_order(&timeline);
    check_from(&timeline, 1, 0, Some((0, Some(1), false)));
    check_from(&timeline, 1, 1, Some((0, Some(3), false)));
    let times: Vec<_> = timeline.threads[1].marks.iter().map(|m| m.time).collect();
    assert_eq!(times, [3, 5]);
}

#[test]
fn a_departure_that_was_not_logged_is_between_those_that_were() {
    // Messages 0, 2 and 3 through a channel without a bound, 1 through one with a bound.
    let timeline = whole(&[
        &[EMPTY, sent(C, 0)],
        &[received(C, 0, 1)],
        &[received(D, 0, 3), received(D, 0, 2)],
        &[EMPTY, AGAIN, EMPTY, AGAIN, received(D, 0, 0)],
    ]);
    check_order(&timeline);
    let known = f64::from(timeline.threads[0].marks[1].time);
    let time = |lane: usize, mark: usize| timeline.threads[lane].marks[mark].from.unwrap().time;
    check_from(&timeline, 2, 0, Some((0, None, false)));
    assert!(time(3, 4) < known);
    assert!(known < time(2, 1) && time(2, 1) <= time(2, 0));
}

#[test]
fn departures_are_in_the_order_of_their_numbers() {
    let timeline = whole(&[
        &[],
        &[EMPTY, AGAIN, received(C, 0, 0)],
        &[received(D, 0, 1), received(D, 0, 2)],
    ]);
    let of = |lane: usize, mark: usize| timeline.threads[lane].marks[mark].from.unwrap().time;
    assert!(of(1, 2) <= of(2, 0) && of(2, 0) <= of(2, 1));
    check_order(&timeline);
}

#[test]
fn sends_are_known_up_to_the_first_receive_that_is_not() {
    let threads: [&[Event]; 3] = [
        &[sent(C, 0), sent(C, 1), sent(C, 2)],
        &[received(C, 0, 3), EMPTY, AGAIN, received(C, 0, 5)],
        &[received(C, 0, 8)],
    ];
    let known = |event| Some((0, Some(event), false));
    let all = limited(&threads, 9, End::CutOff);
    check_from(&all, 1, 0, known(0));
    check_from(&all, 2, 0, known(2));
    let first = limited(&threads, 3, End::CutOff);
    check_from(&first, 1, 0, known(0));
    check_from(&first, 2, 0, Some((0, None, false)));
    // It was the second send or a later one.
    assert!(first.threads[2].marks[0].time > first.threads[0].marks[1].time);
    let unknown = limited(&threads, 9, End::Incomplete);
    check_from(&unknown, 1, 0, Some((0, None, false)));
}

#[test]
fn a_selection_is_after_what_it_chose() {
    let selected = Event {
        op: Op::SelectedRecv,
        ..received(C, 0, 0)
    };
    let timeline = whole(&[
        &[EMPTY, AGAIN, sent(C, 0)],
        &[event(Op::Select, None, Outcome::Arm(1)), selected],
    ]);
    let times: Vec<_> = timeline.threads[1].marks.iter().map(|m| m.time).collect();
    assert_eq!(times, [4, 5]);
}

#[test]
fn a_lock_comes_from_its_owner_before() {
    let timeline = whole(&[
        &[FIRST, AGAIN, EMPTY, turn(5)],
        &[turn(2), AGAIN, AGAIN, turn(6)],
    ]);
    check_order(&timeline);
    check_from(&timeline, 1, 0, Some((0, Some(1), true)));
    check_from(&timeline, 0, 2, None);
    check_from(&timeline, 0, 3, Some((1, Some(2), true)));
    check_from(&timeline, 1, 2, Some((0, Some(3), false)));
}

#[test]
fn a_first_owner_that_may_be_another_is_not_named() {
    let timeline = whole(&[&[FIRST], &[FIRST], &[turn(1)]]);
    check_from(&timeline, 2, 0, None);
    // A handover that is left out may have come in between.
    let events: [&[Event]; 3] = [&[FIRST, turn(3)], &[turn(5)], &[EMPTY, FIRST, turn(7)]];
    check_from(
        &limited(&events, 2, End::Ended),
        1,
        0,
        Some((0, Some(1), true)),
    );
    let events: [&[Event]; 3] = [&[FIRST, turn(3)], &[turn(5)], &[EMPTY, FIRST, turn(4)]];
    check_from(&limited(&events, 2, End::Ended), 1, 0, None);
}

#[test]
fn equal_events_are_one_mark() {
    let timeline = whole(&[&[EMPTY, EMPTY, EMPTY, received(C, 9, 1), EMPTY]]);
    let marks: Vec<_> = timeline.threads[0]
        .marks
        .iter()
        .map(|mark| (mark.event, mark.count, mark.outcome))
        .collect();
    assert_eq!(marks, [(0, 3, "empty"), (3, 1, "message"), (4, 1, "empty")]);
    // A sender that is not in the recording.
    check_from(&timeline, 0, 1, None);
}

#[test]
fn events_beyond_the_limit_are_counted() {
    let timeline = limited(&[&[AGAIN, EMPTY, AGAIN], &[EMPTY]], 2, End::Ended);
    assert_eq!((timeline.left_out, timeline.threads[0].events), (1, 3));
    assert_eq!(timeline.threads[0].marks.len(), 2);
    assert_eq!(limited(&[&[EMPTY]], 0, End::Ended).left_out, 1);
}

#[test]
fn logs_in_a_circle_are_drawn_without_what_contradicts() {
    // Each receives before it sends.
    let timeline = whole(&[
        &[received(C, 1, 0), sent(D, 0)],
        &[received(D, 0, 0), sent(C, 0)],
    ]);
    check_order(&timeline);
    assert_eq!(timeline.contradictions, 1);
    // To itself, from later on.
    let timeline = whole(&[&[received(C, 0, 0), sent(C, 0)]]);
    check_order(&timeline);
    assert_eq!(timeline.contradictions, 1);
}

/// Events from few threads, channels and numbers contradict each other in all ways.
#[test]
fn whatever_is_logged_times_grow() {
    let mut state = 1_u64;
    let mut random = |below: u64| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (state >> 33) % below
    };
    for _ in 0..2_000 {
        let mut threads = vec![Vec::new(); 4];
        for _ in 0..random(40) {
            let channel = [C, D, None][random(3) as usize];
            let sender = ThreadId(random(6) as u32);
            let number = [random(5), u64::MAX][usize::from(random(20) == 0)];
            let outcome = match random(10) {
                0..3 => Outcome::Message { sender, number },
                3 => Outcome::Sent { slot: number },
                4 => Outcome::Refused { number },
                5 => Outcome::Turn { ticket: number },
                6 => Outcome::Woken { sender, number },
                7 => Outcome::Again,
                8 => Outcome::Arm(1),
                _ => Outcome::Empty,
            };
            let op = [Op::Lock, Op::Recv, Op::SelectedRecv][random(3) as usize];
            threads[random(4) as usize].push(event(op, channel, outcome));
        }
        let events: Vec<_> = threads.iter().map(Vec::as_slice).collect();
        let end = [End::Ended, End::Damaged][random(2) as usize];
        let limit = [3, 100][random(2) as usize];
        check_order(&limited(&events, limit, end));
    }
}

#[test]
fn no_name_is_markup() {
    let name = "</script><b>\u{2028}<!--<script>";
    let names = BTreeMap::from([(ThreadId(0), Dti::foreign(name.into(), 1).to_string())]);
    let track = track(0, End::Ended, None);
    let program = Some(name.to_owned());
    let timeline = Timeline::new(program, &names, &[track], 1, &Rest::default());
    let mut page = Vec::new();
    timeline.page(&mut page).unwrap();
    let page = String::from_utf8(page).unwrap();
    let (_, rest) = page.split_once("id=\"recording\">").unwrap();
    let (data, rest) = rest.split_once("</script>").unwrap();
    assert!(!data.contains('<'), "{data}");
    let model: serde_json::Value = serde_json::from_str(data).unwrap();
    assert_eq!(model["program"], name);
    // What follows is the page's own script, and nothing else.
    assert_eq!(rest.matches("</script").count(), 1);
    assert!(!page.contains("<b>") && !page.contains("{{"));
}

#[test]
fn where_a_replay_left_a_log_is_counted_as_the_log_counts() {
    let left = |event| Left {
        event,
        rank: 0,
        stalled: false,
        text: String::new(),
    };
    let random = Event {
        op: Op::Random,
        channel: None,
        outcome: Outcome::Bytes {
            len: 1,
            last: true,
            bytes: 7,
        },
    };
    let lock = |outcome| Event {
        op: Op::Lock,
        channel: None,
        outcome,
    };
    // A replay counts no random bytes.
    let events = [random, lock(Outcome::First), random, lock(Outcome::Again)];
    for (counted, shown) in [(0, 1), (1, 3), (2, 4)] {
        let mut track = track(0, End::Ended, Some(left(counted)));
        for event in events {
            track.push(event, 100, &mut Rest::default());
        }
        let names = BTreeMap::new();
        let timeline = Timeline::new(None, &names, &[track], 100, &Rest::default());
        let left = timeline.threads[0].left.as_ref().unwrap();
        assert_eq!(left.event, shown);
    }
}
