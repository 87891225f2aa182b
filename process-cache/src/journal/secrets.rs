//! Keeps values that may be secret out of the journal.
//!
//! Variables are secret by their name (`GITHUB_TOKEN`), and so are options (`--password=x`). So is
//! any text with a password in a URL, or with the prefix of a well-known kind of token. Such a
//! text is stored as its name, a NUL byte, which no argument or variable contains, and four bytes
//! of a digest.

/// Parts of names of secrets.
const NAMES: &[&str] = &[
    "TOKEN",
    "SECRET",
    "PASSW",
    "PASSPHRASE",
    "CREDENTIAL",
    "COOKIE",
    "PRIVATE",
    "APIKEY",
    "API_KEY",
    "API-KEY",
    "ACCESS_KEY",
    "ACCESS-KEY",
    "AUTH",
    "SIGNATURE",
    "BEARER",
];
/// Prefixes of some kinds of tokens.
const TOKENS: &[&str] = &[
    "ghp_",
    "gho_",
    "ghs_",
    "ghu_",
    "github_pat_",
    "glpat-",
    "xoxb-",
    "xoxp-",
    "sk-",
    "AKIA",
    "ASIA",
    "eyJ",
    "-----BEGIN",
];
/// Longer texts are stored like secrets, with their beginning only (bytes).
const LONG: usize = 4096;

/// Returns the text in the form to store.
pub fn masked(text: &[u8]) -> Vec<u8> {
    let split = text.iter().position(|&byte| byte == b'=');
    let (name, value) = match split {
        Some(at) => (&text[..at], &text[at + 1..]),
        None => (&b""[..], text),
    };
    if !name.is_empty() && (is_secret_name(name) || is_secret_value(value)) && !value.is_empty() {
        return with_digest(name, text);
    }
    if name.is_empty() && is_secret_value(text) {
        return with_digest(b"", text);
    }
    if text.len() > LONG {
        let kept = if name.len() < 256 { name } else { b"" };
        return with_digest(kept, text);
    }
    text.to_vec()
}

/// Whether a variable or option of this name holds a secret.
pub fn is_secret_name(name: &[u8]) -> bool {
    let name = String::from_utf8_lossy(name).to_ascii_uppercase();
    let plain = [
        "SSH_AUTH_SOCK",
        "XAUTHORITY",
        "GIT_AUTHOR",
        "JOBSERVER-AUTH",
        "AUTHOR",
    ];
    NAMES.iter().any(|part| name.contains(part)) && !plain.iter().any(|part| name.contains(part))
        || name.ends_with("_KEY")
        || name == "KEY"
}

fn is_secret_value(value: &[u8]) -> bool {
    if TOKENS
        .iter()
        .any(|token| value.starts_with(token.as_bytes()) && value.len() >= 16)
    {
        return true;
    }
    // scheme://user:password@host
    memchr::memmem::find_iter(value, b"://").any(|at| {
        let rest = &value[at + 3..];
        let end = rest.iter().position(|byte| b"/?# \t\n".contains(byte));
        let place = &rest[..end.unwrap_or(rest.len())];
        match place.iter().rposition(|&byte| byte == b'@') {
            Some(at) => place[..at].contains(&b':') && at > 1,
            None => false,
        }
    })
}

fn with_digest(name: &[u8], text: &[u8]) -> Vec<u8> {
    let mut out = name.to_vec();
    out.push(0);
    out.extend_from_slice(&blake3::hash(text).as_bytes()[..4]);
    out
}

/// Returns the name of a masked text; `None` for other texts.
pub fn name_of_masked(text: &[u8]) -> Option<&[u8]> {
    let at = memchr::memchr(0, text)?;
    Some(&text[..at])
}

/// Formats a stored text for display.
pub fn show(text: &[u8]) -> String {
    match name_of_masked(text) {
        Some(b"") => "(not shown)".to_owned(),
        Some(name) => format!("{}=(not shown)", String::from_utf8_lossy(name)),
        None => String::from_utf8_lossy(text).into_owned(),
    }
}

/// Formats stored arguments for display.
pub fn shown(argv: Vec<Vec<u8>>) -> Vec<Vec<u8>> {
    let one = |text: Vec<u8>| match name_of_masked(&text) {
        Some(_) => show(&text).into_bytes(),
        None => text,
    };
    argv.into_iter().map(one).collect()
}

/// Masks possible secrets in arguments, including the argument after an option with a secret's
/// name.
pub fn masked_argv(argv: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let mut secret = false;
    argv.iter()
        .map(|argument| {
            let follows = std::mem::take(&mut secret);
            let is_option = argument.starts_with(b"--") && !argument.contains(&b'=');
            secret = is_option && is_secret_name(argument);
            if follows && !argument.starts_with(b"-") {
                with_digest(b"", argument)
            } else {
                masked(argument)
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_masked_and_their_changes_show() {
        for (one, other) in [
            ("GITHUB_TOKEN=abc", "GITHUB_TOKEN=abd"),
            ("DB_PASSWORD=hunter2", "DB_PASSWORD=hunter3"),
            ("AWS_SECRET_ACCESS_KEY=x", "AWS_SECRET_ACCESS_KEY=y"),
            (
                "DATABASE_URL=postgres://me:pw@host/db",
                "DATABASE_URL=postgres://me:pv@host/db",
            ),
            ("--auth-token=1", "--auth-token=2"),
            ("X=ghp_0123456789abcdefghij", "X=ghp_0123456789abcdefghik"),
        ] {
            let (one, other) = (masked(one.as_bytes()), masked(other.as_bytes()));
            assert_ne!(one, other);
            let name = name_of_masked(&one).map(<[u8]>::to_vec);
            assert!(name.is_some_and(|name| !name.is_empty()), "{one:?}");
            assert!(show(&one).ends_with("=(not shown)"), "{one:?}");
        }
    }

    #[test]
    fn ordinary_text_is_not_masked() {
        for text in [
            "CFLAGS=-O2",
            "PATH=/usr/bin:/bin",
            "GIT_AUTHOR_NAME=me",
            "HOMEPAGE=https://example.org/a?b=c@d:e",
            "-DKEYS=3",
            "MAKEFLAGS= -j --jobserver-auth=3,4",
            "main.c",
            "GITHUB_TOKEN=",
        ] {
            assert_eq!(masked(text.as_bytes()), text.as_bytes(), "{text}");
        }
    }

    #[test]
    fn the_value_after_a_secret_option_is_masked() {
        let argv =
            ["curl", "--oauth-token", "abc", "--verbose", "x"].map(|s| s.as_bytes().to_vec());
        let masked = masked_argv(&argv);
        assert_eq!(show(&masked[2]), "(not shown)");
        assert_eq!(masked[4], b"x");
    }

    #[test]
    fn long_texts_are_cut() {
        let long = [b"LIST=".to_vec(), vec![b'x'; 10_000]].concat();
        assert_eq!(show(&masked(&long)), "LIST=(not shown)");
    }
}
