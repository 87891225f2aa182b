//! Scripts: one step on each line.
//!
//! | step | what it does |
//! |---|---|
//! | `worker NAME COUNT` | a thread that posts `NAME`, so many times |
//! | `counter NAME KEY COUNT` | a thread that adds one to what is stored by `KEY`, so many times, and posts `NAME` |
//! | `adder NAME COUNT` | the same with memory that all threads of the page share |
//! | `holder NAME COUNT` | a thread that has that memory for itself for so many moments, and posts `NAME` for each time it did not have to wait |
//! | `timer NAME MS` | posts `NAME` in a while |
//! | `fetch NAME URL` | posts `NAME` when that is there, or `NAME-missing`, or `NAME-cached` |
//! | `read URL` | posts each word of what is there |
//! | `names NAME...` | posts these in the order of a hash table |
//! | `save NAME` | writes a file with this word, named by the time |
//! | `saved` | posts the words of those files, as the directory has them |
//! | `send TEXT` | to the page around, or those in frames, where it is posted |
//! | `on NAME ID COLOUR` | whenever `NAME` is posted, the element changes its colour |
//! | `wait COUNT [MS]` | until so many were posted, since the beginning; or the time is up |
//! | `expect NAME...` | the page has failed, if these are not what was posted |
//! | `expect-any NAME...` | the same, in any order |
//! | `expect-stored KEY N`, `expect-shared N` | the page has failed, if there is another number |

/// A step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// `worker`
    Worker(String, u32),
    /// `counter`
    Counter(String, String, u32),
    /// `adder`
    Adder(String, u32),
    /// `holder`
    Holder(String, u32),
    /// `timer`
    Timer(String, u64),
    /// `fetch`
    Fetch(String, String),
    /// `read`
    Read(String),
    /// `names`
    Names(Vec<String>),
    /// `save`
    Save(String),
    /// `saved`
    Saved,
    /// `send`
    Send(String),
    /// `on`
    On(String, String, String),
    /// `wait`
    Wait(usize, Option<u64>),
    /// `expect`
    Expect(Vec<String>),
    /// `expect-any`
    ExpectAny(Vec<String>),
    /// `expect-stored`
    ExpectStored(String, i64),
    /// `expect-shared`
    ExpectShared(i64),
}

/// Reads a script.
///
/// # Errors
/// The first line that is no step.
pub fn parse(text: &str) -> Result<Vec<Step>, String> {
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    lines
        .map(|line| step(line).ok_or_else(|| format!("not a step: {line}")))
        .collect()
}

fn step(line: &str) -> Option<Step> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let own = |word: &str| word.to_owned();
    let all = |words: &[&str]| words.iter().map(|word| own(word)).collect();
    Some(match words[..] {
        ["worker", name, count] => Step::Worker(own(name), count.parse().ok()?),
        ["counter", name, key, count] => Step::Counter(own(name), own(key), count.parse().ok()?),
        ["adder", name, count] => Step::Adder(own(name), count.parse().ok()?),
        ["holder", name, count] => Step::Holder(own(name), count.parse().ok()?),
        ["timer", name, time] => Step::Timer(own(name), time.parse().ok()?),
        ["fetch", name, address] => Step::Fetch(own(name), own(address)),
        ["read", address] => Step::Read(own(address)),
        ["names", ref names @ ..] => Step::Names(all(names)),
        ["save", name] => Step::Save(own(name)),
        ["saved"] => Step::Saved,
        ["send", text] => Step::Send(own(text)),
        ["on", name, id, colour] => Step::On(own(name), own(id), own(colour)),
        ["wait", count] => Step::Wait(count.parse().ok()?, None),
        ["wait", count, time] => Step::Wait(count.parse().ok()?, Some(time.parse().ok()?)),
        ["expect", ref names @ ..] => Step::Expect(all(names)),
        ["expect-any", ref names @ ..] => Step::ExpectAny(all(names)),
        ["expect-stored", key, number] => Step::ExpectStored(own(key), number.parse().ok()?),
        ["expect-shared", number] => Step::ExpectShared(number.parse().ok()?),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_line_is_a_step() {
        let steps = parse("\n  worker a 3\n wait 3 50\n expect a a a\n").unwrap();
        let names = vec!["a".to_owned(); 3];
        assert_eq!(
            steps,
            [
                Step::Worker("a".into(), 3),
                Step::Wait(3, Some(50)),
                Step::Expect(names)
            ]
        );
        assert_eq!(
            parse("wait for it"),
            Err("not a step: wait for it".to_owned())
        );
    }
}
