//! Threads that share work.

use anyhow::bail;

/// Returns how many jobs run at the same time: as many as are asked for, or as the machine has
/// processors.
pub(crate) fn jobs(asked: Option<usize>) -> usize {
    asked
        .unwrap_or_else(|| std::thread::available_parallelism().map_or(2, usize::from))
        .max(1)
}

/// Calls `work` on so many threads at the same time, with their numbers, and waits for them.
///
/// # Errors
/// The first error of a thread, or a panic.
pub(crate) fn in_parallel(
    jobs: usize,
    work: impl Fn(usize) -> anyhow::Result<()> + Sync,
) -> anyhow::Result<()> {
    let work = &work;
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..jobs)
            .map(|number| scope.spawn(move || work(number)))
            .collect();
        for thread in threads {
            match thread.join() {
                Ok(result) => result?,
                Err(_) => bail!("a worker panicked"),
            }
        }
        Ok(())
    })
}
