//! Abbreviates texts to one line.

use std::borrow::Cow;

/// Formats arguments as typed in a shell, in at most `limit` characters. It keeps both ends: the
/// program is first and the files are last, which distinguishes commands.
#[must_use]
pub fn command(argv: &[Vec<u8>], limit: usize) -> String {
    let shown = |index: usize| match index {
        0 => argv[0].rsplit(|&byte| byte == b'/').next().unwrap_or(&[]),
        _ => &argv[index],
    };
    // Later ones would be in the omitted middle.
    let first = reach(0..argv.len(), limit, |&index| shown(index).len());
    let last = reach((first..argv.len()).rev(), limit, |&index| {
        shown(index).len()
    });
    let mut out = String::new();
    for index in (0..first).chain(argv.len() - last..argv.len()) {
        if index > 0 {
            out.push(' ');
        }
        push(&mut out, shown(index), limit);
    }
    without_middle(&out, limit)
}

/// Maximal length of a character in bytes.
const LONGEST: usize = 4;

/// Returns how many of these items, with `bytes` bytes each, have at least `limit` characters.
fn reach<T>(items: impl Iterator<Item = T>, limit: usize, bytes: impl Fn(&T) -> usize) -> usize {
    let mut sum = 0;
    items
        .take_while(|item| {
            let more = sum < limit.saturating_mul(LONGEST);
            sum += bytes(item);
            more
        })
        .count()
}

/// Appends one argument, at least the part within the first and last `limit` characters.
fn push(out: &mut String, arg: &[u8], limit: usize) {
    let quoted = arg.is_empty() || arg.iter().any(|byte| b" \n\t'\";|&$".contains(byte));
    let most = limit.saturating_mul(2 * LONGEST);
    let arg: Cow<'_, [u8]> = if arg.len() > most {
        [&arg[..most / 2], &arg[arg.len() - most / 2..]]
            .concat()
            .into()
    } else {
        arg.into()
    };
    let arg = String::from_utf8_lossy(&arg);
    if quoted {
        out.push('\'');
        out.extend(arg.chars().map(|c| if c.is_control() { ' ' } else { c }));
        out.push('\'');
    } else {
        out.push_str(&arg);
    }
}

/// Keeps at most `limit` characters, from both ends.
fn without_middle(text: &str, limit: usize) -> String {
    let count = text.chars().count();
    if count <= limit {
        return text.to_owned();
    }
    let end = limit / 2;
    let start: String = text.chars().take(limit - end).collect();
    let end: String = text.chars().skip(count - end).collect();
    format!("{}…{}", start.trim_end(), end.trim_start())
}

/// Maximal number of characters of a value.
const VALUE: usize = 80;

/// Returns the beginning of a value.
#[must_use]
pub fn value(text: &str) -> String {
    match text.char_indices().nth(VALUE) {
        None => text.to_owned(),
        Some((end, _)) => format!("{}…", &text[..end]),
    }
}

/// Returns two values, from their first difference.
#[must_use]
pub fn values(old: &str, new: &str) -> (String, String) {
    /// Number of equal characters kept before that.
    const BEFORE: usize = 20;
    let same = old
        .chars()
        .zip(new.chars())
        .take_while(|(old, new)| old == new)
        .count();
    if same <= BEFORE {
        return (value(old), value(new));
    }
    let from = |text: &str| {
        let rest: String = text.chars().skip(same - BEFORE).collect();
        value(&format!("…{rest}"))
    };
    (from(old), from(new))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn argv(text: &str) -> Vec<Vec<u8>> {
        text.split('|').map(|arg| arg.as_bytes().to_vec()).collect()
    }

    #[test]
    fn a_command_is_as_one_would_type_it() {
        assert_eq!(command(&argv("/usr/bin/cc|-c|a.c"), 60), "cc -c a.c");
        assert_eq!(command(&argv("sh|-c|a; b|"), 60), "sh -c 'a; b' ''");
        assert_eq!(command(&argv("sh|-c|a\nb"), 60), "sh -c 'a b'");
        assert_eq!(command(&[], 60), "");
    }

    #[test]
    fn a_long_command_keeps_its_ends() {
        assert_eq!(
            command(&argv("/usr/bin/cc|-DFIRST|-DSECOND|-c|some/file.c"), 21),
            "cc -DFIRST…ome/file.c"
        );
    }

    #[test]
    fn values_begin_where_they_differ() {
        let (old, new) = values(
            &format!("{}old", "a".repeat(90)),
            &format!("{}new", "a".repeat(90)),
        );
        assert_eq!(old, format!("…{}old", "a".repeat(20)));
        assert_eq!(new, format!("…{}new", "a".repeat(20)));
        assert_eq!(values("a", "b"), ("a".into(), "b".into()));
        assert_eq!(value(&"ä".repeat(81)), format!("{}…", "ä".repeat(80)));
        assert_eq!(value(&"ä".repeat(80)), "ä".repeat(80));
    }

    proptest! {
        #[test]
        fn skipping_the_middle_early_does_not_change_the_abbreviation(
            argv in prop::collection::vec("[a-c ä\u{1F600}]{0,40}", 1..40),
            limit in 4_usize..20,
        ) {
            let argv: Vec<Vec<u8>> = argv.into_iter().map(String::into_bytes).collect();
            let whole = command(&argv, usize::MAX);
            prop_assert_eq!(command(&argv, limit), without_middle(&whole, limit));
        }
    }
}
