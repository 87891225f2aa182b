//! `docs/assumptions.md`: what pcache assumes about programs, from the data that it uses.

use process_cache::policy::assumptions;

use super::MARK;

/// Makes the page.
#[expect(clippy::unnecessary_wraps, reason = "as all pages are made")]
pub(super) fn page() -> anyhow::Result<String> {
    Ok(format!("{MARK}\n{}", assumptions::page()))
}
