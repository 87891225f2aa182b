//! Finding what may jump into the middle of a site.
//!
//! The bytes of a text do not say where its instructions begin. A jump with a distance of
//! four bytes is therefore looked for at every byte: hardly any other bytes lead to a site.
//! For a distance of one byte that is not so. Such jumps are looked for among the
//! instructions near a site, decoded from each of several places one after the other. One
//! of these is where an instruction begins.

use std::ops::Range;

use iced_x86::{Decoder, DecoderOptions, OpKind};

/// The reach of a jump with a distance of one byte.
const SHORT: usize = 130;
/// The greatest length of an instruction.
const INSTRUCTION: usize = 15;

/// The beginnings of those ranges of a text that something may jump into, other than to
/// their beginning. The ranges are in ascending order.
pub(crate) fn jumped_into(text: &[u8], ranges: &[Range<usize>]) -> Vec<usize> {
    let mut found = Vec::new();
    let (Some(first), Some(last)) = (ranges.first(), ranges.last()) else {
        return found;
    };
    far_targets(text, |to| {
        let Ok(to) = usize::try_from(to) else { return };
        if !(first.start + 1..last.end).contains(&to) {
            return;
        }
        let before = ranges.partition_point(|range| range.start < to);
        let range = &ranges[before - 1];
        if to < range.end {
            found.push(range.start);
        }
    });
    for range in ranges {
        if !found.contains(&range.start) && is_near_target(text, range) {
            found.push(range.start);
        }
    }
    found
}

/// Calls `leads` with where each direct jump or call leads whose distance has four bytes.
fn far_targets(text: &[u8], mut leads: impl FnMut(i64)) {
    for (at, window) in text.windows(5).enumerate() {
        let distance = match window[0] {
            0xe8 | 0xe9 => true,
            // 0x0f may stand before it.
            0x80..=0x8f => at > 0 && text[at - 1] == 0x0f,
            _ => false,
        };
        if distance {
            let distance = i32::from_le_bytes([window[1], window[2], window[3], window[4]]);
            leads(at as i64 + 5 + i64::from(distance));
        }
    }
}

/// Whether an instruction near a range may jump into it.
fn is_near_target(text: &[u8], range: &Range<usize>) -> bool {
    let inner = range.start as u64 + 1..range.end as u64;
    let leads = |from: usize, to: usize| {
        let part = &text[from..to.min(text.len())];
        let decoder = Decoder::with_ip(64, part, from as u64, DecoderOptions::NONE);
        decoder.into_iter().any(|instruction| {
            let is_branch = instruction.op_count() == 1
                && matches!(instruction.op0_kind(), OpKind::NearBranch64);
            is_branch && inner.contains(&instruction.near_branch64())
        })
    };
    let earliest = range.start.saturating_sub(SHORT + INSTRUCTION);
    let starts = earliest.saturating_sub(INSTRUCTION)..=earliest;
    let mut starts = starts.chain([range.start]);
    starts.any(|start| leads(start, range.end + SHORT + INSTRUCTION))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `syscall; cmp $-4095, %rax` in the middle of single-byte instructions, and these
    /// bytes at an offset.
    fn text(at: usize, bytes: &[u8]) -> Vec<u8> {
        let mut text = vec![0x90; 600];
        text[300..308].copy_from_slice(&[0x0f, 0x05, 0x48, 0x3d, 1, 0xf0, 0xff, 0xff]);
        text[at..at + bytes.len()].copy_from_slice(bytes);
        text
    }

    #[track_caller]
    fn check(at: usize, bytes: &[u8], enters: bool) {
        let range = 300..308;
        let found = jumped_into(&text(at, bytes), std::slice::from_ref(&range));
        assert_eq!(!found.is_empty(), enters, "{bytes:x?} at {at}");
    }

    #[test]
    fn jumps_of_every_form_are_found() {
        check(290, &[0xeb, 10], true);
        check(400, &[0x75, 0x9c], true);
        check(350, &[0xe3, 0xce], true);
        check(0, &[0xe8, 0x29, 1, 0, 0], true);
        check(500, &[0xe9, 0x35, 0xff, 0xff, 0xff], true);
        check(500, &[0x0f, 0x87, 0x34, 0xff, 0xff, 0xff], true);
    }

    #[test]
    fn jumps_to_other_places_do_not_count() {
        // To the beginning, and behind the end.
        check(290, &[0xeb, 8], false);
        check(290, &[0xeb, 16], false);
        check(0, &[0xe8, 0x27, 1, 0, 0], false);
        check(0, &[0xe8, 0x2f, 1, 0, 0], false);
    }

    #[test]
    fn bytes_within_an_instruction_are_no_short_jump() {
        // mov $0x0aeb90, %eax
        check(288, &[0xb8, 0x90, 0xeb, 0x0a, 0], false);
    }

    #[test]
    fn a_range_at_either_end_of_a_text_is_decoded() {
        let site = [0x0f, 0x05, 0x48, 0x3d, 1, 0xf0, 0xff, 0xff];
        let whole = 0..site.len();
        assert!(jumped_into(&site, std::slice::from_ref(&whole)).is_empty());
        let mut jumped = site.to_vec();
        jumped.extend([0xeb, 0xf8]);
        assert_eq!(jumped_into(&jumped, std::slice::from_ref(&whole)), [0]);
    }
}
